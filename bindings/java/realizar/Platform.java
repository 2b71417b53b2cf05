package realizar;

import java.nio.ByteBuffer;
import org.jspecify.annotations.Nullable;

/** The way into the library: {@link Ffm} where Java has foreign functions, {@link Jni} on Android and elsewhere. */
interface Platform {
    /** A callback of any kind: two numbers of its parameters, and the level of a log. It may not throw. */
    interface Callback {
        int call(long first, long second, int level);
    }

    enum Kind { LOG, PROGRESS, READ, WRITE }

    /** A function of C, and what it is given back as its `user`. */
    record Upcall(Memory function, Memory user) {}

    /**
     * Opens a file, or, for null, the library in the jar or that the system finds by its name.
     *
     * @throws UnsatisfiedLinkError
     */
    void load(@Nullable String file);

    /** Opens what the platform needs besides the library. @throws UnsatisfiedLinkError that names it */
    default void link() {}

    /** The interface of the open library, the one function that every version has. */
    int version();

    Functions functions();

    /** Zeroed memory, or 0. */
    long allocate(long size);

    void free(long address);

    ByteBuffer view(long address, long size);

    /** The text at an address, up to its NUL. */
    String text(long address);

    /** A model's file in memory: a ByteBuffer, and where there are foreign functions a MemorySegment too; null for any
     * other object. */
    @Nullable Memory source(Arena arena, Object bytes);

    /** True in a virtual thread. */
    boolean isVirtual();

    /** A function that calls back, for as long as the arena. */
    Upcall callback(Arena arena, Kind kind, Callback callback);
}
