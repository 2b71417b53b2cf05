//! Tests that change their process permanently.

use std::process::Command;

/// True in a separate process for a test that installs a GPU driver; otherwise runs the test in such a process.
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
