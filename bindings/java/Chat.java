import java.nio.file.Path;
import java.util.Scanner;
import realizar.Conversation;
import realizar.Model;
import realizar.Transcript;

/** Talks with a model: one line a turn.  java -cp build/java Chat model.gguf */
class Chat {
    public static void main(String[] arguments) {
        var lines = new Scanner(System.in);
        // The oldest turns are left out of a conversation that has become too long.
        var setup = new Conversation.Setup().overflow(Conversation.Overflow.FORGET);
        try (var model = Model.load(Path.of(arguments[0])); var chat = new Conversation(model, new Transcript(), setup)) {
            System.out.print("> ");
            while (lines.hasNextLine()) {
                chat.say(lines.nextLine(), piece -> {
                    System.out.print(piece);
                    System.out.flush();
                });
                System.out.print("\n> ");
            }
        }
    }
}
