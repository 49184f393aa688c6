//! The scripts with one line changed.

use crate::mutants::{Change, Mutant, SCRIPTS};

/// Each line of code of the scripts, deleted, and negated where it asks something.
#[must_use]
pub fn lines() -> Vec<Mutant> {
    SCRIPTS
        .iter()
        // Of the others most lines are the same; what is their own has its breakages.
        .filter(|(name, _)| *name != "inspect" && !name.contains(' '))
        .flat_map(|script| lines_of(*script))
        .collect()
}

fn lines_of((script, text): (&'static str, &'static str)) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let code = line.trim();
        if code.is_empty() || code.starts_with("--") || code.starts_with("#!") {
            continue;
        }
        let mut add = |what: &str, new: String| {
            mutants.push(Mutant {
                name: format!("{script}:{} {what} {code}", at + 1),
                change: Change::Line(script, at, new),
            });
        };
        if is_whole(code) {
            add("without", String::new());
        }
        if let Some((before, rest)) = line.split_once("if ")
            && let Some((condition, after)) = rest.split_once(" then")
        {
            add(
                "negated",
                format!("{before}if not ({condition}) then{after}"),
            );
        }
    }
    mutants
}

/// Whether a line may go without leaving a block open, or a name without its value.
fn is_whole(code: &str) -> bool {
    let opens = ["function", "if ", "for ", "while ", "else"];
    let closes = code == "end" || code.starts_with("end ") || code.starts_with('}');
    let block = opens.iter().any(|word| code.contains(word)) && !code.ends_with("end");
    !closes && !block && !code.starts_with("local ")
}
