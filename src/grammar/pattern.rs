//! Patterns of JSON schemas as the parser takes them. They are ECMA-262's, the parser's those of the crate
//! `regex-syntax`, and it quotes some sets of characters wrong.

use llguidance::regex_to_lark;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Repetition};

/// A character that no text of a pattern needs, and that JSON has to escape.
const SPARE: char = '\u{1}';

/// A pattern for the parser. One that cannot be read stays as it is, and the parser says why.
pub fn prepared(pattern: &str) -> String {
    let pattern = without_nested_sets(pattern);
    // The parser's own reading of `\d` and `\w`, before sets become ranges.
    match regex_syntax::parse(&regex_to_lark(&pattern, "dw")) {
        Ok(tree) if is_quoted_wrong(&tree) => without_spare(tree).to_string(),
        _ => pattern,
    }
}

/// Escapes what within a set has a meaning in `regex-syntax` alone, and writes the empty set and the full one in its
/// way.
fn without_nested_sets(pattern: &str) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    let mut in_set = false;
    while let Some(c) = rest.chars().next() {
        let part = match c {
            '\\' => &rest[..1 + rest[1..].chars().next().map_or(0, char::len_utf8)],
            '[' if !in_set && rest.starts_with("[^]") => "[^]",
            '[' if !in_set && rest.starts_with("[]") => "[]",
            '[' if !in_set && rest.starts_with("[^") => "[^",
            _ => &rest[..c.len_utf8()],
        };
        rest = &rest[part.len()..];
        match part {
            "[^]" => out.push_str(r"[\s\S]"),
            "[]" => out.push_str(r"[^\s\S]"),
            "[" if in_set => out.push_str(r"\["),
            "[" | "[^" => {
                in_set = true;
                out.push_str(part);
            }
            "]" => {
                in_set = false;
                out.push(']');
            }
            // Two of these are an operation on sets.
            "&" | "~" | "-" if in_set && rest.starts_with(part) => {
                out.push('\\');
                out.push_str(part);
            }
            _ => out.push_str(part),
        }
    }
    out
}

/// True where a set has the spare character, but not all that JSON escapes with a backslash alone: the parser takes one
/// with all control characters for one that has `"` and `\` too.
fn is_quoted_wrong(tree: &Hir) -> bool {
    match tree.kind() {
        HirKind::Class(Class::Unicode(class)) => {
            let has = |c: char| class.iter().any(|range| (range.start()..=range.end()).contains(&c));
            has(SPARE) && !(has('"') && has('\\'))
        }
        HirKind::Literal(text) => text.0.contains(&(SPARE as u8)),
        HirKind::Repetition(repeated) => is_quoted_wrong(&repeated.sub),
        HirKind::Capture(capture) => is_quoted_wrong(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(is_quoted_wrong),
        _ => false,
    }
}

/// The expression less the texts with the spare character, so that no set has all control characters, whatever is
/// united.
fn without_spare(tree: Hir) -> Hir {
    match tree.into_kind() {
        HirKind::Class(Class::Unicode(mut class)) => {
            class.difference(&ClassUnicode::new([ClassUnicodeRange::new(SPARE, SPARE)]));
            Hir::class(Class::Unicode(class))
        }
        HirKind::Literal(text) if text.0.contains(&(SPARE as u8)) => Hir::fail(),
        HirKind::Literal(text) => Hir::literal(text.0),
        HirKind::Repetition(repeated) => {
            let Repetition { min, max, greedy, sub } = repeated;
            Hir::repetition(Repetition { min, max, greedy, sub: Box::new(without_spare(*sub)) })
        }
        HirKind::Capture(capture) => without_spare(*capture.sub),
        HirKind::Concat(parts) => Hir::concat(parts.into_iter().map(without_spare).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.into_iter().map(without_spare).collect()),
        HirKind::Look(look) => Hir::look(look),
        HirKind::Class(class) => Hir::class(class),
        HirKind::Empty => Hir::empty(),
    }
}
