package realizar;

import java.time.Duration;

/** Stops the calls that it was passed to, from any thread or at a set time. An interrupt of a thread in such a call
 * fires the cancel. */
public final class Cancel extends Handle {
    public Cancel() {
        super(make(), Header::rz_cancel_free);
    }

    /** Returns {@code cancel}, or a new one if it is null. */
    static Cancel orNew(Cancel cancel) {
        return cancel == null ? new Cancel() : cancel;
    }

    private static Memory make() {
        try (Arena arena = new Arena()) {
            return Native.made(arena, out -> e -> Header.rz_cancel_new(out, e));
        }
    }

    /** Lets running calls stop with CancellationException, and later calls at once. */
    public void fire() {
        run(Header::rz_cancel_fire);
    }

    /** Fires for an interrupt, also while another thread waits to close it. */
    void interrupt() {
        runWhileUsed(Header::rz_cancel_fire);
    }

    /** Lets calls stop with the status DEADLINE after this time, at once if it is not positive. Null removes the
     * deadline. */
    public void deadline(Duration time) {
        long microseconds = Native.microseconds(time);
        call((arena, cancel) -> Native.check(arena, e -> Header.rz_cancel_deadline(cancel, microseconds, e)));
    }

    /** Takes back {@link #fire} and the deadline, so that the cancel can be used again. */
    public void reset() {
        run(Header::rz_cancel_reset);
    }
}
