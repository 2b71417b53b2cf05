//! Tests that change their process for good.

use std::process::Command;

/// Tells whether this is a process of its own for a test that gives its process a GPU driver. If not, runs the test in
/// one.
pub fn in_own_process(test: &str) -> bool {
    const OWN: &str = "REALIZAR_OWN_PROCESS";
    if std::env::var_os(OWN).is_some() {
        return true;
    }
    let mut own = Command::new(std::env::current_exe().unwrap());
    let output = own.args(["--exact", test, "--nocapture"]).env(OWN, "").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{test}: {}", output.status);
    false
}
