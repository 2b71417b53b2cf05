//! Tables written as text: space-separated names, space-separated `name=number`, and values as JSON. Each file with
//! such tables has a test that validates all of them.

/// True if a list of names contains `name`.
pub fn has(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|entry| entry == name)
}

/// Returns the number of the first entry in a list like "rope_theta=1e4 head_dim=128" whose name is in `names`.
pub fn number(list: &str, names: &[&str]) -> Option<f64> {
    let mut entries = list.split_ascii_whitespace().filter_map(|entry| entry.split_once('='));
    entries.find(|(name, _)| names.contains(name)).and_then(|(_, value)| value.parse().ok())
}

#[cfg(test)]
pub mod checks {
    use std::collections::BTreeSet;
    use std::path::Path;

    use crate::format::json::Json;

    /// Fails unless `list` has only names, each once.
    pub fn names(list: &str) -> Result<(), String> {
        distinct(list.split_ascii_whitespace())
    }

    /// Fails unless `list` has only finite numbers, each under a unique name.
    pub fn numbers(list: &str) -> Result<(), String> {
        for entry in list.split_ascii_whitespace() {
            let value = entry.split_once('=').and_then(|(_, value)| value.parse::<f64>().ok());
            value.filter(|x| x.is_finite()).ok_or_else(|| format!("{entry:?} has no number"))?;
        }
        distinct(list.split_ascii_whitespace().filter_map(|entry| entry.split_once('=')).map(|(name, _)| name))
    }

    /// Fails unless each row has a JSON value under a unique name, and says what another value would need.
    pub fn values(rows: &[(&str, &str, &str)]) -> Result<(), String> {
        for (name, value, effect) in rows {
            Json::parse(Path::new("a table"), value.as_bytes()).map_err(|e| format!("{name}: {e}"))?;
            if effect.is_empty() {
                return Err(format!("{name} says no effect"));
            }
        }
        distinct(rows.iter().map(|(name, ..)| *name))
    }

    fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for name in names {
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b)) {
                return Err(format!("{name:?} is no name"));
            }
            if !seen.insert(name) {
                return Err(format!("{name:?} comes twice"));
            }
        }
        Ok(())
    }

    #[test]
    fn faults_are_found() {
        assert_eq!(super::number("a=1e4 b=-2.5", &["c", "b"]), Some(-2.5));
        assert!(super::has(" a bc ", "bc") && !super::has(" a bc ", "b"));
        assert_eq!((names(" a bc "), numbers("a=1e4 b=-2.5"), values(&[("a", "null", "x")])), (Ok(()), Ok(()), Ok(())));
        for list in ["a,b", "a b a", "a=1"] {
            assert!(names(list).is_err(), "{list}");
        }
        for list in ["a", "a=", "a=1,", "a=x", "a=inf", "a=1 a=2", "=1", "a=1 b = 2"] {
            assert!(numbers(list).is_err(), "{list}");
        }
        for row in [("a", "nul", "x"), ("a", "", "x"), ("a", "1", ""), ("", "1", "x")] {
            assert!(values(&[row]).is_err(), "{row:?}");
        }
    }
}
