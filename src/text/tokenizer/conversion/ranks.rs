//! Vocabularies of bytes with ranks: tiktoken's files, and Mistral's.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

use super::pairs;
use super::parts::{added, around, class, name, quoted};
use crate::error::{Error, Result, try_vec};
use crate::format::Metadata;
use crate::format::json::Json;
use crate::text::tokenizer::pretokenizer::{KIMI_K2, LLAMA3};
use crate::text::tokenizer::{base64, byte_level};

/// Special tokens of files that list none.
const FIRST_SPECIAL: [&str; 20] = [
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
];

const MOST_SPECIAL: usize = 1 << 16;

/// True for lines of tiktoken, `IQ== 0`, in files sometimes called `tokenizer.model`.
pub fn is_tiktoken(bytes: &[u8]) -> bool {
    let line = bytes.split(|&b| b == b'\n').next().unwrap_or_default();
    let Some((token, rank)) = std::str::from_utf8(line).ok().and_then(|line| line.trim_end().split_once(' ')) else {
        return false;
    };
    token.len() >= 4 && base64::decode(token).is_some() && rank.parse() == Ok(0u32)
}

/// Converts tiktoken ranks, with Llama 3's pattern, which the reference implementation assumes, or Kimi's, and the
/// special tokens of the configuration.
pub fn of_tiktoken(bytes: &[u8], config: &Json) -> Result<String> {
    let mut tokens = Vec::new();
    for (i, line) in bytes.split(|&b| b == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty()) {
        let wrong = || Error::invalid(format!("tokenizer.model: line {} is no token with its rank", i + 1));
        let (token, rank) =
            std::str::from_utf8(line).ok().and_then(|line| line.trim_end().split_once(' ')).ok_or_else(wrong)?;
        if rank.parse() != Ok(tokens.len()) {
            return Err(wrong());
        }
        tokens.push(base64::decode(token).ok_or_else(wrong)?);
    }
    let decoder = config.get("added_tokens_decoder").map_or(&[][..], Json::members);
    let mut named: HashMap<usize, &str> = HashMap::new();
    for (id, token) in decoder {
        let id = id.parse().ok().filter(|id| (tokens.len()..tokens.len() + MOST_SPECIAL).contains(id));
        named.extend(id.zip(token.get("content").and_then(Json::as_str)));
    }
    // Unnamed ids are reserved, as in the reference implementation.
    let end = named.keys().max().map_or(tokens.len(), |last| last + 1);
    let mut special = try_vec("special tokens", end - tokens.len())?;
    for id in tokens.len()..end {
        special.push((id, named.get(&id).map_or_else(|| format!("<|reserved_token_{id}|>"), |&text| text.to_owned())));
    }
    let special: Vec<(usize, &str)> = special.iter().map(|(id, text)| (*id, text.as_str())).collect();
    let pattern = if class(config) == "TikTokenTokenizer" { KIMI_K2 } else { LLAMA3 };
    write(&tokens, 0, pattern, &special, "null")
}

/// Converts Mistral's file: special tokens first, then as many of the list as the vocabulary size allows.
pub fn of_tekken(text: &str, m: &mut Metadata) -> Result<String> {
    let path = Path::new("tekken.json");
    let wrong = |what: &str| Error::format(path, what.to_owned());
    let json = Json::parse(path, text.as_bytes())?;
    let config = json.get("config").ok_or_else(|| wrong("it has no \"config\""))?;
    let pattern = config.get("pattern").and_then(Json::as_str).ok_or_else(|| wrong("it has no \"pattern\""))?;
    let size = |name: &str| match config.get(name) {
        None => Ok(None),
        Some(n) => {
            n.as_u64().and_then(|n| usize::try_from(n).ok()).map(Some).ok_or_else(|| wrong("a size that is none"))
        }
    };
    let mut special: Vec<(usize, String)> = Vec::new();
    match json.get("special_tokens") {
        None => special.extend(FIRST_SPECIAL.iter().map(|text| (*text).to_owned()).enumerate()),
        Some(list) => {
            for token in list.as_array().ok_or_else(|| wrong("\"special_tokens\" is no list"))? {
                let rank = token.get("rank").and_then(Json::as_u64).and_then(|n| usize::try_from(n).ok());
                let text = token.get("token_str").and_then(Json::as_str);
                let (Some(rank), Some(text)) = (rank, text) else {
                    return Err(wrong("a special token lacks a rank or a text"));
                };
                special.push((rank, text.to_owned()));
            }
        }
    }
    special.sort_unstable();
    if special.iter().enumerate().any(|(i, (rank, _))| *rank != i) {
        return Err(wrong("special tokens whose ranks are not 0, 1, 2 and so on"));
    }
    let vocab = json.get("vocab").and_then(Json::as_array).ok_or_else(|| wrong("it has no \"vocab\""))?;
    let n_special = size("default_num_special_tokens")?.unwrap_or(special.len());
    let n = size("default_vocab_size")?.unwrap_or(vocab.len().saturating_add(n_special));
    let Some(n) = n.checked_sub(n_special).filter(|&n| n <= vocab.len() && special.len() <= n_special) else {
        return Err(wrong("its sizes contradict the lists of tokens"));
    };
    if n_special > MOST_SPECIAL {
        return Err(wrong(&format!("it has more than {MOST_SPECIAL} special tokens")));
    }
    special.extend((special.len()..n_special).map(|id| (id, format!("<SPECIAL_{id}>"))));
    let mut tokens = try_vec("tokens", n)?;
    for (i, token) in vocab[..n].iter().enumerate() {
        let bytes = token.get("token_bytes").and_then(Json::as_str).and_then(base64::decode);
        match bytes.filter(|_| token.get("rank").and_then(Json::as_u64) == Some(i as u64)) {
            Some(bytes) => tokens.push(bytes),
            None => return Err(wrong(&format!("entry {i} of \"vocab\" is no token of rank {i}"))),
        }
    }
    let special: Vec<(usize, &str)> = special.iter().map(|(id, text)| (*id, text.as_str())).collect();
    for (key, text) in [("bos", "<s>"), ("eos", "</s>"), ("unk", "<unk>"), ("pad", "<pad>")] {
        if special.iter().any(|(_, special)| *special == text) {
            name(m, key, text);
        }
    }
    let bos = special.iter().find(|(_, text)| *text == "<s>").map(|(id, text)| (*text, *id));
    write(&tokens, n_special, pattern, &special, &around(bos, None))
}

fn write(
    tokens: &[Vec<u8>],
    first: usize,
    pattern: &str,
    special: &[(usize, &str)],
    post_processor: &str,
) -> Result<String> {
    let bytes: Vec<&[u8]> = tokens.iter().map(Vec::as_slice).collect();
    let merges = pairs::merges(&bytes, |_| true)?;
    let texts: Vec<String> = tokens.iter().map(|token| quoted(&byte_level::encode(token))).collect();
    let mut out = String::from(r#"{"added_tokens":["#);
    let list = special.iter().map(|(id, text)| added(*id, text, true));
    out.push_str(&list.collect::<Vec<_>>().join(","));
    let split = format!(r#"{{"type":"Split","pattern":{{"Regex":{}}},"behavior":"Isolated"}}"#, quoted(pattern));
    let bytes = r#"{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}"#;
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        r#"],"pre_tokenizer":{{"type":"Sequence","pretokenizers":[{split},{bytes}]}},"decoder":{{"type":"ByteLevel"}},"post_processor":{post_processor},"model":{{"type":"BPE","ignore_merges":true,"vocab":{{"#
    );
    for (i, text) in texts.iter().enumerate() {
        let _ = write!(out, "{}{text}:{}", if i > 0 { "," } else { "" }, first + i);
    }
    out.push_str(r#"},"merges":["#);
    for (i, (left, right)) in merges.iter().enumerate() {
        let _ = write!(out, "{}[{},{}]", if i > 0 { "," } else { "" }, texts[*left], texts[*right]);
    }
    out.push_str("]}}");
    Ok(out)
}
