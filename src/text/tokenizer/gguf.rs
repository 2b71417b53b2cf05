//! A tokenizer from the `tokenizer.ggml.*` keys of a GGUF file. The keys are those of the GGUF specification
//! (github.com/ggml-org/ggml, docs/gguf.md); defaults for absent ones are llama.cpp's.

use crate::error::{Error, Result};
use crate::format::{Metadata, Strings};
use crate::text::tokenizer::added::{Added, WholeToken};
use crate::text::tokenizer::bert::{Bert, bert_normalizer, bert_pre_tokenizer};
use crate::text::tokenizer::byte_level;
use crate::text::tokenizer::charsmap::Charsmap;
use crate::text::tokenizer::end_tokens::{add_ends_by_text, ends_any_text};
use crate::text::tokenizer::merge::{Atoms, Bpe, Spm, Unknown, WholePieces};
use crate::text::tokenizer::pieces::{Behavior, Prepend, Splitter, TextStep};
use crate::text::tokenizer::pipeline::{Spaces, TokenModel, Tokenizer, VISIBLE_SPACE, cut_at_spaces};
use crate::text::tokenizer::pretokenizer::{self, Bos, Spelling};
use crate::text::tokenizer::unigram::Unigram;
use crate::text::tokenizer::vocab::{TokenKind, Vocab, byte_of, reserve};
use crate::text::tokenizer::wordpiece::{MAX_WORD, WordPiece};

/// The spelling of tokens in the file, which follows from the model and the pre-tokenizer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    ByteLevelBpe,
    /// Byte-pair encoding over characters.
    TextBpe,
    SentencePiece,
    WordPiece,
    Unigram,
}

impl Kind {
    /// Tokens spell spaces as U+2581 and bytes as `<0xNN>`.
    fn is_text(self) -> bool {
        matches!(self, Kind::TextBpe | Kind::SentencePiece | Kind::Unigram)
    }

    /// Ids of BOS, EOS, the unknown token and the separator where the file names none.
    fn special_ids(self) -> [Option<u32>; 4] {
        match self {
            Kind::ByteLevelBpe | Kind::TextBpe => [None; 4],
            Kind::SentencePiece => [Some(1), Some(2), Some(0), None],
            Kind::WordPiece => [Some(101), None, Some(100), Some(102)],
            Kind::Unigram => [None, Some(1), Some(2), None],
        }
    }
}

pub fn load(m: &mut Metadata) -> Result<Tokenizer> {
    let name = m.require_str("tokenizer.ggml.model")?;
    let mut notes = Vec::new();
    let pre = match name {
        "gpt2" | "whitespace" => Some(m.str("tokenizer.ggml.pre")?.unwrap_or_else(|| {
            let what = "tokenizer.ggml.pre is missing: texts are cut as by \"default\", which is none of a model's own";
            notes.push(what.to_owned());
            "default"
        })),
        "gemma4" => Some("gemma4"),
        "llama" | "bert" | "t5" => None,
        other => return Err(Error::unsupported(format!("the tokenizer model {other:?} (tokenizer.ggml.model)"))),
    };
    let pre = pre.map(pretokenizer::by_name).transpose()?;
    let kind = match (&pre, name) {
        (Some(pre), _) if pre.spelling == Spelling::ByteLevel => Kind::ByteLevelBpe,
        (Some(_), _) => Kind::TextBpe,
        (None, "bert") => Kind::WordPiece,
        (None, "t5") => Kind::Unigram,
        (None, _) => Kind::SentencePiece,
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
    let defaults = kind.special_ids();
    let bos = special("bos", defaults[0])?;
    let eos = special("eos", defaults[1])?;
    let unknown = special("unknown", defaults[2])?;
    // The key is misspelt in the format.
    let separator = special("seperator", defaults[3])?;
    let named_ends = [eos, special("eot", None)?, special("eom", None)?];

    let specials = [bos, eos, unknown, separator];
    let (vocab, ends) = vocabulary(m, &tokens, kind, &specials, &named_ends)?;
    if let Some((first, second)) = vocab.repeated() {
        let text = String::from_utf8_lossy(vocab.get(first).map_or(&[][..], |(bytes, _)| bytes));
        notes.push(format!("the text {text:?} is 2 tokens, {first} and {second}: the first of such is used"));
    }
    drop(tokens);
    // Phi 3's own tokenizer lets its turn markers take along the newline that its template puts after them.
    // GGUF has no key for that.
    let strips = kind == Kind::SentencePiece && m.str("general.architecture")? == Some("phi3");
    let added = Added::new(vocab.iter().filter_map(|(id, bytes, kind)| {
        let control = match kind {
            TokenKind::Control => true,
            TokenKind::UserDefined => false,
            TokenKind::Normal | TokenKind::Unreachable | TokenKind::Byte => return None,
        };
        let rstrip = strips && !matches!(bytes, b"<unk>" | b"<s>" | b"<|endoftext|>");
        Some((bytes, WholeToken { id, control, rstrip, ..WholeToken::default() }))
    }))?;

    let takes_prefix = matches!(kind, Kind::SentencePiece | Kind::Unigram);
    let space_prefix = takes_prefix && m.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
    let (mut normalize, mut cut) = (Vec::new(), Vec::new());
    if kind == Kind::Unigram {
        unigram_normalizer(m, &mut normalize)?;
    }
    if space_prefix {
        normalize.push(TextStep::Prepend { text: " ".to_owned(), when: Prepend::Always });
    }
    let visible = TextStep::Replace { from: " ".to_owned(), to: VISIBLE_SPACE.to_owned() };
    let mut spaces = Spaces::Visible;
    let scores = |m: &Metadata| {
        let scores = m.f32s("tokenizer.ggml.scores")?.ok_or_else(|| m.missing("tokenizer.ggml.scores"))?;
        if scores.len() != n {
            return Err(m.error(format!("{} scores for {n} tokens", scores.len())));
        }
        if let Some((id, score)) = scores.iter().enumerate().find(|(_, score)| !score.is_finite()) {
            return Err(m.error(format!("token {id} has the score {score} (tokenizer.ggml.scores)")));
        }
        Ok(scores.into_owned())
    };
    let (model, add_bos) = match (kind, pre) {
        (Kind::SentencePiece, _) => {
            normalize.push(visible);
            cut.extend(cut_at_spaces(&vocab)?);
            (TokenModel::Spm(Spm::new(&vocab, &scores(m)?, Unknown { id: unknown, fuse: false })?), true)
        }
        (Kind::Unigram, _) => {
            normalize.push(visible);
            cut.extend(cut_at_spaces(&vocab)?);
            let scores = scores(m)?.into_iter().map(f64::from).collect();
            (TokenModel::Unigram(Unigram::new(&vocab, scores, unknown)?), false)
        }
        (_, Some(pre)) => {
            cut = pre.steps;
            normalize.extend(pre.normalize);
            let is_lower = m.bool("tokenizer.ggml.normalizer.lowercase")?.unwrap_or(false);
            match pre.spelling {
                Spelling::ByteLevel => spaces = Spaces::Plain,
                Spelling::VisibleSpace => normalize.push(visible),
                Spelling::Words => {
                    spaces = Spaces::Plain;
                    normalize.extend(is_lower.then_some(TextStep::Lowercase));
                }
            }
            let merges = m.take_strs("tokenizer.ggml.merges")?.ok_or_else(|| m.missing("tokenizer.ggml.merges"))?;
            let bpe = byte_pairs(&vocab, &merges, kind, pre.whole_pieces)?;
            let told = m.bool("tokenizer.ggml.add_bos_token")?;
            (TokenModel::Bpe(bpe), pre.bos == Bos::Always || told.unwrap_or(pre.bos == Bos::Default && bos.is_some()))
        }
        (_, None) => {
            let is_lower = m.bool("tokenizer.ggml.normalizer.lowercase")?.unwrap_or(true);
            let strips = m.bool("tokenizer.ggml.normalizer.strip_accents")?.unwrap_or(is_lower);
            let options = Bert { clean: true, han: true, accents: !strips, lowercase: is_lower };
            bert_normalizer(options, &mut normalize)?;
            bert_pre_tokenizer(&mut cut)?;
            spaces = Spaces::Words { clean: true };
            (TokenModel::WordPiece(WordPiece::new(&vocab, unknown, MAX_WORD)?), true)
        }
    };
    let around = |add: bool, name: &str, id: Option<u32>| match (add, id) {
        (false, _) => Ok(Vec::new()),
        (true, Some(id)) => Ok(vec![id]),
        (true, None) => Err(m.error(format!("tokenizer.ggml.add_{name}_token is set, but there is no such token"))),
    };
    let told = |name: &str| m.bool(&format!("tokenizer.ggml.add_{name}_token"));
    let (prefix, suffix) = match kind {
        // A setting for pairs of texts does not concern a single one.
        Kind::WordPiece => (around(true, "bos", bos)?, around(true, "sep", separator)?),
        Kind::ByteLevelBpe | Kind::TextBpe => {
            (around(add_bos, "bos", bos)?, around(told("eos")?.unwrap_or(false), "eos", eos)?)
        }
        Kind::SentencePiece | Kind::Unigram => {
            let add_bos = told("bos")?.unwrap_or(add_bos && bos.is_some());
            (around(add_bos, "bos", bos)?, around(told("eos")?.unwrap_or(kind == Kind::Unigram), "eos", eos)?)
        }
    };
    // Ids outside the vocabulary name nothing.
    let suppressed = m.i64s("tokenizer.ggml.suppress_tokens")?.unwrap_or_default();
    let suppressed = suppressed.iter().filter_map(|&id| u32::try_from(id).ok().filter(|&id| (id as usize) < n));
    Ok(Tokenizer {
        suppressed: suppressed.collect(),
        added,
        normalize,
        added_normalized: Added::default(),
        cut,
        model,
        prefix,
        suffix,
        bos,
        eos,
        ends,
        spaces,
        strips_first_space: space_prefix || kind == Kind::WordPiece,
        notes,
        vocab,
    })
}

/// The steps of SentencePiece's normalizer before spaces become visible.
fn unigram_normalizer(m: &Metadata, steps: &mut Vec<TextStep>) -> Result<()> {
    if let Some(table) = m.i64s("tokenizer.ggml.precompiled_charsmap")?.filter(|table| !table.is_empty()) {
        let mut bytes = Vec::new();
        reserve(&mut bytes, table.len())?;
        bytes.extend(table.iter().map(|&byte| byte as u8));
        steps.push(TextStep::Charsmap(Charsmap::new(&bytes)?));
    }
    if m.bool("tokenizer.ggml.remove_extra_whitespaces")?.unwrap_or(false) {
        for (pattern, to) in [(r"\A +| +\z", ""), (" +", " ")] {
            let pattern = Splitter::pattern(pattern, Behavior::Isolated, false)?;
            steps.push(TextStep::ReplacePattern { pattern, to: to.to_owned() });
        }
    }
    Ok(())
}

/// The tokens as bytes, and which of them end a text.
fn vocabulary(
    m: &Metadata,
    tokens: &Strings,
    spelling: Kind,
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
            Some(5) if spelling == Kind::Unigram => TokenKind::Unreachable,
            Some(0 | 1 | 5) => TokenKind::Normal,
            Some(other) => {
                return Err(
                    m.error(format!("token {id} has the type {other} (tokenizer.ggml.token_type), from 0 to 6"))
                );
            }
            None if special.contains(&Some(id)) => TokenKind::Control,
            None if spelling.is_text() && byte_of(text).is_some() => TokenKind::Byte,
            None => TokenKind::Normal,
        };
        match kind {
            TokenKind::Byte => {
                let byte =
                    byte_of(text).ok_or_else(|| m.error(format!("token {id} should be a byte, as <0x0A> is")))?;
                vocab.push(&[byte], kind)?;
            }
            TokenKind::Normal if spelling == Kind::WordPiece => match text.strip_prefix(VISIBLE_SPACE.as_bytes()) {
                Some(word) => vocab.push(&[b" ", word].concat(), kind)?,
                None => vocab.push(text, kind)?,
            },
            TokenKind::Normal if spelling == Kind::ByteLevelBpe => {
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

fn byte_pairs(vocab: &Vocab, merges: &Strings, kind: Kind, whole_pieces: WholePieces) -> Result<Bpe> {
    let atoms = if kind == Kind::ByteLevelBpe { Atoms::Bytes } else { Atoms::Chars };
    let mut bpe = Bpe::new(vocab, atoms, merges.len(), Unknown::default(), whole_pieces)?;
    let mut union = Vec::new();
    let append = |text: &[u8], union: &mut Vec<u8>| match kind {
        Kind::ByteLevelBpe => byte_level::decode(text, union).map(|_| ()),
        _ => {
            reserve(union, text.len())?;
            union.extend_from_slice(text);
            Ok(())
        }
    };
    for merge in merges.iter() {
        if let Some(space) = merge.iter().position(|&b| b == b' ') {
            union.clear();
            append(&merge[..space], &mut union)?;
            let left = union.len();
            append(&merge[space + 1..], &mut union)?;
            bpe.add(vocab, &union, left)?;
        }
    }
    Ok(bpe)
}
