package realizar;

import static java.lang.foreign.ValueLayout.ADDRESS;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.concurrent.CancellationException;

/**
 * A text that is being generated, piece by piece. Its session is busy until it is closed, which ends it at any moment: the session
 * keeps the tokens that are complete. One thread at a time, but for {@link #cancel}.
 */
public final class Generation extends Handle implements Iterable<String>, Iterator<String> {
    /** Why a text has ended, in the order of the library's numbers from 1. */
    public enum End { TOKEN, LENGTH, STOP, CONTEXT, GRAMMAR }

    private static final class Cancel extends Handle {
        Cancel() {
            super(make(), Native.CANCEL_FREE);
        }

        private static MemorySegment make() {
            try (Arena arena = Arena.ofConfined()) {
                return Native.made(arena, out -> e -> (int) Native.CANCEL_NEW.invokeExact(out, e));
            }
        }

        void fire() {
            use(cancel -> {
                try {
                    Native.CANCEL_FIRE.invokeExact(cancel);
                    return null;
                } catch (Throwable e) {
                    throw Native.rethrown(e);
                }
            });
        }
    }

    private final Session session;
    private final Cancel cancel;
    private String next;

    Generation(MemorySegment cache, Session session, int[] tokens, Options options) {
        this(cache, session, tokens, options, new Cancel());
    }

    private Generation(MemorySegment cache, Session session, int[] tokens, Options options, Cancel cancel) {
        super(start(cache, tokens, options, cancel), Native.JOB_FREE);
        // The session stays reachable, and its handle valid, for as long as this is.
        this.session = session;
        this.cancel = cancel;
    }

    private static MemorySegment start(MemorySegment cache, int[] tokens, Options options, Cancel cancel) {
        try (Arena arena = Arena.ofConfined()) {
            var layout = Native.SAMPLER_PARAMS;
            var sampling = Native.sized(arena, layout);
            Native.set(sampling, layout, "temperature", options.temperature);
            Native.set(sampling, layout, "top_k", options.topK);
            Native.set(sampling, layout, "top_p", options.topP);
            Native.set(sampling, layout, "min_p", options.minP);
            Native.set(sampling, layout, "repeat_penalty", options.repeatPenalty);
            Native.set(sampling, layout, "seed", options.seed);
            var sampler = Native.made(arena, out -> e -> (int) Native.SAMPLER_NEW.invokeExact(sampling, out, e));
            try {
                var params = Native.sized(arena, Native.JOB_PARAMS);
                Native.set(params, Native.JOB_PARAMS, "max_tokens", options.maxTokens);
                Native.set(params, Native.JOB_PARAMS, "tokens", Native.ints(arena, tokens));
                Native.set(params, Native.JOB_PARAMS, "n_tokens", (long) tokens.length);
                boolean greedy = options.temperature == 0 && options.repeatPenalty == 0; // a GPU need not bring logits back then
                Native.set(params, Native.JOB_PARAMS, "sampler", greedy ? MemorySegment.NULL : sampler);
                if (!options.stops.isEmpty()) {
                    var stops = arena.allocate(ADDRESS, options.stops.size());
                    for (int i = 0; i < options.stops.size(); i++) stops.setAtIndex(ADDRESS, i, Native.terminated(arena, options.stops.get(i)));
                    Native.set(params, Native.JOB_PARAMS, "stops", stops);
                    Native.set(params, Native.JOB_PARAMS, "n_stops", (long) options.stops.size());
                }
                Native.set(params, Native.JOB_PARAMS, "draft", options.draft);
                Native.set(params, Native.JOB_PARAMS, "draft_max", options.draftMax);
                return cancel.use(fired -> use(options.grammar, grammar -> use(options.draftModel, model -> {
                    Native.set(params, Native.JOB_PARAMS, "cancel", fired);
                    Native.set(params, Native.JOB_PARAMS, "grammar", grammar);
                    Native.set(params, Native.JOB_PARAMS, "draft_model", model);
                    return Native.made(arena, out -> e -> (int) Native.JOB_NEW.invokeExact(cache, params, out, e));
                })));
            } finally {
                // The job has copied it.
                Native.check(arena, e -> {
                    Native.SAMPLER_FREE.invokeExact(sampler);
                    return 0;
                });
            }
        }
    }

    @Override
    public Iterator<String> iterator() {
        return this;
    }

    /** Computes until there is text. @throws CancellationException after {@link #cancel} */
    @Override
    public boolean hasNext() {
        for (boolean more = true; next == null && more; ) {
            more = step();
            String piece = text();
            if (!piece.isEmpty()) next = piece;
        }
        return next != null;
    }

    @Override
    public String next() {
        if (!hasNext()) throw new NoSuchElementException();
        String piece = next;
        next = null;
        return piece;
    }

    /** Works until it has made a token or has ended; true: there is more to do. */
    public boolean step() {
        return advance(Native.NO_LIMIT);
    }

    /** Works for about so many microseconds, of which a negative number is none; true: there is more to do. */
    public boolean step(long microseconds) {
        return advance(Math.max(microseconds, 0));
    }

    private boolean advance(long microseconds) {
        return use(job -> {
            try (Arena arena = Arena.ofConfined()) {
                return Native.check(arena, e -> (int) Native.JOB_STEP.invokeExact(job, microseconds, e)) != Native.DONE;
            }
        });
    }

    /** Text that is new since the last call, which may be empty: whole characters, stop strings cut out. */
    public String text() {
        return use(job -> {
            try (Arena arena = Arena.ofConfined()) {
                return Native.string(Native.filled(arena, 1, 64,
                    (out, capacity, written, e) -> (int) Native.JOB_TEXT.invokeExact(job, out, capacity, written, e)));
            }
        });
    }

    /** All the text that is left, up to the end. */
    public String readAll() {
        var all = new StringBuilder();
        forEachRemaining(all::append);
        return all.toString();
    }

    /** Stops a call that another thread is in; it and those after it throw. */
    public void cancel() {
        cancel.fire();
    }

    /** Number of tokens made. */
    public int tokens() {
        return info("n_tokens");
    }

    /** Number of tokens of drafts that were computed. */
    public int drafted() {
        return info("drafted");
    }

    /** Number of tokens of drafts that were right. */
    public int accepted() {
        return info("accepted");
    }

    /** Why the text has ended; null where it has not. */
    public End end() {
        int end = info("end");
        return end == 0 ? null : End.values()[end - 1];
    }

    private int info(String field) {
        return use(job -> {
            try (Arena arena = Arena.ofConfined()) {
                var out = Native.sized(arena, Native.JOB_INFO);
                Native.check(arena, e -> (int) Native.JOB_INFO_GET.invokeExact(job, out, e));
                return Native.integer(out, Native.JOB_INFO, field);
            }
        });
    }
}
