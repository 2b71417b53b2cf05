//! Vocabularies as lists: `vocab.json` with `merges.txt`, and BERT's `vocab.txt`. Pre-tokenization follows from the
//! tokenizer class in the configuration, otherwise from the architecture.

use std::fmt::Write as _;
use std::path::Path;

use super::parts::{added, around, class, flag, name, quoted};
use crate::error::{Error, Result};
use crate::format::Metadata;
use crate::format::json::Json;
use crate::text::tokenizer::pretokenizer::{QWEN2, QWEN35};

/// The default EOS token.
const END: &str = "<|endoftext|>";

/// For a BPE tokenizer, by its class or architecture: true if it applies NFC, and its pattern if not GPT-2's.
fn rules(class: &str, arch: &str) -> Option<(bool, Option<&'static str>)> {
    Some(match (class, arch) {
        ("GPT2Tokenizer" | "CodeGenTokenizer", _) | ("", "gpt2" | "phi2" | "starcoder" | "starcoder2") => (false, None),
        ("GPTNeoXTokenizer", _) | ("", "gptneox") => (true, None),
        ("Qwen2Tokenizer", _) | ("", "qwen2" | "qwen2moe" | "qwen3" | "qwen3moe") => (true, Some(QWEN2)),
        ("Qwen3_5Tokenizer", _) => (true, Some(QWEN35)),
        _ => return None,
    })
}

pub fn pairs(vocab: &str, merges: &str, config: &Json, m: &mut Metadata) -> Result<String> {
    let arch = m.str("general.architecture")?.unwrap_or_default();
    let class = class(config);
    let Some((composes, pattern)) = rules(class, arch) else {
        return Err(Error::unsupported(format!(
            "cannot read vocab.json and merges.txt of the tokenizer class {class:?} of the network {arch:?}"
        )));
    };
    let table = Json::parse(Path::new("vocab.json"), vocab.as_bytes())?;
    let mut special = String::new();
    if let Some(id) = table.get(END).and_then(Json::as_u64).and_then(|id| usize::try_from(id).ok()) {
        special = added(id, END, true);
        name(m, "eos", END);
        if pattern.is_none() {
            name(m, "bos", END);
        }
    }
    let normalizer = if composes { r#"{"type":"NFC"}"# } else { "null" };
    let prefix = flag(config, "add_prefix_space", false)?;
    let split = |pattern: &str| {
        format!(r#"{{"type":"Split","pattern":{{"Regex":{}}},"behavior":"Isolated"}},"#, quoted(pattern))
    };
    let (split, is_gpt2) = (pattern.map_or(String::new(), split), pattern.is_none());
    let mut out = String::new();
    let _ = write!(
        out,
        r#"{{"added_tokens":[{special}],"normalizer":{normalizer},"pre_tokenizer":{{"type":"Sequence","pretokenizers":[{split}{{"type":"ByteLevel","add_prefix_space":{prefix},"use_regex":{is_gpt2}}}]}},"decoder":{{"type":"ByteLevel"}},"model":{{"type":"BPE","vocab":{vocab},"merges":["#
    );
    let mut separator = "";
    for (i, line) in merges.lines().enumerate() {
        if line.is_empty() || line.starts_with("#version") {
            continue;
        }
        match line.split_once(' ') {
            Some((left, right)) if !right.contains(' ') && !left.is_empty() && !right.is_empty() => {
                let _ = write!(out, "{separator}[{},{}]", quoted(left), quoted(right));
            }
            _ => {
                let what = format!("line {} is no pair of tokens", i + 1);
                return Err(Error::format(Path::new("merges.txt"), what));
            }
        }
        separator = ",";
    }
    out.push_str("]}}");
    Ok(out)
}

pub fn wordpiece(text: &str, config: &Json, m: &mut Metadata) -> Result<String> {
    let class = class(config);
    let arch = m.str("general.architecture")?.unwrap_or_default();
    let is_bert = matches!(
        (class, arch),
        ("BertTokenizer" | "DistilBertTokenizer" | "ElectraTokenizer" | "MobileBertTokenizer", _) | ("", "bert")
    );
    if !is_bert {
        return Err(Error::unsupported(format!(
            "cannot read vocab.txt of the tokenizer class {class:?} (tokenizer_config.json) of the network {arch:?}"
        )));
    }
    let lower = flag(config, "do_lower_case", true)?;
    let han = flag(config, "tokenize_chinese_chars", true)?;
    let accents = match config.get("strip_accents") {
        None => "null".to_owned(),
        Some(_) => flag(config, "strip_accents", false)?.to_string(),
    };
    let lines: Vec<&str> = text.lines().collect();
    // The last of equal lines counts, as in the reference implementation.
    let id_of = |token: &str| lines.iter().rposition(|line| *line == token);
    let special = |name: &str, default: &str| -> Result<Option<(String, usize)>> {
        let declared = m.str(&format!("tokenizer.huggingface.{name}_token"))?;
        let in_config = config.get(&format!("{name}_token"));
        let in_config = in_config.and_then(|token| token.as_str().or_else(|| token.get("content")?.as_str()));
        let text = declared.or(in_config).unwrap_or(default).to_owned();
        Ok(id_of(&text).map(|id| (text, id)))
    };
    let named = [("unk", "[UNK]"), ("sep", "[SEP]"), ("pad", "[PAD]"), ("cls", "[CLS]"), ("mask", "[MASK]")];
    let mut found = Vec::new();
    for (key, default) in named {
        found.push(special(key, default)?);
    }
    let list: Vec<String> = found.iter().flatten().map(|(text, id)| added(*id, text, true)).collect();
    let [unk, sep, _, cls, _] = &found[..] else { return Err(Error::unsupported("cannot read vocab.txt")) };
    let (Some(unk), Some((sep, sep_id)), Some((cls, cls_id))) = (unk, sep, cls) else {
        return Err(Error::format(
            Path::new("vocab.txt"),
            "the vocabulary lacks one of the tokens [UNK], [SEP] and [CLS]",
        ));
    };
    let mut out = format!(
        r#"{{"added_tokens":[{}],"normalizer":{{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":{han},"strip_accents":{accents},"lowercase":{lower}}},"pre_tokenizer":{{"type":"BertPreTokenizer"}},"decoder":{{"type":"WordPiece","prefix":"\#\#","cleanup":true}},"post_processor":{},"model":{{"type":"WordPiece","unk_token":{},"vocab":{{"#,
        list.join(","),
        around(Some((cls, *cls_id)), Some((sep, *sep_id))),
        quoted(&unk.0),
    )
    .replace(r"\#", "#");
    for (i, line) in lines.iter().enumerate() {
        let _ = write!(out, "{}{}:{i}", if i > 0 { "," } else { "" }, quoted(line));
    }
    out.push_str("}}}");
    name(m, "unk", &unk.0);
    Ok(out)
}
