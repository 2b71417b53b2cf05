package realizar;

/** The element type of what a session remembers. */
public enum CacheType {
    F16(1), Q4_0(2), Q8_0(8), F32(256);

    final int number;

    CacheType(int number) {
        this.number = number;
    }
}
