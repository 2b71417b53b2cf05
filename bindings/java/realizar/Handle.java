package realizar;

import static java.lang.foreign.ValueLayout.ADDRESS;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.ref.Cleaner;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.BiFunction;
import java.util.function.Function;

/** Something of the library that is freed once: by {@link #close}, which waits for calls that use it, or when it is forgotten. */
abstract class Handle implements AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create();

    private final ReentrantReadWriteLock lock = new ReentrantReadWriteLock();
    private final MemorySegment pointer;
    private final Cleaner.Cleanable free;
    private volatile boolean closed;

    Handle(MemorySegment pointer, MethodHandle free) {
        this.pointer = pointer;
        var once = new AtomicBoolean();
        this.free = CLEANER.register(this, () -> {
            if (!once.getAndSet(true)) Native.invoke(free, pointer);
        });
    }

    /** Calls `f` with the handle, which stays valid meanwhile. */
    final <T> T use(Function<MemorySegment, T> f) {
        lock.readLock().lock();
        try {
            if (closed) throw new IllegalStateException(getClass().getSimpleName() + " is closed");
            return f.apply(pointer);
        } finally {
            lock.readLock().unlock();
            java.lang.ref.Reference.reachabilityFence(this);
        }
    }

    /** The same with memory for the time of the call. */
    final <T> T call(BiFunction<Arena, MemorySegment, T> f) {
        return use(pointer -> {
            try (Arena arena = Arena.ofConfined()) {
                return f.apply(arena, pointer);
            }
        });
    }

    /** Calls a function that takes the handle alone and returns nothing. */
    final void run(MethodHandle function) {
        use(pointer -> {
            Native.invoke(function, pointer);
            return null;
        });
    }

    /** Calls `f` with several handles, which may be NULL, in an array. */
    static <T> T useAll(Arena arena, List<? extends Handle> handles, Function<MemorySegment, T> f) {
        return useAll(handles, 0, arena.allocate(ADDRESS, Math.max(handles.size(), 1)), f);
    }

    private static <T> T useAll(List<? extends Handle> handles, int i, MemorySegment array, Function<MemorySegment, T> f) {
        if (i == handles.size()) return f.apply(array);
        return use(handles.get(i), pointer -> {
            array.setAtIndex(ADDRESS, i, pointer);
            return useAll(handles, i + 1, array, f);
        });
    }

    /** The same for a handle that may be absent, which is NULL then. */
    static <T> T use(Handle handle, Function<MemorySegment, T> f) {
        return handle == null ? f.apply(MemorySegment.NULL) : handle.use(f);
    }

    final boolean isClosed() {
        return closed;
    }

    /** @throws IllegalStateException from what a call with it calls back */
    @Override
    public void close() {
        if (lock.getReadHoldCount() > 0) throw new IllegalStateException(getClass().getSimpleName() + " is at work");
        lock.writeLock().lock();
        try {
            closed = true;
            free.clean();
        } finally {
            lock.writeLock().unlock();
        }
    }
}
