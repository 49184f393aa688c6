//! Runs the examples and checks what they print.

use std::path::PathBuf;
use std::process::Command;

/// An example that `cargo test` has built beside this test.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let folder: PathBuf = test.ancestors().nth(2).unwrap().join("examples");
    Command::new(folder.join(name))
}

#[test]
fn nested_services_share_a_hold_and_survive_each_other() {
    let output = example("nested_services").output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let expected = "\
== A calls B
A: holds order:42, calls B
B: re-entered A's hold
C: stayed out
B: done, released its own hold
A: B answered 200 OK
A: released
C: got in
== A calls B, and B is killed
A: holds order:42, calls B
B: re-entered A's hold
   holders: 2
A: B is gone, but the hold is Held
   B's hold has ended with its lease; holders: 1
C: stayed out
A: released
C: got in
";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}
