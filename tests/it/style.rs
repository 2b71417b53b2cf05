//! Rules of CONTRIBUTING.md that a text can be held against: parameters, and arms over ops.

use std::fs;
use std::path::{Path, PathBuf};

/// Files in which an op without an arm would do nothing.
const OPS: &[&str] = &["cpu/executor/execute.rs", "graph/operands.rs", "graph/check.rs"];

/// The sources without comments and without unit tests at the end of a file, by their paths within `src`.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut left, mut found) = (vec![root.clone()], Vec::new());
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(
                fs::read_dir(&path).expect("a folder").map(|entry| -> PathBuf { entry.expect("an entry").path() }),
            );
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            let code: String = text
                .lines()
                .take_while(|line| *line != "mod tests {")
                .map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n")
                .collect();
            found.push((path.strip_prefix(&root).expect("a path").to_string_lossy().replace('\\', "/"), code));
        }
    }
    found
}

/// A parameter has a name: several values that belong together are a struct, others are parameters of their own.
#[test]
fn no_parameter_is_a_tuple_that_is_taken_apart() {
    let mut wrong = Vec::new();
    for (file, code) in sources() {
        for (at, _) in code.match_indices("fn ") {
            let Some(open) = code[at..].find(['(', ';', '{']).map(|n| at + n).filter(|n| code[*n..].starts_with('('))
            else {
                continue;
            };
            for parameter in parameters(&code[open..]) {
                if parameter.starts_with('(') && parameter.contains("): ") {
                    wrong.push(format!("{file}: {parameter}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_op_has_an_arm_where_one_could_be_forgotten() {
    let all = sources();
    for file in OPS {
        let (_, code) = all.iter().find(|(name, _)| name == file).expect(file);
        assert!(!code.contains("_ => {}"), "{file} passes ops over");
    }
}

/// The parameters of a list that begins with a parenthesis.
fn parameters(list: &str) -> Vec<&str> {
    let (mut depth, mut from, mut found) = (0, 1, Vec::new());
    for (i, c) in list.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if (c == ',' && depth == 1) || depth == 0 {
            found.push(list[from..i].trim());
            from = i + 1;
        }
        if depth == 0 {
            break;
        }
    }
    found
}

#[test]
fn the_reader_of_parameters_finds_those_that_are_taken_apart() {
    assert_eq!(
        parameters("(a: u32, (b, c): (u32, &[u8]), d: [u8; 2]) -> u32"),
        ["a: u32", "(b, c): (u32, &[u8])", "d: [u8; 2]"]
    );
    assert_eq!(parameters("()"), [""]);
}
