//! Constrained decoding: grammars, JSON schemas, tool calls.

use std::ffi::c_char;
use std::sync::Arc;

use crate::engine::{CompiledGrammar, GrammarKind, GrammarText, Runtime};
use crate::error::{Error, Result};

use super::cancel::{flag, rz_cancel};
use super::chat::{RZ_CHAT_ADD_GENERATION_PROMPT, parse};
use super::guard::{guarded, guarded_or};
use super::handle::Handle;
use super::model::rz_model;
use super::sampler::rz_sampler;
use super::status::{RZ_OK, rz_error, rz_status};

/// Kind of a grammar: a JSON schema, draft 4 to 2020-12. The whole schema is enforced: a keyword that cannot be
/// compiled fails with RZ_ERR_UNSUPPORTED, and the message names the keyword's place, unless
/// RZ_GRAMMAR_FLAG_BEST_EFFORT is set. "oneOf", "not" and "if" fail unless they can be rewritten exactly. A "format"
/// that JSON Schema does not define is an annotation and has no effect. Patterns are ECMA-262 regular expressions.
/// Dates and times are RFC 3339 with "T" and "Z", without leap seconds and the year 0. Annotations, such as
/// descriptions, have no effect; a schema may have 256 KiB without them and 4 MiB with them.
pub const RZ_GRAMMAR_JSON_SCHEMA: u32 = 1;
/// Kind of a grammar: a regular expression that the whole text matches, without look-around and back references.
pub const RZ_GRAMMAR_REGEX: u32 = 2;
/// Kind of a grammar: llguidance's dialect of Lark; the rule "start" is the whole text. A name between angle brackets,
/// such as <|im_end|>, is the token with this name.
pub const RZ_GRAMMAR_LARK: u32 = 3;
/// Kind of a grammar: llama.cpp's GBNF, except its syntax for tokens (<[id]>, <name>), which is rejected. Every text
/// that the rules derive is allowed, whatever its tokenization.
pub const RZ_GRAMMAR_GBNF: u32 = 4;
/// Kind of a grammar: any JSON value. Takes no text.
pub const RZ_GRAMMAR_JSON: u32 = 5;
/// Kind of a grammar: one of several texts, given as a JSON array of strings.
pub const RZ_GRAMMAR_CHOICES: u32 = 6;
/// Kind of a grammar: a reply in a conversation. `text` is the conversation, in the JSON of rz_chat_tokenize_into. The
/// reply is text or tool calls in the form of the model's chat template, with arguments that follow each tool's JSON
/// schema. "tool_choice" selects what follows the reasoning, if any: "auto" allows text, tool calls, or text followed
/// by tool calls; "none" allows only text; "required" or the name of a tool allows only tool calls.
/// "parallel_tool_calls": false allows one call. The schema of a tool with "strict": true, within the tool or its
/// "function", is enforced as with RZ_GRAMMAR_JSON_SCHEMA, and an error names the tool and the place. All other tools
/// are best effort, as with RZ_GRAMMAR_FLAG_BEST_EFFORT. Arguments come in the order of the schema. If a model writes
/// string arguments between tags instead of in quotes, "enum", "minLength" and "maxLength" (up to 2000) are enforced
/// for these strings; "pattern" and "format" are not.
pub const RZ_GRAMMAR_TOOLS: u32 = 7;

/// Flag of a grammar, for RZ_GRAMMAR_JSON_SCHEMA, _JSON and _TOOLS: allows up to 40 characters of white space,
/// including line breaks, between the parts of JSON. Without the flag, JSON has no white space, which saves tokens;
/// with RZ_GRAMMAR_TOOLS it has at most one space after commas and colons, as templates write it.
pub const RZ_GRAMMAR_FLAG_WHITESPACE: u32 = 1;

/// Flag of a grammar, for RZ_GRAMMAR_JSON_SCHEMA: keywords that cannot be compiled are left out and named once in the
/// log (rz_runtime_params.log); they do not fail with RZ_ERR_UNSUPPORTED, RZ_ERR_INVALID_ARGUMENT or RZ_ERR_LIMIT.
/// Schemas that libraries generate contain keywords that usually cannot be enforced, such as "uniqueItems"; servers
/// treat a "response_format" that is not strict in the same way. With RZ_GRAMMAR_TOOLS each tool selects best effort or
/// strict itself, with "strict".
pub const RZ_GRAMMAR_FLAG_BEST_EFFORT: u32 = 2;

/// Compiled grammar for constrained decoding (structured output). Immutable: any number of samplers, jobs and replies
/// (rz_reply_params.compiled_grammar) may use it at once, with caches of any model with the same vocabulary.
pub struct rz_grammar(pub(super) Arc<CompiledGrammar>);

impl Handle for rz_grammar {
    const NAME: &'static str = "grammar";

    fn runtime(&self) -> Option<&Arc<Runtime>> {
        Some(self.0.model().runtime())
    }
}

/// Compiles a grammar of `kind` (RZ_GRAMMAR_...) with `flags` (RZ_GRAMMAR_FLAG_... bits, or 0) from `len` bytes of
/// UTF-8. The caller frees `*out` with rz_grammar_free, before or after the model. If the model has a chat template,
/// the call also compiles a grammar of the whole reply (reasoning and content), for rz_reply_params.compiled_grammar.
///
/// For any text, the call takes less than a second and 64 MiB, or fails with RZ_ERR_LIMIT because the text is too large
/// or too complex. Another call with the same text fails too, so a server should answer with status 400. Best effort
/// compiles again with fewer keywords as long as compiling fails. The first grammar of a model prepares its vocabulary,
/// which takes tens of milliseconds. Runs on a thread of the runtime (rz_runtime_params.threads); `cancel` ends the
/// wait for that thread, and may be NULL. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (an unknown kind, a flag that the
/// kind does not take, a grammar that cannot be parsed or that no text matches; the message says where),
/// RZ_ERR_UNSUPPORTED (a feature that is not implemented, or a model without a tokenizer or without a token that ends a
/// text), RZ_ERR_LIMIT (too complex), RZ_ERR_VERSION (unknown flags), RZ_ERR_RESOURCES (no thread), RZ_ERR_CANCELLED,
/// RZ_ERR_DEADLINE, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_grammar_new(
    model: *const rz_model,
    kind: u32,
    flags: u32,
    text: *const c_char,
    len: usize,
    cancel: *const rz_cancel,
    out: *mut *mut rz_grammar,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let text = call.text(text, len, "text")?;
        let cancel = call.optional(cancel)?;
        let out = call.out(out, "out")?;
        call.flags(flags, RZ_GRAMMAR_FLAG_WHITESPACE | RZ_GRAMMAR_FLAG_BEST_EFFORT, "flags")?;
        let grammar = match kind {
            RZ_GRAMMAR_TOOLS => {
                if flags & RZ_GRAMMAR_FLAG_BEST_EFFORT != 0 {
                    let what =
                        "RZ_GRAMMAR_FLAG_BEST_EFFORT needs RZ_GRAMMAR_JSON_SCHEMA; a tool selects it by \"strict\"";
                    return Err(Error::invalid(what));
                }
                let chat = parse(text, RZ_CHAT_ADD_GENERATION_PROMPT, None)?;
                let white_space = flags & RZ_GRAMMAR_FLAG_WHITESPACE != 0;
                model.0.run_deep(&[flag(&cancel)], || CompiledGrammar::of_reply_to(&model.0, &chat, white_space))?
            }
            _ => {
                let source = grammar_text(kind, flags, text)?;
                model.0.run_deep(&[flag(&cancel)], || CompiledGrammar::new(&model.0, &source))?
            }
        };
        out.set_handle(rz_grammar(Arc::new(grammar)));
        Ok(RZ_OK)
    })
}

/// Frees the handle; NULL is fine. Samplers, jobs and replies that use the grammar keep it. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_grammar_free(grammar: *mut rz_grammar) {
    guarded_or!((), |call| call.release(grammar))
}

/// Constrains `sampler` to texts that match `grammar`, beginning at the start of the grammar: it chooses only tokens
/// that can continue such a text. `grammar` may be NULL, which removes the constraint.
///
/// When a token is next sampled with this sampler, the grammar is bound to the cache from which it is sampled; the text
/// starts at the current end of this cache. The grammar follows the cache: appended tokens advance the grammar, a
/// rewind takes it back, and a rewind to before the start of the text restarts it. So sampling may be repeated, and the
/// caller may append its own tokens if the grammar allows them; otherwise the next sampling fails with
/// RZ_ERR_INVALID_ARGUMENT. When the text is complete, tokens that end a text are allowed too. When the text cannot
/// continue, only those tokens are allowed, so rz_generate_into ends with RZ_DONE. For the next text, set the grammar
/// again. With a grammar, sampling a token allocates memory and usually takes tens of microseconds; it fails with
/// RZ_ERR_LIMIT if the work exceeds its bounds. Calls with a cache of another vocabulary fail with RZ_ERR_MISMATCH. Any
/// thread. Errors: RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_sampler_grammar_set(
    sampler: *mut rz_sampler,
    grammar: *const rz_grammar,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let sampler = call.handle(sampler)?;
        let grammar = call.optional(grammar)?;
        let mut sampler = sampler.0.take_after_readers(rz_sampler::NAME)?;
        sampler.set_grammar(grammar.map(|grammar| grammar.0.matcher()).transpose()?);
        Ok(RZ_OK)
    })
}

/// Returns the engine's description of a grammar with a kind and flags.
pub(super) fn grammar_text(kind: u32, flags: u32, text: &str) -> Result<GrammarText<'_>> {
    Ok(GrammarText {
        kind: grammar_kind(kind)?,
        text,
        white_space: flags & RZ_GRAMMAR_FLAG_WHITESPACE != 0,
        best_effort: flags & RZ_GRAMMAR_FLAG_BEST_EFFORT != 0,
    })
}

fn grammar_kind(kind: u32) -> Result<GrammarKind> {
    Ok(match kind {
        RZ_GRAMMAR_JSON_SCHEMA => GrammarKind::JsonSchema,
        RZ_GRAMMAR_REGEX => GrammarKind::Regex,
        RZ_GRAMMAR_LARK => GrammarKind::Lark,
        RZ_GRAMMAR_JSON => GrammarKind::Json,
        RZ_GRAMMAR_CHOICES => GrammarKind::Choices,
        RZ_GRAMMAR_GBNF => GrammarKind::Gbnf,
        _ => return Err(Error::invalid(format!("kind is {kind}, which is no kind of a grammar"))),
    })
}
