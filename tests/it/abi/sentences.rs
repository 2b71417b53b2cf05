//! Rules of the header's first comment and of its status codes, checked in all declarations and by calls.

use super::host::*;
use std::collections::BTreeSet;
use std::ptr::null_mut;

use realizar::ffi::generate::*;
use realizar::ffi::status::*;
use serde_json::Value as Json;

use crate::support::interface;

fn members<'a>(item: &'a Json, name: &str) -> Vec<&'a Json> {
    item[name].as_array().map(|all| all.iter().collect()).unwrap_or_default()
}

/// The handle that a type points to so often.
fn handle_of<'a>(handles: &'a BTreeSet<String>, kind: &str, stars: &str) -> Option<&'a String> {
    handles.iter().find(|handle| kind.strip_suffix(stars).is_some_and(|name| name.trim_end() == *handle))
}

/// A handle that a function writes is given back to the _free of its type, and the function says so.
#[test]
fn every_handle_has_its_free() {
    let (handles, functions) = (interface::names("handle"), interface::items("function"));
    let names = interface::names("function");
    let mut made = BTreeSet::new();
    for function in &functions {
        for parameter in members(function, "parameters") {
            let Some(handle) = handle_of(&handles, interface::text(parameter, "type"), "**") else { continue };
            let free = format!("{handle}_free");
            let (name, doc) = (interface::text(function, "name"), interface::text(function, "doc"));
            assert!(doc.contains(&free), "{name} does not say that {free} takes the handle");
            made.insert(handle.clone());
        }
    }
    assert_eq!(made, handles);
    assert!(handles.iter().all(|handle| names.contains(&format!("{handle}_free"))));
}

/// A text that a caller gives has its length next to it, or is said to end with a NUL.
#[test]
fn every_text_has_its_length_or_a_nul() {
    let mut counted = 0;
    for (kind, list) in [("function", "parameters"), ("struct", "fields")] {
        for item in interface::items(kind) {
            let all = members(&item, list);
            for (i, text) in all.iter().enumerate() {
                if !["const char *", "const char *const *"].contains(&interface::text(text, "type")) {
                    continue;
                }
                let (owner, name) = (interface::text(&item, "name"), interface::text(text, "name"));
                let is_length = |other: &Json| other["name"] == format!("{name}_len");
                let has_length = all.iter().any(|other| is_length(other))
                    || all.get(i + 1).is_some_and(|next| next["name"] == "len");
                counted += u32::from(has_length);
                let doc = text["doc"].as_str().unwrap_or_else(|| interface::text(&item, "doc"));
                assert!(has_length || doc.contains("NUL-terminated"), "{owner}: the end of {name} is not said");
            }
        }
    }
    assert!(counted > 8, "{counted}");
}

/// What is said to be immutable is changed by its _free alone, and by functions that its own comment names.
#[test]
fn what_is_immutable_is_taken_as_const() {
    let handles = interface::items("handle");
    let doc = |name: &str| handles.iter().find(|handle| handle["name"] == name).map(|it| interface::text(it, "doc"));
    let (mut n, names) = (0, interface::names("handle"));
    for function in interface::items("function") {
        for parameter in members(&function, "parameters") {
            let Some(handle) = handle_of(&names, interface::text(parameter, "type"), "*") else { continue };
            let (name, doc) = (interface::text(&function, "name"), doc(handle).expect("a comment"));
            if doc.contains("mmutable") || doc.contains("Any number of threads may use it at once") {
                n += 1;
                assert!(name == format!("{handle}_free") || doc.contains(name), "{name} changes {handle}: {doc}");
            }
        }
    }
    assert!(n > 5, "{n}");
}

/// A thread that the system refuses has its own status, which no comment calls a file's.
#[test]
fn refused_threads_have_a_status() {
    for function in interface::items("function") {
        let doc = interface::text(&function, "doc").replace('\n', " ");
        for (at, _) in doc.match_indices("the system gives no") {
            let status = doc[..at].rsplit("RZ_").next().expect("a part").split_whitespace().next();
            assert_eq!(status, Some("ERR_RESOURCES"), "{}", interface::text(&function, "name"));
        }
    }
}

/// rz_generate_into keeps the tokens that it has made, as the rule of results says; other calls write nothing.
#[test]
fn only_generation_keeps_results_of_a_call_that_fails() {
    let host = Host::new(6);
    host.prefill(&[BOS, 403, 407]);
    let (mut out, mut n, before) = ([u32::MAX; 16], usize::MAX, host.len());
    let status = unsafe {
        rz_generate_into(host.cache, 403, null_mut(), out.as_mut_ptr(), 16, &mut n, std::ptr::null(), null_mut())
    };
    assert_eq!(status, RZ_ERR_CONTEXT_FULL);
    assert_eq!((n, host.len() - before), (3, 3));
    assert!(out[..3].iter().all(|token| *token < 512) && out[3..].iter().all(|token| *token == u32::MAX), "{out:?}");
    let header: Json = serde_json::from_str(interface::GENERATED).expect("JSON");
    let overview = interface::text(&header, "overview");
    assert!(overview.contains("rz_generate_into keeps the tokens"), "the exception is not said");
    // The next call goes on with the last token, which is not in the cache, and fails before the first one.
    let status = unsafe {
        rz_generate_into(host.cache, out[2], null_mut(), out.as_mut_ptr(), 16, &mut n, std::ptr::null(), null_mut())
    };
    assert_eq!((status, n, host.len()), (RZ_ERR_CONTEXT_FULL, 0, 6));
}
