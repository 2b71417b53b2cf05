/* Kinds of handles. The build writes this file: make header. */

#include "internal.h"

const char *kind_name(kind k) {
    static const char *const names[] = {"model", "cancel", "store", "adapter", "conversation", "session",
        "job", "encoder", "media item", "prompt", "runtime", "grammar", "sampler"};
    return names[k];
}

void free_pointer(const library *lib, kind k, void *pointer) {
    switch (k) {
    case MODEL: lib->rz_model_free(pointer); break;
    case CANCEL: lib->rz_cancel_free(pointer); break;
    case STORE: lib->rz_store_free(pointer); break;
    case ADAPTER: lib->rz_adapter_free(pointer); break;
    case CONVERSATION: lib->rz_conversation_free(pointer); break;
    case CACHE: lib->rz_cache_free(pointer); break;
    case JOB: lib->rz_job_free(pointer); break;
    case ENCODER: lib->rz_encoder_free(pointer); break;
    case MEDIA: lib->rz_media_free(pointer); break;
    case PROMPT: lib->rz_prompt_free(pointer); break;
    case RUNTIME: lib->rz_runtime_free(pointer); break;
    case GRAMMAR: lib->rz_grammar_free(pointer); break;
    case SAMPLER: lib->rz_sampler_free(pointer); break;
    }
}
