import java.nio.file.Path;
import java.util.Scanner;
import realizar.Conversation;
import realizar.Model;
import realizar.Options;

/** Talks with a model: one line a turn.  java -cp build/java Chat model.gguf */
class Chat {
    public static void main(String[] arguments) {
        var conversation = new Conversation();
        try (var model = Model.load(Path.of(arguments[0])); var session = model.newSession(); var lines = new Scanner(System.in)) {
            System.out.print("> ");
            while (lines.hasNextLine()) {
                conversation.user(lines.nextLine());
                var answer = new StringBuilder();
                try (var pieces = session.chat(conversation, new Options().temperature(0.7).topP(0.95))) {
                    for (String piece : pieces) {
                        System.out.print(piece);
                        System.out.flush();
                        answer.append(piece);
                    }
                }
                conversation.assistant(answer.toString());
                System.out.print("\n> ");
            }
        }
    }
}
