//! RWKV World's vocabulary as keys of a GGUF file: lines of a number, a Python literal and a length, after token 0; or
//! in older folders a literal per line, from token 0 on.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::{Metadata, Strings, Value};

/// Types of tokens in a GGUF file: of normal tokens, and of tokens that no text produces.
const NORMAL: i64 = 1;
const CONTROL: i64 = 3;

pub fn convert(text: &str, m: &mut Metadata) -> Result<()> {
    let (mut tokens, mut kinds, mut bytes) = (Strings::default(), Vec::new(), Vec::new());
    let has_first = text.starts_with("b'<s>'");
    if !has_first {
        tokens.push(b"<s>")?;
        kinds.push(CONTROL);
    }
    let mut blank_line = None;
    for (i, line) in text.lines().enumerate() {
        bytes.clear();
        let id = kinds.len();
        let is_token = if has_first { literal(line, &mut bytes) } else { numbered(line, id, &mut bytes) };
        if is_token.is_none() {
            let what = format!("line {} is no token of RWKV", i + 1);
            return Err(Error::format(Path::new("the vocabulary of RWKV"), what));
        }
        if bytes == b"\n\n" {
            blank_line = Some(id);
        }
        let spelled: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        tokens.push(if id == 0 { b"<s>" } else { spelled.as_bytes() })?;
        kinds.push(if id == 0 { CONTROL } else { NORMAL });
    }
    m.set("tokenizer.ggml.model", "rwkv");
    m.set("tokenizer.ggml.tokens", Value::Strs(tokens));
    m.set("tokenizer.ggml.token_type", kinds);
    // Configurations name other tokens, which are unrelated to the vocabulary.
    m.set("tokenizer.ggml.bos_token_id", 0i64);
    m.set("tokenizer.ggml.eos_token_id", 0i64);
    if let Some(id) = blank_line {
        m.set("tokenizer.ggml.eot_token_id", id as i64);
    }
    if m.get("tokenizer.chat_template").is_none() {
        m.set("tokenizer.chat_template", "rwkv-world");
    }
    Ok(())
}

/// The token of a line `number literal length`.
fn numbered(line: &str, id: usize, out: &mut Vec<u8>) -> Option<()> {
    let ((number, rest), (_, length)) = (line.split_once(' ')?, line.rsplit_once(' ')?);
    literal(rest.strip_suffix(length)?.trim_end_matches(' '), out)?;
    (number.parse() == Ok(id) && length.parse() == Ok(out.len())).then_some(())
}

/// The bytes of a Python literal, of bytes or of a text.
fn literal(text: &str, out: &mut Vec<u8>) -> Option<()> {
    let (is_bytes, text) = text.strip_prefix('b').map_or((false, text), |rest| (true, rest));
    let quote = text.chars().next().filter(|c| ['\'', '"'].contains(c))?;
    let mut rest = text.strip_prefix(quote)?.strip_suffix(quote)?.chars();
    while let Some(c) = rest.next() {
        let c = match (c, if c == '\\' { rest.next()? } else { c }) {
            ('\\', 't') => '\t',
            ('\\', 'n') => '\n',
            ('\\', 'r') => '\r',
            ('\\', c @ ('\\' | '\'' | '"')) => c,
            ('\\', kind) => {
                let (_, digits) = [('x', 2), ('u', 4), ('U', 8)].into_iter().find(|row| row.0 == kind)?;
                let code = u32::from_str_radix(rest.as_str().get(..digits)?, 16).ok()?;
                rest = rest.as_str().get(digits..)?.chars();
                if is_bytes && digits == 2 {
                    out.push(u8::try_from(code).ok()?);
                    continue;
                }
                char::from_u32(code)?
            }
            (c, _) => c,
        };
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Some(())
}
