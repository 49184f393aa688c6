//! How an example starts its other processes, talks to them and reads what they say.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// This program in another role; it ends with the story.
pub struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    pub fn start(role: &[&str]) -> anyhow::Result<Self> {
        let program = std::env::current_exe()?;
        let mut child = Command::new(program)
            .args(role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("no input")?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        Ok(Self {
            child,
            input,
            output,
        })
    }

    /// Writes it a line.
    pub fn write(&mut self, line: &str) -> anyhow::Result<()> {
        Ok(writeln!(self.input, "{line}")?)
    }

    /// Reads its next line.
    pub fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        ensure!(
            self.output.read_line(&mut line)? > 0,
            "a process ended early"
        );
        Ok(line.trim_end().to_owned())
    }

    /// Passes on its next line, which is to be this.
    pub fn tell(&mut self, expected: &str) -> anyhow::Result<()> {
        let line = self.line()?;
        println!("{line}");
        ensure!(line == expected, "expected {expected:?}, not {line:?}");
        Ok(())
    }

    /// Stops it as a suspended machine would (SIGSTOP).
    pub fn pause(&self) -> anyhow::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::STOP)?)
    }

    pub fn resume(&self) -> anyhow::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::CONT)?)
    }

    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
