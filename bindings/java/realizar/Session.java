package realizar;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandles;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/** A text as tokens, with what the model has computed of it: to go on costs only the new end. One call at a time. */
public final class Session extends Handle {
    private final Model model;

    Session(Model model, MemorySegment pointer) {
        super(pointer, Header.rz_cache_free);
        this.model = model;
    }

    static MemorySegment params(Arena arena, int capacity, CacheType keys, CacheType values) {
        var params = Native.sized(arena, Header.rz_cache_params);
        Native.set(params, Header.rz_cache_params, "capacity", capacity);
        Native.set(params, Header.rz_cache_params, "k_type", keys.number);
        Native.set(params, Header.rz_cache_params, "v_type", values.number);
        return params;
    }

    /** The model of the session. */
    public Model model() {
        return model;
    }

    /** Continues a text. */
    public Generation generate(String prompt, Options options) {
        return generate(model.tokenize(prompt), options);
    }

    /** Continues tokens; those that the session holds already, from its start, are not computed again. */
    public Generation generate(int[] tokens, Options options) {
        return call((arena, cache) -> {
            if (tokens.length == 0) throw new IllegalArgumentException("no tokens to continue");
            int held = Math.min(match(tokens), tokens.length - 1);
            truncate(held);
            return new Generation(cache, this, Arrays.copyOfRange(tokens, held, tokens.length), options);
        });
    }

    /** How many of the first of some tokens need not be computed again. */
    public int match(int... tokens) {
        return call((arena, cache) -> {
            MemorySegment all = Native.ints(arena, tokens), common = arena.allocate(JAVA_INT);
            Native.check(arena, e -> (int) Header.rz_cache_match.invokeExact(cache, all, (long) tokens.length, common, e));
            return common.get(JAVA_INT, 0);
        });
    }

    /** Appends tokens; afterwards there are logits of the last one. */
    public void prefill(int... tokens) {
        prefill(tokens, null);
    }

    /** The same, which {@code cancel} stops. */
    public void prefill(int[] tokens, Cancel cancel) {
        call((arena, cache) -> use(cancel, fired -> {
            MemorySegment ids = Native.ints(arena, tokens);
            return Native.check(arena, e -> (int) Header.rz_prefill.invokeExact(cache, ids, (long) tokens.length, fired, e));
        }));
    }

    /** Appends tokens, and gives the logarithm of the probability of each after all before it; 0 for the first of an
     * empty session. */
    public float[] score(int[] tokens, Cancel cancel) {
        return call((arena, cache) -> use(cancel, fired -> {
            MemorySegment ids = Native.ints(arena, tokens), scores = arena.allocate(JAVA_FLOAT, tokens.length);
            Native.check(arena, e -> (int) Header.rz_score_into.invokeExact(cache, ids, (long) tokens.length, scores, fired, e));
            return scores.toArray(JAVA_FLOAT);
        }));
    }

    public float[] score(int... tokens) {
        return score(tokens, null);
    }

    /** Chooses a token from the logits, the most likely one where {@code sampler} is null. */
    public int sample(Sampler sampler) {
        return call((arena, cache) -> use(sampler, chooser -> {
            MemorySegment token = arena.allocate(JAVA_INT);
            Native.check(arena, e -> (int) Header.rz_sample.invokeExact(cache, chooser, token, e));
            return token.get(JAVA_INT, 0);
        }));
    }

    /** Appends a token and chooses the next one. */
    public int decode(int token, Sampler sampler) {
        return call((arena, cache) -> use(sampler, chooser -> {
            MemorySegment next = arena.allocate(JAVA_INT);
            Native.check(arena, e -> (int) Header.rz_decode_token.invokeExact(cache, token, chooser, next, e));
            return next.get(JAVA_INT, 0);
        }));
    }

    /** {@link #decode} for several sessions of one model, in one pass over the weights. {@code samplers}: as many, or
     * none. */
    public static int[] decodeAll(List<Session> sessions, int[] tokens, List<Sampler> samplers) {
        int n = sessions.size();
        if (tokens.length != n || !samplers.isEmpty() && samplers.size() != n) {
            throw new IllegalArgumentException("a batch has as many tokens and samplers as sessions");
        }
        try (Arena arena = Arena.ofConfined()) {
            return useAll(arena, sessions, caches -> useAll(arena, samplers, held -> {
                MemorySegment choosers = samplers.isEmpty() ? MemorySegment.NULL : held;
                MemorySegment ids = Native.ints(arena, tokens), next = arena.allocate(JAVA_INT, n);
                Native.check(arena, e -> (int) Header.rz_decode_batch.invokeExact(caches, ids, (long) n, choosers, next, e));
                return next.toArray(JAVA_INT);
            }));
        }
    }

    /** The {@code k} likeliest tokens after the last one, the likeliest first. */
    public List<Logprob> logprobs(int k) {
        int most = Math.min(k, model.info().vocabulary());
        return call((arena, cache) -> {
            MemorySegment tokens = arena.allocate(JAVA_INT, most), values = arena.allocate(JAVA_FLOAT, most), n = arena.allocate(JAVA_LONG);
            Native.check(arena, e -> (int) Header.rz_logprobs_into.invokeExact(cache, most, tokens, values, n, e));
            return IntStream.range(0, (int) n.get(JAVA_LONG, 0))
                .mapToObj(i -> new Logprob(tokens.getAtIndex(JAVA_INT, i), values.getAtIndex(JAVA_FLOAT, i))).toList();
        });
    }

    /** Number of tokens held. */
    public int length() {
        return use(cache -> Native.plain(() -> (int) Header.rz_cache_len.invokeExact(cache)));
    }

    /** Number of tokens that there is room for. */
    public int capacity() {
        return use(cache -> Native.plain(() -> (int) Header.rz_cache_capacity.invokeExact(cache)));
    }

    /** The tokens held. */
    public int[] tokens() {
        return call((arena, cache) -> Native.filled(arena, 4, length(), (out, capacity, written, e) ->
            (int) Header.rz_cache_tokens_into.invokeExact(cache, out, capacity, written, e)).toArray(JAVA_INT));
    }

    /** Forgets all tokens but the first. */
    public void truncate(int length) {
        call((arena, cache) -> Native.check(arena, e -> (int) Header.rz_cache_truncate.invokeExact(cache, length, e)));
    }

    /** Forgets {@code drop} tokens behind the first {@code keep}; the next call that needs those behind them computes
     * them again. */
    public void shift(int keep, int drop) {
        call((arena, cache) -> Native.check(arena, e -> (int) Header.rz_cache_shift.invokeExact(cache, keep, drop, e)));
    }

    /** Gives the memory of the session back and keeps its tokens; the next call that needs it computes it again. */
    public void release() {
        call((arena, cache) -> Native.check(arena, e -> (int) Header.rz_cache_release.invokeExact(cache, e)));
    }

    /** Writes the session, so that it outlives the process: {@link Model#restore} reads it. */
    public void save(OutputStream out) throws IOException {
        var transfer = new Transfer(null, out);
        call((arena, cache) -> {
            MemorySegment write = transfer.callback(arena, "write", Header.rz_write_callback);
            return transfer.check(arena, e -> (int) Header.rz_cache_save.invokeExact(cache, write, MemorySegment.NULL, e));
        });
        transfer.rethrow();
    }

    /** What something saved is read from or written to, and the error that it met. */
    static final class Transfer {
        private static final int EIO = 5;
        private final InputStream in;
        private final OutputStream out;
        private Throwable met;

        Transfer(InputStream in, OutputStream out) {
            this.in = in;
            this.out = out;
        }

        MemorySegment callback(Arena arena, String method, FunctionDescriptor descriptor) {
            return Native.callback(arena, MethodHandles.lookup(), this, method, descriptor);
        }

        int write(MemorySegment user, MemorySegment data, long n) {
            try {
                out.write(data.reinterpret(n).toArray(JAVA_BYTE));
                return 0;
            } catch (Throwable e) {
                met = e;
                return EIO;
            }
        }

        int read(MemorySegment user, MemorySegment to, long n) {
            try {
                byte[] bytes = in.readNBytes((int) n);
                if (bytes.length < n) throw new EOFException("the input has no more bytes");
                to.reinterpret(n).copyFrom(MemorySegment.ofArray(bytes));
                return 0;
            } catch (Throwable e) {
                met = e;
                return EIO;
            }
        }

        /** A call that is no failure of its own where the transfer met one. */
        int check(Arena arena, Native.Call call) {
            try {
                return Native.check(arena, call);
            } catch (RealizarException e) {
                if (met == null) throw e;
                return e.systemCode();
            }
        }

        void rethrow() throws IOException {
            if (met instanceof IOException e) throw e;
            if (met != null) throw Native.rethrown(met);
        }
    }

    /** Has the session use some adapters, each with a scale, or none; empties it. */
    public void setAdapters(Map<Adapter, Float> adapters) {
        var all = List.copyOf(adapters.entrySet());
        call((arena, cache) -> useAll(arena, all.stream().map(Map.Entry::getKey).toList(), pointers -> {
            MemorySegment scales = arena.allocate(JAVA_FLOAT, Math.max(all.size(), 1));
            for (int i = 0; i < all.size(); i++) scales.setAtIndex(JAVA_FLOAT, i, all.get(i).getValue());
            return Native.check(arena, e -> (int) Header.rz_cache_adapters_set.invokeExact(cache, pointers, scales, (long) all.size(), e));
        }));
    }

    /** A session with the same tokens, which shares their memory. */
    public Session fork() {
        return call((arena, cache) -> new Session(model, Native.made(arena, out -> e -> (int) Header.rz_cache_fork.invokeExact(cache, out, e))));
    }

    /** The logits after the last token, one a token of the vocabulary. */
    public float[] logits() {
        return call((arena, cache) -> Native.filled(arena, 4, model.info().vocabulary(), (out, capacity, written, e) ->
            (int) Header.rz_logits_into.invokeExact(cache, out, capacity, written, e)).toArray(JAVA_FLOAT));
    }
}
