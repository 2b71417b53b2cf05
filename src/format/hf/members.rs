//! Typed access to the members of a configuration; records which were read, so that unread ones can be rejected.

use std::cell::RefCell;
use std::path::Path;

use crate::error::{Error, Result};
use crate::format::json::Json;

pub(super) struct Members<'a> {
    path: &'a Path,
    /// The objects to search, in this order.
    objects: [&'a Json<'a>; 2],
    /// Index of the object and name of each member that was read.
    read: RefCell<Vec<(usize, &'a str)>>,
}

impl<'a> Members<'a> {
    /// `path` is for messages.
    pub fn new(path: &'a Path, first: &'a Json<'a>, second: &'a Json<'a>) -> Members<'a> {
        Members { path, objects: [first, second], read: RefCell::default() }
    }

    /// Returns the first present member of these names. All with the same value count as read.
    pub fn find(&self, names: &[&str]) -> Option<(&'a str, &'a Json<'a>)> {
        let all = || self.all().filter(|(_, name, _)| names.contains(name));
        let first = self.objects.iter().find_map(|object| names.iter().find_map(|name| object.get(name)))?;
        // NaN differs from itself.
        let is_same = |value: &Json| std::ptr::eq(value, first) || value == first;
        let mut read = self.read.borrow_mut();
        read.extend(all().filter(|(_, _, value)| is_same(value)).map(|(object, name, _)| (object, name)));
        all().find(|(_, _, value)| is_same(value)).map(|(_, name, value)| (name, value))
    }

    /// Returns an integer, or a list with one value per layer that are all equal.
    pub fn int(&self, names: &[&str]) -> Result<Option<u64>> {
        let read = |value: &'a Json<'a>| match value.as_array() {
            Some([first, rest @ ..]) if rest.iter().all(|other| other == first) => first.as_u64(),
            _ => value.as_u64(),
        };
        self.typed(names, read, "an integer of 0 or more")
    }

    pub fn number(&self, names: &[&str]) -> Result<Option<f64>> {
        self.typed(names, |value| value.as_f64().filter(|x| x.is_finite()), "a finite number")
    }

    pub fn bool(&self, names: &[&str]) -> Result<Option<bool>> {
        self.typed(names, Json::as_bool, "a boolean")
    }

    pub fn text(&self, names: &[&str]) -> Result<Option<&'a str>> {
        self.typed(names, Json::as_str, "a string")
    }

    pub fn list(&self, names: &[&str]) -> Result<Option<&'a [Json<'a>]>> {
        self.typed(names, Json::as_array, "a list")
    }

    fn typed<T>(&self, names: &[&str], read: impl Fn(&'a Json<'a>) -> Option<T>, wanted: &str) -> Result<Option<T>> {
        let Some((name, value)) = self.find(names) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong(name, wanted))
    }

    /// True if a member of these names is present and `null`.
    pub fn says_null(&self, names: &[&str]) -> bool {
        let is_null = |name: &&str| self.objects.iter().any(|object| object.get_or_null(name) == Some(&Json::Null));
        names.iter().any(is_null)
    }

    /// Marks members as read, whatever their values.
    pub fn skip(&self, names: &[&str]) {
        let found = self.all().filter(|(_, name, _)| names.contains(name));
        self.read.borrow_mut().extend(found.map(|(object, name, _)| (object, name)));
    }

    /// Returns the unread members; `null` counts as absent.
    pub fn unread(&self) -> impl Iterator<Item = (&'a str, &'a Json<'a>)> {
        let read = self.read.borrow().clone();
        self.all()
            .filter(move |(object, name, _)| !read.contains(&(*object, *name)))
            .map(|(_, name, value)| (name, value))
    }

    fn all(&self) -> impl Iterator<Item = (usize, &'a str, &'a Json<'a>)> {
        let numbered = self.objects.into_iter().enumerate();
        let members =
            numbered.flat_map(|(i, object)| object.members().iter().map(move |(name, value)| (i, &**name, value)));
        members.filter(|(_, _, value)| **value != Json::Null)
    }

    pub fn wrong(&self, name: &str, wanted: &str) -> Error {
        Error::format(self.path, format!("{name} should be {wanted}"))
    }

    /// Returns an error about two contradictory values.
    pub fn contradiction(&self, what: &str) -> Error {
        Error::format(self.path, what)
    }

    pub fn unsupported(&self, what: &str) -> Error {
        Error::unsupported(format!("{}: {what} is not supported", self.path.display()))
    }
}
