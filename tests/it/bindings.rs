//! Coverage of the C interface by the bindings: every binding must call each function, accept each flag and kind and
//! set each parameter, or `tests/data/bindings.txt` has the reason why not. The components for game engines
//! (`bindings/godot`, `bindings/unreal`) only offer a chat and are left out.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::interface;

const BINDINGS: [&str; 7] = ["cpp", "go", "csharp", "java", "swift", "python", "js"];

/// The header in the languages of bindings: a file, and what the build script of this very build wrote.
const GENERATED: [(&str, &str); 11] = [
    ("bindings/header.json", interface::GENERATED),
    ("bindings/python/realizar/_header.py", include_str!(concat!(env!("OUT_DIR"), "/_header.py"))),
    ("bindings/java/realizar/Header.java", include_str!(concat!(env!("OUT_DIR"), "/Header.java"))),
    ("bindings/java/realizar/Functions.java", include_str!(concat!(env!("OUT_DIR"), "/Functions.java"))),
    ("bindings/java/realizar/FfmFunctions.java", include_str!(concat!(env!("OUT_DIR"), "/FfmFunctions.java"))),
    ("bindings/java/realizar/JniFunctions.java", include_str!(concat!(env!("OUT_DIR"), "/JniFunctions.java"))),
    ("bindings/java/jni/functions.c", include_str!(concat!(env!("OUT_DIR"), "/functions.c"))),
    ("bindings/csharp/Realizar/Header.cs", include_str!(concat!(env!("OUT_DIR"), "/Header.cs"))),
    ("bindings/go/header.go", include_str!(concat!(env!("OUT_DIR"), "/header.go"))),
    ("bindings/go/header_cgo.go", include_str!(concat!(env!("OUT_DIR"), "/header_cgo.go"))),
    ("bindings/go/header_nocgo.go", include_str!(concat!(env!("OUT_DIR"), "/header_nocgo.go"))),
];

/// The types, statuses, options and results of calls in these languages, written likewise; what they name is offered.
const OPTIONS: &[(&str, &str)] = &[
    ("bindings/cpp/realizar_types.hpp", include_str!(concat!(env!("OUT_DIR"), "/realizar_types.hpp"))),
    ("bindings/java/realizar/ElementType.java", include_str!(concat!(env!("OUT_DIR"), "/ElementType.java"))),
    ("bindings/java/realizar/CacheType.java", include_str!(concat!(env!("OUT_DIR"), "/CacheType.java"))),
    ("bindings/csharp/Realizar/Types.cs", include_str!(concat!(env!("OUT_DIR"), "/Types.cs"))),
    ("bindings/swift/Sources/Realizar/Types.swift", include_str!(concat!(env!("OUT_DIR"), "/Types.swift"))),
    ("bindings/go/types.go", include_str!(concat!(env!("OUT_DIR"), "/types.go"))),
    ("bindings/python/realizar/_errors.py", include_str!(concat!(env!("OUT_DIR"), "/_errors.py"))),
    (
        "bindings/java/realizar/RealizarException.java",
        include_str!(concat!(env!("OUT_DIR"), "/RealizarException.java")),
    ),
    ("bindings/csharp/Realizar/Status.cs", include_str!(concat!(env!("OUT_DIR"), "/Status.cs"))),
    ("bindings/swift/Sources/Realizar/Codes.swift", include_str!(concat!(env!("OUT_DIR"), "/Codes.swift"))),
    ("bindings/go/statuses.go", include_str!(concat!(env!("OUT_DIR"), "/statuses.go"))),
    ("bindings/js/statuses.js", include_str!(concat!(env!("OUT_DIR"), "/statuses.js"))),
    ("bindings/js/statuses.d.ts", include_str!(concat!(env!("OUT_DIR"), "/statuses.d.ts"))),
    ("bindings/python/realizar/_options.py", include_str!(concat!(env!("OUT_DIR"), "/_options.py"))),
    ("bindings/python/realizar/_results.py", include_str!(concat!(env!("OUT_DIR"), "/_results.py"))),
    ("bindings/js/src/calls.c", include_str!(concat!(env!("OUT_DIR"), "/calls.c"))),
    ("bindings/js/src/interface.h", include_str!(concat!(env!("OUT_DIR"), "/interface.h"))),
    ("bindings/js/src/kinds.c", include_str!(concat!(env!("OUT_DIR"), "/kinds.c"))),
    ("bindings/js/src/options.c", include_str!(concat!(env!("OUT_DIR"), "/options.c"))),
    ("bindings/js/results.d.ts", include_str!(concat!(env!("OUT_DIR"), "/results.d.ts"))),
    ("bindings/js/src/options.h", include_str!(concat!(env!("OUT_DIR"), "/options.h"))),
    ("bindings/js/options.js", include_str!(concat!(env!("OUT_DIR"), "/options.js"))),
    ("bindings/js/options.d.ts", include_str!(concat!(env!("OUT_DIR"), "/options.d.ts"))),
    ("bindings/java/realizar/SamplingOptions.java", include_str!(concat!(env!("OUT_DIR"), "/SamplingOptions.java"))),
    ("bindings/java/realizar/StoreOptions.java", include_str!(concat!(env!("OUT_DIR"), "/StoreOptions.java"))),
    ("bindings/java/realizar/MediaOptions.java", include_str!(concat!(env!("OUT_DIR"), "/MediaOptions.java"))),
    ("bindings/java/realizar/EncoderOptions.java", include_str!(concat!(env!("OUT_DIR"), "/EncoderOptions.java"))),
    ("bindings/java/realizar/LoadOptions.java", include_str!(concat!(env!("OUT_DIR"), "/LoadOptions.java"))),
    ("bindings/java/realizar/TextOptions.java", include_str!(concat!(env!("OUT_DIR"), "/TextOptions.java"))),
    ("bindings/java/realizar/Filter.java", include_str!(concat!(env!("OUT_DIR"), "/Filter.java"))),
    ("bindings/java/realizar/Results.java", include_str!(concat!(env!("OUT_DIR"), "/Results.java"))),
    ("bindings/csharp/Realizar/Enums.cs", include_str!(concat!(env!("OUT_DIR"), "/Enums.cs"))),
    ("bindings/csharp/Realizar/Results.cs", include_str!(concat!(env!("OUT_DIR"), "/Results.cs"))),
    ("bindings/csharp/Realizar/Objects.cs", include_str!(concat!(env!("OUT_DIR"), "/Objects.cs"))),
    ("bindings/csharp/Realizar/Options.cs", include_str!(concat!(env!("OUT_DIR"), "/Options.cs"))),
    ("bindings/go/options.go", include_str!(concat!(env!("OUT_DIR"), "/options.go"))),
    ("bindings/go/results.go", include_str!(concat!(env!("OUT_DIR"), "/results.go"))),
    ("bindings/swift/Sources/Realizar/Results.swift", include_str!(concat!(env!("OUT_DIR"), "/Results.swift"))),
    ("bindings/swift/Sources/Realizar/Options.swift", include_str!(concat!(env!("OUT_DIR"), "/Options.swift"))),
];

/// Constants that callers pass, by what their names begin with.
const PASSED: [&str; 22] = [
    "RZ_HUB_",
    "RZ_PLACED_",
    "RZ_PLACE_",
    "RZ_OVERFLOW_",
    "RZ_REASONING_",
    "RZ_REPLY_",
    "RZ_MODEL_",
    "RZ_SAMPLER_",
    "RZ_FILTER_",
    "RZ_TOKENIZE_",
    "RZ_DETOKENIZE_",
    "RZ_CHAT_ADD_",
    "RZ_GRAMMAR_",
    "RZ_TYPE_",
    "RZ_DRAFT_",
    "RZ_POOLING_",
    "RZ_EMBED_",
    "RZ_DEVICE_",
    "RZ_NO_",
    "RZ_MEDIA_",
    "RZ_PIXELS_",
    "RZ_PROMPT_",
];

/// What bindings call some of them in place of the ends of their names.
const OTHER_NAMES: [(&str, &str); 7] = [
    ("RZ_EMBED_RAW", "normalize"),
    ("RZ_CHAT_ADD_GENERATION_PROMPT", "addgenerationprompt"),
    ("RZ_TOKENIZE_ADD_SPECIAL", "special"),
    ("RZ_TOKENIZE_PARSE_SPECIAL", "parse"),
    ("RZ_DEVICE_CPU", "isgpu"),
    ("RZ_DEVICE_GPU", "isgpu"),
    ("RZ_NO_LIMIT", "nolimit"),
];

/// The sources of a binding, without comments and without the file that repeats the header, which the build writes.
struct Sources {
    binding: &'static str,
    code: String,
}

impl Sources {
    fn of(binding: &'static str) -> Self {
        let (folder, ending) = match binding {
            "cpp" => ("cpp", "hpp"),
            "go" => ("go", "go"),
            "csharp" => ("csharp/Realizar", "cs"),
            "java" => ("java/realizar", "java"),
            "swift" => ("swift/Sources/Realizar", "swift"),
            "js" => ("js/src", "c"),
            _ => ("python/realizar", "py"),
        };
        let mut code = String::new();
        let files = fs::read_dir(root().join("bindings").join(folder)).expect("a folder of a binding");
        for file in files.map(|file| file.expect("a file").path()) {
            let name = file.file_name().expect("a name").to_str().expect("UTF-8");
            let is_generated = GENERATED.iter().any(|(path, _)| root().join(path) == file);
            let is_program = name == "__main__.py";
            if name.ends_with(&format!(".{ending}")) && !name.ends_with("_test.go") && !is_generated && !is_program {
                code += &without_comments(&fs::read_to_string(&file).expect("a source file"), ending == "py");
            }
        }
        assert!(code.len() > 1000, "no sources of {binding}");
        Self { binding, code }
    }

    fn calls(&self, function: &str) -> bool {
        let tables: &[&str] = match self.binding {
            "go" => &["lib.", "loaded.", "linked."],
            "js" => &["lib->"],
            _ => &[""],
        };
        // Handles of C# free what they stand for by code of the generated file.
        let handle = function.strip_suffix("_free").map(|name| plain(name.trim_start_matches("rz_")) + "handle");
        let frees = |handle: String| words(&self.code).any(|word| plain(word) == handle);
        tables.iter().any(|table| has_word(&self.code, &format!("{table}{function}")))
            || self.binding == "csharp" && handle.is_some_and(frees)
    }

    /// Whether a constant goes by its name, or by the end of it, as bindings write it.
    fn passes(&self, words: &BTreeSet<String>, constant: &str) -> bool {
        let group = PASSED.iter().find(|group| constant.starts_with(**group)).expect("a group");
        let kind = group.trim_start_matches("RZ_").trim_end_matches('_');
        let end = plain(&constant[group.len()..]);
        let other = OTHER_NAMES.iter().find(|(name, _)| *name == constant).map_or("", |(_, other)| other);
        // The interface of C++ is the header's own constants; Python finds those of some groups by their names.
        self.binding == "cpp"
            || self.code.contains(&format!("numbers_of(\"{group}\")"))
            || [plain(constant), end.clone(), plain(kind) + &end, other.to_string()]
                .iter()
                .any(|name| !name.is_empty() && words.contains(name))
    }

    fn sets(&self, structure: &str, field: &str) -> bool {
        match self.binding {
            // In C++ callers fill in the structs themselves.
            "cpp" => has_word(&self.code, structure),
            "java" => {
                let is_passed =
                    |end: &str| self.code.contains(&format!("Reported.call(arena, params, Header.{structure}, {end}"));
                let is_reported = is_passed("") && !is_passed("null, null");
                let sets_all = || self.code.contains(&format!("Native.set(params, struct, \"{field}\""));
                self.code.contains(&format!("Header.{structure}, \"{field}\"")) || is_reported && sets_all()
            }
            _ => has_word(&self.code, structure) && has_word(&self.code, field),
        }
    }
}

#[test]
fn the_header_in_their_languages_is_up_to_date() {
    for (path, generated) in GENERATED.iter().chain(OPTIONS) {
        let committed = fs::read_to_string(root().join(path)).expect(path);
        assert!(committed == *generated, "{path} differs from what the sources say: build once and commit it");
    }
}

#[test]
fn bindings_offer_everything_or_say_why_not() {
    let (functions, constants, fields) = (interface::names("function"), constants(), fields());

    let mut missing = BTreeSet::new();
    for binding in BINDINGS {
        let sources = Sources::of(binding);
        let words: BTreeSet<String> = words(&sources.code).map(plain).collect();
        let wanted = (functions.iter().filter(|function| !sources.calls(function)).cloned())
            .chain(constants.iter().filter(|constant| !sources.passes(&words, constant)).cloned())
            .chain(fields.iter().filter(|(s, field)| !sources.sets(s, field)).map(|(s, field)| format!("{s}.{field}")));
        missing.extend(wanted.map(|name| (name, binding)));
    }
    let names: BTreeSet<String> = (functions.iter().chain(&constants).cloned())
        .chain(fields.iter().map(|(structure, field)| format!("{structure}.{field}")))
        .collect();

    let mut wrong = Vec::new();
    let list = fs::read_to_string(root().join("tests/data/bindings.txt")).expect("the list of holes");
    let listed = holes(&list, &names, &mut wrong);
    wrong.extend(missing.difference(&listed).map(|(name, binding)| format!("{binding} lacks {name}")));
    wrong.extend(
        listed.difference(&missing).map(|(name, binding)| format!("{binding} has {name}, which is listed as missing")),
    );
    assert!(wrong.is_empty(), "{} differences from tests/data/bindings.txt:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn lists_and_sources_are_read_as_they_are_meant() {
    let names: BTreeSet<String> = ["rz_kv_new", "rz_kv_free", "rz_prefill"].map(str::to_string).into();
    let read = |list: &str| {
        let mut wrong = Vec::new();
        let holes = holes(list, &names, &mut wrong);
        (holes.len(), wrong.len())
    };
    assert_eq!(read("# a comment\n\nrz_kv_* all kernels are not offered\n"), (2 * BINDINGS.len(), 0));
    assert_eq!(read("rz_kv_new,rz_prefill go,java for some reason"), (4, 0));
    for wrong in ["rz_none go for some reason", "rz_prefill ruby for some reason", "rz_prefill go", "rz_prefill go why"]
    {
        assert_eq!(read(wrong).1, 1, "{wrong}");
    }
    assert_eq!(read("rz_kv_new go for some reason\nrz_kv_* go for another reason"), (2, 1));

    let sources = |binding, code: &str| Sources { binding, code: without_comments(code, binding == "python") };
    // A comment calls nothing, and neither does a name that is longer or stands in no table.
    assert!(sources("go", "x = lib.rz_prefill(y)").calls("rz_prefill"));
    assert!(!sources("go", "// lib.rz_prefill\n/* lib.rz_prefill */ lib.rz_prefill_more()").calls("rz_prefill"));
    assert!(sources("csharp", "Native.rz_prefill(1)").calls("rz_prefill"));
    assert!(sources("csharp", "new ChatParserHandle()").calls("rz_chat_parser_free"));
    assert!(!sources("csharp", "new ParserHandle()").calls("rz_chat_parser_free"));
    assert!(!sources("java", "Header.rz_prefill_more(cache)").calls("rz_prefill"));
    assert!(sources("java", "Header.rz_prefill(cache)").calls("rz_prefill"));
    assert!(!sources("python", "x = 1 # rz_prefill").calls("rz_prefill"));
    assert!(!sources("python", "    \"\"\"Calls rz_prefill,\n    rz_prefill.\"\"\"\n").calls("rz_prefill"));
    assert!(sources("python", "    \"\"\"Calls.\"\"\"\n    rz_prefill()").calls("rz_prefill"));
    assert!(!sources("go", "rz_prefill(cache)").calls("rz_prefill"));
    // A word of underscores is the name of no constant.
    assert!(!sources("js", "_").passes(&BTreeSet::from([plain("_")]), "RZ_MODEL_PROFILE"));
}

/// The list: lines of names, bindings ("all" for each of them) and a reason, with commas between names and between
/// bindings. A name that ends with `*` stands for all that begin like it.
fn holes(list: &str, names: &BTreeSet<String>, wrong: &mut Vec<String>) -> BTreeSet<(String, &'static str)> {
    let mut holes = BTreeSet::new();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let parts: Vec<&str> = line.splitn(3, ' ').collect();
        let [listed, bindings, reason] = parts[..] else {
            wrong.push(format!("no reason: {line}"));
            continue;
        };
        if reason.trim().len() < 10 {
            wrong.push(format!("no reason: {line}"));
        }
        let bindings: Vec<&str> = if bindings == "all" { BINDINGS.to_vec() } else { bindings.split(',').collect() };
        for pattern in listed.split(',') {
            let begin = pattern.strip_suffix('*');
            let meant = names.iter().filter(|name| begin.map_or(*name == pattern, |begin| name.starts_with(begin)));
            let meant: Vec<&String> = meant.collect();
            if meant.is_empty() {
                wrong.push(format!("{pattern} is no function, constant or parameter of the header"));
            }
            for binding in &bindings {
                let Some(known) = BINDINGS.iter().find(|known| *known == binding) else {
                    wrong.push(format!("{binding} is no binding: {line}"));
                    continue;
                };
                for name in &meant {
                    if !holes.insert(((*name).clone(), *known)) {
                        wrong.push(format!("{name} is listed twice for {binding}"));
                    }
                }
            }
        }
    }
    holes
}

fn constants() -> BTreeSet<String> {
    // How many devices there may be is not passed.
    let passed = |name: &String| PASSED.iter().any(|group| name.starts_with(group)) && !name.contains("DEVICES");
    interface::names("constant").into_iter().filter(passed).collect()
}

/// The fields of the structs of parameters, but for sizes, those that are zero still, and what is handed to callbacks.
fn fields() -> BTreeSet<(String, String)> {
    let mut fields = BTreeSet::new();
    for structure in interface::items("struct") {
        let name = interface::text(&structure, "name");
        for field in structure["fields"].as_array().expect("fields").iter().filter(|_| name.ends_with("_params")) {
            let field = interface::text(field, "name");
            let is_zero = field.starts_with("reserved") || (name, field) == ("rz_job_params", "flags");
            if field != "struct_size" && !is_zero && !field.ends_with("_user") {
                fields.insert((name.to_owned(), field.to_owned()));
            }
        }
    }
    fields
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

/// Words of code with where they begin.
fn words_at(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        let begin = at + code[at..].find(is_word)?;
        at = code[begin..].find(|c| !is_word(c)).map_or(code.len(), |n| begin + n);
        Some((begin, &code[begin..at]))
    })
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    words_at(code).map(|(_, word)| word)
}

/// A name as every language would write it: `allow_unknown`, `AllowUnknown` and `ALLOW_UNKNOWN` are one.
fn plain(word: &str) -> String {
    word.replace('_', "").to_lowercase()
}

/// Whether a text stands in code with no part of a word next to it.
fn has_word(code: &str, text: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    code.match_indices(text)
        .any(|(at, _)| !is_word(code[..at].chars().next_back()) && !is_word(code[at + text.len()..].chars().next()))
}

/// What a comment of Python begins and ends with, if it is no line comment.
const DOCSTRING: &str = "\"\"\"";

/// Code without comments; texts that hold what begins one would be cut, which none does that names something of the
/// header.
fn without_comments(code: &str, is_python: bool) -> String {
    let mut kept = String::new();
    let mut inside = false;
    for line in code.lines() {
        let mut rest = line;
        while !rest.is_empty() {
            if inside {
                let end = if is_python { DOCSTRING } else { "*/" };
                let Some((_, behind)) = rest.split_once(end) else { break };
                (rest, inside) = (behind, false);
            } else if is_python && rest.trim_start().starts_with(DOCSTRING) {
                (rest, inside) = (&rest.trim_start()[DOCSTRING.len()..], true);
            } else if is_python {
                kept.push_str(rest.split(" # ").next().unwrap_or_default());
                break;
            } else {
                let line_comment = rest.find("//").unwrap_or(rest.len());
                let block_comment = rest.find("/*").unwrap_or(rest.len());
                kept.push_str(&rest[..line_comment.min(block_comment)]);
                if line_comment <= block_comment {
                    break;
                }
                (rest, inside) = (&rest[block_comment + 2..], true);
            }
        }
        kept.push('\n');
    }
    kept
}
