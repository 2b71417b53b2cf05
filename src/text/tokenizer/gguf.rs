//! A tokenizer from the `tokenizer.ggml.*` keys of a GGUF file, as specified in github.com/ggml-org/ggml, docs/gguf.md;
//! defaults are llama.cpp's.

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::format::{Metadata, Strings};
use crate::text::tokenizer::added::{Added, WholeToken};
use crate::text::tokenizer::bert::{Bert, bert_normalizer, bert_pre_tokenizer};
use crate::text::tokenizer::byte_level;
use crate::text::tokenizer::charsmap::Charsmap;
use crate::text::tokenizer::end_tokens::{add_ends_by_text, ends_any_text};
use crate::text::tokenizer::greedy::{Greedy, unescape};
use crate::text::tokenizer::merge::{Atoms, Bpe, Spm, Unknown, WholePieces};
use crate::text::tokenizer::pieces::{Behavior, Prepend, Splitter, TextStep};
use crate::text::tokenizer::pipeline::{Spaces, Special, Steps, TokenModel, Tokenizer, VISIBLE_SPACE, cut_at_spaces};
use crate::text::tokenizer::pretokenizer::{self, Bos, PreTokenizer, Spelling};
use crate::text::tokenizer::unigram::Unigram;
use crate::text::tokenizer::vocab::{TokenKind, Vocab, byte_of, reserve};
use crate::text::tokenizer::wordpiece::{MAX_WORD, WordPiece};

/// The spelling of tokens in the file, from the model and the pre-tokenizer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    ByteLevelBpe,
    /// Byte-pair encoding over characters.
    TextBpe,
    SentencePiece,
    WordPiece,
    Unigram,
    /// The longest token at each place, with Python escapes.
    Greedy,
}

impl Kind {
    /// True if tokens spell spaces as U+2581 and bytes as `<0xNN>`.
    fn is_text(self) -> bool {
        matches!(self, Kind::TextBpe | Kind::SentencePiece | Kind::Unigram)
    }
}

/// How the file tokenizes a text.
struct Method {
    kind: Kind,
    steps: Steps,
    whole_pieces: WholePieces,
    bos: Bos,
}

/// Ids of special tokens.
struct Ids {
    bos: Option<u32>,
    eos: Option<u32>,
    unknown: Option<u32>,
    separator: Option<u32>,
    /// Other ids that end a turn.
    ends: [Option<u32>; 2],
}

pub fn load(m: &mut Metadata) -> Result<Tokenizer> {
    let mut notes = Vec::new();
    let Method { kind, mut steps, whole_pieces, bos } = Method::new(m, &mut notes)?;
    let tokens = m.take_strs("tokenizer.ggml.tokens")?.ok_or_else(|| m.missing("tokenizer.ggml.tokens"))?;
    let ids = Ids::new(m, kind, tokens.len())?;
    let vocab = vocabulary(m, &tokens, kind, &ids)?;
    if let Some((first, second)) = vocab.repeated() {
        let text = String::from_utf8_lossy(vocab.get(first).map_or(&[][..], |(bytes, _)| bytes));
        notes.push(format!("the text {text:?} is 2 tokens, {first} and {second}: the first of such is used"));
    }
    drop(tokens);
    let added = added(m, kind, &vocab)?;
    if matches!(kind, Kind::SentencePiece | Kind::Unigram) {
        steps.cut.extend(cut_at_spaces(&vocab)?);
    }
    let model = model(m, &vocab, kind, whole_pieces, ids.unknown)?;
    let special = special(m, &vocab, kind, bos, &ids)?;
    // Ids outside the vocabulary are ignored.
    let suppressed = m.i64s("tokenizer.ggml.suppress_tokens")?.unwrap_or_default().iter();
    let suppressed = suppressed.filter_map(|&id| u32::try_from(id).ok().filter(|&id| (id as usize) < vocab.len()));
    let (suppressed, added_normalized) = (suppressed.collect(), Added::default());
    Ok(Tokenizer { vocab, steps, model, special, added, added_normalized, suppressed, notes })
}

impl Method {
    fn new(m: &Metadata, notes: &mut Vec<String>) -> Result<Method> {
        let name = m.require_str("tokenizer.ggml.model")?;
        let pre = match name {
            "gpt2" | "whitespace" => Some(m.str("tokenizer.ggml.pre")?.unwrap_or_else(|| {
                let what = "texts are cut as by \"default\", which is none of a model's own";
                notes.push(format!("tokenizer.ggml.pre is missing: {what}"));
                "default"
            })),
            "gemma4" => Some("gemma4"),
            "llama" | "bert" | "t5" | "rwkv" => None,
            other => {
                return Err(Error::unsupported(format!("tokenizer.ggml.model is {other:?}, which is not supported")));
            }
        };
        let steps =
            Steps { normalize: Vec::new(), cut: Vec::new(), spaces: Spaces::Visible, strips_first_space: false };
        let mut method = Method { kind: Kind::TextBpe, steps, whole_pieces: WholePieces::Never, bos: Bos::IfTold };
        match (pre, name) {
            (Some(pre), _) => method.pre_tokenized(m, pretokenizer::by_name(pre)?)?,
            (None, "bert") => method.words(m)?,
            (None, "rwkv") => (method.kind, method.steps.spaces) = (Kind::Greedy, Spaces::Plain),
            (None, "t5") => {
                method.kind = Kind::Unigram;
                unigram_normalizer(m, &mut method.steps.normalize)?;
                method.visible_spaces(m)?;
            }
            (None, _) => {
                (method.kind, method.bos) = (Kind::SentencePiece, Bos::Default);
                method.visible_spaces(m)?;
            }
        }
        Ok(method)
    }

    fn pre_tokenized(&mut self, m: &Metadata, pre: PreTokenizer) -> Result<()> {
        (self.whole_pieces, self.bos) = (pre.whole_pieces, pre.bos);
        let Steps { normalize, cut, spaces, .. } = &mut self.steps;
        *cut = pre.steps;
        normalize.extend(pre.normalize);
        let is_lower = m.bool("tokenizer.ggml.normalizer.lowercase")?.unwrap_or(false);
        match pre.spelling {
            Spelling::ByteLevel => (self.kind, *spaces) = (Kind::ByteLevelBpe, Spaces::Plain),
            Spelling::VisibleSpace => normalize.push(visible()),
            Spelling::Words => {
                *spaces = Spaces::Plain;
                normalize.extend(is_lower.then_some(TextStep::Lowercase));
            }
        }
        Ok(())
    }

    fn words(&mut self, m: &Metadata) -> Result<()> {
        let is_lower = m.bool("tokenizer.ggml.normalizer.lowercase")?.unwrap_or(true);
        let strips = m.bool("tokenizer.ggml.normalizer.strip_accents")?.unwrap_or(is_lower);
        let options = Bert { clean: true, han: true, accents: !strips, lowercase: is_lower };
        bert_normalizer(options, &mut self.steps.normalize)?;
        bert_pre_tokenizer(&mut self.steps.cut)?;
        self.kind = Kind::WordPiece;
        (self.steps.spaces, self.steps.strips_first_space) = (Spaces::Words { clean: true }, true);
        Ok(())
    }

    fn visible_spaces(&mut self, m: &Metadata) -> Result<()> {
        let Steps { normalize, strips_first_space, .. } = &mut self.steps;
        *strips_first_space = m.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
        if *strips_first_space {
            normalize.push(TextStep::Prepend { text: " ".to_owned(), when: Prepend::Always });
        }
        normalize.push(visible());
        Ok(())
    }
}

fn visible() -> TextStep {
    TextStep::Replace { from: " ".to_owned(), to: VISIBLE_SPACE.to_owned() }
}

impl Ids {
    fn new(m: &Metadata, kind: Kind, n: usize) -> Result<Ids> {
        let id = |name: &str, default: Option<u32>| -> Result<Option<u32>> {
            let key = format!("tokenizer.ggml.{name}_token_id");
            let in_vocab = |id: &u32| (*id as usize) < n;
            // Converters have written an absent id as -1.
            match m.i64(&key)? {
                None => Ok(default.filter(in_vocab)),
                Some(-1 | 0xFFFF_FFFF) => Ok(None),
                Some(id) => match u32::try_from(id).ok().filter(in_vocab) {
                    None => Err(m.error(format!("the key {key:?} is {id}, the vocabulary has {n} tokens"))),
                    known => Ok(known),
                },
            }
        };
        // Default ids.
        let [bos, eos, unknown, separator] = match kind {
            Kind::ByteLevelBpe | Kind::TextBpe | Kind::Greedy => [None; 4],
            Kind::SentencePiece => [Some(1), Some(2), Some(0), None],
            Kind::WordPiece => [Some(101), None, Some(100), Some(102)],
            Kind::Unigram => [None, Some(1), Some(2), None],
        };
        Ok(Ids {
            bos: id("bos", bos)?,
            eos: id("eos", eos)?,
            unknown: id("unknown", unknown)?,
            // The key is misspelled in the format.
            separator: id("seperator", separator)?,
            ends: [id("eot", None)?, id("eom", None)?],
        })
    }
}

/// Returns the tokens that are found in a text as a whole.
fn added(m: &Metadata, kind: Kind, vocab: &Vocab) -> Result<Added> {
    // Phi 3's turn markers absorb the newline that its template puts after them; GGUF has no key for that.
    let strips = kind == Kind::SentencePiece && m.str("general.architecture")? == Some("phi3");
    Added::new(vocab.iter().filter_map(|(id, bytes, kind)| {
        let control = match kind {
            TokenKind::Control => true,
            TokenKind::UserDefined => false,
            TokenKind::Normal | TokenKind::Unreachable | TokenKind::Byte => return None,
        };
        let rstrip = strips && !matches!(bytes, b"<unk>" | b"<s>" | b"<|endoftext|>");
        Some((bytes, WholeToken { id, control, rstrip, ..WholeToken::default() }))
    }))
}

fn model(m: &mut Metadata, vocab: &Vocab, kind: Kind, whole: WholePieces, unknown: Option<u32>) -> Result<TokenModel> {
    Ok(match kind {
        Kind::SentencePiece => {
            TokenModel::Spm(Spm::new(vocab, &scores(m, vocab.len())?, Unknown { id: unknown, fuse: false })?)
        }
        Kind::Unigram => {
            let scores = scores(m, vocab.len())?.iter().map(|&score| score.into()).collect();
            TokenModel::Unigram(Unigram::new(vocab, scores, unknown)?)
        }
        Kind::Greedy => TokenModel::Greedy(Greedy::new(vocab, unknown)?),
        Kind::WordPiece => TokenModel::WordPiece(WordPiece::new(vocab, unknown, MAX_WORD)?),
        Kind::ByteLevelBpe | Kind::TextBpe => {
            let merges = m.take_strs("tokenizer.ggml.merges")?.ok_or_else(|| m.missing("tokenizer.ggml.merges"))?;
            let atoms = if kind == Kind::ByteLevelBpe { Atoms::Bytes } else { Atoms::Chars };
            let mut bpe = Bpe::new(vocab, atoms, merges.len(), Unknown::default(), whole)?;
            let mut union = Vec::new();
            for merge in merges.iter() {
                if let Some(space) = merge.iter().position(|&b| b == b' ') {
                    bpe.add(vocab, [&merge[..space], &merge[space + 1..]], &mut union)?;
                }
            }
            TokenModel::Bpe(bpe)
        }
    })
}

fn scores(m: &Metadata, n: usize) -> Result<Cow<'_, [f32]>> {
    let scores = m.f32s("tokenizer.ggml.scores")?.ok_or_else(|| m.missing("tokenizer.ggml.scores"))?;
    if scores.len() != n {
        return Err(m.error(format!("there are {} scores for {n} tokens", scores.len())));
    }
    match scores.iter().enumerate().find(|(_, score)| !score.is_finite()) {
        Some((id, score)) => Err(m.error(format!("token {id} has the score {score} (tokenizer.ggml.scores)"))),
        None => Ok(scores),
    }
}

fn special(m: &Metadata, vocab: &Vocab, kind: Kind, bos: Bos, ids: &Ids) -> Result<Special> {
    let around = |add: bool, name: &str, id: Option<u32>| match (add, id) {
        (false, _) => Ok(Vec::new()),
        (true, Some(id)) => Ok(vec![id]),
        (true, None) => Err(m.error(format!("tokenizer.ggml.add_{name}_token is set, but there is no such token"))),
    };
    let declared = |name: &str| m.bool(&format!("tokenizer.ggml.add_{name}_token"));
    let (prefix, suffix) = match kind {
        // Settings for pairs of texts do not apply to single ones.
        Kind::WordPiece => (around(true, "bos", ids.bos)?, around(true, "sep", ids.separator)?),
        _ => {
            let add_bos = declared("bos")?.unwrap_or(bos == Bos::Default && ids.bos.is_some()) || bos == Bos::Always;
            let add_eos = declared("eos")?.unwrap_or(kind == Kind::Unigram);
            (around(add_bos, "bos", ids.bos)?, around(add_eos, "eos", ids.eos)?)
        }
    };
    let mut ends: Vec<u32> = ids.eos.into_iter().chain(ids.ends.into_iter().flatten()).collect();
    add_ends_by_text(vocab, &mut ends);
    Ok(Special { bos: ids.bos, eos: ids.eos, prefix, suffix, ends })
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

/// Returns the tokens as bytes.
fn vocabulary(m: &Metadata, tokens: &Strings, spelling: Kind, ids: &Ids) -> Result<Vocab> {
    let special = [ids.bos, ids.eos, ids.unknown, ids.separator];
    let types = m.i64s("tokenizer.ggml.token_type")?;
    if let Some(types) = types.filter(|t| t.len() != tokens.len()) {
        return Err(m.error(format!("there are {} token types for {} tokens", types.len(), tokens.len())));
    }
    let mut vocab = Vocab::new(tokens.len())?;
    let mut bytes = Vec::new();
    for (text, id) in tokens.iter().zip(0u32..) {
        let kind = match types.map(|t| t[id as usize]) {
            _ if ends_any_text(text) => TokenKind::Control,
            Some(2 | 3) => TokenKind::Control,
            Some(4) => TokenKind::UserDefined,
            Some(6) => TokenKind::Byte,
            Some(5) if matches!(spelling, Kind::Unigram | Kind::Greedy) => TokenKind::Unreachable,
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
            TokenKind::Normal if spelling == Kind::Greedy => {
                bytes.clear();
                unescape(text, &mut bytes);
                vocab.push(&bytes, kind)?;
            }
            TokenKind::Normal if spelling == Kind::ByteLevelBpe => {
                bytes.clear();
                let reachable = byte_level::decode(text, &mut bytes)?;
                vocab.push(&bytes, if reachable { kind } else { TokenKind::Unreachable })?;
            }
            _ => vocab.push(text, kind)?,
        }
    }
    Ok(vocab)
}
