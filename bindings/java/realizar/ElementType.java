package realizar;

/** A type that a load can quantize float matrices to. The build writes this file: make header. */
public enum ElementType {
    /** The types of the file. */
    DEFAULT(Header.RZ_TYPE_DEFAULT),
    /** Single precision. */
    F32(Header.RZ_TYPE_F32),
    /** Half precision. */
    F16(Header.RZ_TYPE_F16),
    /** Bfloat16. */
    BF16(Header.RZ_TYPE_BF16),
    /** Blocks of 32 values with 4 bits each and a scale, 4.5 bits per value. */
    Q4_0(Header.RZ_TYPE_Q4_0),
    /** Blocks of 32 values with 4 bits each, a scale and a minimum, 5 bits per value. */
    Q4_1(Header.RZ_TYPE_Q4_1),
    /** Blocks of 32 values with 5 bits each and a scale, 5.5 bits per value. */
    Q5_0(Header.RZ_TYPE_Q5_0),
    /** Blocks of 32 values with 5 bits each, a scale and a minimum, 6 bits per value. */
    Q5_1(Header.RZ_TYPE_Q5_1),
    /** Blocks of 32 values with 8 bits each and a scale, 8.5 bits per value. */
    Q8_0(Header.RZ_TYPE_Q8_0),
    /** K-quants: blocks of 256 values in groups; each group has a scale, in Q2_K, Q4_K and Q5_K also a minimum; the
     * digit is the number of bits per value. */
    Q4_K(Header.RZ_TYPE_Q4_K),
    /** K-quants: blocks of 256 values in groups; each group has a scale, in Q2_K, Q4_K and Q5_K also a minimum; the
     * digit is the number of bits per value. */
    Q5_K(Header.RZ_TYPE_Q5_K),
    /** K-quants: blocks of 256 values in groups; each group has a scale, in Q2_K, Q4_K and Q5_K also a minimum; the
     * digit is the number of bits per value. */
    Q6_K(Header.RZ_TYPE_Q6_K);

    final int number;

    ElementType(int number) {
        this.number = number;
    }
}
