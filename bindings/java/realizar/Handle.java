package realizar;

import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Function;

/** Something of the library that is freed once: by {@link #close}, which ends or waits for calls that use it, or when it
 *  is forgotten. */
abstract class Handle implements AutoCloseable {
    /** Frees a handle once: when it is closed, or forgotten. Cleaner does the same, which Android 8 lacks. */
    private static final class Free extends PhantomReference<Handle> {
        private static final ReferenceQueue<Handle> FORGOTTEN = new ReferenceQueue<>();
        private static final Set<Free> ALL = ConcurrentHashMap.newKeySet();
        private final ReentrantReadWriteLock lock;
        private final Runnable free;

        static {
            var thread = new Thread(Free::watch, "realizar frees");
            thread.setDaemon(true);
            thread.start();
        }

        Free(Handle handle, Runnable free) {
            super(handle, FORGOTTEN);
            lock = handle.lock;
            this.free = free;
            ALL.add(this);
        }

        private static void watch() {
            for (;;) {
                try {
                    ((Free) FORGOTTEN.remove()).run();
                } catch (InterruptedException e) {
                    // It goes on.
                }
            }
        }

        /** Waits for calls that use the handle, which may be forgotten while they run. */
        void run() {
            lock.writeLock().lock();
            try {
                if (ALL.remove(this)) free.run();
            } finally {
                lock.writeLock().unlock();
            }
        }
    }

    private final ReentrantReadWriteLock lock = new ReentrantReadWriteLock();
    private final Memory pointer;
    private final Free free;
    private volatile boolean closed;

    Handle(Memory pointer, Consumer<Memory> free) {
        this.pointer = pointer;
        this.free = new Free(this, () -> free.accept(pointer));
    }

    /** Calls `f` with the handle, which stays valid meanwhile. */
    final <T> T use(Function<Memory, T> f) {
        lock.readLock().lock();
        try {
            if (closed) throw new IllegalStateException(getClass().getSimpleName() + " is closed");
            return f.apply(pointer);
        } finally {
            lock.readLock().unlock();
        }
    }

    /** The same with memory for the time of the call. */
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

    /** Calls `f` with several handles, which may be NULL, in an array. */
    static <T> T useAll(Arena arena, List<? extends Handle> handles, Function<Memory, T> f) {
        return useAll(handles, 0, arena.allocate((long) Memory.POINTER * Math.max(handles.size(), 1)), f);
    }

    private static <T> T useAll(List<? extends Handle> handles, int i, Memory array, Function<Memory, T> f) {
        if (i == handles.size()) return f.apply(array);
        return use(handles.get(i), pointer -> {
            array.set(Memory.POINTER * i, pointer);
            return useAll(handles, i + 1, array, f);
        });
    }

    /** The same for a handle that may be absent, which is NULL then. */
    static <T> T use(Handle handle, Function<Memory, T> f) {
        return handle == null ? f.apply(Memory.NULL) : handle.use(f);
    }

    final boolean isClosed() {
        return closed;
    }

    /** Has calls at work end, for which {@link #close} waits. */
    void stop() {}

    /** @throws IllegalStateException from what a call with it calls back */
    @Override
    public void close() {
        if (lock.getReadHoldCount() > 0) throw new IllegalStateException(getClass().getSimpleName() + " is at work");
        stop();
        lock.writeLock().lock();
        try {
            closed = true;
            free.run();
        } finally {
            lock.writeLock().unlock();
        }
    }
}
