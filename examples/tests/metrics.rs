//! Runs the example `metrics`, and compares the names that are documented, exported and shown on the board.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn exported() -> String {
    let test = std::env::current_exe().unwrap();
    let folder: PathBuf = test.ancestors().nth(2).unwrap().join("examples");
    let output = Command::new(folder.join("metrics")).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Names and types in the table of the documentation.
fn documented() -> BTreeSet<(String, String)> {
    let text = read("../crates/lockyard/src/lib.rs");
    let rows = text
        .lines()
        .filter_map(|line| line.strip_prefix("//! | `lockyard_"));
    let parts = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let pair = |row: Vec<&str>| {
        let name = row[0].trim_end_matches('`');
        (format!("lockyard_{name}"), row[1].to_owned())
    };
    parts.map(pair).collect()
}

#[test]
fn what_is_exported_is_what_is_documented() {
    let text = exported();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let types = types.map(|line| line.split_once(' ').unwrap());
    let found: BTreeSet<_> = types
        .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
        .collect();
    assert_eq!(found, documented());
    assert_eq!(found.len(), 7);
    for (name, _) in &found {
        assert!(text.contains(&format!("# HELP {name} ")), "{name}");
    }
    let stock = r#"kind="lock",label="stock""#;
    for line in [
        &format!(r#"lockyard_acquires_total{{{stock},outcome="acquired"}} 6"#),
        &format!(r#"lockyard_acquires_total{{{stock},outcome="busy"}} 1"#),
        &format!("lockyard_contended_acquires_total{{{stock}}} 1"),
        &format!("lockyard_wait_seconds_count{{{stock}}} 6"),
        &format!(r#"lockyard_wait_seconds_bucket{{{stock},le="+Inf"}} 6"#),
        &format!("lockyard_queue_length_sum{{{stock}}} 1"),
        &format!(r#"lockyard_lost_holds_total{{{stock},reason="revoked"}} 1"#),
        r#"lockyard_lost_holds_total{kind="semaphore",label="exports",reason="expired"} 1"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\nin {text}");
    }
}

#[test]
fn the_board_asks_for_just_what_is_documented() {
    let board: Value = serde_json::from_str(&read("metrics/board.json")).unwrap();
    let mut asked = BTreeSet::new();
    for panel in board["panels"].as_array().unwrap() {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{}", panel["title"]);
        for target in targets {
            let query = target["expr"].as_str().unwrap();
            let named = |char: char| char == '_' || char.is_ascii_alphanumeric();
            let words = query.split(|char| !named(char));
            let names = words.filter(|word| word.starts_with("lockyard_"));
            for name in names {
                // A query reads a histogram by its buckets.
                match name.strip_suffix("_bucket") {
                    Some(name) => asked.insert((name.to_owned(), "histogram".to_owned())),
                    None => asked.insert((name.to_owned(), "counter".to_owned())),
                };
            }
        }
    }
    assert_eq!(asked, documented());
    for variable in board["templating"]["list"].as_array().unwrap() {
        let query = variable["query"].to_string();
        let known = documented().iter().any(|(name, _)| query.contains(&**name));
        assert!(known || variable["type"] == "datasource", "{query}");
    }
}
