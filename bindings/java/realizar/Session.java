package realizar;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** The tokens of a text with their KV cache, so that only new tokens are computed. One call at a time. An interrupt of
 * the thread ends a call that computes, with CancellationException; the session remains usable. */
public final class Session extends Handle {
    private final Model model;
    /** Ends the running call when its thread is interrupted, and when the session is closed. */
    private final Cancel stop = new Cancel();

    Session(Model model, Memory pointer) {
        super(pointer, Header::rz_cache_free);
        this.model = model;
        call((arena, cache) -> stop.use(flag -> Native.check(arena, e -> Header.rz_cache_cancel_set(cache, flag, e))));
    }

    @Override
    void stop() {
        stop.fire();
    }

    /** Makes a call that computes on some sessions. */
    private static int compute(List<Session> sessions, Arena arena, Native.Call call) {
        try {
            return Blocking.call(sessions.stream().map(session -> session.stop).collect(Collectors.toList()), () -> Native.check(arena, call));
        } finally {
            if (Thread.currentThread().isInterrupted()) sessions.forEach(session -> session.stop.reset());
        }
    }

    private int compute(Arena arena, Native.Call call) {
        return compute(List.of(this), arena, call);
    }

    static Memory params(Arena arena, int capacity, CacheType keys, CacheType values) {
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
            return new Generation(cache, this, Arrays.copyOfRange(tokens, held, tokens.length), null, 0, options);
        });
    }

    /** Continues a prompt with media in the same way. */
    public Generation generate(Prompt prompt, Options options) {
        return call((arena, cache) -> {
            int[] tokens = prompt.tokens();
            int held = match(prompt);
            // Rows at its end are computed as a whole, because they may see each other.
            if (held > 0 && held == tokens.length) {
                do held--;
                while (held > 0 && tokens[held] == Prompt.MEDIA_TOKEN);
            }
            truncate(held);
            return new Generation(cache, this, new int[0], prompt, held, options);
        });
    }

    /** The number of leading tokens of a prompt that the KV cache holds already. */
    public int match(Prompt prompt) {
        return call((arena, cache) -> prompt.use(pointer -> {
            Memory common = arena.allocate(4);
            Native.check(arena, e -> Header.rz_cache_match_prompt(cache, pointer, common, e));
            return common.getInt(0);
        }));
    }

    /** Appends the tokens of a prompt from number {@code first} on, at least one. {@code first} is 0, or the result of
     * {@link #match} after the session was truncated to it. {@code cancel} stops the call; it may be null. */
    public void prefill(Prompt prompt, int first, Cancel cancel) {
        int from = Native.whole(first, "first");
        call((arena, cache) -> prompt.use(pointer -> use(cancel, fired ->
            compute(arena, e -> Header.rz_prefill_prompt(cache, pointer, from, fired, e)))));
    }

    /** The number of leading tokens that the KV cache holds already. */
    public int match(int... tokens) {
        return call((arena, cache) -> {
            Memory all = Native.ints(arena, tokens), common = arena.allocate(4);
            Native.check(arena, e -> Header.rz_cache_match(cache, all, tokens.length, common, e));
            return common.getInt(0);
        });
    }

    /** Appends tokens and computes the logits after the last one. */
    public void prefill(int... tokens) {
        prefill(tokens, null);
    }

    /** The same with a {@code cancel}, which stops the call and may be null. */
    public void prefill(int[] tokens, Cancel cancel) {
        call((arena, cache) -> use(cancel, fired -> {
            Memory ids = Native.ints(arena, tokens);
            return compute(arena, e -> Header.rz_prefill(cache, ids, tokens.length, fired, e));
        }));
    }

    /** Appends tokens and returns the log probability of each one, given all tokens before it; 0 for the first token of
     * an empty session. */
    public float[] score(int[] tokens, Cancel cancel) {
        return call((arena, cache) -> use(cancel, fired -> {
            Memory ids = Native.ints(arena, tokens), scores = arena.allocate(4L * tokens.length);
            compute(arena, e -> Header.rz_score(cache, ids, tokens.length, scores, fired, e));
            return scores.floats();
        }));
    }

    public float[] score(int... tokens) {
        return score(tokens, null);
    }

    /** Chooses a token by the logits; the most likely one if {@code sampler} is null. */
    public int sample(Sampler sampler) {
        return call((arena, cache) -> use(sampler, chooser -> {
            Memory token = arena.allocate(4);
            Native.check(arena, e -> Header.rz_sample(cache, chooser, token, e));
            return token.getInt(0);
        }));
    }

    /** Appends a token and chooses the next one. */
    public int decode(int token, Sampler sampler) {
        return call((arena, cache) -> use(sampler, chooser -> {
            Memory next = arena.allocate(4);
            compute(arena, e -> Header.rz_decode_token(cache, token, chooser, next, e));
            return next.getInt(0);
        }));
    }

    /** {@link #decode} for several sessions of one model in one batch. {@code samplers}: one per session, or an empty
     * list. */
    public static int[] decodeAll(List<Session> sessions, int[] tokens, List<Sampler> samplers) {
        int n = sessions.size();
        if (tokens.length != n || !samplers.isEmpty() && samplers.size() != n) {
            throw new IllegalArgumentException("a batch has as many tokens and samplers as sessions");
        }
        try (Arena arena = new Arena()) {
            return useAll(arena, sessions, caches -> useAll(arena, samplers, held -> {
                Memory choosers = samplers.isEmpty() ? Memory.NULL : held;
                Memory ids = Native.ints(arena, tokens), next = arena.allocate(4L * n);
                compute(sessions, arena, e -> Header.rz_decode_batch(caches, ids, n, choosers, next, e));
                return next.ints();
            }));
        }
    }

    /** The {@code k} likeliest tokens after the last one, the likeliest first. */
    public List<Logprob> logprobs(int k) {
        int most = Math.min(Native.whole(k, "k"), model.info().vocabulary());
        return call((arena, cache) -> {
            Memory tokens = arena.allocate(4L * most), values = arena.allocate(4L * most), n = arena.allocate(8);
            Native.check(arena, e -> Header.rz_top_logprobs(cache, most, tokens, values, n, e));
            return IntStream.range(0, (int) n.getLong(0))
                .mapToObj(i -> new Logprob(tokens.getInt(4 * i), values.getFloat(4 * i))).collect(Collectors.toList());
        });
    }

    /** Number of tokens held. */
    public int length() {
        return use(cache -> Header.rz_cache_len(cache));
    }

    /** The context length of the session, in tokens. */
    public int capacity() {
        return use(cache -> Header.rz_cache_capacity(cache));
    }

    /** The tokens held. */
    public int[] tokens() {
        return call((arena, cache) -> Native.filled(arena, 4, length(), (out, capacity, written, e) ->
            Header.rz_cache_tokens_into(cache, out, capacity, written, e)).ints());
    }

    /** Keeps the first {@code length} tokens and removes the others. */
    public void truncate(int length) {
        call((arena, cache) -> Native.check(arena, e -> Header.rz_cache_truncate(cache, Native.whole(length, "length"), e)));
    }

    /** Removes {@code drop} tokens after the first {@code keep}. The next call computes the tokens after them again. */
    public void shift(int keep, int drop) {
        call((arena, cache) -> Native.check(arena, e -> Header.rz_cache_shift(cache, Native.whole(keep, "keep"), Native.whole(drop, "drop"), e)));
    }

    /** Frees the KV cache and keeps the tokens. The next call computes the KV cache again. */
    public void release() {
        call((arena, cache) -> Native.check(arena, e -> Header.rz_cache_release(cache, e)));
    }

    /** Writes the tokens and their KV cache. {@link Model#restore} reads them, in another process too. */
    public void save(OutputStream out) throws IOException {
        var transfer = new Transfer(null, out);
        call((arena, cache) -> {
            var write = Native.callback(arena, Platform.Kind.WRITE, transfer::write);
            return transfer.check(arena, e -> Header.rz_cache_save(cache, write.function(), write.user(), Memory.NULL, e));
        });
        transfer.rethrow();
    }

    /** The stream of a save or a load, and the exception that the stream has thrown. */
    static final class Transfer {
        private static final int EIO = 5;
        private final InputStream in;
        private final OutputStream out;
        private Throwable met;

        Transfer(InputStream in, OutputStream out) {
            this.in = in;
            this.out = out;
        }

        int write(long data, long n, int level) {
            try {
                out.write(new Memory(data, n).bytes());
                return 0;
            } catch (Throwable e) {
                met = e;
                return EIO;
            }
        }

        int read(long to, long n, int level) {
            try {
                byte[] bytes = new byte[(int) n];
                for (int at = 0, got; at < bytes.length; at += got) {
                    got = in.read(bytes, at, bytes.length - at);
                    if (got < 0) throw new EOFException("the input has no more bytes");
                    if (got > bytes.length - at) throw new IOException("the input read " + got + " bytes; it was asked for " + (bytes.length - at));
                }
                new Memory(to, n).copy(bytes);
                return 0;
            } catch (Throwable e) {
                met = e;
                return EIO;
            }
        }

        /** Makes a call; if the stream has thrown, {@link #rethrow} throws that exception in place of the error of the
         * call. */
        int check(Arena arena, Native.Call call) {
            try {
                return Blocking.call(List.of(), () -> Native.check(arena, call));
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

    /** Sets the LoRA adapters of the session, each with a scale, and removes all tokens, whose KV cache was computed
     * without them. */
    public void setAdapters(Map<Adapter, Float> adapters) {
        var all = List.copyOf(adapters.entrySet());
        call((arena, cache) -> useAll(arena, all.stream().map(Map.Entry::getKey).collect(Collectors.toList()), pointers -> {
            Memory scales = arena.allocate(4L * Math.max(all.size(), 1));
            for (int i = 0; i < all.size(); i++) scales.set(4 * i, all.get(i).getValue());
            return Native.check(arena, e -> Header.rz_cache_adapters_set(cache, pointers, scales, all.size(), e));
        }));
    }

    /** A second session with the same tokens, which shares their KV cache (copy-on-write). */
    public Session fork() {
        return call((arena, cache) -> new Session(model, Native.made(arena, out -> e -> Header.rz_cache_fork(cache, out, e))));
    }

    /** The logits after the last token, one per token of the vocabulary. */
    public float[] logits() {
        return call((arena, cache) -> Native.filled(arena, 4, model.info().vocabulary(), (out, capacity, written, e) ->
            Header.rz_logits_into(cache, out, capacity, written, e)).floats());
    }
}
