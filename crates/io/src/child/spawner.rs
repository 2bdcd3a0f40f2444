//! The threads that spawn and reap child processes.
//!
//! On Linux the parent-death signal is sent when the *thread* that spawned a child ends. Worker threads of a runtime
//! come and go, so all children are spawned from threads that live as long as the process. Several threads exist because
//! a spawn blocks until the new program is loaded.

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

use super::exit::Exit;
use super::launch::Launch;
use super::spec::GroupWatcher;
#[cfg(target_os = "linux")]
use super::start::start;

/// Number of spawning threads: as many servers as a host usually starts at a time.
const SPAWNERS: usize = 3;
/// Capacity of the queue of a spawning thread.
const SPAWN_QUEUE: usize = 64;
/// Capacity of the queue of killed processes to reap.
const REAP_QUEUE: usize = 1024;

struct Job {
    launch: Launch,
    watcher: Option<Arc<dyn GroupWatcher>>,
    result: oneshot::Sender<io::Result<Leader>>,
}

/// The unreaped leader of a process group. Dropping it kills the group.
pub(super) struct Leader {
    pub(super) pid: Pid,
    reaped: bool,
    watcher: Option<Arc<dyn GroupWatcher>>,
}

impl Leader {
    fn new(pid: Pid, watcher: Option<Arc<dyn GroupWatcher>>) -> Self {
        if let Some(watcher) = &watcher {
            // A panicking watcher must not end the thread that all children depend on.
            let _ = catch_unwind(AssertUnwindSafe(|| watcher.started(number(pid))));
        }
        Self { pid, reaped: false, watcher }
    }

    /// Sends a signal to every process of the group.
    pub(super) fn signal(&self, signal: Signal) {
        // An error means that the group has no processes left.
        let _ = kill_process_group(self.pid, signal);
    }

    /// Kills the rest of the group and reaps the leader, which has ended.
    pub(super) fn sweep(mut self) -> Exit {
        self.signal(Signal::KILL);
        // Notifies before reaping, while the id cannot be reused.
        self.notify_end();
        self.reaped = true;
        collect(self.pid)
    }

    fn notify_end(&self) {
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

/// Returns a process id as a number.
pub(super) fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

impl Drop for Leader {
    fn drop(&mut self) {
        if !self.reaped {
            self.signal(Signal::KILL);
            self.notify_end();
            reap(self.pid);
        }
    }
}

/// Starts a program as the leader of a new process group that dies with this process.
pub(super) async fn spawn(launch: Launch, watcher: Option<Arc<dyn GroupWatcher>>) -> io::Result<Leader> {
    static THREADS: [OnceLock<mpsc::Sender<Job>>; SPAWNERS] = [const { OnceLock::new() }; SPAWNERS];
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let cell = &THREADS[NEXT.fetch_add(1, Ordering::Relaxed) % SPAWNERS];
    let (result, spawned) = oneshot::channel();
    let jobs = thread(cell, "wharf-spawner", SPAWN_QUEUE, |job: Job| {
        let started = start(&job.launch).map(|pid| Leader::new(pid, job.watcher));
        // If the caller is gone, this drops the leader and kills the group.
        let _ = job.result.send(started);
    })?;
    let gone = || io::Error::other("the spawning thread has ended");
    jobs.send(Job { launch, watcher, result }).await.map_err(|_| gone())?;
    spawned.await.map_err(|_| gone())?
}

/// Reaps a killed process in the background, so that it does not stay a zombie.
fn reap(pid: Pid) {
    static REAPER: OnceLock<mpsc::Sender<Pid>> = OnceLock::new();
    let reaper = thread(&REAPER, "wharf-reaper", REAP_QUEUE, |pid: Pid| {
        collect(pid);
    });
    // Without the thread, or with a full queue, the killed process stays a zombie until this process ends.
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
    // If two threads race here, dropping the losing channel ends its thread.
    let work_on = move || {
        while let Some(job) = jobs.blocking_recv() {
            work(job);
        }
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(work_on)?;
    Ok(cell.get_or_init(|| sender))
}

/// Waits for a process that has ended, or is about to, which releases its id.
fn collect(pid: Pid) -> Exit {
    match retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty())) {
        Ok(Some((_, status))) => Exit::from(ExitStatus::from_raw(status.as_raw())),
        _ => Exit::Unknown,
    }
}

/// Starts a program with the standard library on systems without a parent-death signal.
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
