package realizar;

import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Function;

/** A handle of the library that is freed once: by {@link #close}, which ends or waits for the calls that use it, or
 * when it is forgotten. A call never waits for a thread that closes the handle. */
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
    private record Entered(Uses uses, Entered outer) {
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
    }

    private final Memory pointer;
    private final Uses uses;

    Handle(Memory pointer, Consumer<Memory> free) {
        this.pointer = pointer;
        uses = new Uses(this, () -> free.accept(pointer));
    }

    private static void enter(Handle handle) {
        if (!handle.uses.begin(false)) throw new IllegalStateException(handle.getClass().getSimpleName() + " is closed");
        Entered.enter(handle.uses);
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
        } finally {
            leave(held);
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
    static <T> T useAll(Arena arena, List<? extends Handle> handles, Function<Memory, T> f) {
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
        } finally {
            while (--n >= 0) {
                Handle handle = handles.get(n);
                if (handle != null) leave(handle.uses);
            }
        }
    }

    /** Calls `f` with a handle, or with NULL if it is absent. */
    static <T> T use(Handle handle, Function<Memory, T> f) {
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

    /** Has calls at work end, for which {@link #close} waits. */
    void stop() {}

    /** Frees the handle, after the calls that use it. Later calls throw IllegalStateException.
     *
     * @throws IllegalStateException in a callback of a call that uses the handle, and in the listener to the log while
     *     any call does */
    @Override
    public void close() {
        if (Entered.isIn(uses) || !uses.close(Entered.isIn(null))) throw new IllegalStateException(getClass().getSimpleName() + " is at work");
        try {
            stop();
        } finally {
            uses.freeIfUnused();
            uses.awaitFreed();
        }
    }
}
