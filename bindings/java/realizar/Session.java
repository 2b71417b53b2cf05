package realizar;

import java.io.IOException;
import java.io.OutputStream;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

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

    /** Makes a call that computes on some sessions. */
    private static int compute(List<Session> sessions, Arena arena, Native.Call call) {
        try {
            return Blocking.call(sessions.stream().map(session -> session.stop).collect(Collectors.toList()), () -> Native.check(arena, call));
        } finally {
            if (Thread.currentThread().isInterrupted()) sessions.forEach(session -> session.stop.reset());
        }
    }

    /** Computes on the session, with a cancel of the caller's. */
    private int compute(Arena arena, @Nullable Cancel cancel, Function<Memory, Native.Call> call) {
        return use(cancel, fired -> compute(arena, call.apply(fired)));
    }

    private int compute(Arena arena, Native.Call call) {
        return compute(List.of(this), arena, call);
    }

    /** Checks the parameters of a session before a call. */
    static void check(int capacity, CacheType keys, CacheType values) {
        Native.whole(capacity, "capacity");
        Native.given(keys, "keys");
        Native.given(values, "values");
    }

    static Memory params(Arena arena, int capacity, CacheType keys, CacheType values) {
        check(capacity, keys, values);
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
        Native.given(prompt, "prompt");
        Native.given(options, "options");
        return generate(model.tokenize(prompt), options);
    }

    /** Continues tokens; those that the session holds already, from its start, are not computed again. */
    public Generation generate(int[] tokens, Options options) {
        Native.wholes(tokens, "tokens");
        Native.given(options, "options");
        if (tokens.length == 0) throw new IllegalArgumentException("tokens is empty; it must have at least one token");
        return call((arena, cache) -> {
            int held = Math.min(match(tokens), tokens.length - 1);
            return new Generation(cache, this, tokens, null, held, options);
        });
    }

    /** Continues a prompt with media in the same way. */
    public Generation generate(Prompt prompt, Options options) {
        Native.given(prompt, "prompt");
        Native.given(options, "options");
        return call((arena, cache) -> {
            int[] tokens = prompt.tokens();
            int held = match(prompt);
            // Rows at its end are computed as a whole, because they may see each other.
            if (held > 0 && held == tokens.length) {
                do held--;
                while (held > 0 && tokens[held] == Prompt.MEDIA_TOKEN);
            }
            return new Generation(cache, this, new int[0], prompt, held, options);
        });
    }

    /** The number of leading tokens of a prompt that the KV cache holds already. */
    public int match(Prompt prompt) {
        Native.given(prompt, "prompt");
        return call((arena, cache) -> prompt.use(pointer -> {
            Memory common = arena.allocate(4);
            Native.check(arena, e -> Header.rz_cache_match_prompt(cache, pointer, common, e));
            return common.getInt(0);
        }));
    }

    /** Appends the tokens of a prompt from number {@code first} on, at least one. {@code first} is 0, or the result of
     * {@link #match} after the session was truncated to it. {@code cancel} stops the call; it may be null. */
    public void prefill(Prompt prompt, int first, @Nullable Cancel cancel) {
        Native.given(prompt, "prompt");
        Native.whole(first, "first");
        call((arena, cache) -> prompt.use(pointer ->
            compute(arena, cancel, fired -> e -> Header.rz_prefill_prompt(cache, pointer, first, fired, e))));
    }

    /** The number of leading tokens that the KV cache holds already. */
    public int match(int... tokens) {
        Native.wholes(tokens, "tokens");
        return call((arena, cache) -> {
            Memory all = Native.ints(arena, tokens, "tokens"), common = arena.allocate(4);
            Native.check(arena, e -> Header.rz_cache_match(cache, all, tokens.length, common, e));
            return common.getInt(0);
        });
    }

    /** Appends tokens and computes the logits after the last one. */
    public void prefill(int... tokens) {
        prefill(tokens, null);
    }

    /** The same with a {@code cancel}, which stops the call and may be null. */
    public void prefill(int[] tokens, @Nullable Cancel cancel) {
        Native.wholes(tokens, "tokens");
        call((arena, cache) -> {
            Memory ids = Native.ints(arena, tokens, "tokens");
            return compute(arena, cancel, fired -> e -> Header.rz_prefill(cache, ids, tokens.length, fired, e));
        });
    }

    /** Appends tokens and returns the log probability of each one, given all tokens before it; 0 for the first token of
     * an empty session. */
    public float[] score(int[] tokens, @Nullable Cancel cancel) {
        Native.wholes(tokens, "tokens");
        return call((arena, cache) -> {
            Memory ids = Native.ints(arena, tokens, "tokens"), scores = arena.allocate(4L * tokens.length);
            compute(arena, cancel, fired -> e -> Header.rz_score(cache, ids, tokens.length, scores, fired, e));
            return scores.floats();
        });
    }

    /** The same without a cancel. */
    public float[] score(int... tokens) {
        return score(tokens, null);
    }

    /** Chooses a token by the logits; the most likely one if {@code sampler} is null. */
    public int sample(@Nullable Sampler sampler) {
        return call((arena, cache) -> use(sampler, chooser -> {
            Memory token = arena.allocate(4);
            Native.check(arena, e -> Header.rz_sample(cache, chooser, token, e));
            return token.getInt(0);
        }));
    }

    /** Appends a token and chooses the next one. */
    public int decode(int token, @Nullable Sampler sampler) {
        Native.whole(token, "token");
        return call((arena, cache) -> use(sampler, chooser -> {
            Memory next = arena.allocate(4);
            compute(arena, e -> Header.rz_decode_token(cache, token, chooser, next, e));
            return next.getInt(0);
        }));
    }

    /** {@link #decode} for several sessions of one model in one batch. {@code samplers}: one or null per session, or an
     * empty list. */
    public static int[] decodeAll(List<Session> sessions, int[] tokens, List<@Nullable Sampler> samplers) {
        int n = Native.all(sessions, "sessions").size();
        Native.wholes(tokens, "tokens");
        if (tokens.length != n) throw new IllegalArgumentException("tokens has " + tokens.length + " elements; it must have one per session, " + n);
        if (!Native.given(samplers, "samplers").isEmpty() && samplers.size() != n) {
            throw new IllegalArgumentException("samplers has " + samplers.size() + " elements; it must have none or one per session, " + n);
        }
        try (Arena arena = new Arena()) {
            return useAll(arena, sessions, caches -> useAll(arena, samplers, held -> {
                Memory choosers = samplers.isEmpty() ? Memory.NULL : held;
                Memory ids = Native.ints(arena, tokens, "tokens"), next = arena.allocate(4L * n);
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
        Native.whole(length, "length");
        call((arena, cache) -> Native.check(arena, e -> Header.rz_cache_truncate(cache, length, e)));
    }

    /** Removes {@code drop} tokens after the first {@code keep}. The next call computes the tokens after them again. */
    public void shift(int keep, int drop) {
        Native.whole(keep, "keep");
        Native.whole(drop, "drop");
        call((arena, cache) -> Native.check(arena, e -> Header.rz_cache_shift(cache, keep, drop, e)));
    }

    /** Frees the KV cache and keeps the tokens. The next call computes the KV cache again. */
    public void release() {
        call((arena, cache) -> Native.check(arena, e -> Header.rz_cache_release(cache, e)));
    }

    /** Writes the tokens and their KV cache. {@link Model#restore} reads them, in another process too. */
    public void save(OutputStream out) throws IOException {
        Transfer.save(this, out, Header::rz_cache_save);
    }

    /** Sets the LoRA adapters of the session, each with a scale, and removes all tokens, whose KV cache was computed
     * without them. */
    public void setAdapters(Map<Adapter, Float> adapters) {
        var scaled = Adapter.scaled(adapters);
        call((arena, cache) -> Adapter.useAll(arena, scaled, (all, scales, n) ->
            Native.check(arena, e -> Header.rz_cache_adapters_set(cache, all, scales, n, e))));
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
