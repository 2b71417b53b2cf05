/* Options that calls of several groups have. */

#include "internal.h"

const choice ELEMENT_TYPES[] = {
    {"default", RZ_TYPE_DEFAULT}, {"f32", RZ_TYPE_F32}, {"f16", RZ_TYPE_F16}, {"bf16", RZ_TYPE_BF16},
    {"f8_e4m3", RZ_TYPE_F8_E4M3}, {"q4_0", RZ_TYPE_Q4_0}, {"q4_1", RZ_TYPE_Q4_1}, {"q5_0", RZ_TYPE_Q5_0},
    {"q5_1", RZ_TYPE_Q5_1}, {"q8_0", RZ_TYPE_Q8_0}, {"q2_k", RZ_TYPE_Q2_K}, {"q3_k", RZ_TYPE_Q3_K},
    {"q4_k", RZ_TYPE_Q4_K}, {"q5_k", RZ_TYPE_Q5_K}, {"q6_k", RZ_TYPE_Q6_K}, {"iq1_s", RZ_TYPE_IQ1_S},
    {"iq1_m", RZ_TYPE_IQ1_M}, {"iq2_xxs", RZ_TYPE_IQ2_XXS}, {"iq2_xs", RZ_TYPE_IQ2_XS}, {"iq2_s", RZ_TYPE_IQ2_S},
    {"iq3_xxs", RZ_TYPE_IQ3_XXS}, {"iq3_s", RZ_TYPE_IQ3_S}, {"iq4_nl", RZ_TYPE_IQ4_NL}, {"iq4_xs", RZ_TYPE_IQ4_XS},
    {"tq1_0", RZ_TYPE_TQ1_0}, {"tq2_0", RZ_TYPE_TQ2_0}, {"mxfp4", RZ_TYPE_MXFP4}, {"nvfp4", RZ_TYPE_NVFP4},
    {"q1_0", RZ_TYPE_Q1_0}, {"q2_0", RZ_TYPE_Q2_0}, {"pq2_0", RZ_TYPE_PQ2_0}, {"ptq1_0", RZ_TYPE_PTQ1_0}, {NULL, 0}};

rz_cache_params cache_params(task *t, napi_value options) {
    rz_cache_params params = {.struct_size = sizeof params};
    U32(t, options, &params, capacity);
    params.k_type = choice_member(t, options, "k_type", ELEMENT_TYPES);
    params.v_type = choice_member(t, options, "v_type", ELEMENT_TYPES);
    return params;
}

int32_t on_progress(uint64_t done, uint64_t total, void *user) {
    handle *cancel = user;
    atomic_store(&cancel->done, done);
    atomic_store(&cancel->total, total);
    return 0;
}
