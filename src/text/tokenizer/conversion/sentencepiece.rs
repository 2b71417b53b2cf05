//! SentencePiece models (`sentencepiece_model.proto` of github.com/google/sentencepiece): unigram and BPE, with the
//! model's own settings.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::pairs;
use super::parts::{added, around, class, flag, name, quoted};
use super::protobuf::{Field, fields};
use crate::error::{Error, Result, try_vec};
use crate::format::Metadata;
use crate::format::json::Json;
use crate::text::tokenizer::base64;
use crate::text::tokenizer::huggingface::PLAIN_ADDED;
use crate::text::tokenizer::vocab::MAX_TOKENS;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

struct Piece {
    text: String,
    score: f32,
    kind: Kind,
}

struct Model {
    pieces: Vec<Piece>,
    is_unigram: bool,
    byte_fallback: bool,
    /// Ids of unknown, BOS, EOS and padding; -1: none.
    ids: [i64; 4],
    charsmap: Vec<u8>,
    adds_prefix: bool,
    removes_spaces: bool,
}

/// Classes that renumber the model's pieces.
const RENUMBERED: &[&str] = &[
    "BarthezTokenizer",
    "BigBirdTokenizer",
    "CamembertTokenizer",
    "DebertaV2Tokenizer",
    "FNetTokenizer",
    "MBart50Tokenizer",
    "MBartTokenizer",
    "NllbTokenizer",
    "PegasusTokenizer",
    "SeamlessM4TTokenizer",
    "XGLMTokenizer",
    "XLMRobertaTokenizer",
    "XLNetTokenizer",
];

pub fn convert(bytes: &[u8], config: &Json, m: &mut Metadata) -> Result<String> {
    let class = class(config);
    if RENUMBERED.contains(&class) {
        return Err(Error::unsupported(format!("cannot read tokenizer.model of the tokenizer class {class:?}")));
    }
    let mut model = read(bytes)?;
    rename(&mut model, config);
    for (key, i, default) in [("unk", 0, None), ("bos", 1, Some(1)), ("eos", 2, Some(2)), ("pad", 3, None)] {
        let id = model.ids[i];
        let piece = usize::try_from(id).ok().and_then(|id| model.pieces.get(id));
        match piece {
            Some(piece) => name(m, key, &piece.text.clone()),
            None if id >= 0 && default != Some(id) => {
                return Err(Error::invalid(format!("tokenizer.model: the {key} token {id} is no piece")));
            }
            None => {}
        }
    }
    let id_of = |name: &str, default: bool| -> Result<Option<(String, usize)>> {
        let text = m.str(&format!("tokenizer.huggingface.{name}_token"))?.unwrap_or_default();
        let id = model.pieces.iter().position(|piece| piece.text == text);
        let is_added = flag(config, &format!("add_{name}_token"), default)?;
        Ok(id.filter(|_| is_added).map(|id| (text.to_owned(), id)))
    };
    let is_t5 = class == "T5Tokenizer" || class.is_empty() && m.str("general.architecture")? == Some("t5");
    let (bos, eos) = (id_of("bos", !is_t5)?, id_of("eos", is_t5)?);
    let [bos, eos] = [&bos, &eos].map(|token| token.as_ref().map(|(text, id)| (text.as_str(), *id)));
    let ends = around(bos, eos);
    // Otherwise the space before a text would precede added tokens too, and none would be found.
    m.set(PLAIN_ADDED, model.adds_prefix);
    write_json(&model, flag(config, "legacy", true)?, &ends)
}

fn read(bytes: &[u8]) -> Result<Model> {
    let mut model = Model {
        pieces: Vec::new(),
        is_unigram: true,
        byte_fallback: false,
        ids: [0, 1, 2, -1],
        charsmap: Vec::new(),
        adds_prefix: true,
        removes_spaces: true,
    };
    fields(bytes, |number, field| match number {
        1 => {
            if model.pieces.len() == MAX_TOKENS {
                return Err(Error::unsupported(format!(
                    "tokenizer.model has too many pieces; it must have at most {MAX_TOKENS}"
                )));
            }
            let piece = piece(model.pieces.len(), field.bytes().unwrap_or_default())?;
            model.pieces.push(piece);
            Ok(())
        }
        2 => trainer(field.bytes().unwrap_or_default(), &mut model),
        3 => normalizer(field.bytes().unwrap_or_default(), &mut model),
        // Self-test samples have no effect.
        4 => Ok(()),
        5 => fields(field.bytes().unwrap_or_default(), |number, field| match (number, field.bytes()) {
            (2, Some(table)) if !table.is_empty() => Err(refused("a denormalizer_spec")),
            _ => Ok(()),
        }),
        _ => Err(refused(&format!("the field {number}"))),
    })?;
    match model.pieces.is_empty() {
        true => Err(Error::invalid("tokenizer.model has no pieces, or is no model of SentencePiece")),
        false => Ok(model),
    }
}

fn refused(what: &str) -> Error {
    Error::unsupported(format!("tokenizer.model has {what}, which is not supported"))
}

fn piece(id: usize, message: &[u8]) -> Result<Piece> {
    let wrong = |what: &str| Error::invalid(format!("tokenizer.model: piece {id} {what}"));
    let mut piece = Piece { text: String::new(), score: 0.0, kind: Kind::Normal };
    fields(message, |number, field| {
        match number {
            1 => piece.text = field.text().ok_or_else(|| wrong("is no text"))?.to_owned(),
            2 => piece.score = field.float().ok_or_else(|| wrong("has no score"))?,
            3 => {
                piece.kind = match field.int() {
                    Some(1) => Kind::Normal,
                    Some(2) => Kind::Unknown,
                    Some(3) => Kind::Control,
                    Some(4) => Kind::UserDefined,
                    Some(5) => Kind::Unused,
                    Some(6) => Kind::Byte,
                    _ => return Err(wrong("has a type that is none")),
                }
            }
            _ => return Err(refused(&format!("the field {number} of piece {id}"))),
        }
        Ok(())
    })?;
    if piece.text.is_empty() || !piece.score.is_finite() {
        return Err(wrong(&format!("has the text {:?} and the score {}", piece.text, piece.score)));
    }
    Ok(piece)
}

/// Training parameters that affect tokenization.
fn trainer(message: &[u8], model: &mut Model) -> Result<()> {
    let int = |field: &Field| field.int().ok_or_else(|| refused("a number that is none"));
    fields(message, |number, field| {
        match number {
            3 => {
                model.is_unigram = match int(&field)? {
                    1 => true,
                    2 => false,
                    other => {
                        return Err(refused(&format!(
                            "the model_type {other}, neither a unigram model nor byte pairs"
                        )));
                    }
                }
            }
            24 if field.bool() == Some(true) => return Err(refused("treat_whitespace_as_suffix")),
            35 => model.byte_fallback = field.bool() == Some(true),
            // A negative number has ten bytes, or four by some writers.
            40..=43 => model.ids[(number - 40) as usize] = i64::from(int(&field)? as i32),
            _ => {}
        }
        Ok(())
    })
}

fn normalizer(message: &[u8], model: &mut Model) -> Result<()> {
    fields(message, |number, field| {
        match number {
            // The name of the rules, and the source of the table.
            1 | 6 => {}
            2 => model.charsmap = field.bytes().unwrap_or_default().to_vec(),
            3 => model.adds_prefix = field.bool() == Some(true),
            4 => model.removes_spaces = field.bool() == Some(true),
            5 if field.bool() == Some(true) => {}
            5 => return Err(refused("escape_whitespaces with the value false")),
            _ => return Err(refused(&format!("the field {number} of normalizer_spec"))),
        }
        Ok(())
    })
}

/// Gives placeholders their names from `added_tokens_decoder`.
fn rename(model: &mut Model, config: &Json) {
    let decoder = config.get("added_tokens_decoder").map_or(&[][..], Json::members);
    let mut taken: HashSet<String> = model.pieces.iter().map(|piece| piece.text.clone()).collect();
    for (id, token) in decoder {
        let text = token.get("content").and_then(Json::as_str).filter(|text| !text.is_empty());
        let (Some(id), Some(text)) = (id.parse::<usize>().ok(), text) else { continue };
        if id < model.pieces.len() && taken.insert(text.to_owned()) {
            text.clone_into(&mut model.pieces[id].text);
        }
    }
}

fn write_json(model: &Model, legacy: bool, post_processor: &str) -> Result<String> {
    let of_kind = |kind| model.pieces.iter().enumerate().filter(move |(_, piece)| piece.kind == kind);
    let user_defined: Vec<&str> = of_kind(Kind::UserDefined).map(|(_, piece)| piece.text.as_str()).collect();
    // If a space is put before a text, a piece within it must not get another one: it is split off after that step.
    let cuts_out = model.adds_prefix && !user_defined.is_empty();
    let special = of_kind(Kind::Unknown).chain(of_kind(Kind::Control));
    let mut tokens: Vec<String> = special.map(|(id, piece)| added(id, &piece.text, true)).collect();
    if !cuts_out {
        tokens.extend(of_kind(Kind::UserDefined).map(|(id, piece)| added(id, &piece.text, false)));
    }
    let replace = |pattern: &str, kind: &str, to: &str| {
        let (pattern, to) = (quoted(pattern), quoted(to));
        format!(r#"{{"type":"Replace","pattern":{{"{kind}":{pattern}}},"content":{to}}}"#)
    };
    let mut normalizers = Vec::new();
    if !model.charsmap.is_empty() {
        let table = base64::encode(&model.charsmap);
        normalizers.push(format!(r#"{{"type":"Precompiled","precompiled_charsmap":"{table}"}}"#));
    }
    if model.removes_spaces {
        normalizers.push(replace("\\A +|[ \u{2581}]+\\z", "Regex", ""));
        normalizers.push(replace(" {2,}", "Regex", " "));
    }
    normalizers.push(replace(" ", "String", "\u{2581}"));
    let mut steps = Vec::new();
    if model.adds_prefix && legacy {
        normalizers.push("{\"type\":\"Prepend\",\"prepend\":\"\u{2581}\"}".to_owned());
    } else if model.adds_prefix {
        let metaspace =
            "{\"type\":\"Metaspace\",\"replacement\":\"\u{2581}\",\"prepend_scheme\":\"first\",\"split\":false}";
        steps.push(metaspace.to_owned());
    }
    if cuts_out {
        let mut texts = user_defined;
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        let pattern: Vec<String> = texts.iter().map(|text| escaped(text)).collect();
        let pattern = quoted(&pattern.join("|"));
        steps.push(format!(r#"{{"type":"Split","pattern":{{"Regex":{pattern}}},"behavior":"Isolated"}}"#));
    }
    let mut decoders = vec![replace("\u{2581}", "String", " ")];
    if model.byte_fallback {
        decoders.push(r#"{"type":"ByteFallback"}"#.to_owned());
    }
    decoders.push(r#"{"type":"Fuse"}"#.to_owned());
    if model.adds_prefix {
        decoders.push(r#"{"type":"Strip","content":" ","start":1,"stop":0}"#.to_owned());
    }
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        r#"{{"added_tokens":[{}],"normalizer":{{"type":"Sequence","normalizers":[{}]}},"pre_tokenizer":{{"type":"Sequence","pretokenizers":[{}]}},"decoder":{{"type":"Sequence","decoders":[{}]}},"post_processor":{post_processor},"model":"#,
        tokens.join(","),
        normalizers.join(","),
        steps.join(","),
        decoders.join(",")
    );
    if model.is_unigram {
        unigram(model, &mut out)
    } else {
        byte_pairs(model, cuts_out, &mut out)?
    }
    out.push('}');
    Ok(out)
}

fn unigram(model: &Model, out: &mut String) {
    let (fallback, unknown) = (model.byte_fallback, model.ids[0]);
    let _ = write!(out, r#"{{"type":"Unigram","byte_fallback":{fallback},"unk_id":{unknown},"vocab":["#);
    for (i, piece) in model.pieces.iter().enumerate() {
        let _ = write!(out, "{}[{},{}]", if i > 0 { "," } else { "" }, quoted(&piece.text), f64::from(piece.score));
    }
    out.push_str("]}");
}

fn byte_pairs(model: &Model, cuts_out: bool, out: &mut String) -> Result<()> {
    // The best score first.
    let mut order: Vec<usize> = try_vec("merges", model.pieces.len())?;
    order.extend((0..model.pieces.len()).filter(|&id| model.pieces[id].kind == Kind::Normal));
    order.sort_by(|&a, &b| model.pieces[b].score.total_cmp(&model.pieces[a].score).then(a.cmp(&b)));
    let texts: Vec<&[u8]> = order.iter().map(|&id| model.pieces[id].text.as_bytes()).collect();
    // Characters are not split.
    let merges = pairs::merges(&texts, |byte| byte & 0xC0 != 0x80)?;
    let unknown = usize::try_from(model.ids[0]).ok().and_then(|id| model.pieces.get(id));
    let unknown = unknown.map_or("null".to_owned(), |piece| quoted(&piece.text));
    let fallback = model.byte_fallback;
    let _ = write!(
        out,
        r#"{{"type":"BPE","byte_fallback":{fallback},"fuse_unk":true,"ignore_merges":{cuts_out},"unk_token":{unknown},"vocab":{{"#
    );
    for (id, piece) in model.pieces.iter().enumerate() {
        let _ = write!(out, "{}{}:{id}", if id > 0 { "," } else { "" }, quoted(&piece.text));
    }
    out.push_str(r#"},"merges":["#);
    for (i, (left, right)) in merges.iter().enumerate() {
        let [left, right] = [left, right].map(|&place| quoted(&model.pieces[order[place]].text));
        let _ = write!(out, "{}[{left},{right}]", if i > 0 { "," } else { "" });
    }
    out.push_str("]}");
    Ok(())
}

/// Returns a pattern that matches a text literally.
fn escaped(text: &str) -> String {
    const MEANT: &str = r"\.+*?()|[]{}^$#&-~";
    text.chars().flat_map(|c| MEANT.contains(c).then_some('\\').into_iter().chain([c])).collect()
}
