//! The scripts with one line changed.

use std::collections::BTreeSet;

use crate::mutants::{Change, Mutant, scripts};

/// Each line of code of the scripts, deleted, and negated where it asks something; those of a shared block once, in all
/// scripts that have it.
#[must_use]
pub fn lines() -> Vec<Mutant> {
    let mut mutants = Vec::new();
    let mut known = BTreeSet::new();
    for (script, text) in scripts() {
        let mut rest = text;
        let mut above = 0;
        while let Some((own, after)) = rest.split_once("-- shared: ") {
            let (block, below) = after.split_once("-- end\n").unwrap_or((after, ""));
            add(&mut mutants, script, text, own, above);
            if let Some((name, code)) = block.split_once('\n')
                && known.insert(name)
            {
                add(&mut mutants, &format!("shared {name}"), block, code, 1);
            }
            above += own.lines().count() + block.lines().count() + 1;
            rest = below;
        }
        add(&mut mutants, script, text, rest, above);
    }
    mutants
}

/// Adds what can be made of some lines of a text, above which there are so many others; a shared block begins with its
/// name, which is no line of the file.
fn add(mutants: &mut Vec<Mutant>, name: &str, text: &str, lines: &str, above: usize) {
    let first = usize::from(!name.starts_with("shared"));
    for (at, line) in lines.lines().enumerate() {
        let at = above + at;
        for (what, new) in changes(line) {
            let mut changed: Vec<&str> = text.lines().collect();
            changed[at] = &new;
            mutants.push(Mutant {
                name: format!("{name}:{} {what} {}", at + first, line.trim()),
                change: Change::Lua(text.to_owned(), changed.join("\n") + "\n"),
            });
        }
    }
}

/// What a line may become.
fn changes(line: &str) -> Vec<(&'static str, String)> {
    let code = line.trim();
    let mut changes = Vec::new();
    if code.is_empty() || code.starts_with("--") || code.starts_with("#!") {
        return changes;
    }
    if is_whole(code) {
        changes.push(("without", String::new()));
    }
    if let Some((before, rest)) = line.split_once("if ")
        && let Some((condition, after)) = rest.split_once(" then")
    {
        let negated = format!("{before}if not ({condition}) then{after}");
        changes.push(("negated", negated));
    }
    changes
}

/// Whether a line may go without leaving a block open, or a name without its value.
fn is_whole(code: &str) -> bool {
    let opens = ["function", "if ", "for ", "while ", "else"];
    let closes = code == "end" || code.starts_with("end ") || code.starts_with('}');
    let block = opens.iter().any(|word| code.contains(word)) && !code.ends_with("end");
    !closes && !block && !code.starts_with("local ")
}
