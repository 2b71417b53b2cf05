package realizar;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The foreign functions of Java 22. */
final class Ffm implements Platform {
    private static final Linker LINKER = Linker.nativeLinker();
    private static final MethodHandle CALLOC = c("calloc", FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle FREE = c("free", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static SymbolLookup library;

    private static MethodHandle c(String name, FunctionDescriptor descriptor) {
        return LINKER.downcallHandle(LINKER.defaultLookup().find(name).orElseThrow(), descriptor);
    }

    static MethodHandle function(String name, FunctionDescriptor descriptor) {
        var at = library.find(name).orElseThrow(() -> new UnsatisfiedLinkError("the library " + Native.FILE + " has no function " + name));
        return LINKER.downcallHandle(at, descriptor);
    }

    @Override
    public void load(@Nullable String file) {
        var forEver = java.lang.foreign.Arena.global();
        try (InputStream packed = file != null ? null : Ffm.class.getResourceAsStream(system() + "/" + Native.FILE)) {
            if (packed != null) library = unpack(packed);
            else library = file != null ? SymbolLookup.libraryLookup(Path.of(file), forEver) : SymbolLookup.libraryLookup(Native.FILE, forEver);
        } catch (IllegalArgumentException | IOException e) {
            throw new UnsatisfiedLinkError(e.getMessage());
        }
    }

    /** The folder of this system's library in the jar. */
    private static String system() {
        String os = System.getProperty("os.name").toLowerCase(Locale.ROOT), machine = System.getProperty("os.arch");
        String kernel = os.startsWith("windows") ? "win" : os.startsWith("mac") ? "osx" : os;
        return kernel + "-" + Map.of("amd64", "x64", "x86_64", "x64", "aarch64", "arm64").getOrDefault(machine, machine);
    }

    /** Opens a library by a file of its own, which is needed no longer once it is open; Windows keeps it. */
    private static SymbolLookup unpack(InputStream packed) throws IOException {
        Path folder = Files.createTempDirectory("realizar"), file = folder.resolve(Native.FILE);
        try {
            Files.copy(packed, file);
            return SymbolLookup.libraryLookup(file, java.lang.foreign.Arena.global());
        } finally {
            if (file.toFile().delete()) Files.delete(folder);
        }
    }

    @Override
    public int version() {
        try {
            return (int) function("rz_abi_version", FunctionDescriptor.of(JAVA_INT)).invokeExact();
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public Functions functions() {
        return new FfmFunctions();
    }

    @Override
    public long allocate(long size) {
        try {
            return (long) CALLOC.invokeExact(1L, size);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public void free(long address) {
        try {
            FREE.invokeExact(address);
        } catch (Throwable e) {
            throw Native.rethrown(e);
        }
    }

    @Override
    public ByteBuffer view(long address, long size) {
        return MemorySegment.ofAddress(address).reinterpret(size).asByteBuffer();
    }

    @Override
    public String text(long address) {
        return MemorySegment.ofAddress(address).reinterpret(Long.MAX_VALUE).getString(0, StandardCharsets.UTF_8);
    }

    @Override
    public @Nullable Memory source(Arena arena, Object bytes) {
        var segment = bytes instanceof ByteBuffer buffer ? MemorySegment.ofBuffer(buffer) : bytes instanceof MemorySegment given ? given : null;
        if (segment == null) return null;
        if (segment.isNative()) return new Memory(segment.address(), segment.byteSize());
        Memory copy = arena.allocate(segment.byteSize());
        MemorySegment.ofAddress(copy.address).reinterpret(copy.size).copyFrom(segment);
        return copy;
    }

    @Override
    public boolean isVirtual() {
        return Thread.currentThread().isVirtual();
    }

    @Override
    public Upcall callback(Arena arena, Kind kind, Callback callback) {
        try {
            var type = MethodType.methodType(int.class, long.class, long.class, int.class);
            var call = MethodHandles.lookup().findVirtual(Callback.class, "call", type).bindTo(callback);
            var two = MethodHandles.insertArguments(call, 2, 0);
            var numbers = FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG);
            var descriptor = kind == Kind.LOG ? FunctionDescriptor.ofVoid(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG) : numbers;
            // The parameter `user` is not needed, because the callback is bound.
            var target = switch (kind) {
                case LOG -> MethodHandles.permuteArguments(call.asType(type.changeReturnType(void.class)), descriptor.toMethodType(), 1, 2, 0);
                case PROGRESS, READ, WRITE -> MethodHandles.dropArguments(two, 2, long.class);
            };
            var stubs = java.lang.foreign.Arena.ofShared();
            arena.atEnd(stubs::close);
            return new Upcall(new Memory(LINKER.upcallStub(target, descriptor, stubs).address(), 0), Memory.NULL);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }
}
