package realizar;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.stream.Collectors;

/** The library, which is looked for once, when the first class of the package is used, and helpers of calls. */
final class Native {
    private static final String NAME = System.mapLibraryName("realizar");
    private static final String FILE = file();
    private static final SymbolLookup LIBRARY = open();

    // Ahead of the functions of the header, which another interface may lack.
    static {
        checkVersion();
    }

    private Native() {}

    private static String file() {
        String named = System.getProperty("realizar.library", System.getenv("REALIZAR_LIBRARY"));
        return named != null ? Path.of(named).toAbsolutePath().toString() : NAME;
    }

    private static SymbolLookup open() {
        try {
            if (Path.of(FILE).isAbsolute()) return SymbolLookup.libraryLookup(Path.of(FILE), Arena.global());
            try (InputStream packed = Native.class.getResourceAsStream(system() + "/" + NAME)) {
                return packed == null ? SymbolLookup.libraryLookup(NAME, Arena.global()) : unpack(packed);
            }
        } catch (IllegalArgumentException | IOException e) {
            throw new UnsatisfiedLinkError("the library " + FILE + " cannot be loaded: name it in the property realizar.library (" + e.getMessage() + ")");
        }
    }

    /** The folder of this system's library in the jar. */
    private static String system() {
        String os = System.getProperty("os.name").toLowerCase(Locale.ROOT), machine = System.getProperty("os.arch");
        String kernel = os.startsWith("windows") ? "win" : os.startsWith("mac") ? "osx" : os;
        return kernel + "-" + Map.of("amd64", "x64", "x86_64", "x64", "aarch64", "arm64").getOrDefault(machine, machine);
    }

    /** Loads a library from a file of its own, which is needed no longer once it is loaded; Windows keeps it. */
    private static SymbolLookup unpack(InputStream packed) throws IOException {
        Path folder = Files.createTempDirectory("realizar"), file = folder.resolve(NAME);
        try {
            Files.copy(packed, file);
            return SymbolLookup.libraryLookup(file, Arena.global());
        } finally {
            if (file.toFile().delete()) Files.delete(folder);
        }
    }

    static MethodHandle function(String name, FunctionDescriptor descriptor) {
        MemorySegment at = LIBRARY.find(name).orElseThrow(() -> new UnsatisfiedLinkError("the library " + FILE + " has no function " + name));
        return Linker.nativeLinker().downcallHandle(at, descriptor);
    }

    private static void checkVersion() {
        int version = plain(() -> (int) function("rz_abi_version", FunctionDescriptor.of(JAVA_INT)).invokeExact());
        if (version == Header.RZ_ABI_VERSION) return;
        throw new UnsatisfiedLinkError("the library " + FILE + " has the interface " + version + ", " + Header.RZ_ABI_VERSION + " is needed");
    }

    /** Compares the structs of the header with those of the library. */
    static void checkLayouts() {
        try (Arena arena = Arena.ofConfined()) {
            Map<String, String> mine = new HashMap<>();
            for (StructLayout struct : Header.STRUCTS) {
                for (MemoryLayout member : struct.memberLayouts()) {
                    member.name().ifPresent(name -> mine.put(struct.name().get() + "." + name,
                        struct.byteOffset(PathElement.groupElement(name)) + ", " + member.byteSize()));
                }
            }
            MemorySegment layout = sized(arena, Header.rz_layout);
            for (int i = 0; (int) Header.rz_layout_get.invokeExact(i, layout, MemorySegment.NULL) == 0; i++) {
                String name = text(layout, Header.rz_layout, "struct_name") + "." + text(layout, Header.rz_layout, "field_name");
                String found = integer(layout, Header.rz_layout, "offset") + ", " + integer(layout, Header.rz_layout, "size");
                String wanted = mine.remove(name);
                if (wanted != null && !wanted.equals(found)) {
                    throw new UnsatisfiedLinkError("the library " + FILE + " has " + name + " at offset and size " + found + ", " + wanted + " is needed");
                }
            }
            if (!mine.isEmpty()) throw new UnsatisfiedLinkError("the library " + FILE + " lacks " + mine.keySet().stream().sorted().collect(Collectors.joining(", ")));
        } catch (Throwable e) {
            throw rethrown(e);
        }
    }

    /** A call of the library that cannot fail. */
    interface Plain<T> {
        T apply() throws Throwable;
    }

    static <T> T plain(Plain<T> call) {
        try {
            return call.apply();
        } catch (Throwable e) {
            throw rethrown(e);
        }
    }

    /** Calls a function that takes a handle and returns nothing. */
    static void invoke(MethodHandle function, MemorySegment handle) {
        plain(() -> {
            function.invokeExact(handle);
            return null;
        });
    }

    /** Turns what an invocation throws, which declares everything, into something unchecked. */
    static RuntimeException rethrown(Throwable e) {
        if (e instanceof RuntimeException unchecked) return unchecked;
        if (e instanceof Error error) throw error;
        return new IllegalStateException(e);
    }

    /** A zeroed struct that begins with its size. */
    static MemorySegment sized(Arena arena, StructLayout layout) {
        MemorySegment struct = arena.allocate(layout);
        set(struct, layout, "struct_size", (int) layout.byteSize());
        return struct;
    }

    private static long offset(StructLayout layout, String field) {
        return layout.byteOffset(PathElement.groupElement(field));
    }

    static void set(MemorySegment struct, StructLayout layout, String field, int value) {
        struct.set(JAVA_INT, offset(layout, field), value);
    }

    static void set(MemorySegment struct, StructLayout layout, String field, long value) {
        struct.set(JAVA_LONG, offset(layout, field), value);
    }

    static void set(MemorySegment struct, StructLayout layout, String field, float value) {
        struct.set(JAVA_FLOAT, offset(layout, field), value);
    }

    static void set(MemorySegment struct, StructLayout layout, String field, MemorySegment value) {
        struct.set(ADDRESS, offset(layout, field), value);
    }

    static int integer(MemorySegment struct, StructLayout layout, String field) {
        return struct.get(JAVA_INT, offset(layout, field));
    }

    static int[] integers(MemorySegment struct, StructLayout layout, String field) {
        return part(struct, layout, field).toArray(JAVA_INT);
    }

    static long number(MemorySegment struct, StructLayout layout, String field) {
        return struct.get(JAVA_LONG, offset(layout, field));
    }

    static float real(MemorySegment struct, StructLayout layout, String field) {
        return struct.get(JAVA_FLOAT, offset(layout, field));
    }

    static double precise(MemorySegment struct, StructLayout layout, String field) {
        return struct.get(JAVA_DOUBLE, offset(layout, field));
    }

    /** A part of a struct. */
    static MemorySegment part(MemorySegment struct, StructLayout layout, String field) {
        return struct.asSlice(offset(layout, field), layout.select(PathElement.groupElement(field)).byteSize());
    }

    static String text(MemorySegment struct, StructLayout layout, String field) {
        return struct.getString(offset(layout, field), StandardCharsets.UTF_8);
    }

    /** A call of the library that is given where to write an error. */
    interface Call {
        int apply(MemorySegment error) throws Throwable;
    }

    /** Calls the library; returns a status that is no error. */
    static int check(Arena arena, Call call) {
        MemorySegment error = arena.allocate(Header.rz_error);
        int status = status(error, call);
        if (status >= 0) return status;
        String message = text(error, Header.rz_error, "message");
        if (status == Header.RZ_ERR_CANCELLED) throw new CancellationException(message);
        throw new RealizarException(status, message, integer(error, Header.rz_error, "system_code"));
    }

    /** A microsecond count as the library takes one, of a time that may be negative or, without a limit, null. */
    static long microseconds(Duration time) {
        if (time == null) return Header.RZ_NO_LIMIT;
        if (time.isNegative()) return 0;
        try {
            return Math.ceilDiv(time.toNanos(), 1000);
        } catch (ArithmeticException e) {
            return Long.MAX_VALUE; // some hundred thousand years
        }
    }

    /** Something for the library to call: a method of an object, for as long as the arena. It may not throw. */
    static MemorySegment callback(Arena arena, MethodHandles.Lookup lookup, Object of, String method, FunctionDescriptor descriptor) {
        try {
            MethodHandle target = lookup.findVirtual(of.getClass(), method, descriptor.toMethodType());
            return Linker.nativeLinker().upcallStub(target.bindTo(of), descriptor, arena);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** A text that the library owns. */
    static String text(MemorySegment terminated) {
        return terminated.reinterpret(Long.MAX_VALUE).getString(0, StandardCharsets.UTF_8);
    }

    private static int status(MemorySegment error, Call call) {
        return plain(() -> call.apply(error));
    }

    /** A function that writes to a buffer, and the number of what it has written, or would need. */
    interface Fill {
        int apply(MemorySegment out, long capacity, MemorySegment written, MemorySegment error) throws Throwable;
    }

    /** Fills a buffer with elements of some bytes; one that is too small is made larger, once. */
    static MemorySegment filled(Arena arena, int element, long capacity, Fill fill) {
        MemorySegment written = arena.allocate(JAVA_LONG), error = arena.allocate(Header.rz_error);
        for (long room = capacity;; ) {
            long now = room;
            MemorySegment out = arena.allocate(Math.max(1, now) * element, 8);
            int status = status(error, e -> fill.apply(out, now, written, e));
            if (status != Header.RZ_ERR_BUFFER_TOO_SMALL) {
                check(arena, e -> {
                    e.copyFrom(error);
                    return status;
                });
                return out.asSlice(0, written.get(JAVA_LONG, 0) * element);
            }
            room = written.get(JAVA_LONG, 0);
        }
    }

    /** A pointer that a call writes. */
    static MemorySegment made(Arena arena, java.util.function.Function<MemorySegment, Call> call) {
        MemorySegment out = arena.allocate(ADDRESS);
        check(arena, call.apply(out));
        return out.get(ADDRESS, 0);
    }

    /** An array of NUL-terminated texts, NULL for none. */
    static MemorySegment texts(Arena arena, List<String> texts) {
        MemorySegment all = texts.isEmpty() ? MemorySegment.NULL : arena.allocate(ADDRESS, texts.size());
        for (int i = 0; i < texts.size(); i++) all.setAtIndex(ADDRESS, i, terminated(arena, texts.get(i)));
        return all;
    }

    static MemorySegment ints(Arena arena, int[] values) {
        return values.length == 0 ? MemorySegment.NULL : arena.allocateFrom(JAVA_INT, values);
    }

    /** UTF-8 without a NUL. A lone surrogate, which has none, is refused. */
    private static byte[] utf8(String text) {
        try {
            var bytes = StandardCharsets.UTF_8.newEncoder().encode(java.nio.CharBuffer.wrap(text));
            return Arrays.copyOf(bytes.array(), bytes.limit());
        } catch (java.nio.charset.CharacterCodingException e) {
            throw new IllegalArgumentException("a text with half of a surrogate pair");
        }
    }

    /** The same where the library can read it. */
    static MemorySegment bytes(Arena arena, String text) {
        byte[] bytes = utf8(text);
        return bytes.length == 0 ? MemorySegment.NULL : arena.allocateFrom(JAVA_BYTE, bytes);
    }

    /** NUL-terminated UTF-8. */
    static MemorySegment terminated(Arena arena, String text) {
        if (text.indexOf('\0') >= 0) throw new IllegalArgumentException("a text with a NUL");
        byte[] bytes = utf8(text);
        MemorySegment out = arena.allocate(bytes.length + 1);
        out.asSlice(0, bytes.length).copyFrom(MemorySegment.ofArray(bytes));
        return out;
    }

    static String string(MemorySegment bytes) {
        return new String(bytes.toArray(JAVA_BYTE), StandardCharsets.UTF_8);
    }
}
