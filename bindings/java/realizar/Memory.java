package realizar;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/** Memory of the library or for it: an address, and so many bytes that may be read and written. A handle has none. */
final class Memory {
    static final Memory NULL = new Memory(0, 0);

    /** Bytes of a pointer. */
    static final int POINTER = 8;

    final long address, size;
    private ByteBuffer bytes;

    Memory(long address, long size) {
        this.address = address;
        this.size = size;
    }

    private ByteBuffer all() {
        if (bytes == null) bytes = Native.PLATFORM.view(address, size).order(ByteOrder.nativeOrder());
        return bytes;
    }

    /** A part, which is within it. */
    Memory part(long offset, long size) {
        if (offset < 0 || size < 0 || offset > this.size - size) throw new IndexOutOfBoundsException("bytes " + offset + " to " + (offset + size));
        return new Memory(address + offset, size);
    }

    int getInt(int offset) {
        return all().getInt(offset);
    }

    long getLong(int offset) {
        return all().getLong(offset);
    }

    float getFloat(int offset) {
        return all().getFloat(offset);
    }

    double getDouble(int offset) {
        return all().getDouble(offset);
    }

    /** The memory that a pointer in it points to, whose size is unknown. */
    Memory getPointer(int offset) {
        return new Memory(getLong(offset), 0);
    }

    void set(int offset, int value) {
        all().putInt(offset, value);
    }

    void set(int offset, long value) {
        all().putLong(offset, value);
    }

    void set(int offset, float value) {
        all().putFloat(offset, value);
    }

    void set(int offset, Memory value) {
        set(offset, value.address);
    }

    void copy(byte[] from) {
        if (from.length > 0) all().duplicate().put(from);
    }

    void copy(float[] from) {
        if (from.length > 0) all().asFloatBuffer().put(from);
    }

    void copy(double[] from) {
        if (from.length > 0) all().asDoubleBuffer().put(from);
    }

    byte[] bytes() {
        byte[] array = new byte[Math.toIntExact(size)];
        if (size > 0) all().duplicate().get(array);
        return array;
    }

    int[] ints() {
        int[] array = new int[Math.toIntExact(size / 4)];
        if (size > 0) all().asIntBuffer().get(array);
        return array;
    }

    long[] longs() {
        long[] array = new long[Math.toIntExact(size / 8)];
        if (size > 0) all().asLongBuffer().get(array);
        return array;
    }

    float[] floats() {
        float[] array = new float[Math.toIntExact(size / 4)];
        if (size > 0) all().asFloatBuffer().get(array);
        return array;
    }

    /** All of it as a text. */
    String text() {
        return new String(bytes(), StandardCharsets.UTF_8);
    }

    /** The text up to a NUL. */
    String terminated() {
        int end = 0;
        while (all().get(end) != 0) end++;
        return part(0, end).text();
    }
}
