//! Text embeddings, and reranking scores.

use crate::engine::{Cancel, EmbedParams, Model, Pooling, Text};
use crate::error::{Error, Result, try_vec};

use super::arguments::{Buffer, Call};
use super::cancel::{flag, rz_cancel};
use super::guard::guarded;
use super::model::rz_model;
use super::prompt::rz_prompt;
use super::status::{RZ_OK, rz_error, rz_status};

/// Pooling: the pooling that the model was trained with.
pub const RZ_POOLING_MODEL: u32 = 0;
/// Pooling: none, a vector for each token.
pub const RZ_POOLING_NONE: u32 = 1;
/// Pooling: the mean over all tokens.
pub const RZ_POOLING_MEAN: u32 = 2;
/// Pooling: the vector of the first token.
pub const RZ_POOLING_CLS: u32 = 3;
/// Pooling: the vector of the last token.
pub const RZ_POOLING_LAST: u32 = 4;
/// Pooling: the scores of the model's classifier, for reranking. They are never normalized.
pub const RZ_POOLING_RANK: u32 = 5;

/// Flag of rz_embed_params: embeddings keep their length, instead of L2 normalization to length 1.
pub const RZ_EMBED_RAW: u32 = 1;

/// Parameters of rz_embed_into. Zero in a field, or NULL instead of the struct, means the default. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_embed_params {
    /// sizeof(rz_embed_params).
    pub struct_size: u32,
    /// RZ_POOLING_...; 0: the model's.
    pub pooling: u32,
    /// RZ_EMBED_..., combined with |.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
}

/// Computes the embeddings of `n_texts` texts, or with RZ_POOLING_RANK their reranking scores. Text i is `lengths[i]`
/// tokens at `tokens[i]`.
///
/// `out` receives `[n_texts][dims]` floats, text by text; with RZ_POOLING_NONE `[tokens][dims]` floats, for all tokens
/// of the first text, then of the second. dims is the width of the network (rz_model_info.hidden_dim), the width of the
/// last layer after the pooling if the model has such a layer, or the number of scores of the classifier. `*n` receives
/// the number of floats. If `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL and computes nothing.
/// After any other failure `out` and `*n` are unchanged.
///
/// Tokens are used unchanged: let rz_tokenize_into add the special tokens at both ends of a text
/// (RZ_TOKENIZE_ADD_SPECIAL), such as the end token that RZ_POOLING_LAST needs. A pair of texts for a reranker is one
/// list of tokens, in the form that the model's authors define. A text must fit the model's context_length; texts for
/// SigLIP are padded to this length, unless RZ_POOLING_NONE asks for one vector per token. An embedding depends only on
/// the tokens of its own text, not on the other texts, their order or the number of threads. On the CPU, and on a GPU
/// with RZ_MODEL_DETERMINISTIC, this holds bit for bit. The call uses no rz_cache. It only reads the model; its memory
/// grows with the longest text and is freed at the end.
///
/// `params` and `cancel` may be NULL. Any thread, any number at once. Errors: RZ_ERR_INVALID_ARGUMENT (a text without
/// tokens, one longer than the context length, a token outside the vocabulary, an unknown pooling), RZ_ERR_VERSION
/// (unknown flags), RZ_ERR_UNSUPPORTED (the model declares no pooling, or has no classifier), RZ_ERR_DEVICE_LOST,
/// RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_CANCELLED, RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_embed_into(
    model: *const rz_model,
    params: *const rz_embed_params,
    tokens: *const *const u32,
    lengths: *const usize,
    n_texts: usize,
    out: *mut f32,
    capacity: usize,
    n: *mut usize,
    cancel: *const rz_cancel,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let params: rz_embed_params = call.params(params)?;
        let starts = call.slice(tokens, n_texts, "tokens")?;
        let lengths = call.slice(lengths, n_texts, "lengths")?;
        let out = call.buffer(out, capacity, n, ["out", "n"])?;
        let cancel = call.optional(cancel)?;
        let params = embed_params(call, &params)?;
        let mut texts = try_vec("texts", n_texts)?;
        for (i, (&start, &length)) in starts.iter().zip(lengths).enumerate() {
            texts.push(call.slice(start, length, &format!("tokens[{i}]"))?);
        }
        let texts: Vec<Text> = texts.into_iter().map(Text::plain).collect();
        embed(&model.0, &texts, params, out, flag(&cancel))?;
        Ok(RZ_OK)
    })
}

/// Like rz_embed_into, for `n_prompts` prompts, which may have media, for multimodal embedding models. For
/// Qwen3-VL-Embedding a prompt is a conversation (rz_prompt_from_chat). Rows of media count as tokens. `params` and
/// `cancel` may be NULL. Any thread. Errors: as for rz_embed_into, RZ_ERR_MISMATCH (a prompt of another model). Since
/// 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_embed_prompts_into(
    model: *const rz_model,
    params: *const rz_embed_params,
    prompts: *const *mut rz_prompt,
    n_prompts: usize,
    out: *mut f32,
    capacity: usize,
    n: *mut usize,
    cancel: *const rz_cancel,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let params: rz_embed_params = call.params(params)?;
        let handles = call.slice(prompts, n_prompts, "prompts")?;
        let out = call.buffer(out, capacity, n, ["out", "n"])?;
        let cancel = call.optional(cancel)?;
        let params = embed_params(call, &params)?;
        let mut prompts = try_vec("prompts", n_prompts)?;
        for (i, handle) in handles.iter().enumerate() {
            prompts.push(call.handle(*handle).map_err(|e| e.of_entry(i))?);
        }
        let mut texts = try_vec("texts", n_prompts)?;
        for (i, prompt) in prompts.iter().enumerate() {
            texts.push(prompt.0.from(0, &model.0).map_err(|e| e.of_entry(i))?);
        }
        embed(&model.0, &texts, params, out, flag(&cancel))?;
        Ok(RZ_OK)
    })
}

fn embed(model: &Model, texts: &[Text], params: EmbedParams, out: Buffer<f32>, cancel: Option<&Cancel>) -> Result<()> {
    let out = out.with_room(model.embed_texts_len(texts, params)?)?;
    out.fill(&model.embed_texts(texts, params, cancel)?)
}

fn embed_params(call: &Call, params: &rz_embed_params) -> Result<EmbedParams> {
    call.flags(params.flags, RZ_EMBED_RAW, "rz_embed_params.flags")?;
    Ok(EmbedParams { pooling: pooling(params.pooling)?, raw: params.flags & RZ_EMBED_RAW != 0 })
}

fn pooling(id: u32) -> Result<Option<Pooling>> {
    Ok(match id {
        RZ_POOLING_MODEL => None,
        RZ_POOLING_NONE => Some(Pooling::None),
        RZ_POOLING_MEAN => Some(Pooling::Mean),
        RZ_POOLING_CLS => Some(Pooling::Cls),
        RZ_POOLING_LAST => Some(Pooling::Last),
        RZ_POOLING_RANK => Some(Pooling::Rank),
        _ => return Err(Error::invalid(format!("rz_embed_params.pooling is {id}, which is none"))),
    })
}

/// Returns RZ_POOLING_... for a model's pooling.
pub(super) fn pooling_number(pooling: Option<Pooling>) -> u32 {
    match pooling {
        None => RZ_POOLING_MODEL,
        Some(Pooling::None) => RZ_POOLING_NONE,
        Some(Pooling::Mean) => RZ_POOLING_MEAN,
        Some(Pooling::Cls) => RZ_POOLING_CLS,
        Some(Pooling::Last) => RZ_POOLING_LAST,
        Some(Pooling::Rank) => RZ_POOLING_RANK,
    }
}
