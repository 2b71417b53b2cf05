package realizar;

/** A filter of tokens, or the temperature. */
public enum Filter {
    TOP_N_SIGMA(Header.RZ_FILTER_TOP_N_SIGMA), TOP_K(Header.RZ_FILTER_TOP_K), TYPICAL_P(Header.RZ_FILTER_TYPICAL_P),
    TOP_P(Header.RZ_FILTER_TOP_P), MIN_P(Header.RZ_FILTER_MIN_P), XTC(Header.RZ_FILTER_XTC),
    TEMPERATURE(Header.RZ_FILTER_TEMPERATURE);

    final int number;

    Filter(int number) {
        this.number = number;
    }
}
