package realizar;

import java.time.Duration;

/** Stops the calls that it was given to, from any thread or at a set time. An interrupt of a thread in such a call fires
 *  it. */
public final class Cancel extends Handle {
    public Cancel() {
        super(make(), Header::rz_cancel_free);
    }

    /** One for a call that was given none. */
    static Cancel orNew(Cancel cancel) {
        return cancel == null ? new Cancel() : cancel;
    }

    private static Memory make() {
        try (Arena arena = new Arena()) {
            return Native.made(arena, out -> e -> Header.rz_cancel_new(out, e));
        }
    }

    /** Asks the calls to stop, with CancellationException; later ones stop at once. */
    public void fire() {
        run(Header::rz_cancel_fire);
    }

    /** Fires for an interrupt, also while another thread waits to close it. */
    void interrupt() {
        runWhileUsed(Header::rz_cancel_fire);
    }

    /** Has it fire by itself after so long, at once where that has passed; calls end with the status DEADLINE then.
     * Null takes that back. */
    public void deadline(Duration time) {
        long microseconds = Native.microseconds(time);
        call((arena, cancel) -> Native.check(arena, e -> Header.rz_cancel_deadline(cancel, microseconds, e)));
    }

    /** Makes it fit for use again, and takes its deadline back. */
    public void reset() {
        run(Header::rz_cancel_reset);
    }
}
