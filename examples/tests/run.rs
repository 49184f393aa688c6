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

#[test]
fn layers_carry_the_owner_from_service_to_service_and_let_no_stranger_claim_it() {
    let expected = "\
== A calls B
A: holds order:42, calls B
B: entered A's hold
C: stayed out
   whoever only names A's owner gets 403 Forbidden
B: done, released its own hold
A: B answered 200 OK
A: released
C: got in
";
    assert_eq!(output("nested_layers"), expected);
}

#[test]
fn two_instances_of_an_api_share_a_limit_and_go_on_without_redis() {
    let expected = "\
== a tenant asks two instances in turn
A to blue: 200 OK, 5 left: hello
B to blue: 200 OK, 4 left: hello
A to blue: 200 OK, 3 left: hello
B to blue: 200 OK, 2 left: hello
A to blue: 200 OK, 1 left: hello
B to blue: 200 OK, 0 left: hello
A to blue: 429 Too Many Requests, come again in 10 min: too many requests, try again later
B to blue: 429 Too Many Requests, come again in 10 min: too many requests, try again later
== another tenant has a limit of its own
B to red: 200 OK, 5 left: hello
== Redis is gone
A to blue: 200 OK, nobody counts: hello
B to red: 200 OK, nobody counts: hello
";
    assert_eq!(output("rate_limited_api"), expected);
}

#[test]
fn workers_of_many_processes_keep_to_the_limits_of_fleet_and_tenants() {
    let expected = "\
== three processes have 36 jobs of three tenants
   36 jobs are done
   never more than 4 at once
   never more than 2 of blue at once
   never more than 2 of green at once
   never more than 2 of red at once
== a process is killed while it has two permits
   it has them
   available: 2
   a lease later: 4
";
    assert_eq!(output("worker_pool"), expected);
}

#[test]
fn a_stage_begins_when_all_have_ended_the_one_before() {
    let expected = "\
worker 1: loads
worker 2: loads
worker 3: loads
   worker 2 is killed
worker 1: has loaded
worker 3: has loaded
   1 share is left, so nobody sorts
worker 2: loads
worker 2: has loaded
worker 1: sorts
worker 2: sorts
worker 3: sorts
   all is sorted
";
    assert_eq!(output("batch_job"), expected);
}

#[test]
fn readers_never_see_half_a_configuration() {
    let expected = "\
3 readers read version 1, all at once
the writer waits until they are done
the writer has written half of version 2
3 readers wait until it is whole
4 read version 2 at once, and the writer is one of them
";
    assert_eq!(output("config_cache"), expected);
}

#[test]
fn customers_are_served_in_order_over_all_windows() {
    let expected = "\
three windows, still closed
Ada comes to window 1
Ben comes to window 2
Cleo comes to window 1
Dan comes to window 3
Eve comes to window 2
Finn comes to window 1
Gil comes to window 3
Dan gives up
Ada has seat 1
Ben has seat 2
Cleo has seat 3
Eve has seat 4
Finn has seat 5
Gil has seat 6
";
    assert_eq!(output("ticket_window"), expected);
}
