//! The words of sources and documents: the width of comments, phrases that they do without, names of files that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Columns of a comment.
const WIDTH: usize = 120;

/// Lines of a function, tests apart.
const FUNCTION: usize = 100;

/// Phrases that comments do without, in lower case.
const BANNED: &[&str] = &["timeline", "refuses to know", "behead", " gait", "knows nothing of", " told ", "wishes"];

/// Sources whose comments are looked at, by folder and ending.
const SOURCES: &[(&str, &[&str])] = &[
    ("src", &["rs"]),
    (HEADER, &["rs"]),
    ("kernels", &["cu", "cuh"]),
    ("tests", &["rs"]),
    ("tests/cuda_shim", &["cpp", "h"]),
    ("tests/ptx", &["cpp", "h", "cu"]),
    ("benches", &["rs"]),
];

/// The folder of the header's text, which has words of its own.
const HEADER: &str = "src/ffi";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files below a folder, by their endings, without data and build outputs.
fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let name = entry.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        if entry.is_dir() && !["data", "target", "ffi"].contains(&name.as_str()) {
            files(&entry, endings, found);
        } else if entry.extension().is_some_and(|e| endings.iter().any(|ending| e == *ending)) {
            found.push(entry);
        }
    }
}

/// The comments of all sources: file, number of the line, the whole line, the comment in it.
fn comments() -> Vec<(PathBuf, usize, String, String)> {
    let mut found = Vec::new();
    SOURCES.iter().for_each(|(folder, endings)| files(&root().join(folder), endings, &mut found));
    let of_file = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a source");
        let comment = move |(i, line): (usize, &str)| {
            let (code, comment) = line.split_once("//")?;
            (code.is_empty() || code.ends_with(' ')).then(|| (path.clone(), i + 1, line.to_owned(), comment.to_owned()))
        };
        text.lines().enumerate().filter_map(comment).collect::<Vec<_>>()
    };
    let all: Vec<_> = found.into_iter().flat_map(of_file).collect();
    assert!(all.len() > 5000, "{} comments", all.len());
    all
}

#[test]
fn comments_are_not_wide_and_use_the_fields_words() {
    let mut wrong = Vec::new();
    for (path, line, whole, comment) in comments() {
        let place = format!("{}:{line}", path.strip_prefix(root()).expect("below the root").display());
        let own = path.ends_with("tests/it/words.rs") || path.starts_with(root().join(HEADER));
        if whole.chars().count() > WIDTH {
            wrong.push(format!("{place} has {} columns", whole.chars().count()));
        }
        let small = comment.to_lowercase();
        wrong
            .extend(BANNED.iter().filter(|phrase| !own && small.contains(**phrase)).map(|p| format!("{place}: {p:?}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Names of source files in backticks, in comments and documents, stand for files that there are.
#[test]
fn files_that_are_named_exist() {
    let mut all = Vec::new();
    files(root(), &["rs", "cu", "cuh", "c", "cpp", "h", "py", "sh", "md", "go", "java", "cs", "swift"], &mut all);
    files(&root().join("src/ffi"), &["rs"], &mut all);
    let known: BTreeSet<String> =
        all.iter().map(|path| format!("/{}", path.strip_prefix(root()).unwrap().display())).collect();
    let mut texts: Vec<(String, String)> = comments()
        .into_iter()
        .map(|(path, line, _, comment)| (format!("{}:{line}", path.display()), comment))
        .collect();
    let mut documents = vec![root().join("ARCHITECTURE.md"), root().join("CONTRIBUTING.md")];
    files(&root().join("docs"), &["md"], &mut documents);
    texts.extend(
        documents.iter().map(|path| (path.display().to_string(), fs::read_to_string(path).expect("a document"))),
    );
    let mut wrong = Vec::new();
    for (place, text) in texts {
        for name in text.split('`').skip(1).step_by(2) {
            let is_file = [".rs", ".cu", ".cuh"].iter().any(|ending| name.ends_with(ending));
            let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "._/-".contains(c));
            if is_file && plain && name.len() > 4 && !known.iter().any(|file| file.ends_with(&format!("/{name}"))) {
                wrong.push(format!("{place}: {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Tells whether a line begins a function.
fn begins_function(line: &str) -> bool {
    let mut words = line.split_whitespace().take_while(|word| *word != "fn");
    let is_part = |word: &str| {
        ["const", "async", "unsafe", "extern", "\"C\""].contains(&word)
            || word.starts_with("pub")
            || word.ends_with(')')
    };
    line.split_whitespace().any(|word| word == "fn") && words.all(is_part)
}

#[test]
fn functions_are_not_long() {
    let mut sources = Vec::new();
    ["src", "src/ffi"].iter().for_each(|folder| files(&root().join(folder), &["rs"], &mut sources));
    let (mut n, mut longest, mut wrong) = (0, 0, Vec::new());
    for path in sources {
        let text = fs::read_to_string(&path).expect("a source");
        let code = text.split("\n#[cfg(test)]\nmod ").next().expect("the code");
        let lines: Vec<&str> = code.lines().collect();
        for (i, line) in lines.iter().enumerate().filter(|(_, line)| begins_function(line)) {
            let indent = &line[..line.len() - line.trim_start().len()];
            // A declaration ends with a semicolon.
            let is_end = |rest: &str| rest == "}" || rest.starts_with(')') && rest.ends_with(';');
            let ends = |later: &&str| later == line || later.strip_prefix(indent).is_some_and(is_end);
            let first = if line.ends_with(['}', ';']) { i } else { i + 1 };
            let len = 1 + first - i + lines[first..].iter().position(ends).expect("the end of a function");
            (n, longest) = (n + 1, longest.max(len));
            if len > FUNCTION {
                let place = path.strip_prefix(root()).expect("below the root").display();
                wrong.push(format!("{place}:{} has {len} lines: {}", i + 1, line.trim()));
            }
        }
    }
    assert!(n > 3000 && longest > FUNCTION / 2, "{n} functions, the longest of {longest} lines");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
