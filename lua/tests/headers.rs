//! What every script has in common: its first line, its header, its shared blocks, its export.
//!
//! The rules hold for whatever lies in the folders, so for a new script as soon as it is there.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are tests, which clippy cannot see"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A file under `lua/`, such as `lock/acquire.lua`.
struct Script {
    family: String,
    verb: String,
    text: String,
}

impl Script {
    fn name(&self) -> String {
        format!("{}/{}.lua", self.family, self.verb)
    }

    #[track_caller]
    fn demand(&self, holds: bool, rule: &str) {
        assert!(holds, "{}: {rule}", self.name());
    }

    /// The comment lines between the shebang and the code, without their dashes, by paragraph.
    fn header(&self) -> Vec<Vec<&str>> {
        let lines = self.text.lines().skip(1);
        let comments = lines.map_while(|line| line.strip_prefix("--"));
        let lines: Vec<&str> = comments
            .map(|line| line.strip_prefix(' ').unwrap_or(line))
            .collect();
        let paragraphs = lines.split(|line| line.is_empty());
        paragraphs.map(<[&str]>::to_vec).collect()
    }

    /// The text without its comments.
    fn code(&self) -> String {
        let code = |line: &str| line.split("--").next().unwrap().to_owned() + "\n";
        self.text.lines().map(code).collect()
    }
}

/// All scripts, and no part that they share.
fn scripts() -> Vec<Script> {
    let files = files(root());
    let scripts: Vec<Script> = files
        .into_iter()
        .filter(|script| script.family != "shared")
        .collect();
    assert!(!scripts.is_empty());
    scripts
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path) -> Vec<Script> {
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "lua") {
            let family = folder.strip_prefix(root()).unwrap().to_str().unwrap();
            let verb = path.file_stem().unwrap().to_str().unwrap();
            let text = fs::read_to_string(&path).unwrap();
            found.push(Script {
                family: family.into(),
                verb: verb.into(),
                text,
            });
        }
    }
    found
}

// Renewals and releases must work on a full server, or leases die and locks stay because memory is short.
// Nothing may stray to another slot, or the scripts fail on a cluster.
#[test]
fn the_first_line_says_what_the_verb_needs() {
    for script in scripts() {
        let shebang = match script.verb.as_str() {
            "acquire" | "set" | "take" => "#!lua",
            "renew" | "release" | "limit" | "exchange" | "down" => "#!lua flags=allow-oom",
            "inspect" | "count" => "#!lua flags=no-writes",
            verb => panic!("say here which flags `{verb}` needs"),
        };
        let first = script.text.lines().next();
        script.demand(
            first == Some(shebang),
            &format!("the first line is `{shebang}`"),
        );
    }
}

#[test]
fn headers_have_their_parts_in_order() {
    for script in scripts() {
        let header = script.header();
        let [summary, arguments, results] = &header[..] else {
            panic!("{}: the header has three paragraphs", script.name());
        };
        script.demand(
            summary.last().unwrap().ends_with('.'),
            "the summary is a sentence",
        );
        let listed = arguments.iter().filter(|line| !line.starts_with(' '));
        let kinds: Vec<&str> = listed.filter_map(|line| line.get(..5)).collect();
        let ordered = kinds.is_sorted_by(|a, b| a == b || (*a, *b) == ("KEYS[", "ARGV["));
        script.demand(
            ordered && kinds.first() == Some(&"KEYS["),
            "KEYS, then ARGV, a line each",
        );
        let words = results.iter().filter(|line| !line.starts_with(' '));
        let words: Vec<&str> = words.filter_map(|line| line.split(' ').next()).collect();
        script.demand(
            words == ["Returns", "Late", "Cost"],
            "Returns, Late, Cost, nothing else",
        );
    }
}

/// The places of KEYS or ARGV that a text names, in one spelling:
/// `3`, `4i-1` for every fourth, `...` for those that only the server can tell.
fn places(text: &str, table: &str) -> Vec<String> {
    let starts = text
        .match_indices(table)
        .map(|(at, _)| &text[at + table.len()..]);
    let indices = starts.filter_map(|rest| rest.strip_prefix('[')?.split_once(']'));
    indices.map(|(index, _)| place(index, text)).collect()
}

fn place(index: &str, text: &str) -> String {
    let index: String = index
        .chars()
        .filter(|char| !matches!(char, ' ' | '*'))
        .collect();
    if index.parse::<u32>().is_ok() || numbers(&index).is_some() {
        return index;
    }
    // A variable that counts as in `for k = 1, #KEYS, 4`.
    let (variable, offset) = index.split_once('+').unwrap_or((&index, "0"));
    let counted = text
        .split_once(&format!("for {variable} = "))
        .and_then(|(_, rest)| {
            let (start, rest) = rest.split_once(", #KEYS, ")?;
            let step: i32 = rest.split(' ').next()?.parse().ok()?;
            let shift = start.parse::<i32>().ok()? + offset.parse::<i32>().ok()? - step;
            Some(if shift == 0 {
                format!("{step}i")
            } else {
                format!("{step}i{shift:+}")
            })
        });
    counted.unwrap_or_else(|| "...".to_owned())
}

/// The step and the shift of `4i-1`.
fn numbers(place: &str) -> Option<(i32, i32)> {
    let (step, shift) = place.split_once('i')?;
    let shift = if shift.is_empty() {
        0
    } else {
        shift.parse().ok()?
    };
    Some((step.parse().ok()?, shift))
}

/// The first place that it stands for.
fn first(place: &str) -> i32 {
    let place = place.trim_end_matches("...");
    numbers(place).map_or_else(|| place.parse().unwrap(), |(step, shift)| step + shift)
}

// Red with `ARGV[10]` in acquire.lua, with `KEYS[k + 4]` in release.lua, and with a line too many in a header.
#[test]
fn headers_name_exactly_the_keys_and_arguments_used() {
    for script in scripts() {
        let header = script.header()[1].join("\n");
        let code = script.code();
        for table in ["KEYS", "ARGV"] {
            let lines = header.lines().filter(|line| line.starts_with(table));
            let listed: Vec<&str> = lines
                .map(|line| &line[5..line.find(']').unwrap()])
                .collect();
            let firsts: Vec<i32> = listed.iter().map(|place| first(place)).collect();
            let numbered = firsts.iter().copied().eq(1..=firsts.len() as i32);
            script.demand(
                numbered,
                &format!("{table} count from 1 without a gap, not {listed:?}"),
            );

            let opens = lines_open(&listed);
            // `3...` stands for itself and whatever the server finds behind it.
            let open = |place: &&str| {
                place
                    .find("...")
                    .map_or(*place, |at| &place[at..])
                    .to_owned()
            };
            let listed: BTreeSet<String> = listed.iter().map(open).collect();
            let mut used: BTreeSet<String> = places(&code, table).into_iter().collect();
            used.retain(|place| listed.contains(place) || !is_in_a_step(place, &listed));
            // The first of those behind `2...` may also be used by itself.
            if let Some(open) = opens {
                used.retain(|place| {
                    place.parse().is_ok_and(|number: i32| number < open) || place == "..."
                });
            }
            assert_eq!(
                listed,
                used,
                "{}: {table} in the header, and used",
                script.name()
            );
        }
    }
}

/// From where on the places are not named one by one.
fn lines_open(listed: &[&str]) -> Option<i32> {
    let open = listed.iter().find_map(|place| place.strip_suffix("..."))?;
    open.parse().ok()
}

/// Whether a number is the first of every fourth, which may also be used by itself.
fn is_in_a_step(place: &str, listed: &BTreeSet<String>) -> bool {
    let mut steps = listed.iter().filter_map(|listed| numbers(listed));
    let number: Option<i32> = place.parse().ok();
    number.is_some_and(|number| steps.any(|(step, shift)| (number - shift) % step == 0))
}

// Red with a word changed in the middle of one copy, and with a copy's `-- end` removed.
#[test]
fn shared_blocks_are_all_alike() {
    let mut copied = BTreeSet::new();
    for script in scripts() {
        let blocks: Vec<&str> = script.text.split("-- shared: ").skip(1).collect();
        let ends = script.text.lines().filter(|line| *line == "-- end").count();
        script.demand(
            blocks.len() == ends,
            "each block begins with `-- shared: …` and ends with `-- end`",
        );
        for block in blocks {
            let (thing, block) = block.split_once('\n').unwrap();
            let (block, _) = block.split_once("-- end\n").unwrap();
            let shared = fs::read_to_string(root().join(format!("shared/{thing}.lua"))).unwrap();
            script.demand(
                block == shared,
                &format!(
                    "`{thing}` is a copy of shared/{thing}.lua, which `cargo xtask lua` writes"
                ),
            );
            copied.insert(thing.to_owned());
        }
    }
    let parts = files(&root().join("shared"));
    let parts: BTreeSet<String> = parts.into_iter().map(|part| part.verb).collect();
    assert_eq!(
        copied, parts,
        "blocks that are copied, and files in shared/"
    );
}

#[test]
fn every_script_is_exported() {
    let exports = include_str!("../lib.rs")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for script in scripts() {
        let constant = script.verb.to_uppercase();
        let export = format!(
            "pub const {constant}: &str = include_str!(\"{}\");",
            script.name()
        );
        script.demand(exports.contains(&export), &format!("lib.rs has `{export}`"));
        let module = format!("pub mod {} {{", script.family);
        script.demand(exports.contains(&module), &format!("lib.rs has `{module}`"));
    }
}

#[test]
fn lines_fit_the_screen() {
    for file in files(root()) {
        for (number, line) in (1..).zip(file.text.lines()) {
            let tidy =
                line.chars().count() <= 120 && line.trim_end() == line && !line.contains('\t');
            assert!(
                tidy,
                "{}:{number}: longer than 120, or with a tab or spaces at its end",
                file.name()
            );
        }
        assert!(
            file.text.ends_with('\n'),
            "{} ends with a newline",
            file.name()
        );
    }
}
