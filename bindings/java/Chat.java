import java.util.Scanner;
import realizar.Conversation;
import realizar.Model;
import realizar.Transcript;

/** Talks with a model, a file or hf:owner/name of the Hub: one line a turn.  java -cp build/java Chat MODEL */
class Chat {
    public static void main(String[] arguments) {
        var lines = new Scanner(System.in);
        // The oldest turns are left out of a conversation that has become too long.
        var setup = new Conversation.Setup().overflow(Conversation.Overflow.FORGET);
        try (var model = Model.load(arguments[0], new Model.Load()); var chat = new Conversation(model, new Transcript(), setup)) {
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
