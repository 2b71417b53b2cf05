//! Writes `kernels/args.cuh` from `src/cuda/args/`, and compiles `kernels/` into one image for every supported GPU, if
//! nvcc is found.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Architectures for which machine code is compiled; the driver translates the PTX of the oldest one for later
/// architectures.
const TARGETS: &[&str] = &["80", "86", "89", "90", "100", "120"];

/// Text of the constant `IMAGE`. It is aligned, because the driver reads words of 8 bytes, and `include_bytes` has an
/// alignment of 1.
const IMAGE: &str = r#"{
    #[repr(align(64))]
    struct Aligned<T: ?Sized>(T);
    const IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin")));
    Ok(&IMAGE.0)
}"#;

/// The text before the declarations in `kernels/args.cuh`.
const ARGS_HEAD: &str = "\
// What the host and the kernels share: the parameters of kernels, what they point to, and constants. The build writes
// this file from src/cuda/args/.
#pragma once

#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;

template <class T> using ConstPtr = const T*;
template <class T> using Ptr = T*;

";

/// The files of `src/cuda/args/`, in the order of their declarations in `kernels/args.cuh`.
const ARGS: [&str; 7] = ["mod", "rows", "experts", "products", "attention", "recurrent", "choose"];

/// Types of cbindgen, with their types in kernels, where counts have 32 bits.
const TYPES: &[(&str, &str)] = &[
    ("static const uintptr_t", "u32"),
    ("static const ", ""),
    ("uint8_t", "u8"),
    ("uint16_t", "u16"),
    ("uint32_t", "u32"),
    ("uint64_t", "u64"),
];

/// Returns the text of `kernels/args.cuh`. cbindgen translates the items; this function renames constants and variants
/// to `kName`.
pub fn arguments(root: &Path) -> String {
    let sources = ARGS.map(|name| root.join("src/cuda/args").join(name).with_extension("rs"));
    let text =
        sources.each_ref().map(|source| fs::read_to_string(source).expect("src/cuda/args/ is readable")).concat();
    let named = |keyword: &str| {
        let items = text.lines().filter_map(|line| line.strip_prefix(keyword)?.split([' ', ':']).next());
        items.map(str::to_owned).collect::<Vec<_>>()
    };
    let constants = named("pub const ");
    let mut config = cbindgen::Config {
        language: cbindgen::Language::Cxx,
        no_includes: true,
        documentation_style: cbindgen::DocumentationStyle::C99,
        braces: cbindgen::Braces::SameLine,
        line_length: 120,
        tab_width: 4,
        ..Default::default()
    };
    config.enumeration.enum_class = false;
    config.export.include = [named("pub struct "), named("pub enum ")].concat();
    // The head of the file has the C++ includes.
    config.export.exclude = vec!["ConstPtr".to_owned(), "Ptr".to_owned()];
    config.export.rename = constants.iter().map(|name| (name.clone(), camel(name))).collect();
    let builder = cbindgen::Builder::new().with_config(config);
    let bindings = sources.iter().fold(builder, |builder, source| builder.with_src(source)).generate();
    let mut written = Vec::new();
    bindings.unwrap_or_else(|e| panic!("src/cuda/args/: {e}")).write(&mut written);
    let written = String::from_utf8(written).expect("cbindgen writes UTF-8");
    let is_comment = |line: &String| line.trim_start().starts_with("//");
    let (mut lines, mut in_enum) = (Vec::<String>::new(), false);
    for line in written.trim().lines() {
        in_enum = line.starts_with("enum ") || in_enum && line != "};";
        let mut line = TYPES.iter().fold(line.to_owned(), |line, (from, to)| line.replace(from, to));
        if in_enum && line.starts_with("    ") && !is_comment(&line) {
            line.insert(4, 'k');
        }
        // A short comment follows its declaration on the same line.
        if let [.., before, comment] = &lines[..]
            && line.ends_with([';', ','])
            && is_comment(comment)
            && !is_comment(before)
            && line.len() + 2 + comment.trim_start().len() <= 120
        {
            line = format!("{line}  {}", comment.trim_start());
            lines.pop();
        }
        lines.push(line);
    }
    format!("{ARGS_HEAD}{}\n", lines.join("\n"))
}

/// Returns `kTwoWords` for `TWO_WORDS`.
fn camel(constant: &str) -> String {
    let words = constant.split('_').map(|word| format!("{}{}", &word[..1], word[1..].to_lowercase()));
    format!("k{}", words.collect::<String>())
}

/// Writes `OUT_DIR/args.cuh` and `OUT_DIR/kernels.rs`: the constants `IMAGE` and `COMPILER` of `cuda/module.rs`.
pub fn build(root: &Path, out: &Path) {
    println!("cargo:rerun-if-changed=kernels");
    println!("cargo:rerun-if-changed=src/cuda/args");
    println!("cargo:rerun-if-changed=generators/cuda.rs");
    for variable in ["NVCC", "CUDA_HOME", "PATH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    super::generated(root, "kernels/args.cuh", &arguments(root), out);
    let (image, version) = match nvcc() {
        None => (r#"Err("built without kernels: nvcc was not found")"#, 0),
        Some(nvcc) => match compile(&nvcc, root, out) {
            Ok(()) => (IMAGE, version(&nvcc)),
            Err(why) => {
                println!("cargo:warning=the CUDA kernels were left out: {why}");
                (r#"Err("built without kernels: nvcc failed")"#, 0)
            }
        },
    };
    let text = format!("pub const IMAGE: Result<&[u8], &str> = {image};\npub const COMPILER: i32 = {version};\n");
    fs::write(out.join("kernels.rs"), text).expect("OUT_DIR is writable");
}

/// Finds nvcc: `NVCC`, then `CUDA_HOME/bin`, then the path, then the wheels of a Python installation.
fn nvcc() -> Option<PathBuf> {
    let works = |nvcc: &PathBuf| Command::new(nvcc).arg("--version").output().is_ok_and(|o| o.status.success());
    let named = env::var_os("NVCC").map(PathBuf::from);
    let home = env::var_os("CUDA_HOME").map(|home| Path::new(&home).join("bin/nvcc"));
    let wheels = || {
        let script = "import sysconfig; print(sysconfig.get_path('purelib'))";
        let output = Command::new("python3").args(["-c", script]).output().ok().filter(|o| o.status.success())?;
        Some(Path::new(String::from_utf8(output.stdout).ok()?.trim()).join("nvidia/cu13/bin/nvcc"))
    };
    [named, home, Some(PathBuf::from("nvcc"))].into_iter().flatten().find(works).or_else(|| wheels().filter(works))
}

/// Reads the version of nvcc as `CUDA_VERSION`, such as 13000; 0 if it is unknown.
fn version(nvcc: &Path) -> u32 {
    let output = Command::new(nvcc).arg("--version").output().map(|o| o.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output);
    let release = text.split("release ").nth(1).and_then(|rest| rest.split(',').next()?.split_once('.'));
    let number = release.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    number.map_or(0, |(major, minor): (u32, u32)| 1000 * major + 10 * minor)
}

fn compile(nvcc: &Path, root: &Path, out: &Path) -> Result<(), String> {
    // A single target builds faster during development.
    let chosen = env::var("REALIZAR_CUDA_TARGETS").ok();
    let known = || {
        let list = Command::new(nvcc).arg("--list-gpu-arch").output().map(|o| o.stdout).unwrap_or_default();
        let list = String::from_utf8_lossy(&list).into_owned();
        // An older compiler does not know the newest GPUs, which then use PTX.
        move |target: &&str| list.is_empty() || list.lines().any(|line| line.trim() == format!("compute_{target}"))
    };
    let targets: Vec<&str> = match &chosen {
        Some(chosen) => chosen.split(',').collect(),
        None => TARGETS.iter().copied().filter(known()).collect(),
    };
    let Some(oldest) = targets.first() else { return Err("nvcc knows none of the targets".to_owned()) };
    let mut command = Command::new(nvcc);
    command.args(["-std=c++17", "-O3", "--fatbin", "--threads", "0"]);
    // Compression to an eighth of the size, if the compiler supports it (12.4 and newer).
    let help = Command::new(nvcc).arg("--help").output().map_err(|e| e.to_string())?;
    if String::from_utf8_lossy(&help.stdout).contains("--compress-mode") {
        command.arg("--compress-mode=size");
    }
    for target in &targets {
        // With the instructions that only GPUs of this architecture have.
        let own = if *target == "90" { "a" } else { "" };
        command.arg(format!("-gencode=arch=compute_{target}{own},code=sm_{target}{own}"));
    }
    command.arg(format!("-gencode=arch=compute_{oldest},code=compute_{oldest}"));
    let image = out.join("kernels.fatbin");
    command.arg(root.join("kernels/realizar.cu"));
    // Compiling takes minutes, and every profile and clippy would do it again. Therefore the image is in the folder
    // that all profiles share (`OUT_DIR` is `TARGET/PROFILE/build/PACKAGE/out`).
    let shared = out.ancestors().nth(4).unwrap_or(out);
    let built = shared.join(format!("kernels-{:016x}.fatbin", key(nvcc, root, &command).map_err(|e| e.to_string())?));
    if fs::copy(&built, &image).is_ok() {
        return Ok(());
    }
    command.arg("-o").arg(&image);
    let output = command.output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(text
            .lines()
            .find(|l| ["error", "fatal"].iter().any(|word| l.contains(word)))
            .unwrap_or("no message")
            .to_owned());
    }
    // Warnings of the assembler that it had to serialize matrix instructions.
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().filter(|l| l.contains("C75")).for_each(|l| println!("cargo:warning=the CUDA kernels: {l}"));
    // If this fails, the next build only takes longer. The renaming ensures that the file is complete.
    let part = built.with_extension(format!("{}.part", std::process::id()));
    let _ = fs::copy(&image, &part).and_then(|_| fs::rename(&part, &built));
    Ok(())
}

/// Hashes everything that determines the image: the compiler, its arguments, and the sources.
fn key(nvcc: &Path, root: &Path, command: &Command) -> std::io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    Command::new(nvcc).arg("--version").output()?.stdout.hash(&mut hasher);
    command.get_args().collect::<Vec<_>>().hash(&mut hasher);
    let mut sources =
        fs::read_dir(root.join("kernels"))?.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
    sources.sort();
    // The WGSL in a folder there is no part of the image.
    for source in sources.into_iter().filter(|source| source.is_file()) {
        (source.file_name(), fs::read(&source)?).hash(&mut hasher);
    }
    Ok(hasher.finish())
}
