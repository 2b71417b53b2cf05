//! Compiles and runs C programs against the header and the shared library of this build.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];

/// Compiles without linking; panics with what the compiler says where it warns.
pub fn check(source: &str, standard: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("source");
    std::fs::write(&file, source).expect("a source file");
    let (compiler, language) = if standard.starts_with("c++") { ("c++", "c++") } else { ("cc", "c") };
    let output = Command::new(compiler)
        .args(STRICT)
        .args(["-fsyntax-only", &format!("-std={standard}"), "-I", INCLUDE, "-x", language])
        .arg(&file)
        .output();
    match output {
        Ok(output) => assert!(output.status.success(), "{standard}:\n{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => eprintln!("SKIPPED: no {compiler} was found"),
    }
}

/// The shared library that cargo built beside this test.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let name = format!("{}realizar{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let library = test.parent().expect("a folder").join(name);
    assert!(library.exists(), "{} was not built", library.display());
    library
}

/// Compiles `tests/c/NAME.c`, links it to the library and runs it. `None` where there is no compiler.
pub fn run(name: &str, arguments: &[&Path]) -> Option<Output> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join(name);
    // Linked programs ask for the library by its soname.
    let soname = format!("librealizar.so.{}", realizar::ffi::version::RZ_ABI_VERSION);
    for link in ["librealizar.so", &soname] {
        std::os::unix::fs::symlink(library(), folder.path().join(link)).expect("a link");
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(format!("{name}.c"));
    let compiled = Command::new("cc")
        .args(STRICT)
        .args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-g", "-pthread", "-I", INCLUDE])
        .arg(&source)
        .args([Path::new("-L"), folder.path(), Path::new("-lrealizar"), Path::new("-ldl"), Path::new("-o"), &program])
        .arg(format!("-Wl,-rpath,{}", folder.path().display()))
        .output();
    let Ok(compiled) = compiled else {
        eprintln!("SKIPPED: no cc was found");
        return None;
    };
    assert!(compiled.status.success(), "{name}.c:\n{}", String::from_utf8_lossy(&compiled.stderr));
    Some(Command::new(&program).args(arguments).output().expect("the program starts"))
}
