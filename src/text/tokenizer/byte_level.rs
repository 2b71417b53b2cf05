//! GPT-2's byte alphabet, used by byte-level BPE vocabularies: each byte is a printable character, its own if Latin-1
//! has one, otherwise the next one from U+0100 on.

use crate::error::Result;
use crate::text::tokenizer::vocab::reserve;

fn byte(c: char) -> Option<u8> {
    Some(match c as u32 {
        c @ (33..=126 | 161..=172 | 174..=255) => c,
        c @ 0x100..=0x120 => c - 0x100,
        c @ 0x121..=0x142 => c - 0x121 + 127,
        0x143 => 173,
        _ => return None,
    } as u8)
}

/// Converts bytes to the alphabet.
pub fn encode(bytes: &[u8]) -> String {
    let spell = |&byte: &u8| {
        let code = match byte {
            33..=126 | 161..=172 | 174..=255 => u32::from(byte),
            0..=32 => 0x100 + u32::from(byte),
            127..=160 => 0x121 - 127 + u32::from(byte),
            173 => 0x143,
        };
        char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
    };
    bytes.iter().map(spell).collect()
}

/// Appends the bytes that `text` spells. Other characters stand for themselves; returns false if there were any.
pub fn decode(text: &[u8], out: &mut Vec<u8>) -> Result<bool> {
    reserve(out, text.len())?;
    let Ok(text) = std::str::from_utf8(text) else {
        out.extend_from_slice(text);
        return Ok(false);
    };
    let mut whole = true;
    for c in text.chars() {
        match byte(c) {
            Some(b) => out.push(b),
            None => {
                whole = false;
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        let mut bytes: Vec<u8> = ('\0'..='\u{200}').filter_map(byte).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        let mut back = Vec::new();
        assert!(decode(encode(&bytes).as_bytes(), &mut back).unwrap() && back == bytes);
    }

    #[test]
    fn known_spellings() {
        let mut out = Vec::new();
        for (text, bytes) in
            [("ĠHello", &b" Hello"[..]), ("Ċ", b"\n"), ("Ã©", "é".as_bytes()), ("a ▁", "a ▁".as_bytes())]
        {
            out.clear();
            assert_eq!(decode(text.as_bytes(), &mut out).unwrap(), !text.contains(' '));
            assert_eq!(out, bytes);
        }
        out.clear();
        assert!(!decode(b"\xff", &mut out).unwrap());
        assert_eq!(out, b"\xff");
    }
}
