//! Rules of CONTRIBUTING.md that can be checked in the text: parameters, and match arms over ops.

use std::fs;
use std::path::{Path, PathBuf};

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
        for function in functions(&code) {
            for parameter in function.parameters {
                if parameter.starts_with('(') && parameter.contains("): ") {
                    wrong.push(format!("{file}: {parameter}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Most parameters of a function besides `self`.
const PARAMETERS: usize = 5;

/// Folders of numeric kernels, whose parameters are shapes and rows of numbers.
const NUMERIC: &[&str] = &["cpu/kernels/", "cpu/ops/", "cpu/attention/", "cpu/matmul/"];

/// Functions with more parameters, and how many. This list may only become shorter.
const MORE: &[(&str, usize)] = &[("device/pipeline.rs: load", 7), ("engine/network/network.rs: load", 6)];

/// More than a few values that belong together are a struct, whose fields have names where it is made. Functions of the
/// C interface have the parameters that C allows.
#[test]
fn functions_have_few_parameters() {
    let (mut n, mut wrong, mut found) = (0, Vec::new(), Vec::new());
    for (file, code) in sources().iter().filter(|(file, _)| !NUMERIC.iter().any(|folder| file.starts_with(folder))) {
        for Function { name, parameters, is_of_c } in functions(code) {
            n += 1;
            let name = format!("{file}: {name}");
            let is_self = |parameter: &&&str| !["self", "&self", "&mut self", "mut self"].contains(*parameter);
            let count = parameters.iter().filter(is_self).filter(|p| !p.is_empty() && !p.starts_with("self:")).count();
            if MORE.contains(&(&*name, count)) {
                found.push(name);
            } else if count > PARAMETERS && !is_of_c {
                wrong.push(format!("{name} has {count} parameters"));
            }
        }
    }
    assert!(n > 3000, "{n} functions");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(found.len(), MORE.len(), "some have fewer parameters by now, {found:?} have not");
}

/// A new op does not compile until each match that would pass it over has an arm for it.
#[test]
fn no_match_over_ops_passes_ops_over() {
    let (mut n, mut wrong) = (0, Vec::new());
    for (file, code) in sources() {
        for body in matches(&code) {
            let arms = arms(body);
            if arms.iter().any(|(pattern, _)| pattern.contains("Op::")) {
                n += 1;
                let does_nothing = |(pattern, arm): &(&str, &str)| *pattern == "_" && ["{}", "()"].contains(arm);
                if arms.iter().any(does_nothing) {
                    wrong.push(format!("{file}: {}", arms[0].0));
                }
            }
        }
    }
    assert!(n > 20, "{n} matches over ops");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The bodies of all matches, which begin with a brace.
fn matches(code: &str) -> Vec<&str> {
    let of_match = |(at, _): (usize, &str)| {
        let (mut depth, mut chars) = (0, code[at..].char_indices());
        let open = chars.find_map(|(i, c)| {
            depth += i32::from(matches!(c, '(' | '[')) - i32::from(matches!(c, ')' | ']'));
            (c == '{' && depth == 0).then_some(at + i)
        })?;
        Some(&code[open..])
    };
    code.match_indices("match ").filter_map(of_match).collect()
}

/// The pattern and the body of each arm of a match, whose own body begins with a brace.
fn arms(body: &str) -> Vec<(&str, &str)> {
    let (mut depth, mut from, mut pattern, mut found) = (0, 1, None, Vec::new());
    for (i, c) in body.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 1 && pattern.is_none() && body[i..].starts_with("=>") {
            pattern = Some((body[from..i].trim(), i + 2));
        }
        // An arm ends with a comma, with its block, or with the match.
        if let Some((text, start)) = pattern
            && (depth == 0 || depth == 1 && (c == ',' || c == '}' && body[start..].trim_start().starts_with('{')))
        {
            found.push((text, body[start..i + usize::from(c == '}' && depth == 1)].trim()));
            (pattern, from) = (None, i + 1);
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && pattern.is_none() && c == ',' {
            from = i + 1;
        }
    }
    found
}

/// A function as its declaration has it.
struct Function<'a> {
    name: &'a str,
    parameters: Vec<&'a str>,
    is_of_c: bool,
}

/// The functions that a text declares.
fn functions(code: &str) -> Vec<Function<'_>> {
    let of = |(at, _): (usize, &str)| {
        let rest = &code[at + 3..];
        let name = &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_')?];
        let list = &rest[name.len()..];
        // Behind generic parameters.
        let list = if list.starts_with('<') { &list[end_of_list(list)..] } else { list };
        let before = code[..at].rsplit('\n').next().unwrap_or_default();
        let is_of_c = before.contains("extern \"C\"");
        list.starts_with('(').then(|| Function { name, parameters: parameters(list), is_of_c })
    };
    code.match_indices("fn ").filter_map(of).collect()
}

/// What a character adds to the depth of brackets; `before`: the one before it, which makes arrows of `>`.
fn nesting(c: char, before: char) -> i32 {
    match c {
        '(' | '[' | '{' | '<' => 1,
        '>' if matches!(before, '-' | '=') => 0,
        ')' | ']' | '}' | '>' => -1,
        _ => 0,
    }
}

/// The place behind the bracket that closes the first one.
fn end_of_list(list: &str) -> usize {
    let (mut depth, mut before) = (0, ' ');
    for (i, c) in list.char_indices() {
        depth += nesting(c, before);
        before = c;
        if depth == 0 {
            return i + 1;
        }
    }
    list.len()
}

/// The parameters of a list that begins with a parenthesis.
fn parameters(list: &str) -> Vec<&str> {
    let (mut depth, mut before, mut from, mut found) = (0, ' ', 1, Vec::new());
    for (i, c) in list.char_indices() {
        depth += nesting(c, before);
        before = c;
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
        parameters("(a: u32, (b, c): (u32, &[u8]), d: Vec<(u8, u8)>, e: fn(u8) -> u8) -> u32"),
        ["a: u32", "(b, c): (u32, &[u8])", "d: Vec<(u8, u8)>", "e: fn(u8) -> u8"]
    );
    assert_eq!(parameters("()"), [""]);
    let code = "pub extern \"C\" fn rz_a(b: u32) {}\n fn c<F: Fn(u8, u8) -> u8>(&self, f: F, x: u8,) {}";
    let found = functions(code);
    assert!(found[0].is_of_c && found[0].name == "rz_a" && found[0].parameters == ["b: u32"]);
    assert!(!found[1].is_of_c && found[1].name == "c" && found[1].parameters == ["&self", "f: F", "x: u8", ""]);
}

#[test]
fn the_reader_of_matches_finds_their_arms() {
    let code = "match f(&[a]) { Op::Add { x, .. } if x > 1 => g(x, 2), Op::Mix(_) | Op::Glu { .. } => { h(); }
        Some(a) => match b { _ => {} }, _ => {} }";
    let found: Vec<_> = matches(code).into_iter().map(arms).collect();
    let inner = [("_", "{}")];
    assert_eq!(found[0][..2], [("Op::Add { x, .. } if x > 1", "g(x, 2)"), ("Op::Mix(_) | Op::Glu { .. }", "{ h(); }")]);
    assert_eq!((found[0].last(), &found[1][..]), (Some(&inner[0]), &inner[..]));
}
