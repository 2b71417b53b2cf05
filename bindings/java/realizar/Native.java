package realizar;

import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CancellationException;
import java.util.stream.Collectors;

/** The library, which is looked for once, when the first class of the package is used, and helpers of calls. */
final class Native {
    /** The library's file, or its name. */
    static final String FILE;
    static final Platform PLATFORM = platform();
    static final Functions LIBRARY;

    static {
        String named = System.getProperty("realizar.library", System.getenv("REALIZAR_LIBRARY"));
        FILE = named == null ? System.mapLibraryName("realizar") : Paths.get(named).toAbsolutePath().toString();
        try {
            PLATFORM.open(named == null ? null : FILE);
        } catch (UnsatisfiedLinkError e) {
            throw wrong("cannot be loaded: name it in the property realizar.library (" + e.getMessage() + ")");
        }
        // Ahead of the functions of the header, which another interface may lack.
        int version = PLATFORM.version();
        if (version != Header.RZ_ABI_VERSION) throw wrong("has the interface " + version + ", " + Header.RZ_ABI_VERSION + " is needed");
        LIBRARY = PLATFORM.functions();
        checkLayouts();
    }

    private Native() {}

    /** Ffm is a class only for a Java that has foreign functions; the property realizar.jni chooses Jni. */
    private static Platform platform() {
        try {
            if (Boolean.getBoolean("realizar.jni")) return new Jni();
            return (Platform) Class.forName("realizar.Ffm").getDeclaredConstructor().newInstance();
        } catch (ClassNotFoundException | UnsupportedClassVersionError e) {
            return new Jni(); // Android, or a Java before 22
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static UnsatisfiedLinkError wrong(String what) {
        return new UnsatisfiedLinkError("the library " + FILE + " " + what);
    }

    /** Compares the structs of the header with those of the library. */
    private static void checkLayouts() {
        Map<String, String> mine = new HashMap<>();
        for (Struct struct : Header.STRUCTS) {
            for (var field : struct.fields) mine.put(struct.name + "." + field.name(), field.offset() + ", " + field.size());
        }
        try (Arena arena = new Arena()) {
            Memory layout = sized(arena, Header.rz_layout);
            for (int i = 0; Header.rz_layout_get(i, layout, Memory.NULL) == 0; i++) {
                String name = text(layout, Header.rz_layout, "struct_name") + "." + text(layout, Header.rz_layout, "field_name");
                String found = integer(layout, Header.rz_layout, "offset") + ", " + integer(layout, Header.rz_layout, "size");
                String wanted = mine.remove(name);
                if (wanted != null && !wanted.equals(found)) throw wrong("has " + name + " at offset and size " + found + ", " + wanted + " is needed");
            }
        }
        if (!mine.isEmpty()) throw wrong("lacks " + mine.keySet().stream().sorted().collect(Collectors.joining(", ")));
    }

    /** Turns what an invocation throws, which declares everything, into something unchecked. */
    static RuntimeException rethrown(Throwable e) {
        if (e instanceof RuntimeException unchecked) return unchecked;
        if (e instanceof Error error) throw error;
        return new IllegalStateException(e);
    }

    /** A zeroed struct that begins with its size. */
    static Memory sized(Arena arena, Struct struct) {
        Memory memory = arena.allocate(struct.size);
        set(memory, struct, "struct_size", struct.size);
        return memory;
    }

    /** Sets a field to a number that must not be negative, unless it is the priority of a job or a color: Java takes
     * the highest bit of a color for a sign. */
    static void set(Memory memory, Struct struct, String field, int value) {
        boolean isAny = field.equals("priority") || field.equals("background");
        memory.set(struct.at(field).offset(), isAny ? value : whole(value, field));
    }

    /** Sets a field whose 0 stands for the default to a number; null: the default. */
    static void setOrNone(Memory memory, Struct struct, String field, Integer value) {
        if (value == null) return;
        memory.set(struct.at(field).offset(), value == 0 ? Header.RZ_NONE : whole(value, field));
    }

    /** The same for a number of 64 bits. A seed may be any. */
    static void set(Memory memory, Struct struct, String field, long value) {
        if (value < 0 && !field.equals("seed")) throw negative(value, field, Long.MAX_VALUE);
        memory.set(struct.at(field).offset(), value);
    }

    /** A number that the library takes without a sign. @throws IllegalArgumentException if it is negative */
    static int whole(int value, String name) {
        if (value < 0) throw negative(value, name, Integer.MAX_VALUE);
        return value;
    }

    private static IllegalArgumentException negative(long value, String name, long most) {
        String[] words = name.split("_");
        var camel = new StringBuilder(words[0]);
        for (int i = 1; i < words.length; i++) camel.append(Character.toUpperCase(words[i].charAt(0))).append(words[i].substring(1));
        return new IllegalArgumentException(camel + " is " + value + "; it must be a whole number from 0 to " + most);
    }

    static void set(Memory memory, Struct struct, String field, float value) {
        memory.set(struct.at(field).offset(), value);
    }

    static void set(Memory memory, Struct struct, String field, Memory value) {
        memory.set(struct.at(field).offset(), value);
    }

    static int integer(Memory memory, Struct struct, String field) {
        return memory.getInt(struct.at(field).offset());
    }

    static int[] integers(Memory memory, Struct struct, String field) {
        return part(memory, struct, field).ints();
    }

    static long number(Memory memory, Struct struct, String field) {
        return memory.getLong(struct.at(field).offset());
    }

    static float real(Memory memory, Struct struct, String field) {
        return memory.getFloat(struct.at(field).offset());
    }

    static double precise(Memory memory, Struct struct, String field) {
        return memory.getDouble(struct.at(field).offset());
    }

    /** A field that is no number. */
    static Memory part(Memory memory, Struct struct, String field) {
        var at = struct.at(field);
        return memory.part(at.offset(), at.size());
    }

    static String text(Memory memory, Struct struct, String field) {
        return part(memory, struct, field).terminated();
    }

    /** A call of the library that is given where to write an error. */
    interface Call {
        int apply(Memory error);
    }

    /** Calls the library; returns a status that is no error. */
    static int check(Arena arena, Call call) {
        Memory error = arena.allocate(Header.rz_error.size);
        int status = call.apply(error);
        if (status < 0) throw failure(status, error);
        return status;
    }

    private static RuntimeException failure(int status, Memory error) {
        String message = text(error, Header.rz_error, "message");
        if (status == Header.RZ_ERR_CANCELLED) return new CancellationException(message);
        return new RealizarException(status, message, integer(error, Header.rz_error, "system_code"), number(error, Header.rz_error, "needed"));
    }

    /** A microsecond count as the library takes one, of a time that may be negative or, without a limit, null. */
    static long microseconds(Duration time) {
        if (time == null) return Header.RZ_NO_LIMIT;
        if (time.isNegative()) return 0;
        try {
            return Math.addExact(time.toNanos(), 999) / 1000;
        } catch (ArithmeticException e) {
            return Long.MAX_VALUE; // some hundred thousand years
        }
    }

    /** A function that writes to a buffer, and the number of what it has written, or would need. */
    interface Fill {
        int apply(Memory out, long capacity, Memory written, Memory error);
    }

    /** Fills a buffer with elements of some bytes; one that is too small is made larger, once. */
    static Memory filled(Arena arena, int element, long capacity, Fill fill) {
        Memory written = arena.allocate(8), error = arena.allocate(Header.rz_error.size);
        for (long room = capacity;; ) {
            long now = room;
            Memory out = arena.allocate(Math.max(1, now) * element);
            int status = fill.apply(out, now, written, error);
            if (status != Header.RZ_ERR_BUFFER_TOO_SMALL) {
                if (status < 0) throw failure(status, error);
                return out.part(0, written.getLong(0) * element);
            }
            room = written.getLong(0);
        }
    }

    /** A pointer that a call writes. */
    static Memory made(Arena arena, java.util.function.Function<Memory, Call> call) {
        Memory out = arena.allocate(Memory.POINTER);
        check(arena, call.apply(out));
        return out.getPointer(0);
    }

    /** An array of NUL-terminated texts, NULL for none. */
    static Memory texts(Arena arena, List<String> texts) {
        Memory all = texts.isEmpty() ? Memory.NULL : arena.allocate((long) Memory.POINTER * texts.size());
        for (int i = 0; i < texts.size(); i++) all.set(Memory.POINTER * i, terminated(arena, texts.get(i)));
        return all;
    }

    static Memory ints(Arena arena, int[] values) {
        if (values.length == 0) return Memory.NULL;
        Memory all = arena.allocate(4L * values.length);
        for (int i = 0; i < values.length; i++) all.set(4 * i, values[i]);
        return all;
    }

    /** UTF-8 without a NUL. A lone surrogate, which has none, is refused. */
    private static byte[] utf8(String text) {
        Objects.requireNonNull(text, "text");
        try {
            var bytes = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
            return Arrays.copyOf(bytes.array(), bytes.limit());
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException("a text with half of a surrogate pair");
        }
    }

    /** The same where the library can read it. */
    static Memory bytes(Arena arena, String text) {
        byte[] bytes = utf8(text);
        if (bytes.length == 0) return Memory.NULL;
        Memory all = arena.allocate(bytes.length);
        all.copy(bytes);
        return all;
    }

    /** A function that calls back, on the thread whose call it belongs to, for as long as the arena. */
    static Platform.Upcall callback(Arena arena, Platform.Kind kind, Platform.Callback callback) {
        return PLATFORM.callback(arena, kind, (first, second, level) -> {
            try {
                return Blocking.callBack(() -> callback.call(first, second, level));
            } catch (Throwable e) {
                return 1; // nothing may be thrown into the library
            }
        });
    }

    /** NUL-terminated UTF-8. */
    static Memory terminated(Arena arena, String text) {
        if (Objects.requireNonNull(text, "text").indexOf('\0') >= 0) throw new IllegalArgumentException("a text with a NUL");
        byte[] bytes = utf8(text);
        Memory out = arena.allocate(bytes.length + 1);
        out.copy(bytes);
        return out;
    }
}
