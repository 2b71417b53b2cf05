//! Tags that delimit the parts of a reply, such as `</think>`: matching them in streamed text, and deriving them from
//! renderings that differ in one part. Independent of other modules.

/// In a tag: any short text, such as the number of a call.
pub const ANY: char = '\u{F8FE}';
/// In a tag: the name of the tool.
pub const NAME: char = '\u{F8FF}';
/// In a tag after an argument: its name.
pub const KEY: char = '\u{F8FD}';

/// Characters after which, and between which, models write white space that their templates do not.
const TAG_ENDS: [char; 2] = ['>', ']'];
const ENDS: [char; 5] = ['[', '{', '}', ',', ':'];
const STARTS: [char; 6] = ['<', '[', ']', '{', '}', '"'];

/// Maximum number of characters for `ANY`.
const MAX_ANY: usize = 64;

/// The result of matching a tag with the beginning of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    No,
    /// More text may complete it.
    Partial,
    /// Complete, with this number of bytes.
    Full(usize),
}

/// Matches a tag with the beginning of a text. White space in a tag matches any white space or none; the text may also
/// have white space after a tag, and between brackets and quotes.
pub fn matches(tag: &str, text: &str) -> Match {
    let (mut rest, mut last) = (text, ' ');
    let mut tag = tag.chars();
    while let Some(c) = tag.next() {
        if c.is_whitespace() || TAG_ENDS.contains(&last) || (ENDS.contains(&last) && STARTS.contains(&c)) {
            rest = rest.trim_start();
        }
        last = c;
        if c.is_whitespace() {
            continue;
        }
        if c == ANY || c == NAME {
            return any(tag.as_str(), text.len() - rest.len(), rest);
        }
        let mut chars = rest.chars();
        // White space in a tag may be absent from the text.
        match chars.next() {
            None => return Match::Partial,
            Some(found) if found == c => rest = chars.as_str(),
            Some(_) => return Match::No,
        }
    }
    Match::Full(text.len() - rest.len())
}

fn any(tag: &str, before: usize, rest: &str) -> Match {
    let mut result = Match::No;
    for (i, (at, c)) in rest.char_indices().chain([(rest.len(), ' ')]).enumerate() {
        match matches(tag, &rest[at..]) {
            Match::Full(n) => return Match::Full(before + at + n),
            Match::Partial => result = Match::Partial,
            Match::No => {}
        }
        if i == MAX_ANY || c == '\n' {
            break;
        }
    }
    result
}

/// Returns the text that the first `ANY` of a tag matches at the beginning of a text.
pub fn any_of<'t>(tag: &str, text: &'t str) -> Option<&'t str> {
    let (head, tail) = tag.split_once(ANY)?;
    let Match::Full(n) = matches(head, text) else { return None };
    let rest = text[n..].trim_start();
    let mut places = rest.char_indices().map(|(at, _)| at).take(MAX_ANY + 1);
    let end = places.find(|at| matches!(matches(tail, &rest[*at..]), Match::Full(_)))?;
    Some(rest[..end].trim_end())
}

/// Returns the common text of two texts, with `ANY` for a difference in the middle.
pub fn merged(a: &str, b: &str) -> String {
    if a == b {
        return a.to_owned();
    }
    let start = common_prefix(a, b);
    let end = common_suffix(&a[start..], &b[start..]);
    format!("{}{ANY}{}", &a[..start], &a[a.len() - end..])
}

/// Returns the length of the common prefix in bytes.
pub fn common_prefix(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum()
}

/// Returns the length of the common suffix in bytes.
pub fn common_suffix(a: &str, b: &str) -> usize {
    a.chars().rev().zip(b.chars().rev()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum()
}

/// Returns the last index up to `at` that is not within a tag.
pub fn tag_start(text: &str, at: usize) -> usize {
    open_tag(&text[..at]).unwrap_or(at)
}

/// Returns the first index from `at` on that is not within a tag.
pub fn tag_end(text: &str, at: usize) -> usize {
    match open_tag(&text[..at]) {
        Some(start) => first_tag(&text[start..]).map_or(text.len(), |tag| start + tag.len()).max(at),
        None => at,
    }
}

/// Tags of several control tokens, with name and attributes as text: how they begin, and how they end.
const LONG: ([&str; 2], &str) = (["<|open|>", "<|close|>"], "<|sep|>");

/// Returns the start of the last tag of several tokens.
fn last_long_tag(text: &str) -> Option<usize> {
    LONG.0.iter().filter_map(|begin| text.rfind(begin)).max()
}

/// Returns the start of an unclosed tag: `<` without `>`, `[` of an upper-case name without `]`, or a tag of several
/// tokens without the last one.
fn open_tag(text: &str) -> Option<usize> {
    if let Some(at) = last_long_tag(text).filter(|at| !text[*at..].contains(LONG.1)) {
        return Some(at);
    }
    let at = text.rfind(['<', '['])?;
    let (bracket, inside) = text[at..].split_at(1);
    let is_name = |c: char| c.is_ascii_uppercase() || c == '/' || c == '_';
    let is_open = match bracket {
        "<" => !inside.contains('>') && !inside.contains(char::is_whitespace) || inside.is_empty(),
        _ => inside.chars().all(is_name),
    };
    is_open.then_some(at)
}

/// Returns the first tag of a text that begins with one.
pub fn first_tag(text: &str) -> Option<&str> {
    if LONG.0.iter().any(|begin| text.starts_with(begin)) {
        return text.find(LONG.1).map(|at| &text[..at + LONG.1.len()]);
    }
    let end = match text.chars().next()? {
        '<' => text.find('>')?,
        '[' => text.find(']')?,
        _ => return None,
    };
    Some(&text[..=end])
}

/// Returns the last tag of a text that ends with one.
pub fn last_tag(text: &str) -> Option<&str> {
    let long = last_long_tag(text).filter(|_| text.ends_with(LONG.1));
    long.or_else(|| text.rfind(['<', '['])).map(|at| &text[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_found_in_part_and_with_other_white_space() {
        assert_eq!(matches("</think>", "</think>x"), Match::Full(8));
        assert_eq!(matches("</think>", "</thi"), Match::Partial);
        assert_eq!(matches("</think>", "</thx"), Match::No);
        assert_eq!(matches("<a>\n<b>", "<a><b>"), Match::Full(6));
        assert_eq!(matches("<a><b>", "<a> <b>"), Match::Full(7));
        assert_eq!(matches("<a><b>", "<a> "), Match::Partial);
        assert_eq!(matches("<a>b", "<a> b"), Match::Full(5));
        assert_eq!(matches("a b<", "ab <"), Match::No);
        let tag = format!("call:{ANY}<go>");
        assert_eq!(matches(&tag, "call:17<go>{"), Match::Full(11));
        assert_eq!(matches(&tag, "call:17<g"), Match::Partial);
        assert_eq!(matches(&tag, &format!("call:{}", "1".repeat(100))), Match::No);
        assert_eq!(
            [any_of(&tag, "call: 17 <go>{"), any_of(&tag, "call:17"), any_of("call", "call")],
            [Some("17"), None, None]
        );
    }

    #[test]
    fn differences_end_between_tags() {
        assert_eq!(tag_start("ab<think", 8), 2);
        assert_eq!(tag_start("ab<think>", 9), 9);
        assert_eq!(tag_end("ab</x></y>", 5), 6);
        assert_eq!(tag_start("[{\"a\": 1}, <", 12), 11);
        assert_eq!(merged("a:0<b>", "a:1<b>"), format!("a:{ANY}<b>"));
    }
}
