package realizar;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;

/** A loaded model: a .gguf file, a .safetensors file, or a folder with a config.json. Any number of threads may use it at once. */
public final class Model extends Handle {
    private static final int ADD_SPECIAL = 1, MMAP = 2, TEXT_ONLY = 4, ADD_GENERATION_PROMPT = 1, TOKEN_NONE = -1;

    /** Choices for a load; zero and null stand for the defaults. {@code devices}: GPUs over which the layers are divided in this order.
     * {@code shares}: the sizes of their parts in relation to one another, in proportion to free memory without. */
    public record Load(int threads, int device, int gpuLayers, boolean mmap, boolean textOnly, Path packedPath, List<Integer> devices,
        List<Float> shares) {
        public Load {
            devices = devices == null ? List.of() : List.copyOf(devices);
            shares = shares == null ? List.of() : List.copyOf(shares);
            // The library looks for a share of each.
            if (!shares.isEmpty() && shares.size() != devices.size()) {
                throw new IllegalArgumentException(shares.size() + " shares for " + devices.size() + " devices");
            }
        }

        public Load(int threads, int device, int gpuLayers, boolean mmap, boolean textOnly, Path packedPath) {
            this(threads, device, gpuLayers, mmap, textOnly, packedPath, null, null);
        }

        public Load() {
            this(0, 0, 0, false, false, null);
        }

        public static Load over(List<Integer> devices, List<Float> shares) {
            return new Load(0, 0, 0, false, false, null, devices, shares);
        }

        public static Load threads(int threads) {
            return new Load(threads, 0, 0, false, false, null);
        }
    }

    /** Description of a model. {@code bosToken} and {@code eosToken} are -1 where it names none. {@code device}: of several GPUs the first.
     * {@code devices}: the GPUs that have layers, in the order of these, {@code deviceLayers} on each of them. */
    public record Info(String architecture, String name, int layers, int hidden, int vocabulary, int contextLength, int bosToken, int eosToken,
        long parameters, long weightBytes, int device, List<Integer> devices, List<Integer> deviceLayers) {}

    private final Info info;

    private Model(MemorySegment pointer) {
        super(pointer, Native.MODEL_FREE);
        info = use(Model::describe);
    }

    public static Model load(Path path) {
        return load(path, new Load());
    }

    public static Model load(Path path, Load load) {
        try (Arena arena = Arena.ofConfined()) {
            var runtimeParams = Native.sized(arena, Native.RUNTIME_PARAMS);
            Native.set(runtimeParams, Native.RUNTIME_PARAMS, "threads", load.threads);
            var runtime = Native.made(arena, out -> e -> (int) Native.RUNTIME_NEW.invokeExact(runtimeParams, out, e));
            try {
                var params = Native.sized(arena, Native.MODEL_PARAMS);
                Native.set(params, Native.MODEL_PARAMS, "runtime", runtime);
                Native.set(params, Native.MODEL_PARAMS, "device", load.device);
                Native.set(params, Native.MODEL_PARAMS, "gpu_layers", load.gpuLayers);
                Native.set(params, Native.MODEL_PARAMS, "flags", (load.mmap ? MMAP : 0) | (load.textOnly ? TEXT_ONLY : 0));
                Native.set(params, Native.MODEL_PARAMS, "devices", Native.ints(arena, load.devices.stream().mapToInt(Integer::intValue).toArray()));
                Native.set(params, Native.MODEL_PARAMS, "n_devices", (long) load.devices.size());
                if (!load.shares.isEmpty()) {
                    MemorySegment shares = arena.allocate(JAVA_FLOAT, load.shares.size());
                    for (int i = 0; i < load.shares.size(); i++) shares.setAtIndex(JAVA_FLOAT, i, load.shares.get(i));
                    Native.set(params, Native.MODEL_PARAMS, "shares", shares);
                }
                if (load.packedPath != null) {
                    Native.set(params, Native.MODEL_PARAMS, "packed_path", Native.terminated(arena, load.packedPath.toString()));
                }
                var name = Native.terminated(arena, path.toString());
                return new Model(Native.made(arena, out -> e -> (int) Native.MODEL_LOAD.invokeExact(name, params, out, e)));
            } finally {
                // The model keeps it alive.
                Native.check(arena, e -> {
                    Native.RUNTIME_FREE.invokeExact(runtime);
                    return 0;
                });
            }
        }
    }

    private static Info describe(MemorySegment model) {
        try (Arena arena = Arena.ofConfined()) {
            var layout = Native.MODEL_INFO;
            var out = Native.sized(arena, layout);
            Native.check(arena, e -> (int) Native.MODEL_INFO_GET.invokeExact(model, out, e));
            List<Integer> devices = Arrays.stream(Native.integers(out, layout, "devices")).takeWhile(device -> device != 0).boxed().toList();
            List<Integer> layers = Arrays.stream(Native.integers(out, layout, "device_layers")).limit(devices.size()).boxed().toList();
            return new Info(Native.text(out, layout, "architecture"), Native.text(out, layout, "name"), Native.integer(out, layout, "n_layers"),
                Native.integer(out, layout, "hidden_dim"), Native.integer(out, layout, "vocab_size"), Native.integer(out, layout, "context_length"),
                Native.integer(out, layout, "bos_token"), Native.integer(out, layout, "eos_token"), Native.number(out, layout, "n_params"),
                Native.number(out, layout, "weight_bytes"), Native.integer(out, layout, "device"), devices, layers);
        }
    }

    public Info info() {
        return info;
    }

    /** A value of the model's metadata as text, such as that of "general.name". */
    public String meta(String key) {
        return use(model -> {
            try (Arena arena = Arena.ofConfined()) {
                var name = Native.terminated(arena, key);
                return Native.string(Native.filled(arena, 1, 256,
                    (out, capacity, written, e) -> (int) Native.MODEL_META.invokeExact(model, name, out, capacity, written, e)));
            }
        });
    }

    /** The tokens of a text, with those that the model begins a text with. */
    public int[] tokenize(String text) {
        return tokenize(text, true);
    }

    public int[] tokenize(String text, boolean special) {
        return use(model -> {
            try (Arena arena = Arena.ofConfined()) {
                byte[] utf8 = Native.utf8(text);
                MemorySegment bytes = Native.bytes(arena, utf8);
                return Native.filled(arena, 4, utf8.length + 8, (out, capacity, written, e) ->
                    (int) Native.TOKENIZE.invokeExact(model, bytes, (long) utf8.length, special ? ADD_SPECIAL : 0, out, capacity, written, e)).toArray(JAVA_INT);
            }
        });
    }

    public String detokenize(int... tokens) {
        return use(model -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment ids = Native.ints(arena, tokens);
                return Native.string(Native.filled(arena, 1, 8L * tokens.length, (out, capacity, written, e) ->
                    (int) Native.DETOKENIZE.invokeExact(model, ids, (long) tokens.length, 0, out, capacity, written, e)));
            }
        });
    }

    /** The tokens of a conversation in JSON, {"messages": [...], "tools": [...]}, up to where an answer begins. */
    public int[] tokenizeChat(String json) {
        return use(model -> {
            try (Arena arena = Arena.ofConfined()) {
                byte[] utf8 = Native.utf8(json);
                MemorySegment bytes = Native.bytes(arena, utf8);
                return Native.filled(arena, 4, utf8.length + 64, (out, capacity, written, e) ->
                    (int) Native.CHAT_TOKENIZE.invokeExact(model, bytes, (long) utf8.length, ADD_GENERATION_PROMPT, out, capacity, written, e)).toArray(JAVA_INT);
            }
        });
    }

    public Grammar grammar(Grammar.Kind kind, String text) {
        return use(model -> {
            try (Arena arena = Arena.ofConfined()) {
                byte[] utf8 = Native.utf8(text);
                MemorySegment bytes = Native.bytes(arena, utf8);
                return new Grammar(Native.made(arena, out -> e ->
                    (int) Native.GRAMMAR_NEW.invokeExact(model, kind.ordinal() + 1, bytes, (long) utf8.length, out, e)));
            }
        });
    }

    /** A parser for the reply to a conversation, whose tokens ({@link #tokenizeChat} of the same JSON) were the prompt. */
    public ChatParser chatParser(String json) {
        return use(model -> {
            try (Arena arena = Arena.ofConfined()) {
                byte[] utf8 = Native.utf8(json);
                MemorySegment bytes = Native.bytes(arena, utf8);
                return new ChatParser(Native.made(arena, out -> e ->
                    (int) Native.CHAT_PARSER_NEW.invokeExact(model, bytes, (long) utf8.length, out, e)));
            }
        });
    }

    /** A low-rank adapter: a GGUF file or a folder of PEFT. */
    public Adapter adapter(Path path) {
        return use(model -> {
            try (Arena arena = Arena.ofConfined()) {
                var name = Native.terminated(arena, path.toString());
                return new Adapter(Native.made(arena, out -> e -> (int) Native.ADAPTER_LOAD.invokeExact(model, name, out, e)));
            }
        });
    }

    /** Embeddings of texts, pooled as the model says, of length 1. */
    public float[][] embed(List<String> texts) {
        return use(model -> {
            try (Arena arena = Arena.ofConfined()) {
                int n = texts.size();
                if (n == 0) return new float[0][];
                MemorySegment tokens = arena.allocate(ADDRESS, n), lengths = arena.allocate(JAVA_LONG, n);
                for (int i = 0; i < n; i++) {
                    int[] ids = tokenize(texts.get(i));
                    tokens.setAtIndex(ADDRESS, i, Native.ints(arena, ids));
                    lengths.setAtIndex(JAVA_LONG, i, ids.length);
                }
                float[] all = Native.filled(arena, 4, (long) n * info.hidden, (out, capacity, written, e) -> (int) Native.EMBED.invokeExact(
                    model, MemorySegment.NULL, tokens, lengths, (long) n, out, capacity, written, MemorySegment.NULL, e)).toArray(JAVA_FLOAT);
                float[][] rows = new float[n][];
                for (int i = 0; i < n; i++) rows[i] = java.util.Arrays.copyOfRange(all, i * (all.length / n), (i + 1) * (all.length / n));
                return rows;
            }
        });
    }

    /** A line of conversation with room for so many tokens; 0: the model's context, at most 8192. */
    public Session newSession(int capacity) {
        return use(model -> {
            try (Arena arena = Arena.ofConfined()) {
                var params = Native.sized(arena, Native.CACHE_PARAMS);
                Native.set(params, Native.CACHE_PARAMS, "capacity", capacity);
                return new Session(this, Native.made(arena, out -> e -> (int) Native.CACHE_NEW.invokeExact(model, params, out, e)));
            }
        });
    }

    public Session newSession() {
        return newSession(0);
    }
}
