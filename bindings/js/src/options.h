/* The options of structs of realizar.h. The build writes this file: make header. */
extern const choice RZ_TYPE_NAMES[];
extern const choice RZ_CACHE_TYPE_NAMES[];
extern const choice RZ_REASONING_NAMES[];
extern const choice RZ_POOLING_NAMES[];
extern const choice RZ_FILTER_NAMES[];
void set_rz_runtime_params(task *t, napi_value options, rz_runtime_params *params);
void set_rz_model_params(task *t, napi_value options, rz_model_params *params);
void set_rz_sampler_params(task *t, napi_value options, rz_sampler_params *params);
void set_rz_cache_params(task *t, napi_value options, rz_cache_params *params);
void set_rz_encoder_params(task *t, napi_value options, rz_encoder_params *params);
void set_rz_media_params(task *t, napi_value options, rz_media_params *params);
void set_rz_job_params(task *t, napi_value options, rz_job_params *params);
void set_rz_store_params(task *t, napi_value options, rz_store_params *params);
void set_rz_reply_params(task *t, napi_value options, rz_reply_params *params);
void set_rz_embed_params(task *t, napi_value options, rz_embed_params *params);
