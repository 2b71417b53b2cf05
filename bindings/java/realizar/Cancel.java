package realizar;

import java.time.Duration;
import java.util.List;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** Stops the calls that it was passed to, from any thread or at a set time. An interrupt of a thread in such a call
 * fires the cancel. {@link #close} ends these calls too. */
public final class Cancel extends Handle {
    /** Makes a cancel that is not fired. */
    public Cancel() {
        super(make(), Header::rz_cancel_free);
    }

    private static Memory make() {
        try (Arena arena = new Arena()) {
            return Native.made(arena, out -> e -> Header.rz_cancel_new(out, e));
        }
    }

    /** Makes a call that takes long, with a cancel that stops it; null: with a cancel of its own. */
    static <T> T call(@Nullable Cancel cancel, Function<Memory, T> call) {
        if (cancel != null) return cancel.use(fired -> Blocking.call(List.of(cancel), () -> call.apply(fired)));
        try (Cancel own = new Cancel()) {
            return call(own, call);
        }
    }

    /** Lets running calls stop with CancellationException, and later calls at once. */
    public void fire() {
        run(Header::rz_cancel_fire);
    }

    /** Fires for an interrupt or a close, also while another thread waits to close it. */
    void interrupt() {
        runWhileUsed(Header::rz_cancel_fire);
    }

    /** Lets calls stop with the status DEADLINE after this time, at once if it is not positive. Null removes the
     * deadline. */
    public void deadline(@Nullable Duration time) {
        long microseconds = Native.microseconds(time);
        call((arena, cancel) -> Native.check(arena, e -> Header.rz_cancel_deadline(cancel, microseconds, e)));
    }

    /** Takes back {@link #fire} and the deadline, so that the cancel can be used again. */
    public void reset() {
        run(Header::rz_cancel_reset);
    }
}
