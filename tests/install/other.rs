//! Another Rust library of a program that links librealizar.a: threads, memory and a panic that is caught.

use std::collections::HashMap;

fn run() -> u32 {
    let numbers: HashMap<String, u32> = (0..100).map(|i| (i.to_string(), i)).collect();
    let work = move || std::panic::catch_unwind(|| numbers.get("none").expect("a number")).map_or(42, |number| *number);
    std::thread::spawn(work).join().unwrap_or(0)
}

#[cfg(not(second))]
#[unsafe(no_mangle)]
pub extern "C" fn other_run() -> u32 {
    run()
}

/// The same in a library that scripts/static-library has made.
#[cfg(second)]
#[unsafe(no_mangle)]
pub extern "C" fn second_run() -> u32 {
    run()
}
