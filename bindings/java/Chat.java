import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;
import realizar.Model;
import realizar.Options;

/** Talks with a model: one line a turn.  java -cp build/java Chat model.gguf */
class Chat {
    public static void main(String[] arguments) {
        List<String> messages = new ArrayList<>();
        try (var model = Model.load(Path.of(arguments[0])); var session = model.newSession(); var lines = new Scanner(System.in)) {
            System.out.print("> ");
            while (lines.hasNextLine()) {
                messages.add(message("user", lines.nextLine()));
                var answer = new StringBuilder();
                try (var pieces = session.chat("{\"messages\": [" + String.join(", ", messages) + "]}", new Options().temperature(0.7).topP(0.95))) {
                    for (String piece : pieces) {
                        System.out.print(piece);
                        System.out.flush();
                        answer.append(piece);
                    }
                }
                messages.add(message("assistant", answer.toString()));
                System.out.print("\n> ");
            }
        }
    }

    private static String message(String role, String content) {
        var json = new StringBuilder("{\"role\": \"" + role + "\", \"content\": \"");
        content.chars().forEach(c -> json.append(c < 32 || c == '"' || c == '\\' ? String.format("\\u%04x", c) : String.valueOf((char) c)));
        return json.append("\"}").toString();
    }
}
