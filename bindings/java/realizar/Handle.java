package realizar;

import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.Function;

/** Something of the library that is freed once: by {@link #close}, which waits for calls that use it, or when it is forgotten. */
abstract class Handle implements AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create();

    private final ReentrantReadWriteLock lock = new ReentrantReadWriteLock();
    private final MemorySegment pointer;
    private final Cleaner.Cleanable free;
    private boolean closed;

    Handle(MemorySegment pointer, MethodHandle free) {
        this.pointer = pointer;
        var once = new AtomicBoolean();
        this.free = CLEANER.register(this, () -> {
            if (once.getAndSet(true)) return;
            try {
                free.invokeExact(pointer);
            } catch (Throwable e) {
                throw Native.rethrown(e);
            }
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

    /** The same for a handle that may be absent, which is NULL then. */
    static <T> T use(Handle handle, Function<MemorySegment, T> f) {
        return handle == null ? f.apply(MemorySegment.NULL) : handle.use(f);
    }

    @Override
    public void close() {
        lock.writeLock().lock();
        try {
            closed = true;
            free.clean();
        } finally {
            lock.writeLock().unlock();
        }
    }
}
