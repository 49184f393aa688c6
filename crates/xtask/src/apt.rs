//! Installs what is missing, where that can be done unasked: as root, with apt-get.

use std::io;
use std::process::{Command, ExitCode};

use crate::cargo::run;

/// Whether something can be installed here.
pub(crate) fn is_usable() -> bool {
    let id = Command::new("id").arg("-u").output();
    let is_root = id.is_ok_and(|output| output.stdout == b"0\n");
    is_root && Command::new("apt-get").arg("--version").output().is_ok()
}

/// Installs a package; what it starts as a service, now and at each boot, is stopped: only its programs are needed.
pub(crate) fn install(package: &str) -> io::Result<()> {
    apt_get(&["update", "--quiet"])?;
    apt_get(&["install", "--quiet", "--yes", package])?;
    for command in [
        ["service", package, "stop"],
        ["update-rc.d", package, "disable"],
    ] {
        let [program, args @ ..] = command;
        run(Command::new(program).args(args).stdout(io::stderr()))?;
    }
    Ok(())
}

fn apt_get(args: &[&str]) -> io::Result<()> {
    let mut command = Command::new("apt-get");
    command
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(io::stderr());
    match run(&mut command)? {
        ExitCode::SUCCESS => Ok(()),
        _ => Err(io::Error::other(format!(
            "apt-get {} failed",
            args.join(" ")
        ))),
    }
}
