package realizar;

/** The element type of the keys or the values of a KV cache. The build writes this file: make header. */
public enum CacheType {
    /** The same as F16. */
    DEFAULT(Header.RZ_TYPE_DEFAULT),
    /** Single precision, 32 bits per value. */
    F32(Header.RZ_TYPE_F32),
    /** Half precision on a GPU, 14-bit integers with scales on the CPU: 16 bits per value. */
    F16(Header.RZ_TYPE_F16),
    /** 4.5 bits per value; better for values than for keys. */
    Q4_0(Header.RZ_TYPE_Q4_0),
    /** Blocks of 32 values with 8 bits each and a scale, 8.5 bits per value. */
    Q8_0(Header.RZ_TYPE_Q8_0);

    final int number;

    CacheType(int number) {
        this.number = number;
    }
}
