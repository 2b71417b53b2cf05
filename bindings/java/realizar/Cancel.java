package realizar;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.time.Duration;

/** Stops the calls that it was given to, from any thread or at a set time. */
public final class Cancel extends Handle {
    public Cancel() {
        super(make(), Native.CANCEL_FREE);
    }

    private static MemorySegment make() {
        try (Arena arena = Arena.ofConfined()) {
            return Native.made(arena, out -> e -> (int) Native.CANCEL_NEW.invokeExact(out, e));
        }
    }

    /** Asks the calls to stop, with CancellationException; later ones stop at once. */
    public void fire() {
        invoke(Native.CANCEL_FIRE);
    }

    /** Has it fire by itself after so long, at once where that has passed; calls end with the status DEADLINE then.
     * Null takes that back. */
    public void deadline(Duration time) {
        long microseconds = Native.microseconds(time);
        call((arena, cancel) -> Native.check(arena, e -> (int) Native.CANCEL_DEADLINE.invokeExact(cancel, microseconds, e)));
    }

    /** Makes it fit for use again, and takes its deadline back. */
    public void reset() {
        invoke(Native.CANCEL_RESET);
    }

    private void invoke(MethodHandle function) {
        use(cancel -> {
            try {
                function.invokeExact(cancel);
                return null;
            } catch (Throwable e) {
                throw Native.rethrown(e);
            }
        });
    }
}
