package realizar;

/** A filter of tokens, or the temperature. The build writes this file: make header. */
public enum Filter {
    /** {@link Options#topNSigma}. */
    TOP_N_SIGMA(Header.RZ_FILTER_TOP_N_SIGMA),
    /** {@link Options#topK}. */
    TOP_K(Header.RZ_FILTER_TOP_K),
    /** {@link Options#typicalP}. */
    TYPICAL_P(Header.RZ_FILTER_TYPICAL_P),
    /** {@link Options#topP}. */
    TOP_P(Header.RZ_FILTER_TOP_P),
    /** {@link Options#minP}. */
    MIN_P(Header.RZ_FILTER_MIN_P),
    /** {@link Options#xtcProbability}. */
    XTC(Header.RZ_FILTER_XTC),
    /** {@link Options#temperature}. */
    TEMPERATURE(Header.RZ_FILTER_TEMPERATURE);

    final int number;

    Filter(int number) {
        this.number = number;
    }
}
