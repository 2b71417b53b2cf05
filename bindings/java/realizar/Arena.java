package realizar;

import java.util.ArrayList;
import java.util.List;

/** Memory for the time of a call, and what else ends with it. */
final class Arena implements AutoCloseable {
    /** Never closed. */
    static final Arena GLOBAL = new Arena();

    private final List<Runnable> ends = new ArrayList<>();

    /** Zeroed bytes. */
    Memory allocate(long size) {
        if (size < 0) throw new IllegalArgumentException(size + " bytes");
        long address = Native.PLATFORM.allocate(Math.max(size, 1));
        if (address == 0) throw new OutOfMemoryError(size + " bytes for the library");
        atEnd(() -> Native.PLATFORM.free(address));
        return new Memory(address, size);
    }

    synchronized void atEnd(Runnable end) {
        ends.add(end);
    }

    @Override
    public synchronized void close() {
        ends.forEach(Runnable::run);
        ends.clear();
    }
}
