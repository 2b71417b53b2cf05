//! A module uses only the layers below it: reads every `crate::` path in `src` and holds it against the table.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What each layer may use, besides itself and `error`. `engine` conducts, so it knows all but the C interface.
const USES: &[(&str, &[&str])] = &[
    ("ffi", &["engine"]),
    ("engine", &["text", "sample", "model", "backend", "format", "quant", "tensor"]),
    ("text", &["format"]),
    ("sample", &[]),
    ("model", &["backend", "format", "quant", "tensor"]),
    ("backend", &["quant", "tensor"]),
    ("format", &["quant", "tensor"]),
    ("quant", &["tensor"]),
    ("tensor", &[]),
    ("error", &[]),
];

#[test]
fn modules_use_only_layers_below_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
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
            if used != layer && used != "error" && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{relative} uses {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "against the order of the layers:\n{}", wrong.join("\n"));
}

#[test]
fn the_reader_of_paths_reads_them() {
    let text = "
        use crate::error::Result;
        use crate::{quant, tensor::{DType, Shape}, model as m};
        fn f() { crate::backend::open(); } // crate::comment::is::skipped
        pub(crate) struct S;
        #[cfg(test)]
        mod tests { use crate::engine::Model; }";
    let expected = ["backend", "error", "model", "quant", "tensor"].map(String::from);
    assert_eq!(crate_paths(text), BTreeSet::from(expected));
}

fn rust_files(dir: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(dir).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

/// First segments of all `crate::` paths, grouped imports included. Comments are skipped, and so are a file's unit tests,
/// which stand at its end and may build their data with whatever helps.
fn crate_paths(text: &str) -> BTreeSet<String> {
    let code: String = text
        .lines()
        .take_while(|line| line.trim() != "#[cfg(test)]")
        .map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n")
        .collect();
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
