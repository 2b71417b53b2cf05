//! A tokenizer from the `tokenizer.ggml.*` keys of a GGUF file. The keys are those of the GGUF specification
//! (github.com/ggml-org/ggml, docs/gguf.md); defaults for absent ones are llama.cpp's.

use super::added::{Added, WholeToken};
use super::byte_level;
use super::end_tokens::{add_ends_by_text, ends_any_text};
use super::merge::{Atoms, Bpe, Spm, Unknown};
use super::pieces::{Prepend, TextStep};
use super::pretokenizer;
use super::tokenizer::{TokenModel, Tokenizer, VISIBLE_SPACE, cut_at_spaces};
use super::vocab::{TokenKind, Vocab, byte_of};
use crate::error::{Error, Result};
use crate::format::{Metadata, Strings};

pub fn load(m: &mut Metadata) -> Result<Tokenizer> {
    let byte_level = match m.require_str("tokenizer.ggml.model")? {
        "gpt2" => true,
        "llama" => false,
        other => return Err(Error::unsupported(format!("the tokenizer model {other:?} (tokenizer.ggml.model)"))),
    };
    let tokens = m.take_strs("tokenizer.ggml.tokens")?.ok_or_else(|| m.missing("tokenizer.ggml.tokens"))?;
    let n = tokens.len();
    let special = |name: &str, default: Option<u32>| -> Result<Option<u32>> {
        let key = format!("tokenizer.ggml.{name}_token_id");
        // Converters have written an absent id as -1.
        match m.i64(&key)? {
            None => Ok(default.filter(|&id| (id as usize) < n)),
            Some(-1 | 0xFFFF_FFFF) => Ok(None),
            Some(id) => u32::try_from(id)
                .ok()
                .filter(|&id| (id as usize) < n)
                .map(Some)
                .ok_or_else(|| m.error(format!("the key {key:?} is {id}, the vocabulary has {n} tokens"))),
        }
    };
    let spm_default = |id| if byte_level { None } else { Some(id) };
    let bos = special("bos", spm_default(1))?;
    let eos = special("eos", spm_default(2))?;
    let unknown = special("unknown", spm_default(0))?;
    let named_ends = [eos, special("eot", None)?, special("eom", None)?];

    let (vocab, ends) = vocabulary(m, &tokens, byte_level, &[bos, eos, unknown], &named_ends)?;
    drop(tokens);
    // Phi 3's own tokenizer lets its turn markers take along the newline that its template puts after them.
    // GGUF has no key for that.
    let strips = !byte_level && m.str("general.architecture")? == Some("phi3");
    let added = Added::new(vocab.iter().filter_map(|(id, bytes, kind)| {
        let control = match kind {
            TokenKind::Control => true,
            TokenKind::UserDefined => false,
            TokenKind::Normal | TokenKind::Unreachable | TokenKind::Byte => return None,
        };
        let rstrip = strips && !matches!(bytes, b"<unk>" | b"<s>" | b"<|endoftext|>");
        Some((bytes, WholeToken { id, control, rstrip, ..WholeToken::default() }))
    }))?;

    let space_prefix = !byte_level && m.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
    let (mut normalize, mut cut) = (Vec::new(), Vec::new());
    let (model, add_bos) = if byte_level {
        let pre = pretokenizer::by_name(m.str("tokenizer.ggml.pre")?.unwrap_or("default"))?;
        cut = pre.steps;
        let merges = m.take_strs("tokenizer.ggml.merges")?.ok_or_else(|| m.missing("tokenizer.ggml.merges"))?;
        let bpe = byte_level_bpe(&vocab, &merges, pre.whole_pieces)?;
        (TokenModel::Bpe(bpe), pre.add_bos)
    } else {
        if space_prefix {
            normalize.push(TextStep::Prepend { text: " ".to_owned(), when: Prepend::Always });
        }
        normalize.push(TextStep::Replace { from: " ".to_owned(), to: VISIBLE_SPACE.to_owned() });
        cut.extend(cut_at_spaces(&vocab)?);
        let scores = m.f32s("tokenizer.ggml.scores")?.ok_or_else(|| m.missing("tokenizer.ggml.scores"))?;
        if scores.len() != n || scores.iter().any(|s| s.is_nan()) {
            return Err(m.error(format!("{} scores, some perhaps NaN, for {n} tokens", scores.len())));
        }
        (TokenModel::Spm(Spm::new(&vocab, &scores, Unknown { id: unknown, fuse: false })?), true)
    };
    let around = |add: bool, name: &str, id: Option<u32>| match (add, id) {
        (false, _) => Ok(Vec::new()),
        (true, Some(id)) => Ok(vec![id]),
        (true, None) => Err(m.error(format!("tokenizer.ggml.add_{name}_token is set, but there is no such token"))),
    };
    let add_bos = m.bool("tokenizer.ggml.add_bos_token")?.unwrap_or(add_bos && bos.is_some());
    let add_eos = m.bool("tokenizer.ggml.add_eos_token")?.unwrap_or(false);
    Ok(Tokenizer {
        added,
        normalize,
        added_normalized: Added::default(),
        cut,
        model,
        prefix: around(add_bos, "bos", bos)?,
        suffix: around(add_eos, "eos", eos)?,
        bos,
        eos,
        ends,
        visible_space: !byte_level,
        strips_first_space: space_prefix,
        vocab,
    })
}

/// The tokens as bytes, and which of them end a text.
fn vocabulary(
    m: &Metadata,
    tokens: &Strings,
    byte_level: bool,
    special: &[Option<u32>],
    named_ends: &[Option<u32>],
) -> Result<(Vocab, Vec<u32>)> {
    let types = m.i64s("tokenizer.ggml.token_type")?;
    if let Some(types) = types.filter(|t| t.len() != tokens.len()) {
        return Err(m.error(format!("{} token types for {} tokens", types.len(), tokens.len())));
    }
    let mut vocab = Vocab::new(tokens.len())?;
    let mut bytes = Vec::new();
    for (text, id) in tokens.iter().zip(0u32..) {
        let ends_text = ends_any_text(text);
        let kind = match types.map(|t| t[id as usize]) {
            _ if ends_text => TokenKind::Control,
            Some(2 | 3) => TokenKind::Control,
            Some(4) => TokenKind::UserDefined,
            Some(6) => TokenKind::Byte,
            Some(_) => TokenKind::Normal,
            None if special.contains(&Some(id)) => TokenKind::Control,
            None if !byte_level && byte_of(text).is_some() => TokenKind::Byte,
            None => TokenKind::Normal,
        };
        match kind {
            TokenKind::Byte => {
                let byte =
                    byte_of(text).ok_or_else(|| m.error(format!("token {id} should be a byte, as <0x0A> is")))?;
                vocab.push(&[byte], kind)?;
            }
            TokenKind::Normal if byte_level => {
                bytes.clear();
                let reachable = byte_level::decode(text, &mut bytes)?;
                vocab.push(&bytes, if reachable { kind } else { TokenKind::Unreachable })?;
            }
            _ => vocab.push(text, kind)?,
        }
    }
    let mut ends: Vec<u32> = named_ends.iter().flatten().copied().collect();
    add_ends_by_text(&vocab, &mut ends);
    Ok((vocab, ends))
}

fn byte_level_bpe(vocab: &Vocab, merges: &Strings, whole_pieces: bool) -> Result<Bpe> {
    let mut bpe = Bpe::new(vocab, Atoms::Bytes, merges.len(), Unknown::default(), whole_pieces)?;
    let mut union = Vec::new();
    for merge in merges.iter() {
        if let Some(space) = merge.iter().position(|&b| b == b' ') {
            union.clear();
            byte_level::decode(&merge[..space], &mut union)?;
            let left = union.len();
            byte_level::decode(&merge[space + 1..], &mut union)?;
            bpe.add(vocab, &union, left)?;
        }
    }
    Ok(bpe)
}
