package realizar;

/** An element type of tensors or caches. DEFAULT: what the library takes for the place where it is named. */
public enum ElementType {
    DEFAULT(Header.RZ_TYPE_DEFAULT), F32(Header.RZ_TYPE_F32), F16(Header.RZ_TYPE_F16), BF16(Header.RZ_TYPE_BF16),
    F8_E4M3(Header.RZ_TYPE_F8_E4M3), Q4_0(Header.RZ_TYPE_Q4_0), Q4_1(Header.RZ_TYPE_Q4_1), Q5_0(Header.RZ_TYPE_Q5_0),
    Q5_1(Header.RZ_TYPE_Q5_1), Q8_0(Header.RZ_TYPE_Q8_0), Q2_K(Header.RZ_TYPE_Q2_K), Q3_K(Header.RZ_TYPE_Q3_K),
    Q4_K(Header.RZ_TYPE_Q4_K), Q5_K(Header.RZ_TYPE_Q5_K), Q6_K(Header.RZ_TYPE_Q6_K), IQ1_S(Header.RZ_TYPE_IQ1_S),
    IQ1_M(Header.RZ_TYPE_IQ1_M), IQ2_XXS(Header.RZ_TYPE_IQ2_XXS), IQ2_XS(Header.RZ_TYPE_IQ2_XS),
    IQ2_S(Header.RZ_TYPE_IQ2_S), IQ3_XXS(Header.RZ_TYPE_IQ3_XXS), IQ3_S(Header.RZ_TYPE_IQ3_S),
    IQ4_NL(Header.RZ_TYPE_IQ4_NL), IQ4_XS(Header.RZ_TYPE_IQ4_XS), TQ1_0(Header.RZ_TYPE_TQ1_0),
    TQ2_0(Header.RZ_TYPE_TQ2_0), MXFP4(Header.RZ_TYPE_MXFP4), NVFP4(Header.RZ_TYPE_NVFP4), Q1_0(Header.RZ_TYPE_Q1_0),
    Q2_0(Header.RZ_TYPE_Q2_0), PQ2_0(Header.RZ_TYPE_PQ2_0), PTQ1_0(Header.RZ_TYPE_PTQ1_0);

    final int number;

    ElementType(int number) {
        this.number = number;
    }
}
