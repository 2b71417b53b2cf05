/* Continues a story with an installed library: program model.gguf */
#include <realizar.h>
#include <stdio.h>

int main(int argc, char **argv) {
    const char prompt[] = "Once upon a time";
    rz_error err;
    rz_model *model = NULL;
    rz_cache *cache = NULL;
    uint32_t tokens[32];
    char text[512];
    size_t n, len;

    if (argc != 2 || rz_abi_version() != RZ_ABI_VERSION)
        return 2;
    if (rz_model_load(argv[1], NULL, &model, &err) ||
        rz_cache_new(model, NULL, &cache, &err) ||
        rz_tokenize_into(model, prompt, sizeof prompt - 1, RZ_TOKENIZE_ADD_SPECIAL, tokens, 32, &n, NULL, &err) ||
        rz_prefill(cache, tokens, n, NULL, &err) ||
        rz_sample(cache, NULL, tokens, &err) ||
        rz_generate_into(cache, tokens[0], NULL, tokens + 1, 26, &n, NULL, &err) ||
        rz_detokenize_into(model, tokens, n + 1, 0, text, sizeof text, &len, &err)) {
        fprintf(stderr, "%s: %s\n", rz_status_name(err.code), err.message);
        return 1;
    }
    printf("%.*s\n", (int)len, text);
    rz_model_free(model);
    rz_cache_free(cache);
    return 0;
}
