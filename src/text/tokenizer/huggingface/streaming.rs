//! Streaming access to selected members and lists of a JSON text, so that the megabytes of a vocabulary and its merges
//! never become a tree. Uses `serde_json` for the syntax and its depth limit.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::Result;

/// Finds the requested members of an object; the first of equal names counts, and `null` means absent.
pub(super) fn members<'j, const N: usize>(
    json: &'j str,
    names: [&'static str; N],
) -> Result<[Option<&'j RawValue>; N], serde_json::Error> {
    struct Selected<const N: usize>([&'static str; N]);
    impl<'de, const N: usize> Visitor<'de> for Selected<N> {
        type Value = [Option<&'de RawValue>; N];

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = [None; N];
            while let Some(name) = map.next_key::<Cow<'de, str>>()? {
                match self.0.iter().position(|n| *n == name) {
                    Some(i) if found[i].is_none() => found[i] = Some(map.next_value::<&'de RawValue>()?),
                    _ => _ = map.next_value::<IgnoredAny>()?,
                }
            }
            Ok(found.map(|raw| raw.filter(|raw| raw.get() != "null")))
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let found = deserializer.deserialize_map(Selected(names))?;
    deserializer.end()?;
    Ok(found)
}

/// Counts the elements of a list.
pub(super) struct Count;

impl<'de> Visitor<'de> for Count {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<usize, A::Error> {
        let mut n = 0;
        while list.next_element::<IgnoredAny>()?.is_some() {
            n += 1;
        }
        Ok(n)
    }
}

/// Calls a function for each merge of `["a b", …]` or `[["a", "b"], …]`.
pub(super) struct Merges<F>(pub F);

impl<'de, F: FnMut(&str, &str) -> Result<()>> Visitor<'de> for Merges<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of merges")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(OneMerge(&mut self.0))?.is_some() {}
        Ok(())
    }
}

struct OneMerge<'f, F>(&'f mut F);

impl<'de, F: FnMut(&str, &str) -> Result<()>> DeserializeSeed<'de> for OneMerge<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: FnMut(&str, &str) -> Result<()>> Visitor<'de> for OneMerge<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a merge of two tokens")
    }

    fn visit_str<E: serde::de::Error>(self, merge: &str) -> Result<(), E> {
        match merge.split_once(' ') {
            Some((left, right)) => (self.0)(left, right).map_err(E::custom),
            None => Err(E::custom(format!("the merge {merge:?} of one token"))),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<(), A::Error> {
        let left = pair.next_element::<Cow<'de, str>>()?;
        let right = pair.next_element::<Cow<'de, str>>()?;
        match (left, right, pair.next_element::<IgnoredAny>()?) {
            (Some(left), Some(right), None) => (self.0)(&left, &right).map_err(A::Error::custom),
            _ => Err(A::Error::custom("a merge of other than two tokens")),
        }
    }
}
