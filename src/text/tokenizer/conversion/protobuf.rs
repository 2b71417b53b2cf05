//! The wire format of protocol buffers (protobuf.dev/programming-guides/encoding), one message after another.

use crate::error::{Error, Result};

/// The value of a field.
pub enum Field<'a> {
    Int(u64),
    Fixed32(u32),
    Fixed64,
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    pub fn bytes(&self) -> Option<&'a [u8]> {
        if let Field::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    pub fn text(&self) -> Option<&'a str> {
        self.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    pub fn int(&self) -> Option<i64> {
        if let Field::Int(n) = self { Some(n.cast_signed()) } else { None }
    }

    pub fn bool(&self) -> Option<bool> {
        self.int().map(|n| n != 0)
    }

    pub fn float(&self) -> Option<f32> {
        if let Field::Fixed32(bits) = self { Some(f32::from_bits(*bits)) } else { None }
    }
}

/// Calls `each` for the fields of a message, in order.
pub fn fields<'a>(mut message: &'a [u8], mut each: impl FnMut(u64, Field<'a>) -> Result<()>) -> Result<()> {
    let damaged = || Error::invalid("tokenizer.model is damaged, or no model of SentencePiece");
    while !message.is_empty() {
        let key = varint(&mut message).ok_or_else(damaged)?;
        let field = match key & 7 {
            0 => varint(&mut message).map(Field::Int),
            1 => message.split_off(..8).map(|_| Field::Fixed64),
            2 => {
                let len = varint(&mut message).and_then(|n| usize::try_from(n).ok()).ok_or_else(damaged)?;
                message.split_off(..len).map(Field::Bytes)
            }
            5 => message.split_off(..4).and_then(|b| b.first_chunk()).map(|b| Field::Fixed32(u32::from_le_bytes(*b))),
            _ => None,
        };
        each(key >> 3, field.ok_or_else(damaged)?)?;
    }
    Ok(())
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *message.split_off_first()?;
        n |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(n);
        }
    }
    None
}
