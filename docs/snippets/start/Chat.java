// --8<-- [start:start]
// java --enable-native-access=ALL-UNNAMED -cp realizar-0.1.0.jar Chat.java model.gguf
import java.nio.file.Path;
import java.util.Scanner;
import realizar.Conversation;
import realizar.Model;

class Chat {
    public static void main(String[] arguments) {
        try (var model = Model.load(Path.of(arguments[0])); var chat = new Conversation(model, "Be brief.")) {
            for (var lines = new Scanner(System.in); lines.hasNextLine(); System.out.println()) {
                chat.say(lines.nextLine(), System.out::print);
            }
        }
    }
}
// --8<-- [end:start]
