//! Writes the blocks of `lua/shared/` into the scripts that have copies of them.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

const BEGIN: &str = "-- shared: ";
const END: &str = "-- end\n";

pub(crate) fn refill() -> io::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lua");
    for folder in fs::read_dir(&root)? {
        let folder = folder?.path();
        if !folder.is_dir() || folder.ends_with("shared") {
            continue;
        }
        for script in fs::read_dir(folder)? {
            let script = script?.path();
            if script
                .extension()
                .is_some_and(|extension| extension == "lua")
            {
                let old = fs::read_to_string(&script)?;
                let new = refilled(&old, &root.join("shared"))?;
                if new != old {
                    fs::write(&script, new)?;
                    eprintln!("wrote {}", script.display());
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn refilled(script: &str, shared: &Path) -> io::Result<String> {
    let mut parts = script.split(BEGIN);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let broken = || io::Error::other(format!("a block without its end: {part}"));
        let (name, rest) = part.split_once('\n').ok_or_else(broken)?;
        let (_, rest) = rest.split_once(END).ok_or_else(broken)?;
        let block = fs::read_to_string(shared.join(format!("{name}.lua")))?;
        text.extend([BEGIN, name, "\n", &block, END, rest]);
    }
    Ok(text)
}
