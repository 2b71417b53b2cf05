package realizar;

/** The element type of what a session remembers. */
public enum CacheType {
    F16(Header.RZ_TYPE_F16), Q4_0(Header.RZ_TYPE_Q4_0), Q8_0(Header.RZ_TYPE_Q8_0), F32(Header.RZ_TYPE_F32);

    final int number;

    CacheType(int number) {
        this.number = number;
    }
}
