//! Child processes of the bench, and how they are stopped.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ChildStdin, ChildStdout, Command as Process, Stdio};

use ebbtide_core::Watch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, set_parent_process_death_signal};

use super::protocol::{Command, Reply};

/// The hidden verb with which the `ebbtide` binary runs as a child.
pub const CHILD_VERB: &str = "memory-under-test";

/// Interval at which a bench that waits for a child checks for a stop.
const ASK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Makes the kernel kill this process when the bench that started it ends for any reason. A child
/// calls this first.
///
/// # Errors
/// When the kernel refuses the request.
pub fn die_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// A child process and the two pipes to it.
pub(super) struct Child {
    process: std::process::Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Child {
    /// Starts this program again as a child.
    pub(super) fn spawn() -> io::Result<Child> {
        let mut process = Process::new(std::env::current_exe()?)
            .arg(CHILD_VERB)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C at a terminal is for the parent, which then ends its children.
            .process_group(0)
            .spawn()?;
        let orders = process.stdin.take().expect("its standard input is a pipe");
        let answers = process.stdout.take().expect("its standard output is a pipe");
        Ok(Child { process, orders, answers: BufReader::new(answers) })
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a command and waits for the reply, or until `watch` requests a stop.
    pub(super) fn ask(&mut self, command: &Command, watch: Watch<'_>) -> io::Result<Reply> {
        serde_json::to_writer(&mut self.orders, command)?;
        self.orders.write_all(b"\n")?;
        let mut line = String::new();
        self.wait_for_answer(watch)?;
        if self.answers.read_line(&mut line)? == 0 {
            let status = self.process.wait()?;
            return Err(io::Error::other(format!("the process ended: {status}")));
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Waits until a reply begins to arrive or the process has ended.
    fn wait_for_answer(&self, watch: Watch<'_>) -> io::Result<()> {
        loop {
            watch.go_on().map_err(|stopped| io::Error::new(io::ErrorKind::Interrupted, stopped))?;
            let mut answers = [PollFd::new(self.answers.get_ref(), PollFlags::IN)];
            match poll(&mut answers, Some(&ASK_AGAIN)) {
                // A signal may have been the request to stop.
                Ok(0) | Err(Errno::INTR) => {}
                ended => return ended.map(drop).map_err(io::Error::from),
            }
        }
    }

    /// Whether the process was killed, as the kernel does at the memory limit.
    pub(super) fn was_killed(&mut self) -> bool {
        let status = self.process.try_wait().ok().flatten();
        status.is_some_and(|status| status.signal() == Some(Signal::KILL.as_raw()))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
