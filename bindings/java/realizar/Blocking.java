package realizar;

import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;

/** A call of the library that takes long, in a thread whose interrupt fires cancels. Of a virtual thread another thread
 * makes the call, because a call of the library keeps the processor that virtual threads share. */
final class Blocking {
    private static final Set<Blocking> ALL = ConcurrentHashMap.newKeySet();
    private static final ExecutorService THREADS = Executors.newCachedThreadPool(Blocking::daemon);
    /** Looks for interrupts, of which a thread within the library hears nothing, while there are calls. */
    private static final Thread WATCH = daemon(Blocking::watch);
    private static final long NANOSECONDS = 10_000_000;

    static {
        WATCH.start();
    }

    private final Thread thread = Thread.currentThread();
    private final List<Cancel> stops;
    private boolean hasEnded, hasFired;

    private Blocking(List<Cancel> stops) {
        this.stops = stops;
    }

    private static Thread daemon(Runnable run) {
        var thread = new Thread(run, "realizar");
        thread.setDaemon(true);
        return thread;
    }

    private static void watch() {
        for (;;) {
            if (ALL.isEmpty()) LockSupport.park();
            ALL.forEach(Blocking::look);
            LockSupport.parkNanos(NANOSECONDS);
        }
    }

    private synchronized void look() {
        if (hasEnded || hasFired || !thread.isInterrupted()) return;
        hasFired = true;
        stops.forEach(Cancel::fire);
    }

    private synchronized void end() {
        hasEnded = true;
    }

    /** Makes a call that an interrupt ends by these cancels, which stay fired. */
    static <T> T call(List<Cancel> stops, Supplier<T> work) {
        if (Native.PLATFORM.isVirtual()) return elsewhere(stops, work);
        var call = new Blocking(stops);
        call.look();
        ALL.add(call);
        LockSupport.unpark(WATCH);
        try {
            return work.get();
        } finally {
            call.end();
            ALL.remove(call);
        }
    }

    private static <T> T elsewhere(List<Cancel> stops, Supplier<T> work) {
        var result = CompletableFuture.supplyAsync(work, THREADS);
        boolean isInterrupted = false;
        try {
            for (;;) {
                try {
                    return result.get();
                } catch (InterruptedException e) {
                    isInterrupted = true;
                    stops.forEach(Cancel::fire);
                } catch (ExecutionException e) {
                    throw Native.rethrown(e.getCause());
                }
            }
        } finally {
            if (isInterrupted) Thread.currentThread().interrupt();
        }
    }
}
