package realizar;

import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

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
            PLATFORM.load(named == null ? null : FILE);
        } catch (UnsatisfiedLinkError e) {
            throw wrong("cannot be loaded: name it in the property realizar.library (" + e.getMessage() + ")");
        }
        PLATFORM.link();
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

    /** A reference that a caller has given. @throws NullPointerException that names it */
    static <T> T given(@Nullable T value, String name) {
        if (value == null) throw new NullPointerException(name + " is null");
        return value;
    }

    /** A copy of a list whose elements are given. */
    static <T> List<T> all(@Nullable Collection<? extends @Nullable T> values, String name) {
        int i = 0;
        for (var value : given(values, name)) given(value, name + "[" + i++ + "]");
        return List.copyOf(values);
    }

    @SafeVarargs
    static <T> List<T> all(String name, @Nullable T @Nullable... values) {
        return all(Arrays.asList(given(values, name)), name);
    }

    /** A copy of a map, in its order, whose keys and values are given. */
    static <K, V> Map<K, V> all(@Nullable Map<? extends K, ? extends @Nullable V> values, String name) {
        var copy = new LinkedHashMap<K, V>();
        given(values, name).forEach((key, value) -> copy.put(given(key, "a key of " + name), given(value, name + "[" + key + "]")));
        return copy;
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
    static void setOrNone(Memory memory, Struct struct, String field, @Nullable Integer value) {
        if (value == null) return;
        memory.set(struct.at(field).offset(), value == 0 ? Header.RZ_NONE : whole(value, field));
    }

    /** The same for a number of 64 bits. A seed may be any. */
    static void set(Memory memory, Struct struct, String field, long value) {
        memory.set(struct.at(field).offset(), field.equals("seed") ? value : whole(value, field));
    }

    /** A number that the library takes without a sign. @throws IllegalArgumentException if it is negative */
    static int whole(int value, String name) {
        if (value < 0) throw negative(value, name, Integer.MAX_VALUE);
        return value;
    }

    static long whole(long value, String name) {
        if (value < 0) throw negative(value, name, Long.MAX_VALUE);
        return value;
    }

    /** Copies of sequences of tokens. */
    static List<int[]> sequences(int[][] sequences, String name) {
        var copies = new ArrayList<int[]>();
        for (int[] tokens : all(name, sequences)) copies.add(wholes(tokens, name + "[" + copies.size() + "]").clone());
        return copies;
    }

    /** A copy of what is added to the logits of tokens. */
    static Map<Integer, Float> biases(Map<Integer, Float> biases, String name) {
        Map<Integer, Float> copy = all(biases, name);
        copy.forEach((token, bias) -> {
            whole(token, "a token of " + name);
            if (bias.isNaN()) throw new IllegalArgumentException(name + "[" + token + "] is NaN; it must be a number");
        });
        return copy;
    }

    /** A number that is neither NaN nor infinite. */
    static float finite(float value, String name) {
        if (Float.isFinite(value)) return value;
        throw new IllegalArgumentException(name + " is " + value + "; it must be finite");
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
        if (status == Header.RZ_ERR_BUSY) return new BusyException(message);
        return new RealizarException(status, message, integer(error, Header.rz_error, "system_code"), number(error, Header.rz_error, "needed"));
    }

    /** A microsecond count as the library takes one, of a time that may be negative or, without a limit, null. */
    static long microseconds(@Nullable Duration time) {
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
    static Memory texts(Arena arena, List<String> texts, String name) {
        Memory all = texts.isEmpty() ? Memory.NULL : arena.allocate((long) Memory.POINTER * texts.size());
        for (int i = 0; i < texts.size(); i++) all.set(Memory.POINTER * i, terminated(arena, texts.get(i), name + "[" + i + "]"));
        return all;
    }

    /** An array of numbers that are not negative, NULL for none. */
    static Memory ints(Arena arena, int[] values, String name) {
        wholes(values, name);
        if (values.length == 0) return Memory.NULL;
        Memory all = arena.allocate(4L * values.length);
        for (int i = 0; i < values.length; i++) all.set(4 * i, values[i]);
        return all;
    }

    /** Checks numbers before a call. */
    static int[] wholes(int[] values, String name) {
        for (int i = 0; i < given(values, name).length; i++) {
            if (values[i] < 0) whole(values[i], name + "[" + i + "]");
        }
        return values;
    }

    /** UTF-8 without a NUL. A lone surrogate, which has none, is refused. */
    private static byte[] utf8(String text, String name) {
        try {
            var bytes = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
            return Arrays.copyOf(bytes.array(), bytes.limit());
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException(name + " has half of a surrogate pair; it must be Unicode");
        }
    }

    /** The same where the library can read it. */
    static Memory bytes(Arena arena, String text, String name) {
        byte[] bytes = utf8(text, name);
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
    static Memory terminated(Arena arena, String text, String name) {
        int nul = text.indexOf('\0');
        if (nul >= 0) throw new IllegalArgumentException(name + " has a NUL at " + nul + "; it must have none");
        byte[] bytes = utf8(text, name);
        Memory out = arena.allocate(bytes.length + 1);
        out.copy(bytes);
        return out;
    }
}
