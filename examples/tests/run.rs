//! Runs the examples and checks what they print.

use std::path::PathBuf;
use std::process::Command;

/// An example that `cargo test` has built beside this test; given a test's name, it builds none.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let folder: PathBuf = test.ancestors().nth(2).unwrap().join("examples");
    Command::new(folder.join(name))
}

/// Runs an example to its end, and returns what it prints.
fn output(name: &str) -> String {
    let output = example(name).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_late_write_is_refused_by_its_token() {
    let expected = "\
A: has the lock, has read 100 and wants to write 99
   A's machine stands still
B: has the lock, has read 100 and wants to write 70
B: written
B: has released the lock
   A's machine goes on
A: refused, for somebody with a greater token has written
A: the hold of \"chairs\" is lost: its lease ran out or it was released by force
   in stock: 70
   without tokens it would be 99, and the 30 that B sold forgotten
";
    assert_eq!(output("fenced_write"), expected);
}

#[test]
fn each_slot_of_a_schedule_is_run_by_one_machine() {
    let expected = "\
4 machines, whose clocks differ by 600 ms
slot 1: one ran it, 3 left it alone
slot 2: one began and was killed, 3 left it alone
slot 3: one ran it, 2 left it alone
slot 4: one ran it, 2 left it alone
";
    assert_eq!(output("cron_job"), expected);
}

#[test]
fn nested_services_share_a_hold_and_survive_each_other() {
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
    assert_eq!(output("nested_services"), expected);
}
