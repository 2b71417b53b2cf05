//! The header compared with the headers of earlier releases in `packaging/abi`: everything that a program was compiled
//! with stays, and the rest is additions. A release adds its header there, and none is changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::header::{code, code_of, constants, functions_of};
use super::layouts::{Member, computed_of};

/// Everything that a program sees of a header, by what it is called; `code` is without comments.
struct Interface {
    constants: BTreeMap<String, String>,
    functions: BTreeMap<String, String>,
    /// Return types of functions, and signatures of callbacks.
    types: BTreeMap<String, String>,
    code: String,
}

fn interface(code: &str) -> Interface {
    let declarations: Vec<&str> = code.lines().filter(|line| !line.starts_with('#')).collect();
    let flat = declarations.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    let mut types = BTreeMap::new();
    for declaration in flat.split(';').map(str::trim) {
        if let Some((result, rest)) = declaration.strip_prefix("typedef ").and_then(|d| d.split_once(" (*")) {
            let (name, parameters) = rest.split_once(')').expect("the name of a callback ends");
            types.insert(name.to_owned(), format!("{result} (*){parameters}"));
        } else if let Some((before, _)) = declaration.split_once('(') {
            let (result, name) = before.split_at(before.rfind([' ', '*']).expect("a result") + 1);
            // Before the first declaration stands `extern "C" {`.
            types.insert(name.to_owned(), result.rsplit('{').next().unwrap_or_default().trim().to_owned());
        }
    }
    Interface {
        constants: constants(code).map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        functions: functions_of(code),
        types,
        code: code.to_owned(),
    }
}

/// The ways in which a program that was compiled with `old` would notice that the library has `new`.
fn breaks(old: &Interface, new: &Interface) -> Vec<String> {
    let mut found = Vec::new();
    // The version of a program is the version of its header.
    let versions = ["RZ_VERSION_MAJOR", "RZ_VERSION_MINOR", "RZ_VERSION_PATCH"];
    for (kind, old, new) in [
        ("constant", &old.constants, &new.constants),
        ("function", &old.functions, &new.functions),
        ("type", &old.types, &new.types),
    ] {
        for (name, was) in old.iter().filter(|(name, _)| !versions.contains(&name.as_str())) {
            match new.get(name) {
                None => found.push(format!("the {kind} {name} is gone")),
                Some(is) if is != was => found.push(format!("the {kind} {name} was `{was}`, is `{is}`")),
                Some(_) => {}
            }
        }
    }
    for pointer in [4, 8] {
        let (old, new) = (computed_of(&old.code, pointer), computed_of(&new.code, pointer));
        for (name, was) in old {
            let Some(is) = new.get(&name) else {
                found.push(format!("the struct {name} is gone"));
                continue;
            };
            let has_size = was.members.first().is_some_and(|member| member.name == "struct_size");
            let may_grow = has_size && is.members.len() >= was.members.len();
            let kept = if may_grow { &is.members[..was.members.len()] } else { &is.members[..] };
            // A member that had to be 0 may have got a name.
            let same = |was: &Member, is: &Member| {
                was == is || was.name.starts_with("reserved") && Member { name: is.name.clone(), ..was.clone() } == *is
            };
            if kept.len() != was.members.len() || !was.members.iter().zip(kept).all(|(was, is)| same(was, is)) {
                found.push(format!("the struct {name} was {:?}, is {:?}", was.members, is.members));
            }
        }
    }
    found
}

#[test]
fn programs_of_earlier_releases_find_what_they_were_compiled_with() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/abi");
    let new = interface(&code());
    let mut releases = 0;
    for entry in fs::read_dir(&folder).expect("the headers of earlier releases") {
        let path = entry.expect("an entry").path();
        let old = interface(&code_of(&fs::read_to_string(&path).expect("a header")));
        // A program works with a library whose RZ_ABI_VERSION is its own.
        if old.constants["RZ_ABI_VERSION"] != new.constants["RZ_ABI_VERSION"] {
            continue;
        }
        let found = breaks(&old, &new);
        assert!(found.is_empty(), "against {}:\n{}", path.display(), found.join("\n"));
        assert!(old.functions.len() > 40 && old.types.len() > 40, "{}", path.display());
        releases += 1;
    }
    assert!(releases > 0, "no earlier release has this RZ_ABI_VERSION");
}

#[test]
fn every_change_that_is_no_addition_is_found() {
    let now = code();
    let count = |from: &str, to: &str| {
        assert!(now.contains(from), "{from} is not in the header");
        breaks(&interface(&now), &interface(&now.replacen(from, to, 1))).len()
    };
    assert_eq!(count("  RZ_DONE = 2,", "  RZ_DONE = 2,\n  RZ_MORE = 3,"), 0);
    assert_eq!(count("#define RZ_VERSION_MINOR 1", "#define RZ_VERSION_MINOR 2"), 0);
    assert_eq!(count("uint32_t rz_device_count(void);", "uint32_t rz_device_count(void);\nvoid rz_new(void);"), 0);
    assert_eq!(
        count("uint32_t n_devices;\n} rz_model_info;", "uint32_t n_devices;\n  uint64_t more;\n} rz_model_info;"),
        0
    );
    assert_eq!(count("uint32_t reserved;\n} rz_embed_params;", "uint32_t n_more;\n} rz_embed_params;"), 0);
    assert_eq!(count("uint32_t reserved;\n} rz_embed_params;", "float more;\n} rz_embed_params;"), 2);
    assert_eq!(count("RZ_DONE = 2,", "RZ_DONE = 3,"), 1);
    assert_eq!(count("  RZ_DONE = 2,\n", ""), 1);
    assert_eq!(count("uint32_t rz_device_count(void);", ""), 2);
    assert_eq!(count("uint32_t rz_device_count(void);", "uint64_t rz_device_count(void);"), 1);
    assert_eq!(count("const rz_cancel *cancel,", "rz_cancel *cancel,"), 1);
    assert_eq!(count("(*rz_progress_callback)(uint64_t done", "(*rz_progress_callback)(uint32_t done"), 1);
    // Each in the layouts of both sizes of pointers.
    assert_eq!(
        count("uint32_t gpu_layers;\n  uint32_t chat_template;", "uint32_t chat_template;\n  uint32_t gpu_layers;"),
        2
    );
    assert_eq!(count("float bias;", "uint32_t bias;"), 2);
    assert_eq!(count("float bias;", "float bias;\n  float more;"), 2);
}
