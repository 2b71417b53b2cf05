//! A module uses only the layers below it: compares every `crate::` path in `src` with the table.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The layers that each layer may use, besides itself, `error` and `memory`. `engine` uses all but the C interface,
/// GPUs and `os`.
const USES: &[(&str, &[&str])] = &[
    ("ffi", &["engine", "os"]),
    (
        "engine",
        &["text", "grammar", "model", "device", "cpu", "graph", "sampling", "format", "media", "quant", "tensor"],
    ),
    ("grammar", &["text"]),
    ("text", &["format"]),
    ("model", &["graph", "format", "media", "quant", "tensor"]),
    ("device", &["drivers", "gpu", "cpu", "graph", "sampling", "quant", "tensor"]),
    ("drivers", &["cuda", "wgpu", "gpu", "graph"]),
    ("cuda", &["gpu", "graph", "sampling", "quant", "tensor", "os"]),
    ("wgpu", &["gpu", "graph", "sampling", "quant", "tensor", "os"]),
    ("gpu", &["graph", "sampling", "quant", "tensor", "os"]),
    ("cpu", &["graph", "quant", "tensor", "os"]),
    ("graph", &["sampling", "quant", "tensor"]),
    ("sampling", &[]),
    ("format", &["quant", "tensor", "os"]),
    ("media", &[]),
    ("quant", &["tensor"]),
    ("tensor", &[]),
    ("os", &[]),
    ("error", &[]),
    ("memory", &[]),
];

#[test]
fn modules_use_only_layers_below_them() {
    let root = root();
    let layers: BTreeMap<&str, &[&str]> = USES.iter().copied().collect();
    let mut files = Vec::new();
    rust_files(&root, &mut files);
    assert!(files.len() > USES.len(), "found no sources under {}", root.display());
    let mut wrong = Vec::new();
    for file in files {
        let relative = file.strip_prefix(&root).expect("below src").to_str().expect("UTF-8");
        let layer = relative.split(['/', '\\']).next().expect("a first part").trim_end_matches(".rs");
        if layer == "lib" {
            continue;
        }
        let allowed = layers.get(layer).unwrap_or_else(|| panic!("{relative}: the layer {layer} is not in the table"));
        let text = fs::read_to_string(&file).expect("a source file");
        for used in crate_paths(&text) {
            if used != layer && !["error", "memory"].contains(&used.as_str()) && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{relative} uses {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "against the order of the layers:\n{}", wrong.join("\n"));
}

/// Folders of GPU backends, with the words that name them.
const BACKENDS: &[(&str, &[&str])] = &[("cuda", &["cuda"]), ("wgpu", &["wgpu", "wgsl", "vulkan"])];

/// A backend is named in its folder, in the list of drivers with the modules, and where the C interface tells users.
#[test]
fn the_list_of_drivers_alone_names_a_backend() {
    let root = root();
    let mut files = Vec::new();
    rust_files(&root, &mut files);
    let mut wrong = Vec::new();
    for (folder, words) in BACKENDS {
        let may = [folder, "ffi", "lib.rs", "drivers.rs"].map(|part| root.join(part));
        for file in files.iter().filter(|file| !may.iter().any(|part| file.starts_with(part))) {
            let text = fs::read_to_string(file).expect("a source file").to_lowercase();
            wrong.extend(
                words
                    .iter()
                    .filter(|word| text.contains(**word))
                    .map(|word| format!("{} names {word}", file.display())),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Functions that a system's C library rounds in its own way: `libm` computes these, the same bits everywhere.
const SYSTEM_MATHS: &[&str] =
    &[".exp()", ".exp2()", ".ln()", ".log2()", ".sin()", ".cos()", ".sin_cos()", ".tanh()", ".powf(", ".mul_add("];

#[test]
fn only_os_knows_systems_and_no_result_depends_on_them() {
    let root = root();
    let mut files = Vec::new();
    rust_files(&root, &mut files);
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| !file.starts_with(root.join("os"))) {
        let code = code(&fs::read_to_string(file).expect("a source file"));
        let systems = [
            "std::os::",
            "libc::",
            "cfg(unix)",
            "cfg(windows)",
            "cfg!(unix)",
            "cfg!(windows)",
            "target_os",
            "process::id",
        ];
        for found in systems.iter().chain(SYSTEM_MATHS).filter(|found| code.contains(**found)) {
            wrong.push(format!("{} has {found}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_reader_of_paths_reads_them() {
    let text = "
        use crate::error::Result;
        use crate::{quant, tensor::{DType, Shape}, model as m};
        fn f() { crate::device::open(); } // crate::comment::is::skipped
        pub(crate) struct S;
        #[cfg(test)]
        mod tests { use crate::engine::Model; }";
    let expected = ["device", "error", "model", "quant", "tensor"].map(String::from);
    assert_eq!(crate_paths(text), BTreeSet::from(expected));
}

/// Checks that no file of `src` uses itself by way of others.
///
/// A file uses another where its code, up to its unit tests, names by a path (`crate::`, `super::`, `self::`, or the
/// name of a child) something that the other defines. A `mod` declaration is no use. A re-export (`pub use`) is none
/// either: whoever names its item uses the file that defines it. So a `mod.rs` either holds what its children share,
/// and calls none of them, or combines its children, and what they share is in a separate child.
#[test]
fn files_use_each_other_without_circles() {
    let uses = Tree::read(&root()).uses();
    let mut wrong = Vec::new();
    for circle in circles(&uses) {
        for file in &circle {
            for (other, items) in uses[file].iter().filter(|(other, _)| circle.contains(*other)) {
                let items: Vec<&str> = items.iter().map(String::as_str).collect();
                wrong.push(format!("{file} uses {} of {other}", items.join(", ")));
            }
        }
        wrong.push(String::new());
    }
    assert!(wrong.is_empty(), "circles:\n{}", wrong.join("\n"));
}

/// The files of the addon for Node define what they share without `static`. A file uses another if it names what that
/// one defines.
#[test]
fn files_of_the_javascript_addon_use_each_other_without_circles() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bindings/js/src");
    let mut texts = BTreeMap::new();
    for file in fs::read_dir(&folder).expect("the addon").map(|file| file.expect("a file").path()) {
        let name = file.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
        if name.ends_with(".c") {
            texts.insert(name, without_c_comments(&fs::read_to_string(&file).expect("a source file")));
        }
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut defined = BTreeMap::new();
    for (file, text) in &texts {
        for line in text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_alphabetic())) {
            let name = line.split(['(', '[']).next().and_then(|before| before.rsplit(|c| !is_word(c)).next());
            if !line.starts_with("static ") && !line.starts_with("typedef ") && line.contains(['(', '[']) {
                defined.insert(name.expect("a name"), file);
            }
        }
    }
    assert!(defined.len() > 50, "{} definitions in {}", defined.len(), folder.display());
    let mut uses = Uses::new();
    for (file, text) in &texts {
        let mine = uses.entry(file.clone()).or_default();
        for word in text.split(|c| !is_word(c)) {
            if let Some(other) = defined.get(word).filter(|other| **other != file) {
                mine.entry((*other).clone()).or_default().insert(word.to_owned());
            }
        }
    }
    assert_eq!(circles(&uses), []);
}

/// C code without its block comments.
fn without_c_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().into_iter();
    first.chain(parts.filter_map(|part| part.split_once("*/")).map(|(_, code)| code)).collect()
}

/// `lib.rs` lists the modules in groups, each of which uses those before it.
#[test]
fn modules_are_listed_after_those_that_they_use() {
    let text = fs::read_to_string(root().join("lib.rs")).expect("lib.rs");
    let names = |group: &str| -> Vec<String> {
        group.lines().filter_map(|line| Some(line.strip_prefix("pub mod ")?.strip_suffix(';')?.to_owned())).collect()
    };
    let groups: Vec<Vec<String>> = text.split("\n\n").map(names).collect();
    assert_eq!(groups.concat().len(), USES.len());
    for (i, group) in groups.iter().enumerate() {
        for name in group {
            let (_, uses) = USES.iter().find(|(layer, _)| layer == name).expect("a layer");
            let before = groups[..i].concat();
            assert!(uses.iter().all(|used| before.iter().any(|other| other == used)), "{name} uses a module after it");
        }
    }
}

/// A `mod.rs` of the engine lists its files and what the layers above use; files import from where things are defined.
#[test]
fn the_engine_has_no_imports_upwards() {
    let tree = Tree::read(&root());
    let mut wrong = Vec::new();
    for module in tree.modules.values().filter(|module| module.file.starts_with("engine/")) {
        for path in &module.named {
            let (holder, rest) = tree.split(path);
            let is_face = holder == ["engine"] && !rest.is_empty();
            if is_face || holder.is_empty() {
                wrong.push(format!("{} imports {}", module.file, path.join("::")));
            }
        }
        if module.file.ends_with("/mod.rs") {
            let text = fs::read_to_string(root().join(&module.file)).expect("a source file");
            let code = code(&text);
            let is_listed =
                |s: &str| s.is_empty() || ["mod ", "use "].iter().any(|word| behind_visibility(s).starts_with(word));
            let defined = code.split(';').map(str::trim).filter(|statement| !is_listed(statement));
            wrong.extend(defined.map(|statement| format!("{} defines {statement:.40}", module.file)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A statement without its `pub`.
fn behind_visibility(statement: &str) -> &str {
    let rest = statement.strip_prefix("pub").unwrap_or(statement);
    rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest).trim_start()
}

#[test]
fn the_reader_of_files_finds_what_they_use() {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        ("lib.rs", "pub mod a;\npub mod b;\n"),
        ("a/mod.rs", "mod one;\nmod two;\npub use self::one::One;\npub struct Own;\nfn f() { two::call(); }\n"),
        ("a/one.rs", "use super::two::{self, Two as T, deep::{Three}};\nmod inner { use super::Own; }\n"),
        ("a/two.rs", "// use super::Own;\npub mod deep;\nuse crate::b::{Both, Own};\n"),
        ("a/two/deep.rs", "fn f() -> super::super::Own { loop {} }\n#[cfg(test)]\nmod tests { use super::X; }\n"),
        ("b.rs", "pub use crate::a::{One as Both, Own};\nuse crate::a::One;\n"),
    ];
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let uses = Tree::read(dir.path()).uses();
    let of = |file: &str| -> Vec<(&str, Vec<&str>)> {
        uses[file].iter().map(|(other, items)| (other.as_str(), items.iter().map(String::as_str).collect())).collect()
    };
    assert_eq!(of("a/mod.rs"), [("a/two.rs", vec!["call"])]);
    assert_eq!(of("a/one.rs"), [("a/two.rs", vec!["Two", "self"]), ("a/two/deep.rs", vec!["Three"])]);
    assert_eq!(of("a/two.rs"), [("a/mod.rs", vec!["Own"]), ("a/one.rs", vec!["One"])]);
    assert_eq!(of("a/two/deep.rs"), [("a/mod.rs", vec!["Own"])]);
    assert_eq!(of("b.rs"), [("a/one.rs", vec!["One"])]);
    let expected = ["a/mod.rs", "a/one.rs", "a/two.rs", "a/two/deep.rs"].map(String::from);
    assert_eq!(circles(&uses), [BTreeSet::from(expected)]);
}

/// For each file the files that it uses, and the items of them.
type Uses = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Sets of files that each use themselves by way of the others.
fn circles(uses: &Uses) -> Vec<BTreeSet<String>> {
    let reached = |from: &String| {
        let (mut found, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(file) = left.pop() {
            left.extend(uses[file].keys().filter(|other| found.insert((*other).clone())));
        }
        found
    };
    let reach: BTreeMap<&String, BTreeSet<String>> = uses.keys().map(|file| (file, reached(file))).collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for file in uses.keys().filter(|file| reach[*file].contains(*file)) {
        if !found.iter().any(|circle| circle.contains(file)) {
            found.push(reach[file].iter().filter(|other| reach[*other].contains(file)).cloned().collect());
        }
    }
    found
}

/// The files of a crate by the paths of their modules, from `lib.rs` down its `mod` declarations.
#[derive(Default)]
struct Tree {
    modules: BTreeMap<Vec<String>, Module>,
}

#[derive(Default)]
struct Module {
    file: String,
    children: BTreeSet<String>,
    /// Paths from the root that the code names.
    named: BTreeSet<Vec<String>>,
    /// Paths of re-exported items, by the name they have here.
    exported: BTreeMap<String, Vec<String>>,
}

impl Tree {
    fn read(root: &Path) -> Tree {
        let mut tree = Tree::default();
        tree.read_module(root, "lib.rs", &[]);
        tree
    }

    fn read_module(&mut self, root: &Path, file: &str, path: &[String]) {
        let text = fs::read_to_string(root.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        let code = code(&text);
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        let folder = match file.rsplit_once('/') {
            _ if file == "lib.rs" => String::new(),
            Some((folder, "mod.rs")) => format!("{folder}/"),
            _ => format!("{}/", file.trim_end_matches(".rs")),
        };
        let mut at = None;
        for line in code.lines().map(str::trim) {
            if let Some(named) = line.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")) {
                let beside = Path::new(file).with_file_name(named);
                at = Some(beside.to_str().expect("UTF-8").to_owned());
            }
            let declared = line.strip_suffix(';').and_then(|line| line.split_once("mod "));
            let Some((_, name)) = declared.filter(|(before, _)| before.is_empty() || before.starts_with("pub")) else {
                continue;
            };
            let beside = format!("{folder}{name}.rs");
            let below = format!("{folder}{name}/mod.rs");
            let child = at.take().unwrap_or(if root.join(&beside).exists() { beside } else { below });
            module.children.insert(name.to_owned());
            self.read_module(root, &child, &[path, &[name.to_owned()]].concat());
        }
        for named in paths(&code, &module.children) {
            let mut full: Vec<String> = path[..path.len().saturating_sub(named.up)].to_vec();
            if named.from_root {
                full.clear();
            }
            full.extend(named.segments);
            match named.exported_as {
                Some(name) => _ = module.exported.insert(name, full),
                None => _ = module.named.insert(full),
            }
        }
        self.modules.insert(path.to_vec(), module);
    }

    fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for module in self.modules.values() {
            let mine = uses.entry(module.file.clone()).or_default();
            for path in &module.named {
                let (file, item) = self.definition(path, 0);
                if file != module.file {
                    mine.entry(file).or_default().insert(item);
                }
            }
        }
        uses
    }

    /// The module whose file holds what a path names, and the rest of the path.
    fn split<'a>(&self, path: &'a [String]) -> (&'a [String], &'a [String]) {
        let known = (0..=path.len()).rev().find(|&n| self.modules.contains_key(&path[..n]));
        path.split_at(known.expect("the root is a module"))
    }

    /// The file that defines what a path names, and its name there.
    fn definition(&self, path: &[String], depth: usize) -> (String, String) {
        assert!(depth < 10, "{path:?} is a re-export of itself");
        let (holder, rest) = self.split(path);
        let module = &self.modules[holder];
        let item = rest.first().map_or("self", String::as_str);
        match module.exported.get(item) {
            // Modules within a file are the file.
            Some(target) if self.split(target).0 != holder => self.definition(target, depth + 1),
            _ => (module.file.clone(), item.to_owned()),
        }
    }
}

/// A path in the code of a file.
struct Named {
    from_root: bool,
    /// Number of modules to go up from the file's own.
    up: usize,
    segments: Vec<String>,
    exported_as: Option<String>,
}

/// The paths of a file that lead into the crate, groups taken apart.
fn paths(code: &str, children: &BTreeSet<String>) -> Vec<Named> {
    let mut found = Vec::new();
    // Inside modules of the file itself the first `super` is the file.
    let (mut depth, mut inner) = (0, Vec::new());
    let (mut before, mut at) = (' ', 0);
    while let Some(c) = code[at..].chars().next() {
        let word = identifier(&code[at..]);
        if word.is_empty() || before == ':' {
            match c {
                '{' => depth += 1,
                '}' => {
                    depth -= 1;
                    inner.retain(|open| *open <= depth);
                }
                _ => {}
            }
            (before, at) = (c, at + c.len_utf8());
            continue;
        }
        let rest = &code[at + word.len()..];
        if word == "mod" && rest.trim_start()[identifier(rest.trim_start()).len()..].trim_start().starts_with('{') {
            inner.push(depth + 1);
        }
        let is_start = ["crate", "self", "super"].contains(&word.as_str()) || children.contains(&word);
        if !(is_start && rest.starts_with("::")) {
            (before, at) = ('a', at + word.len());
            continue;
        }
        let line = code[..at].rsplit([';', '}']).next().unwrap_or_default().trim();
        let is_export = line.starts_with("pub") && line.ends_with("use");
        let mut all = Vec::new();
        let end = code.len() - leaves(&code[at..], &[], &mut all).len();
        for (mut segments, name) in all {
            let from_root = segments[0] == "crate";
            let mut up = segments.iter().take_while(|s| *s == "super").count();
            segments.drain(..if children.contains(&word) { 0 } else { up.max(1) });
            // A path that begins in an inner module.
            up = up.saturating_sub(inner.len());
            found.push(Named { from_root, up, segments, exported_as: is_export.then_some(name) });
        }
        (before, at) = ('a', end);
    }
    found
}

/// Reads one path or group: full paths and the names that they have here. Returns what follows.
fn leaves<'a>(text: &'a str, prefix: &[String], all: &mut Vec<(Vec<String>, String)>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix('}') {
                return after;
            }
            rest = leaves(rest, prefix, all).trim_start().trim_start_matches(',');
        }
    }
    let word = if text.starts_with('*') { "*".to_owned() } else { identifier(text) };
    assert!(!word.is_empty(), "no path: {text:.40}");
    let (path, rest) = ([prefix, std::slice::from_ref(&word)].concat(), &text[word.len()..]);
    if let Some(rest) = rest.strip_prefix("::").filter(|rest| !rest.starts_with('<')) {
        return leaves(rest, &path, all);
    }
    let path = if word == "self" && !prefix.is_empty() { prefix.to_vec() } else { path };
    let (name, rest) = match rest.strip_prefix(" as ") {
        Some(rest) => (identifier(rest), &rest[identifier(rest).len()..]),
        None => (path[path.len() - 1].clone(), rest),
    };
    all.push((path, name));
    rest
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn rust_files(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

/// A file without its comments and its unit tests, which stand at its end, or in a file of theirs, and may build their
/// data with whatever helps.
fn code(text: &str) -> String {
    text.lines()
        .take_while(|line| !["#[cfg(test)]", "#![cfg(test)]"].contains(&line.trim()))
        .map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n")
        .collect()
}

/// First segments of all `crate::` paths, grouped imports included.
fn crate_paths(text: &str) -> BTreeSet<String> {
    let code = code(text);
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            None => found.insert(identifier(rest)),
            Some(group) => {
                let mut depth = 0;
                let mut start = true;
                for (i, c) in group.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => start = true,
                        c if start && !c.is_whitespace() => {
                            found.insert(identifier(&group[i..]));
                            start = false;
                        }
                        _ => {}
                    }
                }
                true
            }
        };
    }
    found
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}
