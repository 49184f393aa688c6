//! A private PostgreSQL in a temporary folder, on a unix socket, that ends with this process.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::getuid;
use tempfile::TempDir;

/// How long the server may take until it listens.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the server until standard input is closed, which the system does when the writer is gone, however it ended;
/// then removes the folder, `$0`.
const LAUNCH: &str = r#""$@" & read -r _; kill -INT $!; wait; rm -rf "$0""#;

const ADVICE: &str = "\
no PostgreSQL found: its program `initdb` is neither in PATH nor in /usr/lib/postgresql/*/bin; install it:
  Debian, Ubuntu  apt-get install postgresql
  Fedora          dnf install postgresql-server
  macOS           brew install postgresql";

pub struct Postgres {
    shell: Child,
    folder: TempDir,
}

impl Postgres {
    pub fn start() -> anyhow::Result<Self> {
        let programs = programs()?;
        let user = User::for_server()?;
        let folder = TempDir::with_prefix("lockyard-postgres-")?;
        user.own(folder.path())?;
        let data = folder.path().join("data");

        let mut initdb = user.command(&programs.join("initdb"), folder.path());
        initdb.args([
            "--username=postgres",
            "--auth=trust",
            "--no-sync",
            "--no-locale",
        ]);
        initdb.args(["--encoding=UTF8", "--pgdata"]).arg(&data);
        success(&initdb.output().context("cannot run initdb")?)?;

        let log = fs::File::create(folder.path().join("log"))?;
        let mut shell = user.command(OsStr::new("sh").as_ref(), folder.path());
        shell.args(["-c", LAUNCH]).arg(folder.path());
        shell.arg(programs.join("postgres"));
        // It listens on the socket alone, and on no port.
        shell.args(["-c", "listen_addresses=", "-c", "fsync=off", "-k"]);
        shell.arg(folder.path()).arg("-D").arg(&data);
        shell
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log);
        let mut postgres = Self {
            shell: shell.spawn().context("cannot run postgres")?,
            folder,
        };
        postgres.wait()?;
        Ok(postgres)
    }

    /// The folder of the socket.
    pub fn socket(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until it accepts connections, which its file says in the eighth line.
    fn wait(&mut self) -> anyhow::Result<()> {
        let state = self.folder.path().join("data/postmaster.pid");
        let start = Instant::now();
        loop {
            let lines = fs::read_to_string(&state).unwrap_or_default();
            if lines
                .lines()
                .nth(7)
                .is_some_and(|line| line.trim() == "ready")
            {
                return Ok(());
            }
            if self.shell.try_wait()?.is_some() || start.elapsed() > PATIENCE {
                let log = fs::read_to_string(self.folder.path().join("log"))?;
                bail!("PostgreSQL does not start:\n{log}");
            }
            sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Closes the input, which ends the server, and waits for that.
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// The user that the server runs as: it refuses root.
struct User {
    /// User and group, if they are not this process's.
    ids: Option<(u32, u32)>,
}

impl User {
    fn for_server() -> anyhow::Result<Self> {
        if !getuid().is_root() {
            return Ok(Self { ids: None });
        }
        let id = |flag| -> anyhow::Result<u32> {
            let output = Command::new("id").args([flag, "postgres"]).output()?;
            success(&output).context("there is no user `postgres` to run the server as")?;
            Ok(String::from_utf8(output.stdout)?.trim().parse()?)
        };
        Ok(Self {
            ids: Some((id("-u")?, id("-g")?)),
        })
    }

    fn own(&self, folder: &Path) -> anyhow::Result<()> {
        if let Some((user, group)) = self.ids {
            chown(folder, Some(user), Some(group))?;
        }
        Ok(())
    }

    fn command(&self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(folder);
        if let Some((user, group)) = self.ids {
            command.uid(user).gid(group);
        }
        command
    }
}

/// The folder of the server's programs; Debian keeps them out of PATH, by version.
fn programs() -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut versions: Vec<PathBuf> = versions
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    versions.sort();
    std::env::split_paths(&path)
        .chain(versions)
        .find(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
        .context(ADVICE)
}

fn success(output: &Output) -> anyhow::Result<()> {
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", errors.trim());
    Ok(())
}
