//! The text of the header: cbindgen's declarations with C comments, and with the macros for the calling convention,
//! exports and nullable pointers.

use super::header::{Group, Item, Kind, Signature, Value, enum_of};

const LINE_LENGTH: usize = 120;

/// Returns the declarations of a group as in the header; `text` has them as cbindgen writes them.
pub fn printed(text: &str, group: &Group, handles: &[&str]) -> String {
    let mut lines: Vec<Line> = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    let mut fields_of = None;
    let mut enum_now = None;
    let mut rest = text.lines();
    while let Some(line) = rest.next() {
        if let Some(text) = line.trim_start().strip_prefix("//") {
            comment.push(text.strip_prefix(' ').unwrap_or(text).trim_end());
            continue;
        }
        let constant = line.strip_prefix("#define ").map(|constant| constant.split_once(' ').expect("a value"));
        let enum_next = constant.and_then(|(name, _)| enum_of(name));
        // The constants of an enum are adjacent.
        if line.is_empty() && enum_now.is_some() {
            continue;
        }
        if enum_next != enum_now {
            if enum_now.is_some() {
                lines.extend(["};", ""].map(Line::plain));
            }
            if let Some(name) = enum_next {
                lines.push(Line::plain(&format!("enum {name} {{")));
            }
            enum_now = enum_next;
        }
        let mut line = match constant {
            Some((name, value)) if enum_next.is_some() => format!("  {name} = {value},"),
            Some((name, value)) => format!("#define {name} {}", literal(value)),
            None => line.to_owned(),
        };
        if let Some(item) = begun(&line, group) {
            fields_of = Some(item);
        } else if line.starts_with('}') {
            fields_of = None;
        } else if let Some((item, (name, _))) = fields_of.zip(field_name(&line)) {
            line = field(&line, name, item);
        } else if let Some((item, signature)) = signature(&line, group) {
            while !line.ends_with(';') {
                line = rest.next().expect("a declaration ends").to_owned();
            }
            line = declaration(item, signature, handles);
        }
        Line::push(&mut lines, &line, &std::mem::take(&mut comment));
    }
    if enum_now.is_some() {
        lines.push(Line::plain("};"));
    }
    lines.chunk_by(|a, b| a.note.is_some() && b.note.is_some()).map(aligned).collect()
}

/// Returns a number, with the suffix for unsigned numbers if it does not fit into an int.
fn literal(value: &str) -> String {
    if value.starts_with("0x") { format!("{value}u") } else { value.to_owned() }
}

/// Returns the struct whose fields follow the line.
fn begun<'a>(line: &str, group: &'a Group) -> Option<&'a Item> {
    let name = line.strip_prefix("typedef struct ")?.strip_suffix(" {")?;
    group.items.iter().find(|item| item.name == name)
}

/// Returns the name in the declaration of a field, and the text after it.
fn field_name(line: &str) -> Option<(&str, &str)> {
    let declaration = line.strip_prefix("  ")?.strip_suffix(';')?;
    let name = declaration.rsplit([' ', '*']).next()?;
    Some(name.split_once('[').unwrap_or((name, "")))
}

/// Returns the declaration of a field, with the macro for a nullable pointer.
fn field(line: &str, name: &str, item: &Item) -> String {
    let Kind::Struct(fields) = &item.kind else { panic!("{} has fields", item.name) };
    let value = fields.iter().find(|field| field.name == name).unwrap_or_else(|| panic!("{} has {name}", item.name));
    let end = line.len() - 1 - name.len();
    match item.may_be_null(value) {
        true => format!("{}RZ_NULLABLE {name};", &line[..end]),
        false => line.to_owned(),
    }
}

/// Returns the function or callback type whose declaration begins with the line.
fn signature<'a>(line: &str, group: &'a Group) -> Option<(&'a Item, &'a Signature)> {
    group.items.iter().find_map(|item| match &item.kind {
        Kind::Function(signature) | Kind::Callback(signature) if signature.code.lines().next() == Some(line) => {
            Some((item, signature))
        }
        _ => None,
    })
}

/// Returns a declaration with its macros.
fn declaration(item: &Item, signature: &Signature, handles: &[&str]) -> String {
    let is_function = matches!(item.kind, Kind::Function(_));
    let parameter = |i: usize| {
        let value = &signature.parameters[i];
        let is_null = match is_function {
            true => signature.is_nullable(i, &item.doc, handles),
            false => signature.is_nullable_in_callback(i, &item.doc),
        };
        annotated(value, is_null)
    };
    let mut parameters: Vec<String> = (0..signature.parameters.len()).map(parameter).collect();
    if parameters.is_empty() {
        parameters.push("void".to_owned());
    }
    let result = &signature.result.code;
    let (before, begin) = if is_function {
        let unused = if signature.must_be_looked_at(handles) { "RZ_WARN_UNUSED " } else { "" };
        let space = if result.ends_with('*') { "" } else { " " };
        (format!("RZ_API {unused}{result}{space}RZ_CALL\n"), format!("{}(", item.name))
    } else {
        let null = if signature.is_result_nullable(&item.doc) { "RZ_NULLABLE " } else { "" };
        let space = if result.ends_with('*') { "" } else { " " };
        (String::new(), format!("typedef {result}{space}{null}(RZ_CALL *{})(", item.name))
    };
    let line = format!("{begin}{});", parameters.join(", "));
    if line.len() <= LINE_LENGTH {
        return before + &line;
    }
    let separator = format!(",\n{}", " ".repeat(begin.len()));
    format!("{before}{begin}{});", parameters.join(&separator))
}

fn annotated(value: &Value, is_null: bool) -> String {
    let space = if value.code.ends_with('*') { "" } else { " " };
    let null = if is_null { "RZ_NULLABLE " } else { "" };
    format!("{}{space}{null}{}", value.code, value.name)
}

/// A line of code and its comment.
struct Line {
    code: String,
    note: Option<String>,
}

impl Line {
    fn plain(code: &str) -> Self {
        Self { code: code.to_owned(), note: None }
    }

    /// Appends a line with its comment: at its end if the comment is short and the line is a constant or a field,
    /// otherwise above it.
    fn push(lines: &mut Vec<Line>, line: &str, comment: &[&str]) {
        let indent = &line[..line.len() - line.trim_start().len()];
        let is_constant = line.starts_with("#define");
        let code = line.to_owned();
        let wrapped = wrapped(comment, LINE_LENGTH - indent.len() - "/* ".len());
        let comment: &[&str] = &wrapped.iter().map(String::as_str).collect::<Vec<_>>();
        match comment {
            [note] if (is_constant || !indent.is_empty()) && code.len() + note.len() < LINE_LENGTH - 10 => {
                // Constants with a comment at the end of the line are adjacent.
                if let [.., Line { code, note: Some(_) }, Line { code: blank, note: None }] = &lines[..]
                    && is_constant
                    && code.starts_with("#define")
                    && blank.is_empty()
                {
                    lines.pop();
                }
                lines.push(Line { code, note: Some((*note).to_owned()) });
                return;
            }
            [] => {}
            [text] => lines.push(Line { code: format!("{indent}/* {text} */"), note: None }),
            [first, middle @ .., last] => {
                lines.push(Line { code: format!("{indent}/* {first}"), note: None });
                let middle = middle.iter().map(|text| format!("{indent} * {text}").trim_end().to_owned());
                lines.extend(middle.map(|code| Line { code, note: None }));
                lines.push(Line { code: format!("{indent} * {last} */"), note: None });
            }
        }
        lines.push(Line { code, note: None });
    }
}

/// Returns the lines of a comment; paragraphs with a line of more than `width` bytes are wrapped again.
fn wrapped(comment: &[&str], width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    // A line that is indented or begins a list item is not joined with others.
    for paragraph in comment.chunk_by(|line, next| {
        !line.is_empty() && next.starts_with(|c: char| c.is_alphanumeric() || "`(\"".contains(c))
    }) {
        if paragraph.iter().all(|line| line.len() <= width) {
            lines.extend(paragraph.iter().map(|line| (*line).to_owned()));
            continue;
        }
        let mut line = String::new();
        for word in paragraph.iter().flat_map(|line| line.split_whitespace()) {
            if !line.is_empty() && line.len() + 1 + word.len() > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line += word;
        }
        lines.push(line);
    }
    // The end of the comment is on its last line.
    if let Some(last) = lines.last_mut().filter(|last| last.len() + " */".len() > width) {
        let (at, _) = last.rmatch_indices(' ').next().expect("a line of several words");
        let word = last.split_off(at).trim_start().to_owned();
        lines.push(word);
    }
    lines
}

/// Returns lines with their comments aligned in one column.
fn aligned(run: &[Line]) -> String {
    let width = run.iter().map(|line| line.code.len()).max().unwrap_or(0);
    run.iter()
        .map(|line| match &line.note {
            Some(note) => format!("{:width$}  /* {note} */\n", line.code),
            None => format!("{}\n", line.code),
        })
        .collect()
}
