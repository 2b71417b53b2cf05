package realizar;

import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** A handle of the library that is freed once: by {@link #close}, which ends the calls that use it, or when it is
 * forgotten. A call never waits for a thread that closes the handle. */
abstract class Handle implements AutoCloseable {
    /** Counts the calls that use a handle, and frees it after the last one. Java's Cleaner, which would free forgotten
     * handles too, is missing in Android 8. */
    private static final class Uses extends PhantomReference<Handle> {
        private static final ReferenceQueue<Handle> FORGOTTEN = new ReferenceQueue<>();
        private static final Set<Uses> ALL = ConcurrentHashMap.newKeySet();
        private final ReentrantLock lock = new ReentrantLock();
        private final Condition changed = lock.newCondition();
        private final Runnable free;
        private int calls;
        private boolean isClosed, isFreeing, isFreed;

        static {
            var thread = new Thread(Uses::watch, "realizar frees");
            thread.setDaemon(true);
            thread.start();
        }

        Uses(Handle handle, Runnable free) {
            super(handle, FORGOTTEN);
            this.free = free;
            ALL.add(this);
        }

        private static void watch() {
            for (;;) {
                try {
                    var uses = (Uses) FORGOTTEN.remove();
                    uses.close(false);
                    uses.freeIfUnused();
                } catch (InterruptedException e) {
                    // It goes on.
                }
            }
        }

        /** Counts a call; false if the handle is closed. {@code nested}: a call within the time of another one, which a
         * closed handle takes until it is freed. */
        boolean begin(boolean nested) {
            lock.lock();
            try {
                boolean begins = !isClosed || nested && calls > 0;
                if (begins) calls++;
                return begins;
            } finally {
                lock.unlock();
            }
        }

        void end() {
            lock.lock();
            try {
                calls--;
            } finally {
                lock.unlock();
            }
            freeIfUnused();
        }

        /** Lets no further call begin. {@code idle}: only if no call uses the handle and no thread is freeing it;
         * returns false, and changes nothing, otherwise. */
        boolean close(boolean idle) {
            lock.lock();
            try {
                if (idle && (calls > 0 || isFreeing && !isFreed)) return false;
                return isClosed = true;
            } finally {
                lock.unlock();
            }
        }

        boolean isClosed() {
            lock.lock();
            try {
                return isClosed;
            } finally {
                lock.unlock();
            }
        }

        /** Frees a closed handle, once. The lock is not held meanwhile, because a free may log. */
        void freeIfUnused() {
            lock.lock();
            try {
                if (!isClosed || calls > 0 || isFreeing) return;
                isFreeing = true;
            } finally {
                lock.unlock();
            }
            try {
                free.run();
            } finally {
                ALL.remove(this);
                lock.lock();
                isFreed = true;
                changed.signalAll();
                lock.unlock();
            }
        }

        void awaitFreed() {
            lock.lock();
            try {
                while (!isFreed) changed.awaitUninterruptibly();
            } finally {
                lock.unlock();
            }
        }
    }

    /** A call that a thread is in, and the call around it. {@code uses} is null for the listener to the log, which any
     * thread of the library calls. */
    record Entered(@Nullable Uses uses, @Nullable Entered outer) {
        /** The innermost call of each thread. */
        static final ThreadLocal<Entered> INNERMOST = new ThreadLocal<>();

        static void enter(Uses uses) {
            INNERMOST.set(new Entered(uses, INNERMOST.get()));
        }

        static void leave() {
            var outer = INNERMOST.get().outer;
            if (outer == null) INNERMOST.remove();
            else INNERMOST.set(outer);
        }

        /** True if the thread is in a call that uses these, or, of null, in the listener to the log. */
        static boolean isIn(Uses uses) {
            for (var call = INNERMOST.get(); call != null; call = call.outer) {
                if (call.uses == uses) return true;
            }
            return false;
        }

        /** True if one of the handles of a call, and of the calls around it, is closed. */
        static boolean isAnyClosed(@Nullable Entered innermost) {
            for (var call = innermost; call != null; call = call.outer) {
                if (call.uses != null && call.uses.isClosed()) return true;
            }
            return false;
        }
    }

    private final Memory pointer;
    private final Uses uses;
    /** Held by calls that belong together, next to which no other use may come. */
    private final ReentrantLock alone = new ReentrantLock();
    /** Whether the calls that belong together are in a callback; written by the thread that holds the lock. */
    private boolean isCallingBack;

    Handle(Memory pointer, Consumer<Memory> free) {
        this.pointer = pointer;
        uses = new Uses(this, () -> free.accept(pointer));
    }

    /** The calls that the thread is in, innermost first; null outside of calls. */
    static @Nullable Entered entered() {
        return Entered.INNERMOST.get();
    }

    private static void enter(Handle handle) {
        if (!handle.uses.begin(false)) throw handle.closed();
        Entered.enter(handle.uses);
    }

    private String name() {
        return getClass().getSimpleName();
    }

    private IllegalStateException closed() {
        return new IllegalStateException(name() + " is closed");
    }

    private BusyException busy() {
        return new BusyException(name() + " is in use by another call");
    }

    /** The failure of a call that uses the handle: a call that {@link #close} has ended fails as a later call does. */
    private RuntimeException ended(CancellationException failure) {
        return isClosed() ? closed() : failure;
    }

    private static void leave(Uses uses) {
        Entered.leave();
        uses.end();
    }

    /** Calls `f` with the handle, which stays valid meanwhile. */
    final <T> T use(Function<Memory, T> f) {
        var held = uses; // which outlasts a handle that is forgotten meanwhile
        enter(this);
        try {
            return f.apply(pointer);
        } catch (CancellationException e) {
            throw ended(e);
        } finally {
            leave(held);
        }
    }

    /** Makes calls that belong together, and may be within such calls of the same thread.
     *
     * @throws BusyException if another thread makes such calls, or in their callback */
    final <T> T alone(Supplier<T> calls) {
        beginAlone();
        try {
            return calls.get();
        } finally {
            alone.unlock();
        }
    }

    private void beginAlone() {
        if (alone.isHeldByCurrentThread() && isCallingBack || !alone.tryLock()) throw busy();
    }

    /** The same for several handles. */
    static <T> T allAlone(List<? extends Handle> of, Supplier<T> calls) {
        List<Handle> handles = List.copyOf(of);
        int n = 0;
        try {
            for (; n < handles.size(); n++) handles.get(n).beginAlone();
            return calls.get();
        } finally {
            while (--n >= 0) handles.get(n).alone.unlock();
        }
    }

    /** Makes calls that belong together once the handle is in no other use, which {@code end} ends. */
    final void aloneAfter(Runnable end, Runnable calls) {
        if (!alone.tryLock()) {
            end.run();
            alone.lock();
        }
        try {
            calls.run();
        } finally {
            alone.unlock();
        }
    }

    /** Runs a callback of calls that belong together. */
    final <T> T callBack(Supplier<T> callback) {
        isCallingBack = true;
        try {
            return callback.get();
        } finally {
            isCallingBack = false;
        }
    }

    /** Calls `f` with the handle and with memory for the time of the call. */
    final <T> T call(BiFunction<Arena, Memory, T> f) {
        return use(pointer -> {
            try (Arena arena = new Arena()) {
                return f.apply(arena, pointer);
            }
        });
    }

    /** Calls a function that takes the handle alone and returns nothing. */
    final void run(Consumer<Memory> function) {
        use(pointer -> {
            function.accept(pointer);
            return null;
        });
    }

    /** Calls a function that takes the handle alone, unless the handle is freed, or is closed and unused. */
    final void runWhileUsed(Consumer<Memory> function) {
        if (!uses.begin(true)) return;
        try {
            function.accept(pointer);
        } finally {
            uses.end();
        }
    }

    /** Calls `f` with several handles, which may be NULL, in an array. */
    static <T> T useAll(Arena arena, List<? extends @Nullable Handle> handles, Function<Memory, T> f) {
        Memory array = arena.allocate((long) Memory.POINTER * Math.max(handles.size(), 1));
        int n = 0;
        try {
            for (; n < handles.size(); n++) {
                Handle handle = handles.get(n);
                if (handle == null) continue;
                enter(handle);
                array.set(Memory.POINTER * n, handle.pointer);
            }
            return f.apply(array);
        } catch (CancellationException e) {
            for (var handle : handles) {
                if (handle != null && handle.isClosed()) throw handle.closed();
            }
            throw e;
        } finally {
            while (--n >= 0) {
                Handle handle = handles.get(n);
                if (handle != null) leave(handle.uses);
            }
        }
    }

    /** Calls `f` with a handle, or with NULL if it is absent. */
    static <T> T use(@Nullable Handle handle, Function<Memory, T> f) {
        return handle == null ? f.apply(Memory.NULL) : handle.use(f);
    }

    /** Runs the listener to the log, for which calls at work wait, so that {@link #close} must not wait for them. */
    static void listen(Runnable listener) {
        Entered.enter(null);
        try {
            listener.run();
        } finally {
            Entered.leave();
        }
    }

    final boolean isClosed() {
        return uses.isClosed();
    }

    /** Ends the calls that use the handle, waits for their end, and frees the handle. A call that is ended in this way,
     * and each later call, throws IllegalStateException, whose message names the object.
     *
     * @throws BusyException in a callback of a call that uses the handle, and in the listener to the log while any call
     *     does */
    @Override
    public void close() {
        boolean isWithin = Entered.isIn(uses) || alone.isHeldByCurrentThread() && isCallingBack;
        if (isWithin || !uses.close(Entered.isIn(null))) throw busy();
        Blocking.lookAtAll();
        uses.freeIfUnused();
        uses.awaitFreed();
    }
}
