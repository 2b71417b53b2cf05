// The Java code of docs/guides, a section per guide, as a program that tests/docs.sh runs:
// Guides MODEL ADAPTER FOLDER
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import realizar.Adapter;
import realizar.CacheType;
import realizar.Conversation;
import realizar.Device;
import realizar.Encoder;
import realizar.Model;
import realizar.Options;
import realizar.Part;
import realizar.Plan;
import realizar.Prompt;
import realizar.RealizarException;
import realizar.Reply;
import realizar.Store;
import realizar.Transcript;

class Guides {
    // --8<-- [start:chat]
    static void chat(Model model) {
        try (var chat = new Conversation(model, "")) { // a system message
            chat.say("Once upon a time", System.out::print);
        }
    }
    // --8<-- [end:chat]

    // --8<-- [start:options]
    static void options(Model model) {
        var forgetful = new Conversation.Setup().overflow(Conversation.Overflow.FORGET);
        try (var chat = new Conversation(model, new Transcript(), forgetful)) {
            var options = new Options().temperature(0.7).topP(0.9).seed(42).maxTokens(60).stops("\n\n");
            chat.say("Once upon a time", options, System.out::print);
        }
    }
    // --8<-- [end:options]

    // --8<-- [start:streaming]
    static void streaming(Model model) {
        try (var chat = new Conversation(model)) {
            chat.add("user", "Once upon a time");
            for (Part part : chat.reply(new Options().maxTokens(60))) {
                if (part.kind() == Part.Kind.CONTENT) System.out.print(part.text());
                if (part.kind() == Part.Kind.REASONING) System.err.print(part.text());
            }
        }
    }
    // --8<-- [end:streaming]

    // --8<-- [start:stopping]
    static void stopping(Model model) {
        try (var chat = new Conversation(model)) {
            chat.add("user", "Once upon a time");
            Reply reply = chat.reply(new Options().keep()); // a discarded reply keeps its text
            reply.deadline(Duration.ofMillis(20)); // or reply.cancel() from any thread
            try {
                System.out.print(reply.readText());
            } catch (RealizarException e) {
                if (e.status() != RealizarException.Status.DEADLINE) throw e;
                reply.resume(); // the paused reply continues
                System.out.print(reply.readText());
            }
        }
    }
    // --8<-- [end:stopping]

    // --8<-- [start:structured]
    static String structured(Model model) {
        try (var chat = new Conversation(model)) {
            chat.add("user", "Lily is five.");
            return chat.reply(new Options().schema("""
                    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20},
                    "age": {"type": "integer", "minimum": 0, "maximum": 150}},
                    "required": ["name", "age"], "additionalProperties": false}""")).readText();
        }
    }
    // --8<-- [end:structured]

    // --8<-- [start:tools]
    static String tools(Model model) {
        var begun = new Transcript().parallelToolCalls(false).toolChoice("required") // "auto": the model decides
                .tool("weather", "The weather of a city", """
                    {"type": "object", "properties": {"city": {"enum": ["Paris", "Tokyo"]}}, "required": ["city"],
                    "additionalProperties": false}""");
        try (var chat = new Conversation(model, begun)) {
            chat.add("user", "Is it warm in Paris?");
            var call = new StringBuilder();
            for (Part part : chat.reply(new Options().maxTokens(100))) {
                if (part.kind() == Part.Kind.TOOL_NAME || part.kind() == Part.Kind.TOOL_ARGUMENTS) call.append(part.text());
            }
            var calls = (List<?>) chat.messages().getLast().get("tool_calls");
            for (Object made : calls) {
                chat.add(Map.of("role", "tool", "tool_call_id", ((Map<?, ?>) made).get("id"), "content", "21 C"));
            }
            return call.toString(); // the next chat.reply() answers with the result
        }
    }
    // --8<-- [end:tools]

    // --8<-- [start:embeddings]
    static double embeddings(Model model) {
        var texts = List.of("a small girl", "a little girl");
        float[][] vectors = model.embed(texts, Model.Pooling.MEAN, true, null); // MODEL: the model's own
        double similarity = 0; // normalized, so the dot product is the cosine
        for (int i = 0; i < vectors[0].length; i++) similarity += vectors[0][i] * vectors[1][i];
        return similarity;
    }
    // --8<-- [end:embeddings]

    // --8<-- [start:pictures]
    static void pictures(Model model, Path projector, Path picture) throws IOException {
        var question = List.of(Map.of("type", "image", "media", 0), Map.of("type", "text", "text", "What is this?"));
        var transcript = new Transcript().add(Map.of("role", "user", "content", question));
        try (var encoder = Encoder.load(model, projector); // "mmproj-....gguf", or the folder of the model
            var media = encoder.encode(Files.readAllBytes(picture), new Encoder.Choices());
            var prompt = Prompt.of(model, transcript, media);
            var session = model.newSession();
            var generation = session.generate(prompt, new Options().maxTokens(200))) {
            for (String piece : generation) System.out.print(piece);
        }
    }
    // --8<-- [end:pictures]

    // --8<-- [start:adapters]
    static void adapters(Model model, String path) {
        Adapter adapter = model.adapter(Path.of(path));
        var setup = new Conversation.Setup().adapters(Map.of(adapter, 1f));
        try (var chat = new Conversation(model, new Transcript(), setup)) {
            chat.say("Once upon a time", System.out::print);
        }
    }
    // --8<-- [end:adapters]

    // --8<-- [start:saving]
    static int saving(Model model) throws IOException {
        var file = new ByteArrayOutputStream(); // or a FileOutputStream
        try (var chat = new Conversation(model)) {
            chat.say("Once upon a time");
            chat.save(file);
        }
        try (var later = Conversation.load(model, new ByteArrayInputStream(file.toByteArray()))) {
            return later.messages().size(); // continues bit-identically
        }
    }
    // --8<-- [end:saving]

    // --8<-- [start:store]
    static Store.Info prefixes(Model model, String folder) {
        // Without a folder the prefixes are freed with the store.
        try (var store = new Store(model, new Store.Setup().minTokens(4).path(Path.of(folder)))) {
            for (int i = 0; i < 2; i++) { // the second conversation reuses the prompt
                try (var chat = new Conversation(model, new Transcript(), new Conversation.Setup().store(store))) {
                    chat.say("Once upon a time there was a long instruction");
                }
            }
            return store.info();
        }
    }
    // --8<-- [end:store]

    // --8<-- [start:batches]
    static void batches(Model model) {
        List<Reply> replies = new ArrayList<>();
        for (String question : List.of("Once upon a time", "The little dog", "One day")) {
            var chat = new Conversation(model);
            chat.add("user", question);
            replies.add(chat.reply(new Options().maxTokens(40)));
        }
        // Each step decodes a token of every conversation.
        while (Reply.stepAll(replies)) replies.forEach(reply -> reply.parts());
    }
    // --8<-- [end:batches]

    // --8<-- [start:frames]
    /** Runs once per frame: steps the reply for 2 ms, then prints new text. Returns false at the end of the reply. */
    static boolean frame(Reply reply) {
        boolean more = reply.step(2000);
        for (Part part : reply.parts()) System.out.print(part.text());
        return more;
    }
    // --8<-- [end:frames]

    // --8<-- [start:hub]
    static Model fetched(String name) {
        // "hf:Qwen/Qwen3-0.6B-GGUF", or with a quantization: "hf:Qwen/Qwen3-0.6B-GGUF:Q8_0".
        // Model.load(name, new Model.Load()) does it all.
        Path path = Model.fetch(name, (done, total) -> {
            System.err.printf("\r%d of %d MB", done >> 20, total >> 20);
            return true;
        });
        return Model.load(path);
    }
    // --8<-- [end:hub]

    // --8<-- [start:plan]
    static void plan(String path) {
        // The memory of one model and four conversations of 4,096 tokens each; no weight is read.
        Plan plan = Model.plan(Path.of(path), new Model.Load(), 4, 4096, CacheType.F16, CacheType.F16);
        System.out.printf("weights %d MB, each conversation %d MB, all %d MB%n", plan.weightsHost() >> 20,
                plan.cacheHost() >> 20, plan.totalHost() >> 20);
    }
    // --8<-- [end:plan]

    // --8<-- [start:memory]
    static void memory(String path) {
        var small = new Conversation.Setup().capacity(2048).types(CacheType.Q8_0, CacheType.Q8_0);
        try (var runtime = new realizar.RealizarRuntime(2, 512L << 20, null); // beyond the limit: the status LIMIT
                var model = Model.load(Path.of(path), new Model.Load().runtime(runtime));
                var chat = new Conversation(model, new Transcript(), small)) {
            chat.say("Once upon a time");
        }
    }
    // --8<-- [end:memory]

    // --8<-- [start:gpus]
    static void gpus(String path) {
        for (Device device : Device.all()) {
            System.out.println(device.index() + ": " + device.name() + " " + device.isa() + " " + device.unavailable());
        }
        // 0: the library chooses. Or set the index of a device, or Load.devices for several.
        try (var model = Model.load(Path.of(path), new Model.Load().device(0))) {
            System.out.println("on device " + model.info().device() + ", GPUs " + model.info().devices());
        }
    }
    // --8<-- [end:gpus]

    // --8<-- [start:determinism]
    /** For tests: returns a reply, which is the same for every number of threads. */
    static String said(String path, int threads) {
        try (var model = Model.load(Path.of(path), new Model.Load().threads(threads)); var chat = new Conversation(model)) {
            return chat.say("Once upon a time");
        }
    }
    // --8<-- [end:determinism]

    // --8<-- [start:errors]
    static void loadOrExplain(String path) {
        try (var model = Model.load(Path.of(path))) {
            System.out.println(model.info());
        } catch (RealizarException e) {
            switch (e.status()) {
                case IO -> System.err.println("fetch the model first: " + e.getMessage());
                case UNSUPPORTED, FORMAT -> System.err.println("another file is needed: " + e.getMessage());
                default -> throw e;
            }
        }
    }
    // --8<-- [end:errors]

    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    public static void main(String[] arguments) throws IOException {
        String path = arguments[0];
        try (var model = Model.load(Path.of(path))) {
            chat(model);
            System.out.println();
            options(model);
            streaming(model);
            stopping(model);
            check(structured(model).startsWith("{\"name\":"), "structured");
            check(tools(model).startsWith("weather{\"city\":"), "tools");
            check(embeddings(model) > 0.5, "embeddings");
            try {
                pictures(model, Path.of(path), Path.of(path));
                throw new IllegalStateException("an encoder");
            } catch (RealizarException e) {
                check(e.status() == RealizarException.Status.UNSUPPORTED, "no encoder");
            }
            adapters(model, arguments[1]);
            check(saving(model) == 2, "saving");
            check(prefixes(model, arguments[2]).hits() > 0, "store");
            batches(model);
            var chat = new Conversation(model);
            chat.add("user", "Once upon a time");
            Reply reply = chat.reply(new Options().maxTokens(40));
            while (frame(reply)) continue;
            fetched("hf:tests/story").close();
            plan(path);
            memory(path);
            gpus(path);
            check(said(path, 1).equals(said(path, 3)), "determinism");
            loadOrExplain("none.gguf");
        }
        System.out.println("\nall ran");
    }
}
