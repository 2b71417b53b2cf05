//! The text of sources and documents: width of comments, banned phrases, file names that must exist.

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

/// Sources in which only names of files are looked at: bindings, scripts and files of the root.
const NAMING: &[&str] = &["bindings", "scripts", "packaging", "examples", "fuzz"];

/// Endings of the text files among them; scripts have none.
const NAMING_ENDINGS: &[&str] = &[
    "", "c", "cpp", "cs", "gd", "go", "h", "hpp", "in", "java", "js", "kt", "md", "mjs", "py", "rs", "sh", "swift",
    "ts",
];

/// Headings of doc comments. Each stands alone on its line.
const HEADINGS: &[&str] = &["# Errors", "# Safety", "# Panics"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files below a folder, by their endings ("" for none), without data and build outputs.
fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let name = entry.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        if entry.is_dir() && !["data", "target", "ffi"].contains(&name.as_str()) {
            files(&entry, endings, found);
        } else if endings.contains(&entry.extension().and_then(|ending| ending.to_str()).unwrap_or("")) {
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

/// Names of source files in backticks, in comments and documents, and paths of source files in bindings, scripts and
/// files of the root, stand for files that exist.
#[test]
fn files_that_are_named_exist() {
    let mut all = Vec::new();
    files(root(), &["rs", "cu", "cuh", "c", "cpp", "h", "py", "sh", "md", "go", "java", "cs", "swift"], &mut all);
    files(&root().join("src/ffi"), &["rs"], &mut all);
    let known: BTreeSet<String> =
        all.iter().map(|path| format!("/{}", path.strip_prefix(root()).unwrap().display())).collect();
    let is_source = |name: &str| [".rs", ".cu", ".cuh"].iter().any(|ending| name.ends_with(ending)) && name.len() > 4;
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
    let mut names: Vec<(String, String)> = Vec::new();
    let mut quoted = |place: String, text: &str| {
        let plain = text.split('`').skip(1).step_by(2).filter(|name| is_source(name) && name.chars().all(is_part));
        names.extend(plain.map(|name| (place.clone(), name.to_owned())));
    };
    for (path, line, _, comment) in comments() {
        quoted(format!("{}:{line}", path.display()), &comment);
    }
    let mut documents = vec![root().join("ARCHITECTURE.md"), root().join("CONTRIBUTING.md")];
    files(&root().join("docs"), &["md"], &mut documents);
    for path in &documents {
        quoted(path.display().to_string(), &fs::read_to_string(path).expect("a document"));
    }
    let mut others = Vec::new();
    NAMING.iter().for_each(|folder| files(&root().join(folder), NAMING_ENDINGS, &mut others));
    let top = fs::read_dir(root()).expect("the root").map(|entry| entry.expect("an entry").path());
    others.extend(top.filter(|path| path.is_file()));
    for path in others {
        let bytes = fs::read(&path).expect("a file");
        for name in String::from_utf8_lossy(&bytes)
            .split(|c| !is_part(c))
            .filter(|name| is_source(name) && name.contains('/') && !name.starts_with("OUT_DIR"))
        {
            names.push((path.display().to_string(), name.trim_start_matches("../").to_owned()));
        }
    }
    let is_known = |name: &str| known.iter().any(|file| file.ends_with(&format!("/{name}")));
    let wrong: Vec<String> =
        names.iter().filter(|(_, name)| !is_known(name)).map(|(place, name)| format!("{place}: {name}")).collect();
    assert!(names.len() > 300, "{} names of files", names.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn headings_stand_alone() {
    let is_run_on = |text: &str| {
        let text = text.trim_start_matches(['/', '!', ' ']);
        HEADINGS.iter().find_map(|heading| text.strip_prefix(heading)).is_some_and(|rest| !rest.trim().is_empty())
    };
    let all = comments();
    let place = |path: &Path, line: usize| format!("{}:{line}", path.strip_prefix(root()).unwrap().display());
    let wrong: Vec<String> =
        all.iter().filter(|(.., text)| is_run_on(text)).map(|(path, line, ..)| place(path, *line)).collect();
    assert!(wrong.is_empty(), "{} headings with text after them:\n{}", wrong.len(), wrong.join("\n"));
}

/// No comment has the same word at the end of a line and at the beginning of the next, as careless replacements leave.
#[test]
fn no_word_comes_twice_across_lines() {
    let word = |text: &str| text.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let is_word = |word: &str| word.len() > 2 && word.chars().all(char::is_alphabetic);
    let text = |comment: &str| comment.trim_start_matches(['/', '!']).trim().to_owned();
    let mut wrong = Vec::new();
    for pair in comments().windows(2) {
        let [(file, n, before, above), (path, line, whole, below)] = pair else { unreachable!("windows of two") };
        let are_lines = [before, whole].iter().all(|line| line.trim_start().starts_with("//"));
        if file != path || n + 1 != *line || !are_lines {
            continue;
        }
        let (above, below) = (text(above), text(below));
        let (last, first) = (above.split_whitespace().last().map(word), below.split_whitespace().next().map(word));
        if !above.ends_with(['.', ';', ':', ',']) && last == first && last.as_deref().is_some_and(is_word) {
            wrong.push(format!("{}:{line}: {}", path.display(), last.unwrap_or_default()));
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

/// Functions with a match over all ops, which is as long as the list of them.
const LISTS: &[(&str, &str)] = &[("cpu/executor/execute.rs", "execute")];

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
            let is_last = |rest: &str| rest.starts_with(')') || rest.starts_with("->");
            let is_end = |rest: &str| rest == "}" || is_last(rest) && rest.ends_with(';');
            let ends = |later: &&str| later == line || later.strip_prefix(indent).is_some_and(is_end);
            let first = if line.ends_with(['}', ';']) { i } else { i + 1 };
            let len = 1 + first - i + lines[first..].iter().position(ends).expect("the end of a function");
            (n, longest) = (n + 1, longest.max(len));
            let is_list =
                LISTS.iter().any(|(file, name)| path.ends_with(file) && line.contains(&format!("fn {name}(")));
            if len > FUNCTION && !is_list {
                let place = path.strip_prefix(root()).expect("below the root").display();
                wrong.push(format!("{place}:{} has {len} lines: {}", i + 1, line.trim()));
            }
        }
    }
    assert!(n > 3000 && longest > FUNCTION / 2, "{n} functions, the longest of {longest} lines");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Constructors of errors whose first text is the message.
const CONSTRUCTORS: &[&str] = &[
    "Error::invalid(",
    "Error::unsupported(",
    "Error::not_found(",
    "Error::not_ready(",
    "Error::InvalidArgument(",
    "Error::Unsupported(",
    "Error::Mismatch(",
    "Error::NotFound(",
    "Error::NotReady(",
    "Error::TooComplex(",
    "Error::Version(",
    "Error::format(",
];

/// Verbs of messages. A message says what is wrong or what must be.
#[rustfmt::skip]
const VERBS: &[&str] = &[
    "allows", "are", "asks", "be", "become", "becomes", "began", "begins", "belong", "belongs", "call", "can",
    "cannot", "change", "changed", "comes", "computes", "contain", "contains", "contradict", "contradicts",
    "decodes", "differ", "differs", "do", "does", "ended", "ends", "exceed", "exceeds", "exist", "exists", "failed",
    "fails", "fit", "fits", "follow", "follows", "gave", "gives", "goes", "had", "has", "have", "hold", "holds",
    "is", "keeps", "lack", "lacks", "leaves", "loses", "made", "make", "makes", "means", "must", "name", "named",
    "names", "need", "needs", "occurs", "overflows", "overlaps", "reads", "refuses", "rejects", "repeat", "repeats",
    "returned", "runs", "share", "stands", "stay", "supports", "take", "takes", "uses", "wants", "was", "were",
    "works", "writes",
];

/// Returns the first string literal of a call's first arguments, also inside `format!`.
fn first_text(call: &str) -> Option<&str> {
    let from = call.find('"')?;
    let before = call[..from].trim().trim_end_matches("format!(").trim_end_matches("path,").trim();
    if !before.is_empty() {
        return None; // A variable comes first, which holds a message made before.
    }
    let text = &call[from + 1..];
    let mut escaped = false;
    let end = text.find(|c| {
        let is_end = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        is_end
    })?;
    Some(&text[..end])
}

/// Error messages have the form "WHERE is VALUE; it must be CONDITION", "cannot DO WHAT: REASON" or "X needs Y": they
/// have a verb, unless they only join other messages.
#[test]
fn error_messages_have_a_verb() {
    let mut all = Vec::new();
    files(&root().join("src"), &["rs"], &mut all);
    files(&root().join("src/ffi"), &["rs"], &mut all);
    let (mut n, mut wrong) = (0, Vec::new());
    for path in all {
        let text = fs::read_to_string(&path).expect("a source");
        let code = text.split("#[cfg(test)]\nmod tests").next().expect("a part");
        for constructor in CONSTRUCTORS {
            for (at, _) in code.match_indices(constructor) {
                let Some(message) = first_text(&code[at + constructor.len()..]) else { continue };
                // Words outside of placeholders.
                let outside: String =
                    message.split('{').map(|part| part.split_once('}').map_or(part, |p| p.1)).collect();
                if ["{what}", "{why}", "{e}", "{error}"].iter().any(|made| message.contains(made)) {
                    continue; // Contains a message made elsewhere.
                }
                let mut words =
                    outside.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| word.len() > 1).peekable();
                if words.peek().is_none() {
                    continue;
                }
                n += 1;
                if !words.any(|word| VERBS.contains(&word.to_lowercase().as_str())) {
                    let line = code[..at].lines().count();
                    wrong.push(format!("{}:{line}: {message}", path.strip_prefix(root()).unwrap().display()));
                }
            }
        }
    }
    assert!(n > 300, "{n} messages");
    assert!(wrong.is_empty(), "{} of {n}:\n{}", wrong.len(), wrong.join("\n"));
}
