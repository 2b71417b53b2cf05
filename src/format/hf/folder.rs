//! The small files of a folder, each read as a whole.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::file::Files;
use crate::os;

/// Bytes of the longest configuration.
pub(super) const MAX_CONFIG: u64 = 4 << 20;

/// A whole file, or `None` where there is none.
pub(super) fn read(files: Files, path: &Path, cap: u64) -> Result<Option<Vec<u8>>> {
    match files.open(path) {
        Err(Error::Io { system_code, .. }) if os::is_not_found(system_code) => Ok(None),
        file => file?.read_all(cap).map(Some),
    }
}

pub(super) fn read_text(files: Files, path: &Path, cap: u64) -> Result<Option<String>> {
    let Some(bytes) = read(files, path, cap)? else { return Ok(None) };
    String::from_utf8(bytes).map(Some).map_err(|_| Error::format(path, "text that is not UTF-8"))
}

/// True for the name of a file in the same folder.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.len() < 256 && name != "." && name != ".." && !name.contains(['/', '\\', ':', '\0'])
}

/// Stands for infinity, which JSON lacks and configurations written by Python have.
pub(super) const UNBOUNDED: f64 = 1e300;

/// Replaces the infinities of a configuration, outside of its strings.
pub(super) fn bound_infinities(text: &mut [u8]) {
    let (mut at, mut in_string) = (0, false);
    while let Some(rest) = text.get_mut(at..).filter(|rest| !rest.is_empty()) {
        match rest {
            [b'\\', ..] if in_string => at += 1,
            [b'"', ..] => in_string = !in_string,
            _ if in_string => {}
            word if word.starts_with(b"Infinity") => {
                word.iter_mut().zip(b"1e300   ").for_each(|(byte, digit)| *byte = *digit);
                at += 7;
            }
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinities_outside_of_strings_become_numbers() {
        let mut text = *br#"{"a\"Infinity":"Infinity\\","b":[Infinity,-Infinity, 1]}"#;
        bound_infinities(&mut text);
        let expected = r#"{"a\"Infinity":"Infinity\\","b":[1e300   ,-1e300   , 1]}"#;
        assert_eq!(str::from_utf8(&text).unwrap(), expected);
        for end in 0..text.len() {
            bound_infinities(&mut text[..end]);
        }
        assert_eq!(str::from_utf8(&text).unwrap(), expected);
    }
}
