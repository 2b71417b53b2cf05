package realizar;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** One line of conversation, which keeps what it has computed: the next turn costs only its new end. One call at a time. */
public final class Session extends Handle {
    private final Model model;

    Session(Model model, MemorySegment pointer) {
        super(pointer, Native.CACHE_FREE);
        this.model = model;
    }

    /** Continues a text. */
    public Generation generate(String prompt, Options options) {
        return generate(model.tokenize(prompt), options);
    }

    /** Answers a conversation in JSON: {"messages": [{"role": "user", "content": "Hello"}], "tools": [...]}. */
    public Generation chat(String json, Options options) {
        return generate(model.tokenizeChat(json), options);
    }

    /** Continues tokens; those that the session holds already, from its start, are not computed again. */
    public Generation generate(int[] tokens, Options options) {
        return use(cache -> {
            try (Arena arena = Arena.ofConfined()) {
                if (tokens.length == 0) throw new IllegalArgumentException("no tokens to continue");
                MemorySegment all = Native.ints(arena, tokens), common = arena.allocate(JAVA_INT);
                Native.check(arena, e -> (int) Native.CACHE_MATCH.invokeExact(cache, all, (long) tokens.length, common, e));
                int held = Math.min(common.get(JAVA_INT, 0), tokens.length - 1);
                Native.check(arena, e -> (int) Native.CACHE_TRUNCATE.invokeExact(cache, held, e));
                return new Generation(cache, this, Arrays.copyOfRange(tokens, held, tokens.length), options);
            }
        });
    }

    /** Number of tokens held. */
    public int length() {
        return use(cache -> {
            try {
                return (int) Native.CACHE_LEN.invokeExact(cache);
            } catch (Throwable e) {
                throw Native.rethrown(e);
            }
        });
    }

    /** Forgets all tokens but the first. */
    public void truncate(int length) {
        use(cache -> {
            try (Arena arena = Arena.ofConfined()) {
                return Native.check(arena, e -> (int) Native.CACHE_TRUNCATE.invokeExact(cache, length, e));
            }
        });
    }

    /** Has the session use some adapters, each with a scale, or none; empties it. */
    public void setAdapters(Map<Adapter, Float> adapters) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment pointers = arena.allocate(ADDRESS, adapters.size()), scales = arena.allocate(JAVA_FLOAT, adapters.size());
            setAdapters(arena, List.copyOf(adapters.entrySet()), 0, pointers, scales);
        }
    }

    /** Holds the handles from {@code i} on, and sets them all. */
    private void setAdapters(Arena arena, List<Map.Entry<Adapter, Float>> adapters, int i, MemorySegment pointers, MemorySegment scales) {
        if (i == adapters.size()) {
            use(cache -> Native.check(arena, e -> (int) Native.ADAPTERS_SET.invokeExact(cache, pointers, scales, (long) i, e)));
            return;
        }
        adapters.get(i).getKey().use(adapter -> {
            pointers.setAtIndex(ADDRESS, i, adapter);
            scales.setAtIndex(JAVA_FLOAT, i, adapters.get(i).getValue());
            setAdapters(arena, adapters, i + 1, pointers, scales);
            return null;
        });
    }

    /** A session with the same tokens, which shares their memory. */
    public Session fork() {
        return use(cache -> {
            try (Arena arena = Arena.ofConfined()) {
                return new Session(model, Native.made(arena, out -> e -> (int) Native.CACHE_FORK.invokeExact(cache, out, e)));
            }
        });
    }

    /** The logits after the last token, one a token of the vocabulary. */
    public float[] logits() {
        return use(cache -> {
            try (Arena arena = Arena.ofConfined()) {
                return Native.filled(arena, 4, model.info().vocabulary(), (out, capacity, written, e) ->
                    (int) Native.LOGITS.invokeExact(cache, out, capacity, written, e)).toArray(JAVA_FLOAT);
            }
        });
    }
}
