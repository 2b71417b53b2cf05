import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import realizar.BusyException;
import realizar.CacheType;
import realizar.Cancel;
import realizar.Conversation;
import realizar.Device;
import realizar.Encoder;
import realizar.Filter;
import realizar.Generation;
import realizar.Grammar;
import realizar.Json;
import realizar.Media;
import realizar.Model;
import realizar.Options;
import realizar.Part;
import realizar.Prompt;
import realizar.RealizarException;
import realizar.RealizarException.Status;
import realizar.Reply;
import realizar.RealizarRuntime;
import realizar.Sampler;
import realizar.Session;
import realizar.Store;
import realizar.Transcript;

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
        try (var model = Model.load(path, new Model.Load().threads(2))) {
            check(model.info().architecture().equals("llama") && model.info().vocabulary() == 512, "info");
            check(model.info().capabilities().equals(java.util.Set.of(Model.Capability.GENERATE)) && model.info().embeddingDim() == 64
                && model.info().pooling() == Model.Pooling.MODEL && model.info().scores() == 0, "what it can do: " + model.info());
            check(model.meta("general.architecture").equals("llama"), "metadata");
            texts(model);
            generating(model);
            cancelling(model);
            grammars(model);
            drafts(model);
            adapters(model, path.resolveSibling("story-adapter.gguf"));
            failures(model, path);
            tokenByToken(model);
            numbers(model);
            together(model);
            pictures(model, path);
            forgotten(path);
        }
        packed(path);
        loading(path);
        videos(path.resolveSibling("../encoder.py"));
        try (var model = Model.load(Path.of(arguments[1]), new Model.Load().threads(2))) {
            check(model.info().capabilities().containsAll(java.util.Set.of(Model.Capability.TOOLS, Model.Capability.REASON)), "a template: " + model.info());
            parts(model);
            seeing(model);
            talking(model);
            stopping(model);
            ClosingTests.run(model, path);
            calling(model);
            readAhead(model);
            changed(model, path.resolveSibling("story-adapter.gguf"));
            reasoning(model);
            cut(model);
            kept(model);
            manyTalks(model);
            shared(model, path);
            refusals(model, path.resolveSibling("story-adapter.gguf"));
        }
        if (arguments.length > 2) real(Path.of(arguments[2]));
        System.out.println("ok");
    }

    private static void pictures(Model model, Path path) throws Exception {
        // The embeddings of tokens, the first tensor of the tiny model.
        var table = ByteBuffer.wrap(Files.readAllBytes(path)).order(ByteOrder.LITTLE_ENDIAN).position(14176).slice().order(ByteOrder.LITTLE_ENDIAN);
        int[] tokens = model.tokenize(PROMPT), ids = tokens.clone();
        float[] rows = new float[3 * 64];
        for (int i = 0; i < 3; i++) {
            ids[i + 1] = Prompt.MEDIA_TOKEN;
            table.asFloatBuffer().get(tokens[i + 1] * 64, rows, i * 64, 64);
        }
        try (var media = Media.ofRows(model, Media.Kind.IMAGE, rows, 64, 0, 0);
            var prompt = Prompt.of(model, new Prompt.Parts().tokens(tokens[0]).media(media).tokens(Arrays.copyOfRange(tokens, 4, tokens.length)).bare());
            var session = model.newSession(200); var seeing = model.newSession(200)) {
            check(media.info().rows() == 3 && media.info().rowDim() == 64 && media.info().columns() == 3, "a media item");
            check(media.info().kind() == Media.Kind.IMAGE && Arrays.equals(media.rows(), rows), "its rows");
            check(prompt.length() == tokens.length && Arrays.equals(prompt.tokens(), ids), "tokens of a prompt");
            String text;
            try (var generation = session.generate(PROMPT, new Options().maxTokens(25))) {
                text = generation.readAll();
            }
            for (int i = 0; i < 2; i++) {
                try (var generation = seeing.generate(prompt, new Options().maxTokens(25))) {
                    check(generation.readAll().equals(text), "rows that stand for tokens");
                }
            }
            check(seeing.match(prompt) == ids.length && Arrays.equals(Arrays.copyOf(seeing.tokens(), ids.length), ids), "a session with rows");
            seeing.truncate(2);
            seeing.prefill(prompt, 2, null);
            check(seeing.length() == ids.length, "the rest of a prompt");
            check(thrown(RealizarException.class, () -> seeing.prefill(prompt, ids.length, null)).status() == Status.INVALID_ARGUMENT, "no tokens");
            shown(model, media, prompt, tokens);
            var saved = new ByteArrayOutputStream();
            media.save(saved);
            try (var again = Media.load(model, new ByteArrayInputStream(saved.toByteArray()));
                var other = Media.ofRows(model, Media.Kind.IMAGE, new float[192], 64, 3, 1)) {
                check(Arrays.equals(again.hash(), media.hash()) && media.hash().length == 32, "a saved media item");
                check(!Arrays.equals(other.hash(), media.hash()), "another media item");
            }
        }
        thrown(IllegalArgumentException.class, () -> Media.ofRows(model, Media.Kind.IMAGE, new float[63], 64, 0, 0));
        for (Runnable wrong : List.<Runnable>of(() -> Media.ofRows(model, Media.Kind.IMAGE, new float[63], 63, 0, 0),
            () -> Media.ofRows(model, Media.Kind.AUDIO, new float[256], 64, 3, 1), () -> Prompt.of(model, new Prompt.Parts().tokens(512)))) {
            check(thrown(RealizarException.class, wrong).status() == Status.INVALID_ARGUMENT, "a wrong media item or token");
        }
        check(thrown(RealizarException.class, () -> Encoder.load(model, path)).status() == Status.UNSUPPORTED, "no encoder");
        check(thrown(RealizarException.class, () -> Encoder.plan(model, Path.of("/none.gguf"), new Encoder.Load())).status() == Status.IO, "no file");
    }

    private static void videos(Path script) throws Exception {
        Path folder = Files.createTempDirectory("videos");
        try {
            var written = new ProcessBuilder("python3", script.toString(), "videos/qwen25", folder.toString()).inheritIO().start().waitFor();
            check(written == 0, "the folder of a model");
        } catch (IOException e) {
            System.out.println("SKIPPED: videos, because there is no python3");
            return;
        }
        int width = 84, height = 56;
        byte[] bytes = new byte[3 * width * height * 3];
        for (int i = 0; i < bytes.length; i++) bytes[i] = (byte) (7 * i);
        var pixels = ByteBuffer.wrap(bytes);
        double[] times = {0, 0.5, 1};
        try (var model = Model.load(folder); var encoder = Encoder.load(model, folder)) {
            try (var video = encoder.encodeFrames(pixels, times, Encoder.PixelFormat.RGB8, width, height, new Encoder.Choices());
                var direct = encoder.encodeFrames(ByteBuffer.allocateDirect(bytes.length).put(bytes).flip(), times, Encoder.PixelFormat.RGB8,
                    width, height, new Encoder.Choices())) {
                var info = video.info();
                check(info.kind() == Media.Kind.VIDEO && info.pairs() == 2 && info.rows() == 12 && info.tokens() == 14, "a video");
                check(info.columns() == 3 && info.lines() == 2 && info.width() == width && info.height() == height, "its frames");
                check(Arrays.equals(direct.rows(), video.rows()) && Arrays.equals(direct.hash(), video.hash()), "frames outside the heap");
            }
            thrown(IllegalArgumentException.class, () -> encoder.encodeFrames(pixels, new double[2], Encoder.PixelFormat.RGB8, width, height, new Encoder.Choices()));
            int most = Integer.MAX_VALUE; // whose product is negative
            thrown(IllegalArgumentException.class, () -> encoder.encode(pixels, Encoder.PixelFormat.RGBA8, most, most, 0, new Encoder.Choices()));
            check(encoder.measure(84, 56, new Encoder.Choices().background(0xff102030)).rows() > 0, "an opaque color");
            var late = thrown(RealizarException.class,
                () -> encoder.encodeFrames(pixels, new double[] {0, 2, 1}, Encoder.PixelFormat.RGB8, width, height, new Encoder.Choices()));
            check(late.status() == Status.INVALID_ARGUMENT && late.getMessage().contains("entry 2: the time"), "times that fall");
        }
        try (var files = Files.list(folder)) {
            for (Path file : files.toList()) Files.delete(file);
        }
        Files.delete(folder);
    }

    private static void shown(Model model, Media media, Prompt prompt, int[] tokens) {
        for (var pooling : List.of(Model.Pooling.MEAN, Model.Pooling.NONE)) {
            float[][] plain = model.embedTokens(List.of(tokens), pooling, true, null), seen = model.embedPrompts(List.of(prompt), pooling, true, null);
            check(Arrays.deepEquals(plain, seen) && plain.length > 0, "embeddings of prompts");
        }
        try (var store = new Store(model, new Store.Setup().minTokens(2))) {
            for (int held : new int[] {0, tokens.length - 1}) {
                try (var session = store.take(prompt, 200, CacheType.F16, CacheType.F16)) {
                    check(session.length() == held, "a prefix with rows: " + session.length());
                    session.prefill(prompt, session.length(), null);
                    store.put(session);
                }
            }
        }
        check(!media.step(1), "a media item that is done");
    }

    private static void seeing(Model model) {
        var parts = List.of(Map.of("type", "image", "media", 0), Map.of("type", "text", "text", "Once"));
        var transcript = new Transcript().add(Map.of("role", "user", "content", parts));
        try (var media = Media.ofRows(model, Media.Kind.IMAGE, new float[192], 64, 0, 0); var prompt = Prompt.of(model, transcript, media)) {
            int[] tokens = prompt.tokens();
            check(tokens[1] == Prompt.MEDIA_TOKEN && Arrays.stream(tokens).filter(token -> token == Prompt.MEDIA_TOKEN).count() == 3, "a media item in a message");
            check(thrown(RealizarException.class, () -> Prompt.of(model, transcript, media, media)).status() == Status.INVALID_ARGUMENT, "a media item without a part");
            var messages = List.of(Map.of("role", "user", "content", parts));
            try (var talk = new Conversation(model)) {
                talk.add(messages, List.of(media));
                try (var reply = talk.reply(new Options().maxTokens(5))) {
                    reply.forEach(part -> {});
                }
                check(talk.info().promptTokens() == prompt.length() && talk.info().media() == 1, "a conversation with a media item: " + talk.info());
                try (var again = talk.media(0)) {
                    check(Arrays.equals(again.hash(), media.hash()), "its media item");
                }
                check(thrown(RealizarException.class, () -> talk.media(1)).status() == Status.NOT_FOUND, "no media item");
                check(thrown(RealizarException.class, () -> talk.add(messages, List.of())).status() == Status.INVALID_ARGUMENT, "a part without a media item");
            }
        }
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
                check(generation.count() == 25 && generation.end() == Generation.End.LENGTH, "how it ended");
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
                check(generation.step(-1) && generation.step(0) && generation.step(Long.MIN_VALUE) && generation.count() == 0, "no time is left");
                while (generation.step(50)) sliced.append(generation.text());
                sliced.append(generation.text());
                check(!generation.step() && !generation.step(50), "the end of slices");
                check(sliced.toString().equals(text.toString()), "slices of time");
                thrown(BusyException.class, () -> session.truncate(0));
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
            var stopping = java.util.concurrent.CompletableFuture.runAsync(generation::cancel);
            thrown(CancellationException.class, () -> generation.forEachRemaining(piece -> stopping.join()));
            int made = generation.count();
            generation.deadline(Duration.ofMillis(-1));
            thrown(CancellationException.class, generation::step);
            generation.resume();
            for (var passed : List.of(Duration.ZERO, Duration.ofDays(-1), Duration.ofSeconds(Long.MIN_VALUE))) {
                generation.deadline(passed);
                check(thrown(RealizarException.class, generation::step).status() == Status.DEADLINE, "a deadline that has passed");
            }
            for (var later : new Duration[] {Duration.ofSeconds(Long.MAX_VALUE), Duration.ofMinutes(1), null}) {
                generation.deadline(later);
                check(generation.step(), "a deadline to come");
            }
            check(generation.count() == made + 3, "it goes on");
            generation.close();
            check(session.length() >= 5, "the session keeps what is complete");
            thrown(IllegalStateException.class, generation::tokens);
        }
        try (var session = model.newSession(4000); var cancel = new Cancel()) {
            cancel.fire();
            thrown(CancellationException.class, () -> session.prefill(model.tokenize(PROMPT), cancel));
            cancel.reset();
            session.prefill(model.tokenize(PROMPT), cancel);
            cancel.deadline(Duration.ZERO);
            check(thrown(RealizarException.class, () -> session.score(new int[] {1}, cancel)).status() == Status.DEADLINE, "a deadline of a score");
            check(thrown(RealizarException.class, () -> model.embed(List.of("a"), Model.Pooling.MEAN, true, cancel)).status() == Status.DEADLINE, "of embeddings");
        }
    }

    private static void tokenByToken(Model model) throws Exception {
        int[] prompt = model.tokenize(PROMPT);
        try (var one = model.newSession(64); var two = model.newSession(64, CacheType.F32, CacheType.F32); var half = model.newSession(64, CacheType.Q8_0, CacheType.Q4_0);
            var sampler = new Sampler(new Options().logitBias(Map.of(model.tokenize(",", false)[1], Float.NEGATIVE_INFINITY)))) {
            for (var session : List.of(one, two, half)) session.prefill(prompt);
            int token = one.sample(null);
            check(two.sample(null) == token && one.sample(sampler) != token && half.capacity() == 64, "a choice");
            for (int before : new int[] {prompt[prompt.length - 1], token}) {
                var options = new Options().bannedSequences(new int[] {1, 2, 3}, new int[] {before, token}).order(Filter.TEMPERATURE, Filter.XTC).dryBreakers(new int[] {13});
                try (var banned = new Sampler(options)) {
                    check((one.sample(banned) == token) == (before == token), "a banned sequence");
                }
            }
            thrown(RealizarException.class, () -> new Sampler(new Options().temperature(0.7).order(Filter.TOP_P)));
            var likeliest = one.logprobs(3);
            check(likeliest.get(0).token() == token && likeliest.size() == 3 && one.logprobs(1000).size() == 512, "the likeliest tokens");
            thrown(IllegalArgumentException.class, () -> one.logprobs(-1));
            int[] next = Session.decodeAll(List.of(one, two), new int[] {token, token}, java.util.Arrays.asList(null, sampler));
            check(next[0] == next[1] && one.length() == prompt.length + 1, "a batch");
            thrown(IllegalArgumentException.class, () -> Session.decodeAll(List.of(one), new int[2], List.of()));
            one.truncate(prompt.length);
            float[] scores = one.score(token);
            check(scores[0] == likeliest.get(0).logprob() && java.util.Arrays.equals(one.tokens(), two.tokens()), "a score");
            check(one.match(prompt) == prompt.length, "what is held");

            // A session that was saved goes on as the one it was.
            var file = new java.io.ByteArrayOutputStream();
            one.save(file);
            byte[] bytes = file.toByteArray();
            try (var loaded = model.restore(new java.io.ByteArrayInputStream(bytes))) {
                check(java.util.Arrays.equals(loaded.logits(), one.logits()), "a saved session");
                for (var session : List.of(one, loaded)) {
                    session.release();
                    session.shift(1, 2);
                }
                check(loaded.length() == prompt.length - 1 && loaded.decode(token, null) == one.decode(token, null), "a shift");
            }
            for (int cut : new int[] {0, 300, bytes.length - 1}) {
                try {
                    model.restore(new java.io.ByteArrayInputStream(bytes, 0, cut));
                    check(false, "half a session");
                } catch (java.io.EOFException e) {
                    check(e.getMessage().contains("no more bytes"), e.getMessage());
                }
            }
            bytes[300]++;
            check(thrown(RealizarException.class, () -> {
                try {
                    model.restore(new java.io.ByteArrayInputStream(bytes));
                } catch (java.io.IOException e) {
                    throw new AssertionError(e);
                }
            }).status() == Status.FORMAT, "a damaged session");

            sampler.setGrammar(model.grammar(Grammar.Kind.CHOICES, "[\"yes\"]"));
            check("yes".startsWith(model.detokenize(two.sample(sampler)).strip()), "a sampler with a grammar");
            sampler.setGrammar(null);
        }
        try (var stream = model.textStream()) {
            int[] whole = model.tokenize("größe €");
            var text = new StringBuilder();
            for (int token : whole) text.append(stream.push(token));
            check((text + stream.flush()).equals("größe €"), "a stream");
            stream.follow(model.tokenize("Once upon a"));
            check((stream.push(prompt[prompt.length - 1]) + stream.flush()).equals(" time"), "a stream behind a prompt");
        }
        check(model.isEnd(model.info().eosToken()) && !model.isEnd(prompt[1]) && new String(model.tokenBytes(1)).equals("<s>"), "tokens");
        check(model.detokenize(model.tokenize("<s>", false, true), true).equals("<s>"), "control tokens");
        check(model.metaKeys().contains("general.architecture"), "keys");
        check(thrown(RealizarException.class, () -> model.metaList("none")).name().equals("RZ_ERR_NOT_FOUND"), "no list");
        check(model.metrics().get("prefill").count() > 0 && model.work(Device.Kind.CPU).dispatches() > 0, "metrics");
        model.resetMetrics();
        check(model.metrics().get("prefill").count() == 0 && model.work(Device.Kind.CPU).latencyHistogram().size() == 32, "no metrics");
        check(Device.all().get(0).available() && Device.all().get(0).unavailable().isEmpty() && Device.all().get(0).kind() == Device.Kind.CPU, "devices");
        float[][] vectors = model.embed(List.of(PROMPT, "The end."), Model.Pooling.MEAN, true, null);
        check(vectors.length == 2 && vectors[0].length == model.info().hidden(), "embeddings");
        check(model.embed(List.of(PROMPT), Model.Pooling.NONE, false, null).length == prompt.length, "a vector for each token");
    }

    private static void together(Model model) {
        var nothing = new java.util.HashMap<Integer, Float>();
        for (int token = 0; token < 512; token++) nothing.put(token, Float.NEGATIVE_INFINITY);
        try (var one = model.newSession(64); var two = model.newSession(64); var other = model.newSession(64);
            var failing = one.generate(PROMPT, new Options().logitBias(nothing)); var going = two.generate(PROMPT, new Options().maxTokens(6).logprobs(2))) {
            check(failing.error() == null && !Generation.stepAll(List.of()) && Generation.stepAll(List.of(failing, going), -5), "jobs that have not begun");
            while (Generation.stepAll(List.of(failing, going))) {}
            check(failing.end() == Generation.End.FAILED && going.end() == Generation.End.LENGTH && going.error() == null, "a job that fails alone");
            check(failing.error().getMessage().equals(thrown(RealizarException.class, failing::step).getMessage()), "why it failed");
            int[] made = going.tokens();
            var rows = going.logprobs();
            check(rows.size() == 6 && made.length == 6 && going.logprobs().isEmpty(), "probabilities");
            other.prefill(model.tokenize(PROMPT));
            for (int i = 0; i < 6; i++) {
                check(rows.get(i).made().token() == made[i] && rows.get(i).likeliest().equals(other.logprobs(2)), "the likeliest of a job");
                other.prefill(made[i]);
            }
            check(thrown(RealizarException.class, failing::logprobs).status() == Status.INVALID_ARGUMENT, "no probabilities");
        }
        // Penalties change a text, and what is forbidden is not in it.
        try (var session = model.newSession(300)) {
            String plain;
            try (var generation = session.generate(PROMPT, new Options().maxTokens(80))) {
                plain = generation.readAll();
            }
            for (var options : List.of(new Options().presencePenalty(2), new Options().frequencyPenalty(2).penaltyWindow(20), new Options().repeatPenalty(1.5))) {
                session.truncate(0);
                try (var generation = session.generate(PROMPT, options.maxTokens(80))) {
                    check(!generation.readAll().equals(plain), "a penalty: " + options);
                }
            }
        }
    }

    private static void loading(Path path) throws Exception {
        var folder = Files.createTempDirectory("realizar");
        Files.writeString(folder.resolve("config.json"), "{\"model_type\": \"llama\", \"magic_norm\": true}");
        Files.writeString(folder.resolve("generation_config.json"), "{\"temperature\": 0.5, \"top_k\": 20}");
        var refused = thrown(RealizarException.class, () -> Model.load(folder, new Model.Load().textOnly()));
        check(refused.status() == Status.UNSUPPORTED && refused.getMessage().contains("magic_norm"), "a key that nothing knows");
        try (var model = Model.load(folder, new Model.Load().textOnly().allowUnknown())) {
            check(model.info().unknown() == 1, "keys passed over");
            check(model.advisedSampling().toString().equals(new Options().temperature(0.5).topK(20).temperatureFirst(true).toString()), "advice");
        }
        for (String name : List.of("config.json", "generation_config.json")) Files.delete(folder.resolve(name));
        Files.delete(folder);

        var lines = new java.util.concurrent.ConcurrentLinkedQueue<String>();
        var told = new long[2];
        try (var runtime = new RealizarRuntime(1, 64 << 20, (level, text) -> { lines.add(level + text); throw new IllegalStateException("lost"); })) {
            var load = new Model.Load().runtime(runtime).progress((done, total) -> {
                told[0] = done;
                told[1] = total;
                return true;
            });
            runtime.setThreads(2);
            try (var model = Model.load(path, load)) {
                check(!lines.isEmpty() && told[0] == told[1] && told[0] > 0 && model.advisedSampling() == null, "a log and progress");
            }
        }
        thrown(CancellationException.class, () -> Model.load(path, new Model.Load().progress((done, total) -> false)));
        thrown(ArithmeticException.class, () -> Model.load(path, new Model.Load().progress((done, total) -> 1 / (total - total) > 0)));
        try (var cancel = new Cancel()) {
            cancel.fire();
            thrown(CancellationException.class, () -> Model.load(path, new Model.Load().cancel(cancel)));
        }
        var one = Model.plan(path, new Model.Load(), 1, 256, CacheType.F16, CacheType.F16);
        var three = Model.plan(path, new Model.Load(), 3, 256, CacheType.F16, CacheType.F16);
        check(three.totalHost() - one.totalHost() == 2 * one.cacheHost() && one.cacheHost() > 0 && one.devices().isEmpty(), "a plan");
        byte[] bytes = Files.readAllBytes(path);
        var files = Map.of("model.gguf", ByteBuffer.wrap(bytes));
        var direct = Map.of("model.gguf", ByteBuffer.allocateDirect(bytes.length).put(bytes).flip());
        var behind = ByteBuffer.allocateDirect(bytes.length + 32).position(32).put(bytes).position(32);
        // By JNI a segment is none of the kinds.
        var segment = Map.of("model.gguf", Boolean.getBoolean("realizar.jni") ? behind : java.lang.foreign.MemorySegment.ofArray(bytes));
        for (var kind : List.of(files, direct, Map.of("model.gguf", behind), segment)) {
            try (var model = Model.load(kind, new Model.Load().textOnly())) {
                check(model.tokenize(PROMPT).length == 5, "bytes of a kind");
            }
        }
        check(Model.plan(files, new Model.Load(), 1, 256, CacheType.Q8_0, CacheType.Q8_0).cacheToken() < one.cacheToken(), "a plan of bytes");
        try (var model = Model.load(files, new Model.Load().threads(1)); var session = model.newSession(64);
            var generation = session.generate(PROMPT, new Options().maxTokens(9))) {
            check(EXPECTED.startsWith(generation.readAll()) && model.info().weightBytes() == one.weightsHost(), "a model of bytes");
        }
        check(RealizarRuntime.version().startsWith("0."), "a version");
    }

    private static void grammars(Model model) {
        try (var session = model.newSession(200); var choices = model.grammar(Grammar.Kind.CHOICES, "[\"yes\", \"no\"]")) {
            try (var generation = session.generate(PROMPT, new Options().grammar(choices))) {
                check(List.of("yes", "no").contains(generation.readAll()), "a choice");
            }
            try (var generation = session.generate(PROMPT, new Options().grammar(Grammar.Kind.CHOICES, "[\"maybe\"]"))) {
                check(generation.readAll().strip().equals("maybe"), "a grammar of one text");
            }
        }
        model.grammar(Grammar.Kind.JSON, "", true).close();
        thrown(RealizarException.class, () -> model.grammar(Grammar.Kind.REGEX, "a", true));
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
            check(thrown(IllegalArgumentException.class, () -> session.setAdapters(Map.of(adapter, Float.NaN))).getMessage().contains("is NaN; it must be"), "a scale");
            adapter.close();
            thrown(IllegalStateException.class, () -> session.setAdapters(Map.of(adapter, 1f)));
        }
        check(thrown(RealizarException.class, () -> model.adapter(Path.of("/none.gguf"))).status() == Status.IO, "no adapter");
    }

    private static final String BY = "{\"type\": \"object\", \"properties\": {\"by\": {\"enum\": [\"car\", \"bus\"]}}, \"required\": [\"by\"], "
        + "\"additionalProperties\": false}";

    private static void parts(Model model) {
        var transcript = new Transcript().user(PROMPT).tool("go", "Goes", BY);
        try (var parser = model.chatParser(transcript.json())) {
            var parts = new java.util.ArrayList<Part>();
            for (int token : model.tokenize("Well, <call>{\"name\": \"go\", \"arguments\": {\"by\": \"bus\"}}</call>", false)) parts.addAll(parser.push(token));
            parts.addAll(parser.end());
            check(of(parts, Part.Kind.CONTENT).strip().equals("Well,"), "content");
            check(of(parts, Part.Kind.TOOL_NAME).equals("go"), "the name of a tool");
            check(of(parts, Part.Kind.TOOL_ARGUMENTS).replace(" ", "").equals("{\"by\":\"bus\"}"), "arguments");
            check(parts.getLast().equals(new Part(Part.Kind.END, 0, "", false)), "the end");
            thrown(RealizarException.class, () -> model.chatParser("{"));
        }
        String json = new Transcript().user("a\"\\\n\u001fö").variable("enable_thinking", false).variable("list", List.of(1, "x")).json();
        check(json.equals("{\"messages\": [{\"role\": \"user\", \"content\": \"a\\u0022\\u005c\\u000a\\u001fö\"}], \"variables\": "
            + "{\"enable_thinking\": false, \"list\": [1, \"x\"]}}"), "JSON");
        check(Json.write(Json.read(" " + json + "\n")).equals(json), "JSON that is read");
        check(Json.read("[\"\\/\\n\\u00f6\", -1.50, 9e99, null, {}, []]").equals(java.util.Arrays.asList("/\nö", new java.math.BigDecimal("-1.50"),
            new java.math.BigDecimal("9e99"), null, Map.of(), List.of())), "JSON of others");
        for (String wrong : List.of("", "[1", "{\"a\" 1}", "\"a", "nul", "1 2", "[1}", "\"\\x\"", "\"\\u12", "\"\\uzzzz\"", "--",
            "[1,]", "{\"a\": 1,}", "[,1]", "01", "+1", ".5", "1.", "1e", "\"a\nb\"", "\"\\u+123\"", "NaN", "[".repeat(100_000))) {
            thrown(IllegalArgumentException.class, () -> Json.read(wrong));
        }
        // What is no JSON is refused, not written as toString has it.
        for (Object wrong : List.of(new String[] {"a"}, new int[] {1}, new Object(), List.of("a").stream(), java.util.Optional.of(1))) {
            check(thrown(IllegalArgumentException.class, () -> Json.write(Map.of("content", wrong))).getMessage().contains("it must be a map"), "a value");
        }
        for (Object wrong : List.of(Double.NaN, Float.POSITIVE_INFINITY)) {
            check(thrown(IllegalArgumentException.class, () -> Json.write(List.of(wrong))).getMessage().endsWith("it must be finite"), "a number");
        }
        var itself = new java.util.ArrayList<Object>();
        itself.add(itself);
        check(thrown(IllegalArgumentException.class, () -> Json.write(itself)).getMessage().contains("contain itself"), "a list in itself");
        check(Json.write(java.util.Set.of(new StringBuilder("a"))).equals("[\"a\"]"), "a set");
        check(model.render(new Transcript().user(PROMPT), true).equals("<s>" + PROMPT), "a template");
        check(model.tokenizeChat(new Transcript().user(PROMPT)).length == model.tokenize(PROMPT).length, "tokens of a conversation");
    }

    private static void talking(Model model) {
        try (var chat = new Conversation(model, "Be kind. ")) {
            var pieces = new java.util.ArrayList<String>();
            chat.add("user", PROMPT);
            for (var part : chat.reply(new Options().maxTokens(30))) {
                if (part.kind() == Part.Kind.CONTENT) pieces.add(part.text());
            }
            check(pieces.size() > 10 && String.join("", pieces).equals(chat.messages().get(2).get("content")), "what was said: " + pieces);
            var first = chat.info();
            check(first.messages() == 3 && first.state() == Conversation.State.ENDED && first.end() == Generation.End.LENGTH && first.tokens() == 30 && first.stopped() == null
                && first.promptDone() == first.promptTokens() && first.firstToken().compareTo(first.promptTime()) >= 0 && !first.tokensTime().isZero(), "info: " + first);
            // The second turn computes what is new.
            chat.add("user", " And then");
            var parts = chat.reply(new Options().maxTokens(9)).stream().toList();
            var second = chat.info();
            check(second.reusedTokens() >= first.promptTokens() && second.promptDone() == second.promptTokens() - second.reusedTokens(), "reuse: " + second);
            check(second.tokens() == 9 && second.end() == Generation.End.LENGTH && second.cacheLength() == second.promptTokens() + 8, "length: " + second);
            check(parts.getLast().kind() == Part.Kind.END && of(parts, Part.Kind.CONTENT).equals(chat.messages(4).get(0).get("content")), "parts: " + parts);
            check(Json.write(chat.messages(4)).equals(Json.write(Json.read(chat.messagesJson(4)))) && chat.messages(4).get(0).get("finish_reason").equals("length"), "JSON");

            // The text of a callback that ends a reply stays; what it throws goes on.
            chat.rewind(1);
            var some = new StringBuilder();
            chat.sayWhile(PROMPT, piece -> some.append(piece).length() < 9);
            check(String.join("", pieces).startsWith(some.toString()) && chat.messages(2).get(0).get("content").equals(some.toString())
                && chat.messages(2).get(0).get("finish_reason").equals("cancelled"), "the end of a callback");
            chat.rewind(1);
            thrown(ArithmeticException.class, () -> chat.say(PROMPT, piece -> some.append(1 / (piece.length() - piece.length()))));
            check(chat.info().messages() == 3, "a callback that throws");
            chat.rewind(1);
            thrown(BusyException.class, () -> chat.say(PROMPT, piece -> chat.add("user", "x")));
            check(chat.messages().size() == 3 && chat.messages(2).get(0).get("finish_reason").equals("cancelled"), "a change in a callback");
            chat.rewind(1);
            // Options stay as they are, and wrong ones leave no message.
            var three = new Options().maxTokens(3);
            chat.say(PROMPT, three, piece -> {});
            int spoken = chat.info().messages();
            chat.add("user", PROMPT);
            try (var left = chat.reply(three)) {
                left.next();
            }
            check(chat.info().messages() == spoken + 1, "a reply that is not kept");
            thrown(IllegalArgumentException.class, () -> chat.say(PROMPT, new Options().maxTokens(-1), piece -> {}));
            check(chat.info().messages() == spoken + 1, "wrong options");
            for (Runnable absent : List.<Runnable>of(() -> chat.add("user", null), () -> chat.say(null), () -> model.tokenize(null)))
                check(thrown(NullPointerException.class, absent).getMessage().equals("text is null"), "no text");
            check(thrown(NullPointerException.class, () -> chat.reply(null)).getMessage().equals("options is null"), "no options");
            chat.rewind(spoken - 2);
            String said = chat.say(PROMPT);
            check(said.startsWith(String.join("", pieces)) && said.equals(chat.messages(2).get(0).get("content")), "the same text");
            chat.rewind(1);
            var few = new StringBuilder();
            chat.say(PROMPT, new Options().maxTokens(3), few::append);
            check(chat.info().tokens() == 3 && said.startsWith(few.toString()) && !few.isEmpty(), "what is said with options");
            // A seed repeats itself, and what is sampled is not the likeliest; stop strings and forbidden tokens count.
            chat.rewind(1);
            chat.add("user", PROMPT);
            String likeliest = chat.reply(new Options().maxTokens(30)).readText(), sampled = null;
            for (int i = 0; i < 2; i++) {
                chat.rewind(2);
                String text = chat.reply(new Options().temperature(1.2).seed(7).maxTokens(30)).readText();
                check(!text.equals(likeliest) && (sampled == null || text.equals(sampled)), "a seed");
                sampled = text;
            }
            for (var drafts : List.of(new Options().draftLookup(3), new Options().draftModel(model, 4))) {
                chat.rewind(2);
                check(chat.reply(drafts.maxTokens(30)).readText().equals(likeliest) && chat.info().accepted() <= chat.info().drafted(), "drafts");
            }
            check(chat.info().accepted() > 0, "a model that drafts for itself");
            String stop = likeliest.substring(12, 16);
            chat.rewind(2);
            var reply = chat.reply(new Options().stops(stop));
            check(reply.readText().equals(likeliest.substring(0, likeliest.indexOf(stop))) && reply.end() == Generation.End.STOP, "a stop string");
            chat.rewind(2);
            var choice = chat.reply(new Options().grammar(Grammar.Kind.CHOICES, "[\"yes\", \"no\"]").reasoning(Options.Reasoning.OFF).logprobs(2));
            String chosen = choice.readText();
            check(List.of("yes", "no").contains(chosen.strip()), "a grammar: " + chosen + chat.messages(2) + chat.info());
            var rows = choice.logprobs();
            check(!rows.isEmpty() && rows.get(0).likeliest().size() == 2 && choice.logprobs().isEmpty(), "probabilities: " + rows);
            chat.rewind(2);
            try (var grammar = model.grammar(Grammar.Kind.REGEX, "[ab]{3}")) {
                check(chat.reply(new Options().grammar(grammar).reasoning(Options.Reasoning.OFF)).readText().strip().matches("[ab]{3}"), "a grammar of a session");
            }
        }
    }

    /** A long reply that another thread makes, and the exception with which it ends. */
    private static Throwable ended(Conversation chat, Thread.Builder threads, java.util.function.BiConsumer<Conversation, Thread> stop) throws Exception {
        var met = new java.util.concurrent.CompletableFuture<Throwable>();
        var begun = new java.util.concurrent.CountDownLatch(1);
        var thread = threads.start(() -> {
            try {
                chat.say(PROMPT, piece -> begun.countDown());
                met.complete(null);
            } catch (Throwable e) {
                met.complete(e);
            }
        });
        begun.await();
        stop.accept(chat, thread);
        thread.join();
        return met.get();
    }

    private static void stopping(Model model) throws Exception {
        for (var threads : List.of(Thread.ofPlatform(), Thread.ofVirtual())) {
            try (var talk = new Conversation(model, new Transcript(), new Conversation.Setup().capacity(100_000))) {
                check(ended(talk, threads, (chat, thread) -> thread.interrupt()) instanceof CancellationException, "an interrupt");
                check(ended(talk, threads, (chat, thread) -> chat.cancel()) instanceof CancellationException, "a cancel");
                check(talk.messages(3).get(0).get("finish_reason").equals("cancelled"), "what was said stays");
                // It meets the end of a step, or the next one.
                Throwable closed = ended(talk, threads, (chat, thread) -> chat.close());
                check(closed instanceof CancellationException || closed instanceof IllegalStateException, "it is closed in the middle: " + closed);
            }
        }
        int[] tokens = model.tokenize(PROMPT.repeat(20));
        try (var session = model.newSession(400)) {
            Thread.currentThread().interrupt();
            thrown(CancellationException.class, () -> session.prefill(tokens));
            thrown(CancellationException.class, () -> model.embed(List.of(PROMPT), Model.Pooling.MEAN, true, null));
            check(Thread.interrupted(), "the thread stays interrupted");
            session.prefill(tokens);
            check(session.length() == tokens.length, "a session goes on");
        }
        // A call on a virtual thread leaves the only processor that virtual threads have here to the other threads.
        var stop = new Cancel();
        var begun = new java.util.concurrent.CountDownLatch(1);
        var met = new java.util.concurrent.CompletableFuture<Throwable>();
        try (var session = model.newSession(100_000)) {
            Thread.startVirtualThread(() -> {
                begun.countDown();
                try {
                    session.prefill(model.tokenize(PROMPT.repeat(10_000)), stop);
                    met.complete(null);
                } catch (Throwable e) {
                    met.complete(e);
                }
            });
            begun.await();
            Thread.startVirtualThread(stop::fire).join();
            check(met.get() instanceof CancellationException, "another virtual thread: " + met.get());
        }
    }

    private static void numbers(Model model) {
        try (var session = model.newSession(16)) {
            try (var generation = session.generate(PROMPT, new Options().priority(-1).temperature(1).seed(-1).maxTokens(1))) {
                check(generation.readAll() != null && generation.count() == 1, "what may be negative");
            }
        }
    }

    private static void calling(Model model) {
        var begun = new Transcript().user(PROMPT).tool("go", "Goes", BY).toolChoice("required").parallelToolCalls(false);
        try (var chat = new Conversation(model, begun, new Conversation.Setup().capacity(600).types(CacheType.F32, CacheType.F32))) {
            for (int turn = 0; turn < 2; turn++) {
                var parts = chat.reply(new Options().reasoning(Options.Reasoning.OFF)).stream().toList();
                String by = of(parts, Part.Kind.TOOL_ARGUMENTS).replaceAll("\\s", "");
                check(of(parts, Part.Kind.TOOL_NAME).equals("go") && List.of("{\"by\":\"car\"}", "{\"by\":\"bus\"}").contains(by), "a call: " + parts);
                var message = chat.messages(1 + 2 * turn).get(0);
                check(message.get("finish_reason").equals("tool_calls") && message.get("content") == null, "a message: " + message);
                String id = ((Map<?, ?>) ((List<?>) message.get("tool_calls")).get(0)).get("id").toString();
                check(of(parts, Part.Kind.TOOL_ID).equals(id), "an id: " + parts);
                chat.add(Map.of("role", "tool", "tool_call_id", id, "name", "go", "content", " There."));
                check(chat.messages(2 + 2 * turn).get(0).get("tool_call_id").equals(id), "the result of a tool");
            }
            check(chat.info().messages() == 5 && chat.info().cacheCapacity() == 600, "calls and results");
        }
        try (var chat = new Conversation(model)) {
            chat.add(List.of(Map.of("role", "system", "content", "a "), Map.of("role", "user", "content", PROMPT)));
            var value = (Map<?, ?>) Json.read(chat.reply(new Options().schema(BY).reasoning(Options.Reasoning.OFF)).readText());
            check(List.of("car", "bus").contains(value.get("by")), "a schema: " + value);
        }
    }

    private static void readAhead(Model model) {
        var tools = new Transcript().tool("go", "Goes", BY).toolChoice("required").parallelToolCalls(false).variable("a", 1);
        var begun = new Transcript().user(PROMPT).tool("go", "Goes", BY).toolChoice("required").parallelToolCalls(false).variable("a", 1);
        try (var ofLife = new Conversation(model, begun); var chat = new Conversation(model, new Transcript().user(PROMPT))) {
            var options = new Options().reasoning(Options.Reasoning.OFF).tools(tools);
            ofLife.reply(new Options().reasoning(Options.Reasoning.OFF)).readText();
            try (var reading = chat.read(options)) {
                while (reading.step()) {}
                check(reading.end() == Generation.End.LENGTH && reading.parts().isEmpty(), "messages are read ahead");
            }
            check(chat.info().tokens() == 0 && chat.info().messages() == 1, "no message is added");
            var parts = chat.reply(options).stream().toList();
            check(of(parts, Part.Kind.TOOL_NAME).equals("go") && chat.messages().equals(ofLife.messages()), "tools of one reply: " + chat.messages());
            check(chat.info().reusedTokens() + 1 == chat.info().promptTokens(), "what was read is not computed again");
            chat.add("user", "And now?");
            ofLife.add("user", "And now?");
            var none = new Options().maxTokens(3).tools(new Transcript().noTools().toolChoice("auto"));
            check(of(chat.reply(new Options().maxTokens(3)).stream().toList(), Part.Kind.TOOL_NAME).isEmpty(), "the next reply has no tools");
            check(of(ofLife.reply(none).stream().toList(), Part.Kind.TOOL_NAME).isEmpty(), "a reply without the tools of the conversation");
            var wrong = thrown(RealizarException.class, () -> chat.reply(new Options().tools(begun)));
            check(wrong.status() == RealizarException.Status.INVALID_ARGUMENT, "messages of a reply: " + wrong);
        }
    }

    private static void changed(Model model, Path path) {
        try (var adapter = model.adapter(path); var store = new Store(model, new Store.Setup().minTokens(3)); var stop = new Cancel();
            var plain = new Conversation(model); var chat = new Conversation(model)) {
            List<Runnable> changes = List.of(chat::release, () -> chat.setCapacity(300), () -> chat.setOverflow(Conversation.Overflow.FORGET),
                () -> chat.setAdapters(Map.of()), () -> chat.setStore(store), () -> chat.setStore(null));
            for (var change : changes) {
                for (var each : List.of(plain, chat)) {
                    each.add("user", PROMPT);
                    each.reply(new Options().maxTokens(5)).readText();
                }
                check(chat.messages().equals(plain.messages()), "a change between replies: " + chat.messages());
                change.run();
            }
            check(chat.info().cacheCapacity() == 300 && store.info().entries() > 0, "a capacity and a store");
            try (var reading = chat.read()) {
                thrown(BusyException.class, chat::release);
                check(reading.end() == null, "an unfinished reply");
            }
            chat.release();
            check(chat.info().cacheLength() == 0, "memory is given back");
            chat.setCancel(stop);
            var stopped = chat.reply(new Options().maxTokens(3));
            stop.fire();
            thrown(CancellationException.class, stopped::step);
            stopped.close();
            chat.setCancel(null);
            chat.rewind(0);
            chat.setAdapters(Map.of(adapter, 1f));
            try (var adapted = new Conversation(model, new Transcript(), new Conversation.Setup().adapters(Map.of(adapter, 1f)))) {
                for (var each : List.of(chat, adapted)) {
                    each.add("user", PROMPT);
                    each.reply(new Options().maxTokens(20)).readText();
                }
                check(chat.messages().equals(adapted.messages()), "adapters");
            }
        }
    }

    private static void reasoning(Model model) {
        try (var chat = new Conversation(model)) {
            chat.add("user", PROMPT);
            var parts = chat.reply(new Options().reasoning(Options.Reasoning.ON).reasoningTokens(5).maxTokens(30)).stream().toList();
            check(chat.info().reasoningTokens() == 5 && !of(parts, Part.Kind.REASONING).isEmpty() && !of(parts, Part.Kind.CONTENT).isEmpty(), "reasoning: " + parts);
            check(chat.messages(1).get(0).get("reasoning_content").equals(of(parts, Part.Kind.REASONING)), "reasoning of a message");
            chat.rewind(1);
            chat.reply(new Options().reasoning(Options.Reasoning.OFF).maxTokens(9)).readText();
            check(chat.info().reasoningTokens() == 0 && chat.info().promptTokens() == model.tokenize(PROMPT).length, "no reasoning");
        }
    }

    private static void cut(Model model) {
        try (var chat = new Conversation(model)) {
            chat.add("user", PROMPT);
            String whole = chat.reply(new Options().maxTokens(40)).readText();
            // One that is left leaves no trace, but where that is asked for.
            for (boolean keeps : new boolean[] {false, true}) {
                chat.rewind(1);
                var options = new Options().maxTokens(40);
                try (var reply = chat.reply(keeps ? options.keep() : options)) {
                    for (int i = 0; i < 3; i++) reply.next();
                }
                check(chat.info().messages() == (keeps ? 2 : 1) && chat.info().state() != Conversation.State.PROMPT, "a reply that was left");
            }
            var begun = chat.messages(1).get(0);
            check(begun.get("finish_reason").equals("cancelled") && whole.startsWith(begun.get("content").toString()), "what is kept: " + begun);
            // It goes on, however often it is cut.
            chat.reply(new Options().continuing().keep().maxTokens(1)).readText();
            for (var part : chat.reply(new Options().continuing().keep().maxTokens(40))) {
                if (part.kind() == Part.Kind.CONTENT) break;
            }
            String more = chat.reply(new Options().continuing().maxTokens(12)).readText();
            String all = chat.messages(1).get(0).get("content").toString();
            check(whole.startsWith(all) && all.endsWith(more) && all.length() > begun.get("content").toString().length() && chat.info().messages() == 2, "it goes on: " + all);
            chat.rewind(1);
            var stopped = chat.reply(new Options().maxTokens(40));
            check(stopped.step(), "a reply that is stopped");
            stopped.stop();
            String kept = of(stopped.parts(), Part.Kind.CONTENT);
            check(stopped.end() == Generation.End.CANCELLED && stopped.error() == null && chat.messages(1).get(0).get("content").equals(kept) && whole.startsWith(kept), "a stop keeps what was said: " + kept);
            chat.add("user", "x");
            check(thrown(RealizarException.class, () -> chat.reply(new Options().continuing())).status() == Status.INVALID_ARGUMENT, "nothing to continue");
            chat.rewind(1);

            var reply = chat.reply(new Options().maxTokens(40));
            check(reply.hasNext(), "a first part");
            var stopping = java.util.concurrent.CompletableFuture.runAsync(reply::cancel);
            thrown(CancellationException.class, () -> reply.stream().forEach(part -> stopping.join()));
            reply.deadline(Duration.ZERO);
            thrown(CancellationException.class, reply::step);
            check(chat.info().stopped() == Status.CANCELLED && reply.end() == null, "it is cancelled");
            reply.resume();
            reply.deadline(Duration.ofDays(-1));
            check(thrown(RealizarException.class, reply::step).status() == Status.DEADLINE, "a deadline that has passed");
            reply.deadline(null);
            check(reply.step(-1) && reply.end() == null, "no time is left");
            while (reply.step(50)) {}
            check(reply.end() == Generation.End.LENGTH && chat.messages(1).get(0).get("content").equals(whole), "slices of time");
            check(!reply.parts().isEmpty() && reply.parts().isEmpty() && !reply.step(), "what is left");
            // At the end of a reply its loop may add what comes next.
            chat.rewind(1);
            for (var part : chat.reply(new Options().maxTokens(3))) {
                if (part.kind() == Part.Kind.END) chat.add("user", "x");
            }
            check(chat.messages(2).get(0).get("content").equals("x"), "a message at the end of a reply: " + chat.messages());
            // The conversation goes on without a reply.
            chat.rewind(1);
            thrown(IllegalStateException.class, reply::step);
            var left = chat.reply();
            left.next();
            var other = chat.reply();
            thrown(IllegalStateException.class, left::step);
            left.close();
            check(other.hasNext(), "another reply");
            chat.close();
            thrown(IllegalStateException.class, other::step);
            other.close();
        }
        try (var stop = new Cancel(); var chat = new Conversation(model, new Transcript().user(PROMPT), new Conversation.Setup().cancel(stop))) {
            stop.fire();
            thrown(CancellationException.class, () -> chat.reply().readText());
            stop.reset();
            check(!chat.reply().readText().isEmpty(), "the cancel of a conversation");
        }
        // What nobody closes is freed in the middle of a reply.
        for (int i = 0; i < 20; i++) {
            var chat = new Conversation(model);
            chat.add("user", PROMPT);
            check(chat.reply().hasNext(), "a part");
            System.gc();
        }
    }

    private static void kept(Model model) throws Exception {
        try (var chat = new Conversation(model, new Transcript().user(PROMPT).variable("a", 1))) {
            chat.reply(new Options().maxTokens(9)).readText();
            var file = new java.io.ByteArrayOutputStream();
            chat.save(file);
            byte[] bytes = file.toByteArray();
            try (var fork = chat.fork(); var loaded = Conversation.load(model, new java.io.ByteArrayInputStream(bytes))) {
                for (var one : List.of(chat, fork, loaded)) {
                    one.reply(new Options().continuing().maxTokens(5)).readText();
                    one.add("user", " Go on");
                    one.reply(new Options().maxTokens(9)).readText();
                    check(one.info().reusedTokens() > 5 && one.messages().equals(chat.messages()), "a fork, and one that was saved");
                }
                fork.rewind(1);
                check(fork.info().messages() == 1 && chat.info().messages() == 4, "a fork apart");
            }
            for (int cut : new int[] {0, 300, bytes.length - 1}) {
                try {
                    Conversation.load(model, new java.io.ByteArrayInputStream(bytes, 0, cut));
                    check(false, "half a conversation");
                } catch (java.io.EOFException e) {
                    check(e.getMessage().contains("no more bytes"), e.getMessage());
                }
            }
            var reply = chat.reply();
            try (var fork = chat.fork()) {
                check(fork.messages().equals(chat.messages()) && reply.hasNext(), "a fork is without the unfinished reply");
            }
        }
    }

    private static void shared(Model model, Path other) throws Exception {
        Path folder = Files.createTempDirectory("realizar");
        var begun = new Transcript().system("Be brief. ".repeat(9)).user(PROMPT);
        var setup = new Conversation.Setup().capacity(256);
        var said = new java.util.ArrayList<String>();
        try (var chat = new Conversation(model, begun, setup)) {
            said.add(chat.reply(new Options().maxTokens(9)).readText());
        }
        var store = new Store(model, new Store.Setup().minTokens(30).path(folder));
        for (boolean known : new boolean[] {false, true}) {
            try (var chat = new Conversation(model, begun, setup.store(store))) {
                said.add(chat.reply(new Options().maxTokens(9)).readText());
                check(chat.info().reusedTokens() > 30 == known, "tokens of another conversation");
            }
        }
        check(said.stream().distinct().count() == 1, "the same reply: " + said);
        int[] tokens = model.tokenize(PROMPT.repeat(20));
        for (int known : new int[] {0, tokens.length - 1}) {
            try (var session = store.take(tokens, 256, CacheType.F16, CacheType.F16)) {
                check(session.length() == known && session.capacity() == 256, "tokens of another session");
                session.prefill(java.util.Arrays.copyOfRange(tokens, known, tokens.length));
                store.put(session);
            }
        }
        check(store.info().entries() == 2 && store.info().hits() == 2 && store.info().misses() == 2, "hits: " + store.info());
        try (var one = Model.load(other); var session = one.newSession(64)) {
            check(thrown(RealizarException.class, () -> store.put(session)).status() == Status.MISMATCH, "another model");
        }
        store.close();
        thrown(IllegalStateException.class, () -> new Conversation(model, begun, setup));
        // What a closed store knew is in the folder.
        try (var again = new Store(model, new Store.Setup().minTokens(30).path(folder))) {
            check(again.info().files() == 2 && again.info().diskBytes() > 0, "files: " + again.info());
            again.clear();
            check(again.info().files() == 0 && again.take(tokens).length() == 0, "nothing is known");
        }
        Files.delete(folder);
        check(thrown(RealizarException.class, () -> new Store(model, new Store.Setup().path(other))).status() == Status.IO, "no folder");
    }

    private static void manyTalks(Model model) {
        var talks = new java.util.ArrayList<Conversation>();
        var replies = new java.util.ArrayList<Reply>();
        for (int i = 0; i < 5; i++) {
            talks.add(new Conversation(model, new Transcript().user(PROMPT + "!".repeat(i))));
            replies.add(talks.get(i).reply(new Options().maxTokens(6 + i)));
        }
        var nothing = new java.util.HashMap<Integer, Float>();
        for (int token = 0; token < 512; token++) nothing.put(token, Float.NEGATIVE_INFINITY);
        var failing = new Conversation(model, new Transcript().user(PROMPT)).reply(new Options().logitBias(nothing));
        replies.add(failing);
        check(!Reply.stepAll(List.of()) && Reply.stepAll(replies, -5), "replies that have not begun");
        while (Reply.stepAll(replies)) {}
        check(failing.end() == Generation.End.FAILED && failing.error().getMessage().equals(thrown(RealizarException.class, failing::step).getMessage()), "one that fails alone");
        for (int i = 0; i < 5; i++) {
            try (var alone = new Conversation(model, new Transcript().user(PROMPT + "!".repeat(i)))) {
                String text = alone.reply(new Options().maxTokens(6 + i)).readText();
                check(of(replies.get(i).parts(), Part.Kind.CONTENT).equals(text) && replies.get(i).error() == null, "one of many");
            }
        }
        check(thrown(RealizarException.class, () -> Reply.stepAll(List.of(replies.get(0), replies.get(0)))).status() == Status.INVALID_ARGUMENT, "one twice");
        talks.forEach(Conversation::close);
    }

    private static void refusals(Model model, Path path) {
        var small = new Conversation.Setup().capacity(64);
        try (var chat = new Conversation(model, new Transcript(), small)) {
            for (String wrong : List.of("", "[1]", "[{\"role\": \"user\", \"content\": \"a\"}, {\"content\": \"b\"}]")) {
                check(thrown(RealizarException.class, () -> chat.addJson(wrong)).status() == Status.INVALID_ARGUMENT, "a wrong message: " + wrong);
            }
            var full = thrown(RealizarException.class, () -> chat.say("long ".repeat(99)));
            check(full.status() == Status.CONTEXT_FULL && full.needed() > 99, "no room");
            thrown(IllegalArgumentException.class, () -> chat.add("user", "half \ud834"));
            check(thrown(RealizarException.class, () -> chat.rewind(1)).status() == Status.INVALID_ARGUMENT && chat.messages().isEmpty(), "nothing has changed");
            chat.add("user", PROMPT);
            for (var wrong : List.of(new Options().topP(2), new Options().logprobs(33), new Options().grammar(Grammar.Kind.REGEX, "("))) {
                check(thrown(RealizarException.class, () -> chat.reply(wrong)).status() == Status.INVALID_ARGUMENT, "a wrong option");
            }
        }
        // The oldest turns are left out where that is asked for.
        try (var chat = new Conversation(model, new Transcript().system("S"), small.overflow(Conversation.Overflow.FORGET))) {
            for (int i = 0; i < 8; i++) {
                chat.add("user", "Some question");
                chat.reply(new Options().maxTokens(6)).readText();
            }
            check(chat.info().firstInPrompt() > 0 && chat.info().messages() == 17, "turns are forgotten: " + chat.info());
        }
        try (var adapter = model.adapter(path); var chat = new Conversation(model, new Transcript().user(PROMPT), new Conversation.Setup().adapters(Map.of(adapter, 1f)))) {
            check(chat.reply(new Options().maxTokens(40)).readText().contains("draw"), "an adapter");
        }
        var closed = new Conversation(model);
        closed.close();
        closed.close();
        thrown(IllegalStateException.class, () -> closed.say("a"));
    }

    private static String of(List<Part> parts, Part.Kind kind) {
        return parts.stream().filter(part -> part.kind() == kind).map(Part::text).collect(java.util.stream.Collectors.joining());
    }

    private static void failures(Model model, Path path) {
        var e = thrown(RealizarException.class, () -> Model.load(Path.of("/no/such/größe.gguf")));
        check(e.status() == Status.IO && e.getMessage().contains("größe.gguf"), e.getMessage());
        check(thrown(RealizarException.class, () -> model.meta("none")).status() == Status.NOT_FOUND, "no key");
        check(thrown(RealizarException.class, () -> model.detokenize(1 << 30)).status() == Status.INVALID_ARGUMENT, "no token");
        check(thrown(RealizarException.class, () -> model.tokenizeChat("{")).status() != Status.UNKNOWN, "no chat");
        thrown(IllegalArgumentException.class, () -> model.meta("a\0b"));
        try (var session = model.newSession(8)) {
            check(thrown(RealizarException.class, () -> session.generate(PROMPT.repeat(9), new Options()).text()).status() == Status.CONTEXT_FULL, "full");
        }
        try (var there = Model.load(path, new Model.Load().devices(List.of(1), List.of(2f)))) {
            check(there.info().device() == 1 && there.info().devices().isEmpty() && there.info().deviceLayers().isEmpty(), "a list of devices");
        }
        for (var wrong : List.of(new Model.Load().devices(List.of(1, 1), List.of()), new Model.Load().devices(List.of(1), List.of(0f)),
            new Model.Load().devices(List.of(1), List.of()).device(1))) {
            check(thrown(RealizarException.class, () -> Model.load(path, wrong)).status() == Status.INVALID_ARGUMENT, "wrong devices");
        }
        thrown(IllegalArgumentException.class, () -> new Model.Load().devices(List.of(), List.of(1f)));
        var closed = Model.load(path, new Model.Load().threads(1).textOnly());
        closed.close();
        closed.close();
        thrown(IllegalStateException.class, () -> closed.tokenize("a"));
    }

    /** Handles that nobody closes are freed when they are collected, in any order. */
    private static void forgotten(Path path) {
        for (int i = 0; i < 20; i++) {
            var session = Model.load(path, new Model.Load().threads(1)).newSession(64);
            check(session.generate(PROMPT, new Options().maxTokens(2)).hasNext(), "a piece");
            System.gc();
        }
    }

    private static void packed(Path path) throws Exception {
        Path folder = Files.createTempDirectory("realizar"), packed = folder.resolve("weights");
        for (int i = 0; i < 2; i++) {
            try (var model = Model.load(path, new Model.Load().threads(1).packedPath(packed)); var session = model.newSession(64);
                var generation = session.generate(PROMPT, new Options().maxTokens(20))) {
                check(EXPECTED.startsWith(generation.readAll().substring(0, 30)), "packed weights");
            }
        }
        Files.delete(packed);
        Files.delete(folder);
    }

    private static void real(Path path) {
        long start = System.nanoTime();
        try (var model = Model.load(path); var chat = new Conversation(model)) {
            var text = new StringBuilder();
            chat.say("What is the capital of France, and what is it famous for?", text::append);
            System.out.printf("the first token after %d ms, %d in all%n", chat.info().firstToken().toMillis(), (System.nanoTime() - start) / 1_000_000);
            check(text.toString().contains("Paris"), text.toString());
        }
    }
}
