//! Text in char fields of fixed size, free of control characters and always NUL-terminated. Allocates nothing, because
//! the error may be a failed allocation.

use std::ffi::c_char;
use std::fmt::{self, Write};

/// The text between the beginning and the end of a message that is too long.
const GAP: &str = " ... ";

/// Writes a text. If the text does not fit, writes its beginning, cut between two characters.
pub(super) fn write_text(field: &mut [c_char], text: fmt::Arguments) {
    write_from(field, 0, text);
}

/// Writes a message. If the message does not fit, writes its beginning, which has the reason, and its end, which has
/// the file name.
pub(super) fn write_message(field: &mut [c_char], text: fmt::Arguments) {
    let room = field.len().saturating_sub(1);
    let mut length = Length(0);
    let _ = length.write_fmt(text);
    if length.0 <= room {
        return write_text(field, text);
    }
    // Each part has a NUL for its last byte, which the next part overwrites.
    let mut at = write_from(field.get_mut(..room / 5 * 3 + 1).unwrap_or_default(), 0, text);
    at += write_from(field.get_mut(at..).unwrap_or_default(), 0, format_args!("{GAP}"));
    let left = room.saturating_sub(at);
    write_from(field.get_mut(at..).unwrap_or_default(), length.0.saturating_sub(left), text);
}

/// Writes a text without its first `skip` bytes; returns the number of bytes written.
fn write_from(field: &mut [c_char], skip: usize, text: fmt::Arguments) -> usize {
    field.fill(0);
    let mut window = Window { bytes: field, len: 0, skip, full: false };
    // Writing to a `Window` never fails. An error could only come from a formatter; part of the text is then better
    // than none.
    let _ = window.write_fmt(text);
    window.len
}

/// Replaces control characters, so that names in a hostile file neither end the string early nor send control sequences
/// to a terminal.
fn shown(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

/// Returns the number of bytes of a text as `Window` writes it.
struct Length(usize);

impl Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.chars().map(|c| shown(c).len_utf8()).sum::<usize>();
        Ok(())
    }
}

struct Window<'a> {
    bytes: &'a mut [c_char],
    len: usize,
    skip: usize,
    full: bool,
}

impl Write for Window<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars().map(shown) {
            let mut utf8 = [0; 4];
            let utf8 = c.encode_utf8(&mut utf8).as_bytes();
            if self.skip > 0 {
                self.skip = self.skip.saturating_sub(utf8.len());
                continue;
            }
            self.full |= self.len + utf8.len() >= self.bytes.len();
            if self.full {
                break;
            }
            for (slot, &byte) in self.bytes.iter_mut().skip(self.len).zip(utf8) {
                *slot = c_char::from_ne_bytes([byte]);
            }
            self.len += utf8.len();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(field: &[c_char]) -> String {
        String::from_utf8(field.iter().map(|&c| c as u8).take_while(|&b| b != 0).collect()).expect("UTF-8")
    }

    #[test]
    fn text_fits_its_field() {
        let mut field = [0x55; 4];
        write_text(&mut field, format_args!("{}{}", "ab", "\u{e9}"));
        assert_eq!(field.map(|c| c as u8), *b"ab\0\0");
        write_text(&mut field, format_args!("a\u{e9}"));
        assert_eq!(field.map(|c| c as u8), [b'a', 0xc3, 0xa9, 0]);
    }

    #[test]
    fn a_long_message_keeps_both_ends() {
        let mut field = [0x55; 32];
        write_message(&mut field, format_args!("{}", "x".repeat(31)));
        assert_eq!(text_of(&field), "x".repeat(31));
        write_message(&mut field, format_args!("no file: {}end", "/folder".repeat(9)));
        assert_eq!(text_of(&field), "no file: /folder/f ... olderend");
        // Characters of two bytes at both cuts.
        write_message(&mut field, format_args!("a{}b", "\u{e9}".repeat(40)));
        let text = text_of(&field);
        assert!(
            text.starts_with("a\u{e9}") && text.ends_with("\u{e9}b") && text.contains("\u{e9} ... \u{e9}"),
            "{text}"
        );
    }
}
