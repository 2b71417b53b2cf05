package realizar;

import java.time.Duration;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.CancellationException;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** A text that is being generated, piece by piece. Its session is busy until the generation is closed, which is allowed
 * at any moment; the session keeps the tokens computed so far. One call at a time, except for {@link #cancel}: a second
 * one throws {@link BusyException}. An interrupt of the thread cancels too. {@link #close} ends a loop of another
 * thread with IllegalStateException. */
public final class Generation extends Handle implements Iterable<String>, Iterator<String> {
    /** Why a text has ended, in the order of the library's numbers from 1. */
    public enum End {
        /** A token that ends a turn or the text. */
        TOKEN,
        /** The maximum number of tokens. */
        LENGTH,
        /** A stop sequence. */
        STOP,
        /** The context is full. */
        CONTEXT,
        /** The grammar was complete. */
        GRAMMAR,
        /** An error of its own. */
        FAILED,
        /** A reply was stopped or discarded. */
        CANCELLED;

        static @Nullable End of(int number) {
            return number == 0 ? null : values()[number - 1];
        }
    }

    private final Session session;
    private final Cancel cancel;
    private final int row;
    private @Nullable String next;

    /** Continues tokens or a prompt, of which the session holds the first {@code held}. */
    Generation(Memory cache, Session session, int[] tokens, @Nullable Prompt prompt, int held, Options options) {
        this(cache, session, tokens, prompt, held, options, new Cancel());
    }

    private Generation(Memory cache, Session session, int[] tokens, @Nullable Prompt prompt, int held, Options options, Cancel cancel) {
        super(start(cache, session.model(), tokens, prompt, held, options, cancel), Header::rz_job_free);
        // The session stays reachable, and its handle valid, for as long as this is.
        this.session = session;
        this.cancel = cancel;
        row = Math.min(options.logprobs == null ? 0 : options.logprobs, session.model().info().vocabulary()) + 1;
    }

    private static Memory start(Memory cache, Model model, int[] tokens, @Nullable Prompt prompt, int held, Options options, Cancel cancel) {
        // A GPU need not bring logits back without a sampler. The job copies it.
        boolean compiles = options.grammar == null && options.grammarKind != 0;
        try (Arena arena = new Arena(); Sampler chooser = options.isSampled ? new Sampler(options) : null;
            Grammar own = compiles ? model.grammar(options.grammarKind, options.grammarFlags, options.grammarText) : null) {
            var params = Native.sized(arena, Header.rz_job_params);
            int[] missing = prompt == null ? Arrays.copyOfRange(tokens, held, tokens.length) : tokens;
            Native.set(params, Header.rz_job_params, "tokens", Native.ints(arena, missing, "tokens"));
            Native.set(params, Header.rz_job_params, "n_tokens", (long) missing.length);
            Native.set(params, Header.rz_job_params, "stops", Native.texts(arena, options.stops, "stops"));
            Native.set(params, Header.rz_job_params, "n_stops", (long) options.stops.size());
            options.setJob(params);
            Native.set(params, Header.rz_job_params, "draft", options.draft.ordinal());
            Native.set(params, Header.rz_job_params, "prompt_first", prompt == null ? 0L : held);
            return cancel.use(fired -> use(chooser, sampler -> use(compiles ? own : options.grammar, grammar -> use(options.draftModel, draft -> use(prompt, media -> {
                Native.set(params, Header.rz_job_params, "prompt", media);
                Native.set(params, Header.rz_job_params, "cancel", fired);
                Native.set(params, Header.rz_job_params, "sampler", sampler);
                Native.set(params, Header.rz_job_params, "grammar", grammar);
                Native.set(params, Header.rz_job_params, "draft_model", draft);
                // Last, so that a wrong option leaves the session as it was.
                Native.check(arena, e -> Header.rz_cache_truncate(cache, held, e));
                return Native.made(arena, out -> e -> Header.rz_job_new(cache, params, out, e));
            })))));
        }
    }

    @Override
    public Iterator<String> iterator() {
        return this;
    }

    /** Computes until there is text. @throws CancellationException after {@link #cancel} or an interrupt */
    @Override
    public boolean hasNext() {
        return alone(() -> {
            for (boolean more = true; next == null && more; ) {
                more = step();
                String piece = text();
                if (!piece.isEmpty()) next = piece;
            }
            return next != null;
        });
    }

    @Override
    public String next() {
        return alone(() -> {
            if (!hasNext()) throw new NoSuchElementException();
            String piece = next;
            next = null;
            return piece;
        });
    }

    /** Computes until there is a token, or the end. True if there is more to compute. */
    public boolean step() {
        return advance(Header.RZ_NO_LIMIT);
    }

    /** Computes for about so many microseconds; a negative number counts as 0. True if there is more to compute. */
    public boolean step(long microseconds) {
        return advance(Math.max(microseconds, 0));
    }

    private boolean advance(long microseconds) {
        return alone(() -> call((arena, job) ->
            Blocking.call(List.of(cancel), () -> Native.check(arena, e -> Header.rz_job_step(job, microseconds, e))) != Header.RZ_DONE));
    }

    /** Steps several generations of one model as a batch, until one of them has a token. True if there is more to
     * compute. A generation that fails ends without the others; {@link #error} is the reason. A generation that is
     * cancelled, or whose deadline has passed, waits without the others; {@link #stopped} is the reason. */
    public static boolean stepAll(List<Generation> generations) {
        return advance(generations, Header.RZ_NO_LIMIT);
    }

    /** The same for about so many microseconds. */
    public static boolean stepAll(List<Generation> generations, long microseconds) {
        return advance(generations, Math.max(microseconds, 0));
    }

    private static boolean advance(List<Generation> generations, long microseconds) {
        Native.all(generations, "generations");
        try (Arena arena = new Arena()) {
            long n = generations.size();
            var cancels = generations.stream().map(generation -> generation.cancel).collect(Collectors.toList());
            return allAlone(generations, () -> useAll(arena, generations, jobs -> Blocking.callAll(cancels, () ->
                Native.check(arena, e -> Header.rz_jobs_step(jobs, n, microseconds, e)))));
        }
    }

    /** The text since the last call: whole characters without stop strings, possibly none. */
    public String text() {
        return call((arena, job) -> Native.filled(arena, 1, 64,
            (out, capacity, written, e) -> Header.rz_job_text_into(job, out, capacity, written, e)).text());
    }

    /** The tokens since the last call, with the one that ends the text. */
    public int[] tokens() {
        return call((arena, job) -> Native.filled(arena, 4, 64,
            (out, capacity, written, e) -> Header.rz_job_tokens_into(job, out, capacity, written, e)).ints());
    }

    /** The tokens since the last call with their log probabilities, if {@link Options#logprobs} is set. */
    public List<Logprob.Made> logprobs() {
        return call((arena, job) -> Logprob.rows(arena, row, (tokens, logprobs, capacity, written, e) ->
            Header.rz_job_logprobs_into(job, tokens, logprobs, capacity, written, e)));
    }

    /** Generates to the end and returns the remaining text. */
    public String readAll() {
        var all = new StringBuilder();
        forEachRemaining(all::append);
        return all.toString();
    }

    /** Stops a call that another thread is in. That call and later ones throw CancellationException, until {@link
     * #resume}. */
    public void cancel() {
        cancel.fire();
    }

    /** Lets steps fail with the status DEADLINE after this time, at once if it is not positive; null removes the
     * deadline. */
    public void deadline(@Nullable Duration time) {
        cancel.deadline(time);
    }

    /** Takes back a cancel or a deadline, so that the next step continues. */
    public void resume() {
        cancel.reset();
    }

    /** Number of tokens made. */
    public int count() {
        return info("n_tokens");
    }

    /** Number of prompt tokens that the session did not hold. */
    public int promptCount() {
        return info("prompt_total");
    }

    /** Number of draft tokens that were verified (speculative decoding). */
    public int drafted() {
        return info("drafted");
    }

    /** Number of draft tokens that were accepted. */
    public int accepted() {
        return info("accepted");
    }

    /** Why the text has ended; null if it has not. */
    public @Nullable End end() {
        return End.of(info("end_reason"));
    }

    /** CANCELLED or DEADLINE if steps fail because of a cancel or a deadline, else null. */
    public RealizarException.@Nullable Status stopped() {
        return stopped(info("stopped"));
    }

    static RealizarException.@Nullable Status stopped(int status) {
        return status == 0 ? null : RealizarException.Status.of(status);
    }

    /** The error of a generation that has ended with FAILED, else null. {@link #step} throws this error, {@link
     * #stepAll} does not. */
    public @Nullable RealizarException error() {
        if (end() != End.FAILED) return null;
        try {
            call((arena, job) -> Native.check(arena, e -> Header.rz_job_error(job, e)));
            return null;
        } catch (RealizarException e) {
            return e;
        }
    }

    private int info(String field) {
        return call((arena, job) -> {
            var out = Native.sized(arena, Header.rz_job_info);
            Native.check(arena, e -> Header.rz_job_info_get(job, out, e));
            return Native.integer(out, Header.rz_job_info, field);
        });
    }

    @Override
    public String toString() {
        return "a generation of " + session;
    }
}
