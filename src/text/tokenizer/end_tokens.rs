//! The tokens that end a turn or a text in any vocabulary, by their texts.

use crate::text::tokenizer::vocab::{TokenKind, Vocab};

/// Texts of tokens that end a turn or a text in any vocabulary, whatever type the file gives them.
const END_TOKENS: &[&str] = &[
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<EOT>",
    "[EOT]",
    "<turn|>",
    "<｜end▁of▁sentence｜>",
];

/// True for a text on the list.
pub fn ends_any_text(text: &[u8]) -> bool {
    END_TOKENS.iter().any(|t| t.as_bytes() == text)
}

/// Adds the tokens of a vocabulary whose texts are on the list.
pub fn add_ends_by_text(vocab: &Vocab, ends: &mut Vec<u32>) {
    let mut found = [None; END_TOKENS.len()];
    for (id, bytes, _) in vocab.iter().filter(|t| matches!(t.2, TokenKind::Control | TokenKind::UserDefined)) {
        if let Some(i) = END_TOKENS.iter().position(|text| text.as_bytes() == bytes) {
            found[i].get_or_insert(id);
        }
    }
    ends.extend(found.iter().flatten());
    // If both of these end a message, `<|end|>` only closes a part of one (the Harmony format).
    let of_text = |text: &str| END_TOKENS.iter().position(|t| *t == text).and_then(|i| found[i]);
    if let (Some(_), Some(_), Some(part)) = (of_text("<|return|>"), of_text("<|call|>"), of_text("<|end|>")) {
        ends.retain(|&id| id != part);
    }
    ends.sort_unstable();
    ends.dedup();
}
