//! Compiles C against the header, and finds the shared library of this build.

use std::path::PathBuf;
use std::process::Command;

pub const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
pub const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];

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
