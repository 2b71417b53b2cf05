import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import realizar.ChatParser;
import realizar.Generation;
import realizar.Grammar;
import realizar.Model;
import realizar.Options;
import realizar.RealizarException;
import realizar.RealizarException.Status;

/** Tests of the package on a tiny model (argument 1), on the same with a chat template (argument 2), and on a
 * real one (argument 3, optional). Prints "ok", or throws. */
class Tests {
    private static final String PROMPT = "Once upon a time";
    private static final String EXPECTED = ", there was a little girl named Lily. She loved to play";

    private static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    private static <T extends Throwable> T thrown(Class<T> kind, Runnable action) {
        try {
            action.run();
        } catch (Throwable e) {
            if (kind.isInstance(e)) return kind.cast(e);
            throw new AssertionError("not " + kind.getSimpleName(), e);
        }
        throw new AssertionError("no " + kind.getSimpleName());
    }

    public static void main(String[] arguments) throws Exception {
        Path path = Path.of(arguments[0]);
        try (var model = Model.load(path, Model.Load.threads(2))) {
            check(model.info().architecture().equals("llama") && model.info().vocabulary() == 512, "info");
            check(model.meta("general.architecture").equals("llama"), "metadata");
            texts(model);
            generating(model);
            cancelling(model);
            grammars(model);
            drafts(model);
            adapters(model, path.resolveSibling("story-adapter.gguf"));
            failures(model, path);
            forgotten(path);
        }
        packed(path);
        replies(Path.of(arguments[1]));
        if (arguments.length > 2) real(Path.of(arguments[2]));
        System.out.println("ok");
    }

    private static void texts(Model model) {
        int[] tokens = model.tokenize(PROMPT);
        check(tokens[0] == model.info().bosToken() && model.detokenize(tokens).equals(PROMPT), "tokens and text");
        String text = "größe € 𝄞".repeat(200);
        check(model.detokenize(model.tokenize(text)).equals(text), "a long text");
        check(model.tokenize("", false).length == 0 && model.detokenize().isEmpty(), "no text");
        thrown(IllegalArgumentException.class, () -> model.tokenize("half \ud834"));
    }

    private static void generating(Model model) {
        try (var session = model.newSession(200)) {
            int pieces = 0;
            var text = new StringBuilder();
            try (var generation = session.generate(PROMPT, new Options().maxTokens(25))) {
                for (String piece : generation) {
                    text.append(piece);
                    pieces++;
                }
                check(generation.tokens() == 25 && generation.end() == Generation.End.LENGTH, "how it ended");
            }
            check(text.toString().startsWith(EXPECTED) && pieces > 10, "a text to continue: " + text);
            var sampled = new Options().temperature(1).topP(0.9).seed(7).maxTokens(40);
            String[] twice = new String[2];
            for (int i = 0; i < 2; i++) {
                try (var generation = session.generate(PROMPT, sampled)) {
                    twice[i] = generation.readAll();
                }
            }
            check(twice[0].equals(twice[1]), "a seed");
            try (var generation = session.generate(PROMPT, new Options().stops("Lily", "never"))) {
                check(generation.readAll().equals(", there was a little girl named ") && generation.end() == Generation.End.STOP, "a stop string");
            }
            try (var generation = session.generate(PROMPT, new Options().maxTokens(25))) {
                var sliced = new StringBuilder();
                check(generation.step(-1) && generation.step(0) && generation.step(Long.MIN_VALUE) && generation.tokens() == 0, "no time is left");
                while (generation.step(50)) sliced.append(generation.text());
                sliced.append(generation.text());
                check(!generation.step() && !generation.step(50), "the end of slices");
                check(sliced.toString().equals(text.toString()), "slices of time");
                check(thrown(RealizarException.class, () -> session.truncate(0)).status() == Status.BUSY, "a session at work");
            }
            int length = session.length();
            try (var fork = session.fork()) {
                check(fork.length() == length && java.util.Arrays.equals(fork.logits(), session.logits()), "a fork");
                fork.truncate(3);
                check(fork.length() == 3 && session.length() == length, "a fork apart");
            }
        }
    }

    private static void cancelling(Model model) {
        try (var session = model.newSession(400); var generation = session.generate(PROMPT, new Options())) {
            check(generation.hasNext(), "a first piece");
            Thread.ofVirtual().start(generation::cancel);
            thrown(CancellationException.class, generation::readAll);
            generation.close();
            check(session.length() >= 5, "the session keeps what is complete");
            thrown(IllegalStateException.class, generation::tokens);
        }
    }

    private static void grammars(Model model) {
        try (var session = model.newSession(200); var choices = model.grammar(Grammar.Kind.CHOICES, "[\"yes\", \"no\"]")) {
            try (var generation = session.generate(PROMPT, new Options().grammar(choices))) {
                check(List.of("yes", "no").contains(generation.readAll()), "a choice");
            }
        }
        var e = thrown(RealizarException.class, () -> model.grammar(Grammar.Kind.REGEX, "("));
        check(e.status() == Status.INVALID_ARGUMENT && e.getMessage().contains("regex"), e.getMessage());
    }

    private static void drafts(Model model) {
        try (var session = model.newSession(300)) {
            String expected;
            try (var generation = session.generate(PROMPT, new Options().maxTokens(150))) {
                expected = generation.readAll();
            }
            for (var options : List.of(new Options().draftLookup(0), new Options().draftModel(model, 4))) {
                session.truncate(0);
                try (var generation = session.generate(PROMPT, options.maxTokens(150))) {
                    check(generation.readAll().equals(expected), "a text with drafts");
                    check(generation.accepted() <= generation.drafted(), "drafts that were right");
                }
            }
            session.truncate(0);
            try (var generation = session.generate(PROMPT, new Options().draftModel(model, 4).maxTokens(150))) {
                generation.readAll();
                check(generation.accepted() > 0, "a model that drafts for itself");
            }
        }
    }

    private static void adapters(Model model, Path path) {
        String adapted = ", there was a little girl named Lily. She loved to draw animals with her family.";
        try (var session = model.newSession(200); var adapter = model.adapter(path)) {
            session.setAdapters(Map.of(adapter, 1f));
            try (var generation = session.generate(PROMPT, new Options().maxTokens(40))) {
                check(generation.readAll().startsWith(adapted), "an adapter");
            }
            session.setAdapters(Map.of());
            check(session.length() == 0, "a change of adapters empties");
            try (var generation = session.generate(PROMPT, new Options().maxTokens(25))) {
                check(generation.readAll().startsWith(EXPECTED), "no adapter");
            }
            check(thrown(RealizarException.class, () -> session.setAdapters(Map.of(adapter, Float.NaN))).status() == Status.INVALID_ARGUMENT, "a scale");
            adapter.close();
            thrown(IllegalStateException.class, () -> session.setAdapters(Map.of(adapter, 1f)));
        }
        check(thrown(RealizarException.class, () -> model.adapter(Path.of("/none.gguf"))).status() == Status.IO, "no adapter");
    }

    private static void replies(Path path) {
        String json = "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"go\", "
            + "\"parameters\": {\"type\": \"object\", \"properties\": {\"by\": {\"enum\": [\"car\", \"bus\"]}}, \"required\": [\"by\"]}}}]}";
        try (var model = Model.load(path, Model.Load.threads(1)); var parser = model.chatParser(json)) {
            var parts = new java.util.ArrayList<ChatParser.Part>();
            for (int token : model.tokenize("Well, <call>{\"name\": \"go\", \"arguments\": {\"by\": \"bus\"}}</call>", false)) parts.addAll(parser.push(token));
            parts.addAll(parser.end());
            check(of(parts, ChatParser.Kind.CONTENT).strip().equals("Well,"), "content");
            check(of(parts, ChatParser.Kind.TOOL_NAME).equals("go"), "the name of a tool");
            check(of(parts, ChatParser.Kind.TOOL_ARGUMENTS).replace(" ", "").equals("{\"by\":\"bus\"}"), "arguments");
            var last = parts.get(parts.size() - 1);
            check(last.kind() == ChatParser.Kind.END && !last.unparsed() && last.text().isEmpty(), "the end");
            thrown(RealizarException.class, () -> model.chatParser("{"));
        }
    }

    private static String of(List<ChatParser.Part> parts, ChatParser.Kind kind) {
        return parts.stream().filter(part -> part.kind() == kind).map(ChatParser.Part::text).collect(java.util.stream.Collectors.joining());
    }

    private static void failures(Model model, Path path) {
        var e = thrown(RealizarException.class, () -> Model.load(Path.of("/no/such/größe.gguf")));
        check(e.status() == Status.IO && e.getMessage().contains("größe.gguf"), e.getMessage());
        check(thrown(RealizarException.class, () -> model.meta("none")).status() == Status.INVALID_ARGUMENT, "no key");
        check(thrown(RealizarException.class, () -> model.detokenize(1 << 30)).status() == Status.INVALID_ARGUMENT, "no token");
        check(thrown(RealizarException.class, () -> model.tokenizeChat("{")).status() != Status.UNKNOWN, "no chat");
        thrown(IllegalArgumentException.class, () -> model.meta("a\0b"));
        try (var session = model.newSession(8)) {
            check(thrown(RealizarException.class, () -> session.generate(PROMPT.repeat(9), new Options()).text()).status() == Status.CONTEXT_FULL, "full");
        }
        try (var there = Model.load(path, Model.Load.over(List.of(1), List.of(2f)))) {
            check(there.info().device() == 1 && there.info().devices().isEmpty() && there.info().deviceLayers().isEmpty(), "a list of devices");
        }
        for (var wrong : List.of(Model.Load.over(List.of(1, 1), null), Model.Load.over(List.of(1), List.of(0f)),
            new Model.Load(0, 1, 0, false, false, null, List.of(1), null))) {
            check(thrown(RealizarException.class, () -> Model.load(path, wrong)).status() == Status.INVALID_ARGUMENT, "wrong devices");
        }
        thrown(IllegalArgumentException.class, () -> Model.Load.over(List.of(), List.of(1f)));
        var closed = Model.load(path, new Model.Load(1, 0, 0, false, true, null));
        closed.close();
        closed.close();
        thrown(IllegalStateException.class, () -> closed.tokenize("a"));
    }

    /** Handles that nobody closes are freed when they are collected, in any order. */
    private static void forgotten(Path path) {
        for (int i = 0; i < 20; i++) {
            var session = Model.load(path, Model.Load.threads(1)).newSession(64);
            check(session.generate(PROMPT, new Options().maxTokens(2)).hasNext(), "a piece");
            System.gc();
        }
    }

    private static void packed(Path path) throws Exception {
        Path folder = Files.createTempDirectory("realizar"), packed = folder.resolve("weights");
        for (int i = 0; i < 2; i++) {
            try (var model = Model.load(path, new Model.Load(1, 0, 0, false, false, packed)); var session = model.newSession(64);
                var generation = session.generate(PROMPT, new Options().maxTokens(20))) {
                check(EXPECTED.startsWith(generation.readAll().substring(0, 30)), "packed weights");
            }
        }
        Files.delete(packed);
        Files.delete(folder);
    }

    private static void real(Path path) {
        long start = System.nanoTime();
        try (var model = Model.load(path); var session = model.newSession(512)) {
            String json = "{\"messages\": [{\"role\": \"user\", \"content\": \"What is the capital of France, and what is it famous for?\"}]}";
            try (var generation = session.chat(json, new Options().maxTokens(120))) {
                String first = generation.next();
                System.out.printf("the first piece after %d ms%n", (System.nanoTime() - start) / 1_000_000);
                String text = first + generation.readAll();
                check(text.contains("Paris"), text);
            }
        }
    }
}
