package realizar;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** A loaded model: a .gguf file, a .safetensors file, or a folder with a config.json. Any number of threads may use
 *  it at once. */
public final class Model extends Handle {

    /** Options of a load, all of which are optional. Each method sets one and returns the object. */
    public static final class Load extends LoadOptions<Load> {

        /** Receives the number of bytes loaded so far and in total, on the thread that loads; false stops the load. */
        @FunctionalInterface
        public interface Progress {
            /** {@code done} of {@code total} bytes are loaded. */
            boolean told(long done, long total);
        }

        int threads;
        List<Integer> devices = List.of();
        List<Float> shares = List.of();
        List<Placement> placements = List.of();

        /** All options are the default. */
        public Load() {}

        /** Number of threads that compute, if no runtime is given; 0: as for a new {@link RealizarRuntime}. */
        public Load threads(int threads) {
            this.threads = Native.whole(threads, "threads");
            return this;
        }

        /** GPUs among which the layers are divided, in this order. {@code shares}: relative sizes of their parts;
         * empty: in proportion to free memory. */
        public Load devices(List<Integer> devices, List<Float> shares) {
            var devicesGiven = Native.<Integer>all(devices, "devices");
            var sharesGiven = Native.<Float>all(shares, "shares");
            devicesGiven.forEach(device -> Native.whole(device, "a device of devices"));
            sharesGiven.forEach(share -> Native.finite(share, "a share of shares"));
            // The library looks for a share of each.
            if (!shares.isEmpty() && shares.size() != devices.size()) {
                throw new IllegalArgumentException("shares has " + shares.size() + " elements; it must have none or one per device, " + devices.size());
            }
            this.devices = devicesGiven;
            this.shares = sharesGiven;
            return this;
        }

        /** Expert offload; none: experts are where their layer is. */
        public Load placements(List<Placement> placements) {
            this.placements = Native.all(placements, "placements");
            return this;
        }
    }

    /** Description of a model. {@code bosToken} and {@code eosToken} are -1 if the model has none. {@code device}: the
     * first one, if the model is on several GPUs. {@code devices}: the GPUs that have layers, in the order of the
     * layers. {@code deviceLayers}: the number of layers on each of them. {@code unknown}: the number of keys and
     * tensors that {@link Load#allowUnknown} ignored. {@code embeddingDim}: floats in an embedding; 0 if the model
     * computes none. {@code pooling}: of its embeddings; MODEL if the file declares none, so that the caller must
     * choose. {@code scores}: scores of its classifier, for reranking; 0 if it has none. */
    public record Info(String architecture, String name, int layers, int hidden, int vocabulary, int contextLength, int bosToken, int eosToken,
        long parameters, long weightBytes, int device, List<Integer> devices, List<Integer> deviceLayers, boolean hasChatTemplate, int unknown,
        Set<Capability> capabilities, int embeddingDim, Pooling pooling, int scores) {}

    /** What a model and its conversations can do, in the order of the library's bits. */
    public enum Capability {
        /** It generates tokens, unlike a model for embeddings. */
        GENERATE,
        /** Its chat template has system messages. */
        SYSTEM,
        /** Its chat template has tool calls. */
        TOOLS,
        /** Replies may begin with reasoning. */
        REASON,
        /** {@link Options#reasoning} switches reasoning on and off. */
        SWITCH_REASONING,
        /** Messages of the user may have images, which an {@link Encoder} encodes. */
        IMAGES,
        /** The same for audio. */
        AUDIO,
        /** The same for video. */
        VIDEO;

        static Set<Capability> of(int bits) {
            var can = EnumSet.allOf(Capability.class);
            can.removeIf(capability -> (bits >> capability.ordinal() & 1) == 0);
            return Collections.unmodifiableSet(can);
        }
    }

    /** Pooling of the token vectors of a text into one vector, in the order of the library's numbers from 0. */
    public enum Pooling {
        /** The pooling that the model was trained with. */
        MODEL,
        /** A vector for each token. */
        NONE,
        /** The mean over all tokens. */
        MEAN,
        /** The vector of the first token. */
        CLS,
        /** The vector of the last token. */
        LAST,
        /** The scores of a reranker. */
        RANK
    }

    /** Number and time of the calls of one kind. */
    public record Phase(long count, long nanoseconds) {}

    /** Counters of one kind of device. {@code latencyHistogram}: latencies under 1 microsecond, from 1 to below 2,
     * from 2 to below 4, and so on. */
    public record Work(long dispatches, long bytes, long latencySum, long latencyMin, long latencyMax, double latencyMean, double latencyVariance,
        List<Long> latencyHistogram) {}

    private final Info info;

    private Model(Memory pointer) {
        super(pointer, Header::rz_model_free);
        info = call(Model::describe);
    }

    /** Loads a .gguf file, a .safetensors file, or a folder with a config.json. */
    public static Model load(Path path) {
        return load(path, new Load());
    }

    /** The same with options. */
    public static Model load(Path path, Load load) {
        Native.given(path, "path");
        Native.given(load, "load");
        try (Arena arena = new Arena()) {
            Memory name = Native.terminated(arena, path.toString(), "path"), out = arena.allocate(Memory.POINTER);
            Loading.with(arena, load, (params, e) -> Header.rz_model_load(name, params, out, e));
            return new Model(out.getPointer(0));
        }
    }

    /** Loads a file or folder by its path, or a model of the Hub, which {@link #fetch} fetches. */
    public static Model load(String name, Load load) {
        Native.given(name, "name");
        Native.given(load, "load");
        return load(name.startsWith(Hub.PREFIX) ? fetch(name, load.progress) : Paths.get(name), load);
    }

    /**
     * Downloads a model of the Hugging Face Hub, "hf:owner/name" or "hf:owner/name:quantization", to the cache of the
     * Hub's own client and returns its path. A model that is complete in the cache needs no connection. Without a
     * quantization, the largest one of at most 8 bits that fits into free memory is chosen. Interrupted downloads
     * resume.
     *
     * <p>{@code progress} may be null; if it returns false, or the thread is interrupted, the download ends with
     * CancellationException. HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE and the proxies of the
     * environment apply.
     */
    public static Path fetch(String name, Load.@Nullable Progress progress) {
        Native.given(name, "name");
        long free = Device.all().stream().filter(device -> device.unavailable().isEmpty()).mapToLong(Device::memoryFree).max().orElse(0);
        return Hub.fetch(name, free, System.getenv(), progress);
    }

    /** A model whose files are bytes in memory, such as a mapped file, each under its name: a ByteBuffer, or a
     * MemorySegment, for which foreign functions are needed. The bytes are not needed after the load. */
    public static Model load(Map<String, ?> files, Load load) {
        Native.given(load, "load");
        try (Arena arena = new Arena()) {
            Memory sources = Loading.sources(arena, files), out = arena.allocate(Memory.POINTER);
            Loading.with(arena, load, (params, e) -> Header.rz_model_load_from(sources, files.size(), params, out, e));
            return new Model(out.getPointer(0));
        }
    }

    /** The memory that a load and a number of sessions of one capacity will take. Reads no weights. */
    public static Plan plan(Path path, Load load, int sessions, int capacity, CacheType keys, CacheType values) {
        try (Arena arena = new Arena()) {
            Memory name = Native.terminated(arena, Native.given(path, "path").toString(), "path");
            return plan(arena, name, Memory.NULL, 0, load, sessions, Session.params(arena, capacity, keys, values));
        }
    }

    /** The same for files that are bytes in memory. */
    public static Plan plan(Map<String, ?> files, Load load, int sessions, int capacity, CacheType keys, CacheType values) {
        try (Arena arena = new Arena()) {
            return plan(arena, Memory.NULL, Loading.sources(arena, files), files.size(), load, sessions, Session.params(arena, capacity, keys, values));
        }
    }

    private static Plan plan(Arena arena, Memory path, Memory sources, long n, Load load, int sessions, Memory cache) {
        Native.given(load, "load");
        Native.whole(sessions, "sessions");
        var out = Native.sized(arena, Header.rz_model_plan);
        var layout = Header.rz_model_plan_device;
        Memory parts = arena.allocate((long) layout.size * Header.RZ_DEVICES_MAX), nParts = arena.allocate(8);
        for (int i = 0; i < Header.RZ_DEVICES_MAX; i++) {
            Native.set(parts.part((long) layout.size * i, layout.size), layout, "struct_size", layout.size);
        }
        Loading.with(arena, load, (params, e) -> Header.rz_model_plan_get(path, sources, n, params, cache, sessions, out, parts,
            Header.RZ_DEVICES_MAX, nParts, e));
        return Plan.of(out, parts, (int) nParts.getLong(0));
    }

    private static Info describe(Arena arena, Memory model) {
        var layout = Header.rz_model_info;
        var out = Native.sized(arena, layout);
        Native.check(arena, e -> Header.rz_model_info_get(model, out, e));
        List<Integer> devices = new ArrayList<>(), layers = new ArrayList<>();
        for (int i = 0; i < Native.integer(out, layout, "n_devices"); i++) {
            int index = i;
            var device = Native.sized(arena, Header.rz_model_device);
            Native.check(arena, e -> Header.rz_model_device_get(model, index, device, e));
            devices.add(Native.integer(device, Header.rz_model_device, "device"));
            layers.add(Native.integer(device, Header.rz_model_device, "n_layers"));
        }
        return Results.modelInfo(out, List.copyOf(devices), List.copyOf(layers));
    }

    /** The description of the model. */
    public Info info() {
        return info;
    }

    /** Returns the recommended sampling parameters, or null. A {@link Session} does not apply them by itself. */
    public @Nullable Options advisedSampling() {
        return call((arena, model) -> {
            var layout = Header.rz_model_sampling;
            var out = Native.sized(arena, layout);
            Native.check(arena, e -> Header.rz_model_sampling_get(model, out, e));
            if (Native.integer(out, layout, "advised") == 0) return null;
            return new Options().temperature(Native.real(out, layout, "temperature")).topK(Native.integer(out, layout, "top_k"))
                .topP(Native.real(out, layout, "top_p")).minP(Native.real(out, layout, "min_p"))
                .repeatPenalty(Native.real(out, layout, "repeat_penalty")).penaltyWindow(Native.integer(out, layout, "penalty_window"))
                .temperatureFirst(true); // recommended for transformers, with its order
        });
    }

    /** A value of the model's metadata as text, such as that of "general.name". */
    public String meta(String key) {
        Native.given(key, "key");
        return call((arena, model) -> {
            var name = Native.terminated(arena, key, "key");
            return Native.filled(arena, 1, 256,
                (out, capacity, written, e) -> Header.rz_model_meta_into(model, name, out, capacity, written, e)).text();
        });
    }

    /** The keys of the metadata, in alphabetical order. */
    public List<String> metaKeys() {
        return listed((arena, model, i) -> Native.filled(arena, 1, 256,
            (out, capacity, written, e) -> Header.rz_model_meta_key_into(model, i, out, capacity, written, e)));
    }

    /** The elements of an array of the metadata as texts. */
    public List<String> metaList(String key) {
        meta(key); // a missing key must be an error, not an empty list
        return listed((arena, model, i) -> {
            var name = Native.terminated(arena, key, "key");
            return Native.filled(arena, 1, 256,
                (out, capacity, written, e) -> Header.rz_model_meta_element_into(model, name, i, out, capacity, written, e));
        });
    }

    private interface Entry {
        Memory at(Arena arena, Memory model, long i);
    }

    /** Returns the entries up to the first missing one. */
    private List<String> listed(Entry entry) {
        var all = new ArrayList<String>();
        for (;;) {
            try {
                all.add(call((arena, model) -> entry.at(arena, model, all.size()).text()));
            } catch (RealizarException e) {
                if (e.status() == RealizarException.Status.NOT_FOUND) return all;
                throw e;
            }
        }
    }

    /** The tokens of a text, with the special tokens that the model begins a text with. */
    public int[] tokenize(String text) {
        return tokenize(text, true);
    }

    /** The same; {@code special}: with the special tokens. */
    public int[] tokenize(String text, boolean special) {
        return tokenize(text, special, false);
    }

    /** {@code special}: adds BOS and EOS as the model defines. {@code parse}: names of special tokens in the text
     * become these tokens; do not use it for text of users. */
    public int[] tokenize(String text, boolean special, boolean parse) {
        Native.given(text, "text");
        int flags = (special ? Header.RZ_TOKENIZE_ADD_SPECIAL : 0) | (parse ? Header.RZ_TOKENIZE_PARSE_SPECIAL : 0);
        return call((arena, model) -> {
            Memory bytes = Native.bytes(arena, text, "text");
            return Cancel.call(null, fired -> Native.filled(arena, 4, bytes.size + 8, (out, capacity, written, e) ->
                Header.rz_tokenize_into(model, bytes, bytes.size, flags, out, capacity, written, fired, e)).ints());
        });
    }

    /** Returns the text of tokens, without special tokens. */
    public String detokenize(int... tokens) {
        return detokenize(tokens, false);
    }

    /** Returns the text of tokens; {@code special}: with special tokens. */
    public String detokenize(int[] tokens, boolean special) {
        Native.wholes(tokens, "tokens");
        return call((arena, model) -> {
            Memory ids = Native.ints(arena, tokens, "tokens");
            int flags = special ? Header.RZ_DETOKENIZE_SPECIAL : 0;
            return Native.filled(arena, 1, 8L * tokens.length, (out, capacity, written, e) ->
                Header.rz_detokenize_into(model, ids, tokens.length, flags, out, capacity, written, e)).text();
        });
    }

    /** The bytes of one token, which may be a part of a character. */
    public byte[] tokenBytes(int token) {
        Native.whole(token, "token");
        return call((arena, model) -> Native.filled(arena, 1, 64, (out, capacity, written, e) ->
            Header.rz_token_bytes_into(model, token, out, capacity, written, Memory.NULL, e)).bytes());
    }

    /** True for a token that ends a turn or a text (EOS, EOT). */
    public boolean isEnd(int token) {
        Native.whole(token, "token");
        return use(model -> Header.rz_token_is_end(model, token) != 0);
    }

    /** Returns a stream that converts tokens to text as they are generated. */
    public TextStream textStream() {
        return call((arena, model) -> new TextStream(Native.made(arena, out -> e -> Header.rz_textstream_new(model, out, e))));
    }

    /** The text of a conversation by the model's chat template. */
    public String render(Transcript transcript, boolean addGenerationPrompt) {
        String json = Native.given(transcript, "transcript").json();
        return call((arena, model) -> {
            Memory bytes = Native.bytes(arena, json, "transcript");
            int flags = addGenerationPrompt ? Header.RZ_CHAT_ADD_GENERATION_PROMPT : 0;
            return Cancel.call(null, fired -> Native.filled(arena, 1, 4096, (out, capacity, written, e) ->
                Header.rz_chat_render_into(model, bytes, bytes.size, flags, out, capacity, written, fired, e)).text());
        });
    }

    /** Returns the tokens of a conversation, up to the reply. Its text never becomes a special token. */
    public int[] tokenizeChat(Transcript transcript) {
        return tokenizeChat(Native.given(transcript, "transcript").json());
    }

    /** The same for a conversation in JSON, {"messages": [...], "tools": [...]}. */
    public int[] tokenizeChat(String json) {
        Native.given(json, "json");
        return call((arena, model) -> {
            Memory bytes = Native.bytes(arena, json, "json");
            return Cancel.call(null, fired -> Native.filled(arena, 4, bytes.size + 64, (out, capacity, written, e) ->
                Header.rz_chat_tokenize_into(model, bytes, bytes.size, Header.RZ_CHAT_ADD_GENERATION_PROMPT, out, capacity, written, fired, e)).ints());
        });
    }

    /** Compiles a grammar. */
    public Grammar grammar(Grammar.Kind kind, String text) {
        return grammar(kind, text, false);
    }

    /** {@code whitespace}: JSON may have white space between its parts. */
    public Grammar grammar(Grammar.Kind kind, String text, boolean whitespace) {
        return grammar(Native.given(kind, "kind").number(), whitespace ? Header.RZ_GRAMMAR_FLAG_WHITESPACE : 0, text);
    }

    Grammar grammar(int number, int flags, String text) {
        Native.given(text, "text");
        return call((arena, model) -> {
            Memory bytes = Native.bytes(arena, text, "text");
            return new Grammar(Cancel.call(null, fired -> Native.made(arena, out -> e ->
                Header.rz_grammar_new(model, number, flags, bytes, bytes.size, fired, out, e))), number, flags, text);
        });
    }

    /** A parser for the reply to a conversation in JSON, whose tokens ({@link #tokenizeChat}) were the prompt of a
     * {@link Session}. The replies of a {@link Conversation} come as parts already. */
    public ChatParser chatParser(String json) {
        Native.given(json, "json");
        return call((arena, model) -> {
            Memory bytes = Native.bytes(arena, json, "json");
            return new ChatParser(Cancel.call(null, fired -> Native.made(arena, out -> e ->
                Header.rz_chat_parser_new(model, bytes, bytes.size, fired, out, e))));
        });
    }

    /** Loads a LoRA adapter: a GGUF file or a folder of PEFT. */
    public Adapter adapter(Path path) {
        Native.given(path, "path");
        return call((arena, model) -> {
            var name = Native.terminated(arena, path.toString(), "path");
            var params = Native.sized(arena, Header.rz_adapter_params);
            return new Adapter(Reported.call(arena, params, Header.rz_adapter_params, null, null, () ->
                Native.made(arena, out -> e -> Header.rz_adapter_load(model, name, params, out, e))));
        });
    }

    /** Embeddings of texts: vectors of length 1, pooled as the model defines. */
    public float[][] embed(List<String> texts) {
        return embed(texts, Pooling.MODEL, true, null);
    }

    /** The same with a pooling. {@code normalize}: to length 1. {@code cancel} stops the call; it may be null. */
    public float[][] embed(List<String> texts, Pooling pooling, boolean normalize, @Nullable Cancel cancel) {
        Native.given(pooling, "pooling");
        return embedTokens(Native.<String>all(texts, "texts").stream().map(this::tokenize).collect(Collectors.toList()), pooling, normalize, cancel);
    }

    /** Embeddings of texts that are tokens: a vector for each text, with NONE a vector for each token, with RANK the
     * scores of each text. */
    public float[][] embedTokens(List<int[]> texts, Pooling pooling, boolean normalize, @Nullable Cancel cancel) {
        Native.all(texts, "texts").forEach(text -> Native.wholes(text, "a text"));
        Native.given(pooling, "pooling");
        int n = texts.size(), rows = pooling == Pooling.NONE ? texts.stream().mapToInt(text -> text.length).sum() : n;
        return embedded(rows, pooling, normalize, cancel, (arena, model, params, fired) -> {
            Memory tokens = arena.allocate((long) Memory.POINTER * n), lengths = arena.allocate(8L * n);
            for (int i = 0; i < n; i++) {
                tokens.set(Memory.POINTER * i, Native.ints(arena, texts.get(i), "texts"));
                lengths.set(8 * i, (long) texts.get(i).length);
            }
            return (out, capacity, written, e) -> Header.rz_embed_into(model, params, tokens, lengths, n, out, capacity, written, fired, e);
        });
    }

    /** The same for prompts, which may have images. */
    public float[][] embedPrompts(List<Prompt> prompts, Pooling pooling, boolean normalize, @Nullable Cancel cancel) {
        Native.all(prompts, "prompts");
        Native.given(pooling, "pooling");
        int n = prompts.size(), rows = pooling == Pooling.NONE ? prompts.stream().mapToInt(Prompt::length).sum() : n;
        try (Arena lists = new Arena()) {
            return useAll(lists, prompts, all -> embedded(rows, pooling, normalize, cancel, (arena, model, params, fired) ->
                (out, capacity, written, e) -> Header.rz_embed_prompts_into(model, params, all, n, out, capacity, written, fired, e)));
        }
    }

    /** Prepares a call that fills vectors. */
    private interface Embedding {
        Native.Fill apply(Arena arena, Memory model, Memory params, Memory cancel);
    }

    private float[][] embedded(int rows, Pooling pooling, boolean normalize, @Nullable Cancel cancel, Embedding call) {
        if (rows == 0) return new float[0][];
        return call((arena, model) -> Cancel.call(cancel, fired -> {
            var params = Native.sized(arena, Header.rz_embed_params);
            Native.set(params, Header.rz_embed_params, "pooling", pooling.ordinal());
            Native.set(params, Header.rz_embed_params, "flags", normalize ? 0 : Header.RZ_EMBED_RAW);
            var fill = call.apply(arena, model, params, fired);
            float[] all = Native.filled(arena, 4, (long) rows * info.hidden, fill).floats();
            float[][] vectors = new float[rows][];
            for (int i = 0; i < rows; i++) vectors[i] = Arrays.copyOfRange(all, i * (all.length / rows), (i + 1) * (all.length / rows));
            return vectors;
        }));
    }

    /** Number and time of the calls of each kind since the model was loaded. */
    public Map<String, Phase> metrics() {
        return call((arena, model) -> {
            var out = Native.sized(arena, Header.rz_metrics);
            Native.check(arena, e -> Header.rz_metrics_get(model, out, e));
            var phases = new LinkedHashMap<String, Phase>();
            for (var field : Header.rz_metrics.fields) {
                if (field.size() != Header.rz_phase_metrics.size) continue;
                var phase = out.part(field.offset(), field.size());
                phases.put(field.name(), new Phase(Native.number(phase, Header.rz_phase_metrics, "count"), Native.number(phase, Header.rz_phase_metrics, "sum_ns")));
            }
            return phases;
        });
    }

    /** The work of one kind of device since the model was loaded. Times are in nanoseconds. */
    public Work work(Device.Kind kind) {
        Native.given(kind, "kind");
        return call((arena, model) -> Results.backendMetrics(arena, model, kind.ordinal() + 1));
    }

    /** Sets the counters to zero. */
    public void resetMetrics() {
        run(Header::rz_metrics_reset);
    }

    /** A session with a context of {@code capacity} tokens; 0: the context length of the model, at most 8192. */
    public Session newSession(int capacity) {
        return newSession(capacity, CacheType.F16, CacheType.F16);
    }

    /** The same with other element types in the KV cache. */
    public Session newSession(int capacity, CacheType keys, CacheType values) {
        Session.check(capacity, keys, values);
        return call((arena, model) -> {
            var params = Session.params(arena, capacity, keys, values);
            return new Session(this, Native.made(arena, out -> e -> Header.rz_cache_new(model, params, out, e)));
        });
    }

    /** A session with the default context length. */
    public Session newSession() {
        return newSession(0);
    }

    /** The session that {@link Session#save} has written. */
    public Session restore(InputStream in) throws IOException {
        Native.given(in, "in");
        return Transfer.load(in, (read, user, out, e) -> use(model ->
            Header.rz_cache_load(model, Memory.NULL, read, user, Memory.NULL, out, e)), made -> new Session(this, made));
    }
}
