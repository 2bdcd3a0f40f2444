//! The threads behind every child: a few that spawn, one that reaps.
//!
//! On Linux the parent-death signal is sent when the *thread* that spawned a child ends. Worker threads of a runtime
//! come and go, so all children are spawned from threads that live as long as the process. There is more than one because
//! a spawn waits until the new program has been loaded, and others need not wait for that.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};
use tokio::sync::{mpsc, oneshot};

use super::launch::Launch;
#[cfg(target_os = "linux")]
use super::start::start;
use super::{Exit, GroupWatcher};

/// The threads that spawn: as many as a host usually starts servers at a time.
const SPAWNERS: usize = 3;
/// Spawns that may wait for one of them.
const SPAWNS: usize = 64;
/// Killed processes that may wait to be reaped.
const REAPS: usize = 1024;

struct Job {
    launch: Launch,
    watcher: Option<Arc<dyn GroupWatcher>>,
    answer: oneshot::Sender<io::Result<Leader>>,
}

/// The leader of a process group that has not been reaped. Dropping it, wherever that happens, kills the group.
pub(super) struct Leader {
    pub(super) pid: Pid,
    reaped: bool,
    watcher: Option<Arc<dyn GroupWatcher>>,
}

impl Leader {
    fn new(pid: Pid, watcher: Option<Arc<dyn GroupWatcher>>) -> Self {
        if let Some(watcher) = &watcher {
            // A watcher that panics must not end the thread that all children hang on.
            let _ = catch_unwind(AssertUnwindSafe(|| watcher.started(number(pid))));
        }
        Self { pid, reaped: false, watcher }
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
        self.reaped = true;
        collect(self.pid)
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
        if !self.reaped {
            self.signal(Signal::KILL);
            self.tell_end();
            reap(self.pid);
        }
    }
}

/// Starts a program as the leader of a new process group that dies with us.
pub(super) async fn spawn(launch: Launch, watcher: Option<Arc<dyn GroupWatcher>>) -> io::Result<Leader> {
    static THREADS: [OnceLock<mpsc::Sender<Job>>; SPAWNERS] = [const { OnceLock::new() }; SPAWNERS];
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let cell = &THREADS[NEXT.fetch_add(1, Ordering::Relaxed) % SPAWNERS];
    let (answer, spawned) = oneshot::channel();
    let jobs = thread(cell, "wharf-spawner", SPAWNS, |job: Job| {
        let started = start(&job.launch).map(|pid| Leader::new(pid, job.watcher));
        // If whoever asked is gone, the leader is dropped on its way and so killed.
        let _ = job.answer.send(started);
    })?;
    let gone = || io::Error::other("the spawning thread has ended");
    jobs.send(Job { launch, watcher, answer }).await.map_err(|_| gone())?;
    spawned.await.map_err(|_| gone())?
}

/// Collects a process that has been killed, so that it does not stay a zombie.
fn reap(pid: Pid) {
    static REAPER: OnceLock<mpsc::Sender<Pid>> = OnceLock::new();
    let reaper = thread(&REAPER, "wharf-reaper", REAPS, |pid: Pid| {
        collect(pid);
    });
    // Without the thread, or with too many before it, the process stays a zombie until we end; it runs no more.
    if let Ok(reaper) = reaper {
        let _ = reaper.try_send(pid);
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

/// Waits for a process that has ended, or is about to, and so lets its id go.
fn collect(pid: Pid) -> Exit {
    match retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty())) {
        Ok(Some((_, status))) => Exit::from(ExitStatus::from_raw(status.as_raw())),
        _ => Exit::Unknown,
    }
}

/// Where there is no parent-death signal, the system's own way is as good as any.
#[cfg(not(target_os = "linux"))]
fn start(launch: &Launch) -> io::Result<Pid> {
    use std::os::unix::process::CommandExt as _;
    let [input, output, errors] = &launch.streams;
    let mut command = std::process::Command::new(&launch.program);
    if let Some((name, arguments)) = launch.arguments.split_first() {
        command.arg0(name).args(arguments);
    }
    command.env_clear().envs(launch.environment.iter().map(|(name, value)| (name, value))).process_group(0);
    command.stdin(input.try_clone()?).stdout(output.try_clone()?).stderr(errors.try_clone()?);
    if let Some(cwd) = &launch.cwd {
        command.current_dir(cwd);
    }
    Ok(Pid::from_child(&command.spawn()?))
}
