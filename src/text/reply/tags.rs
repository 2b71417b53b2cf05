//! Texts by which models set off the parts of a reply, such as `</think>`: how they are found while a reply comes, and
//! how they are read off renderings that differ in one part. Relies on nothing.

/// Stands in a tag for any short text, such as the number of a call.
pub const ANY: char = '\u{F8FE}';
/// Stands in a tag for the name of the tool.
pub const NAME: char = '\u{F8FF}';
/// Stands in a tag after an argument for its name.
pub const KEY: char = '\u{F8FD}';

/// Longest text that `ANY` stands for, in characters.
const MAX_ANY: usize = 64;

/// The result of comparing the beginning of a text with a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    No,
    /// More text may complete it.
    Partial,
    /// It does, with so many bytes.
    Full(usize),
}

/// Matches a tag with the beginning of a text. White space in a tag stands for any white space or none.
pub fn matches(tag: &str, text: &str) -> Match {
    let mut rest = text;
    let mut tag = tag.chars();
    while let Some(c) = tag.next() {
        if c.is_whitespace() {
            rest = rest.trim_start();
            continue;
        }
        if c == ANY || c == NAME {
            return any(tag.as_str(), text.len() - rest.len(), rest);
        }
        let mut chars = rest.chars();
        // White space in a tag may be absent, so that it is passed over where a character follows.
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

/// The text that two have in common, with `ANY` for a difference in the middle.
pub fn merged(a: &str, b: &str) -> String {
    if a == b {
        return a.to_owned();
    }
    let start = common_prefix(a, b);
    let end = common_suffix(&a[start..], &b[start..]);
    format!("{}{ANY}{}", &a[..start], &a[a.len() - end..])
}

/// Bytes with which both texts begin.
pub fn common_prefix(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum()
}

/// Bytes with which both texts end.
pub fn common_suffix(a: &str, b: &str) -> usize {
    a.chars().rev().zip(b.chars().rev()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum()
}

/// The place at or before `at` that is not within a tag.
pub fn tag_start(text: &str, at: usize) -> usize {
    open_tag(&text[..at]).unwrap_or(at)
}

/// The place at or after `at` that is not within a tag.
pub fn tag_end(text: &str, at: usize) -> usize {
    match open_tag(&text[..at]) {
        Some(start) => {
            let end = if text[start..].starts_with('<') { '>' } else { ']' };
            text[at..].find(end).map_or(text.len(), |i| at + i + 1)
        }
        None => at,
    }
}

/// The start of a tag that is not closed: `<` without `>`, or `[` of a name in upper case without `]`.
fn open_tag(text: &str) -> Option<usize> {
    let at = text.rfind(['<', '['])?;
    let (bracket, inside) = text[at..].split_at(1);
    let is_name = |c: char| c.is_ascii_uppercase() || c == '/' || c == '_';
    let is_open = match bracket {
        "<" => !inside.contains('>') && !inside.contains(char::is_whitespace) || inside.is_empty(),
        _ => inside.chars().all(is_name),
    };
    is_open.then_some(at)
}

/// The first tag of a text that begins with one.
pub fn first_tag(text: &str) -> Option<&str> {
    let end = match text.chars().next()? {
        '<' => text.find('>')?,
        '[' => text.find(']')?,
        _ => return None,
    };
    Some(&text[..=end])
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
        assert_eq!(matches("<a><b>", "<a> <b>"), Match::No);
        let tag = format!("call:{ANY}<go>");
        assert_eq!(matches(&tag, "call:17<go>{"), Match::Full(11));
        assert_eq!(matches(&tag, "call:17<g"), Match::Partial);
        assert_eq!(matches(&tag, &format!("call:{}", "1".repeat(100))), Match::No);
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
