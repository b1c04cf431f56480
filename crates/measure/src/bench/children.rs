//! Child processes of the bench, and how they are stopped.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ChildStdin, ChildStdout, Command as Process, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use super::protocol::{Command, Reply};

/// The hidden verb of the `ebbtide` binary that serves as a child.
pub const CHILD_VERB: &str = "memory-under-test";

/// Stops a bench from another thread: no more orders are given and all children are ended.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<State>);

#[derive(Debug, Default)]
struct State {
    cancelled: AtomicBool,
    children: Mutex<Vec<Pid>>,
}

impl Cancel {
    /// Stops the bench.
    pub fn cancel(&self) {
        let children = self.0.children.lock();
        self.0.cancelled.store(true, Ordering::SeqCst);
        for &child in &*children {
            // One that has just ended by itself needs no signal.
            let _ = kill_process(child, Signal::KILL);
        }
    }

    /// Whether it was stopped.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::SeqCst)
    }
}

/// Lets the kernel end this process as soon as the bench that started it is gone, however that
/// ended. To be called before anything else in a child.
///
/// # Errors
/// When the kernel refuses.
pub fn die_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// A child process and the two pipes to it.
pub(super) struct Child {
    process: std::process::Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    cancel: Cancel,
}

impl Child {
    /// Starts this program again as a child.
    pub(super) fn spawn(cancel: &Cancel) -> io::Result<Child> {
        let mut children = cancel.0.children.lock();
        if cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let mut process = Process::new(std::env::current_exe()?)
            .arg(CHILD_VERB)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C at a terminal is for the parent, which then ends its children.
            .process_group(0)
            .spawn()?;
        children.push(pid(&process));
        let orders = process.stdin.take().expect("its standard input is a pipe");
        let answers = process.stdout.take().expect("its standard output is a pipe");
        drop(children);
        Ok(Child { process, orders, answers: BufReader::new(answers), cancel: cancel.clone() })
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Gives an order and waits for the answer.
    pub(super) fn ask(&mut self, command: &Command, cancel: &Cancel) -> io::Result<Reply> {
        if cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        serde_json::to_writer(&mut self.orders, command)?;
        self.orders.write_all(b"\n")?;
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            let status = self.process.wait()?;
            return Err(io::Error::other(format!("the process ended: {status}")));
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Whether somebody has killed it, as the kernel does where memory runs out.
    pub(super) fn was_killed(&mut self) -> bool {
        let status = self.process.try_wait().ok().flatten();
        status.is_some_and(|status| status.signal() == Some(Signal::KILL.as_raw()))
    }
}

fn pid(process: &std::process::Child) -> Pid {
    Pid::from_child(process)
}

impl Drop for Child {
    fn drop(&mut self) {
        let own = pid(&self.process);
        self.cancel.0.children.lock().retain(|&child| child != own);
        // Killing one that has ended already is no error worth telling.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
