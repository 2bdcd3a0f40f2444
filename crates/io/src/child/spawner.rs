//! The threads behind every child: a few that spawn, one that reaps.
//!
//! On Linux the parent-death signal is sent when the *thread* that spawned a child ends. Worker threads of a runtime
//! come and go, so all children are spawned from threads that live as long as the process. There is more than one because
//! a spawn waits until the new program has been loaded, and others need not wait for that.

use std::fmt;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::{mpsc, oneshot};

use super::{Exit, GroupWatcher};

/// The threads that spawn: as many as a host usually starts servers at a time.
const SPAWNERS: usize = 3;
/// Spawns that may wait for one of them.
const SPAWNS: usize = 64;
/// Killed processes that may wait to be reaped.
const REAPS: usize = 1024;

struct Job {
    command: Command,
    watcher: Option<Arc<dyn GroupWatcher>>,
    answer: oneshot::Sender<io::Result<Leader>>,
}

/// The leader of a process group that has not been reaped. Dropping it, wherever that happens, kills the group.
pub(super) struct Leader {
    pub(super) pid: Pid,
    process: Option<Child>,
    watcher: Option<Arc<dyn GroupWatcher>>,
}

impl Leader {
    fn new(process: Child, watcher: Option<Arc<dyn GroupWatcher>>) -> Self {
        let pid = Pid::from_child(&process);
        if let Some(watcher) = &watcher {
            // A watcher that panics must not end the thread that all children hang on.
            let _ = catch_unwind(AssertUnwindSafe(|| watcher.started(number(pid))));
        }
        Self { pid, process: Some(process), watcher }
    }

    /// Stdin, stdout and stderr of a process that was started with all three as pipes.
    pub(super) fn take_pipes(&mut self) -> io::Result<(ChildStdin, ChildStdout, ChildStderr)> {
        let pipes = self
            .process
            .as_mut()
            .and_then(|process| process.stdin.take().zip(process.stdout.take()).zip(process.stderr.take()));
        let ((stdin, stdout), stderr) = pipes.ok_or_else(|| io::Error::other("the process has no pipes"))?;
        Ok((stdin, stdout, stderr))
    }

    /// Sends a signal to every process of the group.
    pub(super) fn signal(&self, signal: Signal) {
        // An error means that nobody is left to get it.
        let _ = kill_process_group(self.pid, signal);
    }

    /// Kills what is left of the group and reaps the leader, which has ended.
    pub(super) fn sweep(mut self) -> Exit {
        self.signal(Signal::KILL);
        // Said before the reaping, while the id is still ours.
        self.tell_end();
        let status = self.process.take().and_then(|mut process| process.wait().ok());
        status.map_or(Exit::Unknown, Exit::from)
    }

    fn tell_end(&self) {
        if let Some(watcher) = &self.watcher {
            watcher.ended(number(self.pid));
        }
    }
}

impl fmt::Debug for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Leader({})", number(self.pid))
    }
}

/// A process id as a plain number.
pub(super) fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

impl Drop for Leader {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            self.signal(Signal::KILL);
            self.tell_end();
            reap(process);
        }
    }
}

/// Spawns `command` as the leader of a new process group that dies with us.
pub(super) async fn spawn(mut command: Command, watcher: Option<Arc<dyn GroupWatcher>>) -> io::Result<Leader> {
    static THREADS: [OnceLock<mpsc::Sender<Job>>; SPAWNERS] = [const { OnceLock::new() }; SPAWNERS];
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let cell = &THREADS[NEXT.fetch_add(1, Ordering::Relaxed) % SPAWNERS];
    command.process_group(0);
    die_with_parent(&mut command);
    let (answer, spawned) = oneshot::channel();
    let jobs = thread(cell, "wharf-spawner", SPAWNS, |mut job: Job| {
        // If whoever asked is gone, the leader is dropped on its way and so killed.
        let _ = job.answer.send(job.command.spawn().map(|process| Leader::new(process, job.watcher)));
    })?;
    let gone = || io::Error::other("the spawning thread has ended");
    jobs.send(Job { command, watcher, answer }).await.map_err(|_| gone())?;
    spawned.await.map_err(|_| gone())?
}

/// Collects a process that has been killed, so that it does not stay a zombie.
fn reap(child: Child) {
    static REAPER: OnceLock<mpsc::Sender<Child>> = OnceLock::new();
    let reaper = thread(&REAPER, "wharf-reaper", REAPS, |mut child: Child| {
        let _ = child.wait();
    });
    // Without the thread, or with too many before it, the process stays a zombie until we end; it runs no more.
    if let Ok(reaper) = reaper {
        let _ = reaper.try_send(child);
    }
}

fn thread<T: Send + 'static>(
    cell: &'static OnceLock<mpsc::Sender<T>>,
    name: &str,
    bound: usize,
    work: fn(T),
) -> io::Result<&'static mpsc::Sender<T>> {
    if let Some(sender) = cell.get() {
        return Ok(sender);
    }
    let (sender, mut jobs) = mpsc::channel(bound);
    // Two threads may get here at once; the channel that loses the race ends its own thread.
    let work_on = move || {
        while let Some(job) = jobs.blocking_recv() {
            work(job);
        }
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(work_on)?;
    Ok(cell.get_or_init(|| sender))
}

#[cfg(target_os = "linux")]
fn die_with_parent(command: &mut Command) {
    use rustix::process::{getpid, getppid, set_parent_process_death_signal};
    let parent = getpid();
    let ask_for_the_signal = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the request was made.
        let gone = || io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error());
        if getppid() == Some(parent) { Ok(()) } else { Err(gone()) }
    };
    #[expect(unsafe_code, reason = "between fork and exec only these two system calls are made; neither allocates")]
    unsafe {
        command.pre_exec(ask_for_the_signal);
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_command: &mut Command) {}
