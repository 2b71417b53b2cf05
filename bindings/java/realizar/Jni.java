package realizar;

import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import org.jspecify.annotations.Nullable;

/** Calls the library through a second library, librealizar_jni (bindings/java/jni). */
final class Jni implements Platform {
    /** Thread.isVirtual; null on Android and in a Java before 21. */
    private static final @Nullable Method IS_VIRTUAL = isVirtualOf();

    private static @Nullable Method isVirtualOf() {
        try {
            return Thread.class.getMethod("isVirtual");
        } catch (NoSuchMethodException e) {
            return null;
        }
    }

    @Override
    public void load(@Nullable String file) {
        if (file == null) System.loadLibrary("realizar");
        else System.load(file);
    }

    @Override
    public void link() {
        try {
            System.loadLibrary("realizar_jni");
        } catch (UnsatisfiedLinkError e) {
            throw new UnsatisfiedLinkError("the library " + System.mapLibraryName("realizar_jni") + " cannot be loaded: put its folder into the property "
                + "java.library.path; Java 22 and later need it only if the property realizar.jni is true (" + e.getMessage() + ")");
        }
    }

    @Override
    public int version() {
        return functions().rz_abi_version();
    }

    @Override
    public Functions functions() {
        return new JniFunctions();
    }

    @Override
    public native long allocate(long size);

    @Override
    public native void free(long address);

    @Override
    public native ByteBuffer view(long address, long size);

    @Override
    public String text(long address) {
        return new Memory(address, Integer.MAX_VALUE).terminated();
    }

    @Override
    public @Nullable Memory source(Arena arena, Object bytes) {
        if (!(bytes instanceof ByteBuffer given)) return null;
        var buffer = given.duplicate();
        if (buffer.isDirect()) return new Memory(address(buffer) + buffer.position(), buffer.remaining());
        Memory copy = arena.allocate(buffer.remaining());
        view(copy.address, copy.size).put(buffer);
        return copy;
    }

    @Override
    public boolean isVirtual() {
        try {
            return IS_VIRTUAL != null && (boolean) IS_VIRTUAL.invoke(Thread.currentThread());
        } catch (ReflectiveOperationException e) {
            return false;
        }
    }

    @Override
    public Upcall callback(Arena arena, Kind kind, Callback callback) {
        long user = reference(callback);
        arena.atEnd(() -> release(user));
        return new Upcall(new Memory(function(kind.ordinal()), 0), new Memory(user, 0));
    }

    private static native long address(ByteBuffer direct);

    /** Keeps an object for the library, until it is released. */
    private static native long reference(Callback callback);

    private static native void release(long reference);

    /** The function for a kind, by its number. */
    private static native long function(int kind);
}
