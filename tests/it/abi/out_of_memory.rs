//! Calls every function of the header while memory runs out, including the memory of the system's own libraries. Scenes
//! of calls are repeated with each of their allocations failing, both that allocation alone and all from it on. A call
//! must end with a status that memory explains, and afterwards everything must work. Scenes run in children of this
//! process, whose `malloc` is `tests/c/failing_malloc.c`, so that a child that dies is counted and named.
//! `tests/out_of_memory.rs` tests loads and steps with a host's allocator.
//!
//! Some tries of each scene are made; `REALIZAR_OOM_STEP=1` makes all of them, which takes minutes.

mod scenes;

use std::ffi::{CStr, c_int, c_long};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use realizar::ffi::status::*;

use super::host::*;
use crate::support::interface;
use scenes::{Fixture, SCENES};

/// Number of tries per scene in the test suite.
const TRIES: u64 = 24;
/// Scene, first try and step of a child.
const WORK: &str = "REALIZAR_OOM_WORK";

/// The allocator of a child.
struct Malloc {
    begin: extern "C" fn(c_long, c_int),
    arm: extern "C" fn(c_int),
    count: extern "C" fn() -> c_long,
    registered: extern "C" fn() -> c_long,
}

impl Malloc {
    fn find() -> Malloc {
        let symbol = |name: &CStr| {
            let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            assert!(!symbol.is_null(), "{name:?} was not preloaded");
            symbol
        };
        unsafe {
            Malloc {
                begin: std::mem::transmute::<*mut libc::c_void, extern "C" fn(c_long, c_int)>(symbol(
                    c"failing_malloc_begin",
                )),
                arm: std::mem::transmute::<*mut libc::c_void, extern "C" fn(c_int)>(symbol(c"failing_malloc_arm")),
                count: std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> c_long>(symbol(
                    c"failing_malloc_count",
                )),
                registered: std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> c_long>(symbol(
                    c"failing_malloc_registered",
                )),
            }
        }
    }
}

/// The calls of a scene.
pub struct Calls {
    malloc: Malloc,
    failed: bool,
    /// A status that lack of memory does not explain.
    odd: Option<String>,
}

impl Calls {
    /// Makes a call during which allocations may fail; `None` if it failed.
    fn make(&mut self, name: &str, call: impl FnOnce(*mut rz_error) -> rz_status) -> Option<rz_status> {
        let mut err = no_error();
        (self.malloc.arm)(1);
        let status = call(&mut err);
        (self.malloc.arm)(0);
        if status >= 0 {
            return Some(status);
        }
        self.failed = true;
        // The system reports lack of memory in this way for files and threads.
        let says = |of, code| status == of && err.system_code == code;
        if status != RZ_ERR_OUT_OF_MEMORY && !says(RZ_ERR_IO, libc::ENOMEM) && !says(RZ_ERR_RESOURCES, libc::EAGAIN) {
            self.odd.get_or_insert_with(|| format!("{name}: {status}: {}", text_of(&err.message)));
        }
        None
    }

    /// A call without a status.
    fn quietly<T>(&mut self, call: impl FnOnce() -> T) -> T {
        (self.malloc.arm)(1);
        let result = call();
        (self.malloc.arm)(0);
        result
    }
}

/// Makes tries from a given one on, and prints the number of each try before it starts.
fn child(work: &str) {
    let mut words = work.split(' ');
    let (scene, first, step) = (words.next().expect("a scene"), words.next(), words.next());
    let number = |word: Option<&str>| word.and_then(|word| word.parse::<u64>().ok()).expect("a number");
    let (mut k, step) = (number(first), number(step));
    let fixture = Fixture::new(scene == "stores");
    let scene = SCENES.iter().find(|(name, _)| *name == scene).expect("a scene").1;
    let mut calls = Calls { malloc: Malloc::find(), failed: false, odd: None };
    // The first run allocates what is kept for later calls.
    for _ in 0..2 {
        (calls.malloc.begin)(c_long::MAX, 0);
        scene(&mut calls, &fixture);
        assert!(!calls.failed, "{:?}", calls.odd);
    }
    let all = (calls.malloc.count)() as u64;
    let step = if step == 0 { (2 * all / TRIES) | 1 } else { step };
    println!("all {all}");
    let mut tries = 0;
    while k < 2 * all {
        println!("try {k} step {step}");
        (calls.malloc.begin)((k / 2) as c_long, (k % 2) as c_int);
        scene(&mut calls, &fixture);
        if let Some(odd) = calls.odd.take() {
            println!("odd {odd}");
        }
        k += step;
        tries += 1;
        if tries % 25 == 0 || k >= 2 * all {
            (calls.malloc.begin)(c_long::MAX, 0);
            calls.failed = false;
            scene(&mut calls, &fixture);
            assert!(!calls.failed, "after try {k}: {:?}", calls.odd);
        }
    }
    // Callers' threads must never get a destructor.
    println!("registered {}", (calls.malloc.registered)());
    println!("done");
}

/// Compiles the allocator; `None` without a compiler or without glibc.
fn allocator(folder: &Path) -> Option<PathBuf> {
    let (source, library) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/failing_malloc.c"), folder.join("m.so"));
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC"])
        .arg(&source)
        .arg("-o")
        .arg(&library)
        .arg("-ldl")
        .output();
    let Ok(compiled) = compiled else {
        eprintln!("SKIPPED: no cc was found");
        return None;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Some(library)
}

#[test]
fn no_function_ends_the_process_where_memory_runs_out() {
    if let Ok(work) = std::env::var(WORK) {
        return child(&work);
    }
    if cfg!(not(target_env = "gnu")) || std::env::var_os("RUNNER").is_some() {
        eprintln!("SKIPPED: allocations of another system's, which cannot be made to fail");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Some(allocator) = allocator(folder.path()) else { return };
    let step = std::env::var("REALIZAR_OOM_STEP").unwrap_or("0".to_owned());
    let only = std::env::var("REALIZAR_OOM_SCENE").ok();
    let mut wrong = Vec::new();
    for (scene, _) in SCENES.iter().filter(|(name, _)| only.as_ref().is_none_or(|only| only == name)) {
        let (mut first, mut deaths, mut tries, mut all) = (0, 0, 0, String::new());
        loop {
            let mut child = Command::new(std::env::current_exe().expect("a path"))
                .args(["--exact", "abi::out_of_memory::no_function_ends_the_process_where_memory_runs_out"])
                .args(["--nocapture", "--test-threads=1"])
                .env(WORK, format!("{scene} {first} {step}"))
                .env("LD_PRELOAD", &allocator)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("a child");
            let (mut now, mut by, mut done) = (None, 1, false);
            for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
                let line = line.expect("a line");
                if let Some((k, step)) = line.strip_prefix("try ").and_then(|rest| rest.split_once(" step ")) {
                    (now, by) = (k.parse::<u64>().ok(), step.parse::<u64>().expect("a number"));
                    tries += 1;
                } else if line.starts_with("odd ") {
                    wrong.push(format!("{scene} {now:?}: {line}"));
                } else if let Some((_, n)) = line.split_once("all ").filter(|_| all.is_empty()) {
                    all = n.to_owned();
                } else if line.starts_with("registered ") && line != "registered 0" {
                    wrong.push(format!("{scene}: destructors on callers' threads: {line}"));
                }
                done |= line == "done";
            }
            let output = child.wait_with_output().expect("a child that ends");
            if done && output.status.success() {
                break;
            }
            let said = String::from_utf8_lossy(&output.stderr);
            let said: String = said.trim().chars().take(1500).collect();
            wrong.push(format!("{scene} {now:?}: {:?}: {said}", output.status));
            deaths += 1;
            match now {
                Some(k) if !done && deaths < 10 => first = k + by,
                _ => break,
            }
        }
        println!("{scene}: {all} allocations, {tries} tries, {deaths} deaths");
    }
    wrong.iter().take(30).for_each(|line| println!("  {line}"));
    assert!(wrong.is_empty());
}

/// A scene calls each function of the header.
#[test]
fn every_function_of_the_header_has_a_scene() {
    let names = interface::names("function");
    let scenes = concat!(include_str!("out_of_memory/scenes.rs"), include_str!("../../out_of_memory.rs"));
    assert!(names.len() > 130, "{}", names.len());
    let is_called = |name: &str| {
        scenes.match_indices(name).any(|(at, _)| {
            let next = scenes[at + name.len()..].chars().next();
            next.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_')
        })
    };
    let missing: Vec<_> = names.iter().filter(|name| !is_called(name)).collect();
    assert!(missing.is_empty(), "no scene calls {missing:?}");
}
