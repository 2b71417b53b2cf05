//! RWKV's tokenizer: from the start of a text on, always the longest matching token, byte by byte.

use crate::error::{Error, Result};
use crate::text::tokenizer::merge::Work;
use crate::text::tokenizer::trie::Trie;
use crate::text::tokenizer::vocab::{TokenKind, Vocab, push};

/// Maximum bytes of a token, which bounds the work at each place of a text.
const MAX_TOKEN: usize = 1024;

pub struct Greedy {
    trie: Trie,
    unknown: Option<u32>,
}

impl Greedy {
    pub fn new(vocab: &Vocab, unknown: Option<u32>) -> Result<Greedy> {
        if vocab.longest() > MAX_TOKEN {
            let longest = vocab.longest();
            return Err(Error::unsupported(format!("a token of {longest} bytes, at most {MAX_TOKEN} are supported")));
        }
        let mut trie = Trie::new(vocab)?;
        for (id, bytes, _) in vocab.iter().filter(|t| t.2 == TokenKind::Normal && !t.1.is_empty()) {
            trie.insert(bytes, id);
        }
        Ok(Greedy { trie, unknown })
    }

    /// Bytes without a token are unknown one by one.
    pub fn encode(&self, text: &str, work: &mut Work, out: &mut Vec<u32>) -> Result<()> {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            work.tick()?;
            let mut longest = None;
            self.trie.prefixes(Trie::ROOT, rest, |len, id| longest = Some((len, id)));
            let (len, id) = longest.map_or((1, self.unknown), |(len, id)| (len, Some(id)));
            if let Some(id) = id {
                push(out, id)?;
            }
            rest = &rest[len..];
        }
        Ok(())
    }
}

/// Appends the bytes of a token from an RWKV file, with Python escapes.
pub fn unescape(text: &[u8], out: &mut Vec<u8>) {
    let hex = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let (byte, after) = match (first, tail) {
            (b'\\', [b'x', a, b, after @ ..]) => match hex(&[*a, *b]) {
                Some(byte) => (byte, after),
                None => (b'x', &tail[1..]),
            },
            (b'\\', [b't', after @ ..]) => (b'\t', after),
            (b'\\', [b'n', after @ ..]) => (b'\n', after),
            (b'\\', [b'r', after @ ..]) => (b'\r', after),
            (b'\\', [other, after @ ..]) => (*other, after),
            _ => (*first, tail),
        };
        out.push(byte);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn escapes_are_those_of_bytes_in_python() {
        let bytes = |text: &str| {
            let mut out = Vec::new();
            unescape(text.as_bytes(), &mut out);
            out
        };
        // Python's `repr` of each, without quotes.
        assert_eq!(bytes(r"\xe4\xbd\xa0"), "\u{4f60}".as_bytes());
        assert_eq!(bytes(r"a\tb\r\n\\n\'"), b"a\tb\r\n\\n'");
        assert_eq!(bytes(r"\x7\"), b"x7\\");
    }
}
