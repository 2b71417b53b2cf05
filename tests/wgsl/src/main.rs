//! Translates WGSL kernels with naga as wgpu 30 does, and compiles them with a Vulkan driver, without running them.
//!
//!     realizar-wgsl translate FOLDER    writes NAME.metal and NAME.spv for each NAME.wgsl
//!     realizar-wgsl statistics FOLDER   prints lines of tabs: kernel, statistic, value
//!
//! Exits with status 77 if there is no Vulkan driver.

mod statistics;
mod translate;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Returns the files of a folder with an ending, sorted by name.
fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut found: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    found.retain(|path| path.extension().is_some_and(|own| own == ending));
    found.sort();
    Ok(found)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["translate", folder] => translate::folder(Path::new(folder)).map(|()| true),
        ["statistics", folder] => statistics::print(Path::new(folder)),
        _ => Err("usage: realizar-wgsl translate|statistics FOLDER".to_owned()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(77),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
