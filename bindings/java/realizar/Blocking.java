package realizar;

import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntSupplier;
import java.util.function.Supplier;

/** A call of the library that takes long. An interrupt of its thread, and a close of a handle that it uses, fire its
 * cancels. For a virtual thread another thread makes the call, because a call of the library keeps the processor that
 * virtual threads share. */
final class Blocking {
    private static final Set<Blocking> ALL = ConcurrentHashMap.newKeySet();
    /** Looks for interrupts, of which a thread within the library hears nothing, while there are calls. */
    private static final Thread WATCH = daemon(Blocking::watch);
    private static final long NANOSECONDS = 10_000_000;

    static {
        WATCH.start();
    }

    private final Thread thread = Thread.currentThread();
    private final Handle.Entered handles = Handle.entered();
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
            lookAtAll();
            LockSupport.parkNanos(NANOSECONDS);
        }
    }

    /** Ends the calls of interrupted threads, and the calls that use a closed handle. */
    static void lookAtAll() {
        ALL.forEach(Blocking::look);
    }

    private void look() {
        if (thread.isInterrupted() || Handle.Entered.isAnyClosed(handles)) fire();
    }

    /** True if the thread is interrupted, or a handle that its calls use is closed. */
    static boolean isToEnd() {
        return Thread.currentThread().isInterrupted() || Handle.Entered.isAnyClosed(Handle.entered());
    }

    private synchronized void fire() {
        if (hasEnded || hasFired) return;
        hasFired = true;
        stops.forEach(Cancel::interrupt);
    }

    private synchronized void end() {
        hasEnded = true;
    }

    /** Makes a call that an interrupt, or a close of a handle that it uses, ends by these cancels, which stay fired. */
    static <T> T call(List<Cancel> stops, Supplier<T> work) {
        var call = new Blocking(stops);
        ALL.add(call);
        call.look();
        LockSupport.unpark(WATCH);
        try {
            return Native.PLATFORM.isVirtual() ? new Errand<>(work).result(call) : work.get();
        } finally {
            call.end();
            ALL.remove(call);
        }
    }

    /** Makes a step of a batch; true if there is more to do. Where all that have not ended are cancelled, or their
     * deadlines have passed, there is not. */
    static boolean callAll(List<Cancel> stops, Supplier<Integer> step) {
        try {
            return call(stops, step) != Header.RZ_DONE;
        } catch (CancellationException e) {
            if (isToEnd()) throw e;
            return false;
        } catch (RealizarException e) {
            if (e.status() != RealizarException.Status.DEADLINE) throw e;
            return false;
        }
    }

    /** Runs a callback on the thread whose call it belongs to. */
    static int callBack(IntSupplier callback) {
        var errand = Errand.CURRENT.get();
        return errand == null ? callback.getAsInt() : errand.ask(callback);
    }

    /** The work of a virtual thread on another thread. The virtual thread waits, and runs the callbacks of the work, so
     * that callbacks find the locks, interrupts and handles of their own thread. */
    private static final class Errand<T> {
        private static final ExecutorService THREADS = Executors.newCachedThreadPool(Blocking::daemon);
        /** The errand that a thread of the pool is on. */
        static final ThreadLocal<Errand<?>> CURRENT = new ThreadLocal<>();

        private final Supplier<T> work;
        private final CompletableFuture<T> result = new CompletableFuture<>();
        /** For the virtual thread: callbacks, and in the end nothing to do. */
        private final BlockingQueue<Runnable> asked = new LinkedBlockingQueue<>();

        Errand(Supplier<T> work) {
            this.work = work;
        }

        private void run() {
            CURRENT.set(this);
            try {
                result.complete(work.get());
            } catch (Throwable e) {
                result.completeExceptionally(new CompletionException(e)); // of which join makes no other one
            } finally {
                CURRENT.remove();
                asked.add(() -> {});
            }
        }

        /** Has the virtual thread run a callback, and waits for it. */
        int ask(IntSupplier callback) {
            var answer = new CompletableFuture<Integer>();
            asked.add(() -> {
                try {
                    answer.complete(callback.getAsInt());
                } catch (Throwable e) {
                    answer.completeExceptionally(e);
                }
            });
            return answer.join();
        }

        /** The result of the work, which is a part of this call. */
        T result(Blocking call) {
            THREADS.execute(this::run);
            boolean isInterrupted = false;
            try {
                while (!result.isDone() || !asked.isEmpty()) {
                    try {
                        var callback = asked.take();
                        if (isInterrupted) Thread.currentThread().interrupt();
                        callback.run();
                    } catch (InterruptedException e) {
                        isInterrupted = true;
                        call.fire();
                    }
                }
            } finally {
                if (isInterrupted) Thread.currentThread().interrupt();
            }
            try {
                return result.join();
            } catch (CompletionException e) {
                throw Native.rethrown(e.getCause());
            }
        }
    }
}
