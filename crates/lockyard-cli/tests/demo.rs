//! The demo from outside: the program, a real server, real processes.

use std::process::{Command, Output};

use serde_json::Value;

fn demo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lockyard"))
        .arg("demo")
        .args(arguments)
        .output()
        .expect("cargo has built the program")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the program writes UTF-8")
}

/// Returns the runs of the one object on standard output.
fn runs(output: &Output) -> Vec<Value> {
    let document: Value =
        serde_json::from_slice(&output.stdout).expect("standard output is one object");
    let runs = document["runs"].as_array();
    runs.expect("the object lists the runs").clone()
}

#[test]
fn only_lockyard_sells_exactly_the_stock() {
    let output = demo(&["--json", "--stock", "60", "--processes", "3"]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    // Standard error is not a terminal here, so there are no bars either.
    assert_eq!(errors, "");

    let runs = runs(&output);
    let scenarios: Vec<&Value> = runs.iter().map(|run| &run["scenario"]).collect();
    assert_eq!(scenarios, ["none", "naive", "lockyard"]);
    for run in &runs {
        let stock = run["stock"].as_u64().unwrap();
        let sold = run["sold"].as_u64().unwrap();
        assert_eq!(stock, 60);
        assert_eq!(run["oversold"].as_u64().unwrap(), sold - stock, "{run}");
        for figure in ["wait_p50_ms", "wait_p99_ms", "handovers_per_s", "secs"] {
            assert!(run[figure].as_f64().unwrap() >= 0.0, "{figure}: {run}");
        }
        let has_killed = run["standstill_ms"].is_u64();
        assert_eq!(has_killed, run["scenario"] == "lockyard", "{run}");
    }
    assert!(runs[0]["sold"].as_u64() > Some(60), "{}", runs[0]);
    assert!(runs[1]["sold"].as_u64() > Some(60), "{}", runs[1]);
    assert_eq!(runs[2]["sold"], 60);
}

#[test]
fn others_go_on_within_a_lease_after_a_kill() {
    let output = demo(&[
        "--json",
        "--stock",
        "20",
        "--processes",
        "4",
        "--lease",
        "1s",
    ]);
    let runs = runs(&output);
    let standstill_ms = runs[2]["standstill_ms"].as_u64().unwrap();
    // One lease, with air for a busy machine; a waiter that missed the end would take over 4 s.
    assert!((300..3000).contains(&standstill_ms), "{}", runs[2]);
}

#[test]
fn a_single_worker_is_spared() {
    let output = demo(&[
        "--json",
        "--stock",
        "1",
        "--processes",
        "1",
        "--lease",
        "100ms",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for run in runs(&output) {
        assert_eq!(run["sold"], 1, "{run}");
        assert!(run["standstill_ms"].is_null(), "{run}");
    }
}

#[test]
fn the_report_is_for_people_without_json() {
    let output = demo(&["--stock", "6", "--processes", "2", "--lease", "200ms"]);
    let report = text(&output.stdout);
    assert!(report.contains("hand-"), "{report}");
    assert!(report.contains("sales per 100 ms"), "{report}");
    let widest = report.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{report}");
    assert!(
        !report.contains('\x1b'),
        "colours are for terminals: {report}"
    );
}

#[test]
fn a_bad_value_is_refused_before_anything_starts() {
    let output = demo(&["--processes", "65"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("65 is not in 1..=64"));
}

#[test]
fn without_a_server_the_error_says_how_to_get_one() {
    let output = Command::new(env!("CARGO_BIN_EXE_lockyard"))
        .arg("demo")
        .env_remove("LOCKYARD_SERVER")
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    let errors = text(&output.stderr);
    assert!(errors.contains("apt-get install redis-server"), "{errors}");
}
