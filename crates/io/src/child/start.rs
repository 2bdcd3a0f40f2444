//! Starts a process on Linux like `posix_spawn`, without copying memory, but with the parent-death signal, which
//! `posix_spawn` does not support.
//!
//! A fork copies the page tables, and then every page that the parent writes to before the child executes its program.
//! With many servers and a busy runtime that was most of the work of connecting. Here the child shares the parent's
//! memory until it executes its program, and the spawning thread waits until then. Therefore the child must not modify
//! anything: it only makes system calls with prepared data.

#![expect(
    unsafe_code,
    reason = "no safe interface starts a process with a parent-death signal without copying this one"
)]

use std::ffi::{CString, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt as _;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, Ordering};

use libc::{c_char, c_int, c_void};
use rustix::process::{Pid, WaitOptions, waitpid};

use super::descriptors::close_inherited;
use super::launch::Launch;

/// Size of the child's stack in units of 16 bytes: 64 KiB, of which it needs a few hundred bytes.
const STACK_UNITS: usize = 4 * 1024;

/// The data for the child, in the form that the system calls accept.
struct ChildData {
    program: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    /// Null for the parent's directory.
    cwd: *const c_char,
    streams: [c_int; 3],
    parent: libc::pid_t,
    /// The `errno` if the program could not be executed.
    error: AtomicI32,
}

/// Starts a program as the leader of a new process group that dies with the thread that calls this.
pub(super) fn start(launch: &Launch) -> io::Result<Pid> {
    let program = text(launch.program.as_os_str())?;
    let arguments = launch.arguments.iter().map(|argument| text(argument)).collect::<io::Result<Vec<_>>>()?;
    let variables = launch.environment.iter().map(|(name, value)| {
        let mut variable = name.clone();
        variable.push("=");
        variable.push(value);
        text(&variable)
    });
    let environment = variables.collect::<io::Result<Vec<_>>>()?;
    let cwd = launch.cwd.as_ref().map(|cwd| text(cwd.as_os_str())).transpose()?;
    let arguments = null_terminated(&arguments);
    let environment = null_terminated(&environment);
    let data = ChildData {
        program: program.as_ptr(),
        arguments: arguments.as_ptr(),
        environment: environment.as_ptr(),
        cwd: cwd.as_ref().map_or(null(), |cwd| cwd.as_ptr()),
        streams: launch.streams.each_ref().map(AsRawFd::as_raw_fd),
        parent: Pid::as_raw(Some(rustix::process::getpid())),
        error: AtomicI32::new(0),
    };
    let mut stack: Vec<MaybeUninit<u128>> = Vec::with_capacity(STACK_UNITS);
    // SAFETY: everything `data` points to lives until the end of this function, and because of CLONE_VFORK the child has
    // executed its program, or has ended, when `clone` returns. The stack grows down from its end, which is aligned.
    // No signal handler runs in the child, since all signals are blocked until its handlers are reset.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(STACK_UNITS).cast::<c_void>();
        let before = block_signals();
        let pid = libc::clone(
            child,
            top,
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            (&raw const data).cast_mut().cast::<c_void>(),
        );
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut());
        // Rustix may panic on a negative id, which would end the thread that all children depend on.
        if pid < 0 {
            return Err(error);
        }
        Pid::from_raw(pid).ok_or(error)?
    };
    match data.error.load(Ordering::Relaxed) {
        0 => Ok(pid),
        errno => {
            let _ = waitpid(Some(pid), WaitOptions::empty());
            Err(io::Error::from_raw_os_error(errno))
        }
    }
}

/// Converts a text to a C string. Fails on a zero byte, which would truncate it.
fn text(text: &OsStr) -> io::Result<CString> {
    let zero = "a zero byte cannot be passed to a program";
    CString::new(text.as_bytes()).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, zero))
}

/// Returns a null-terminated array of pointers to the texts.
fn null_terminated(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([null()]).collect()
}

/// Blocks all signals for this thread and returns the previous mask.
unsafe fn block_signals() -> libc::sigset_t {
    // SAFETY: both sets are ours, and the second is written before it is read.
    unsafe {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::sigemptyset(before.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

/// The entry point of the child.
extern "C" fn child(data: *mut c_void) -> c_int {
    // SAFETY: the parent waits and has passed a valid pointer.
    unsafe {
        let data = &*data.cast::<ChildData>();
        if execute(data).is_none() {
            data.error.store(*libc::__errno_location(), Ordering::Relaxed);
        }
        libc::_exit(127)
    }
}

/// Executes the program; returns `None`, with the reason in `errno`, if that fails.
///
/// Nothing here may allocate, lock or panic.
unsafe fn execute(data: &ChildData) -> Option<()> {
    let done = |result: c_int| (result >= 0).then_some(());
    // SAFETY: all pointers come from `start`, whose thread waits.
    unsafe {
        done(libc::setpgid(0, 0))?;
        done(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        // The parent may have died before `prctl`.
        if libc::getppid() != data.parent {
            *libc::__errno_location() = libc::ESRCH;
            return None;
        }
        reset_handlers();
        for (stream, target) in data.streams.into_iter().zip(0..) {
            done(libc::dup2(stream, target))?;
        }
        // The table of descriptors is the child's own: CLONE_FILES is not set.
        close_inherited();
        if !data.cwd.is_null() {
            done(libc::chdir(data.cwd))?;
        }
        let mut none = MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), null_mut());
        done(libc::execve(data.program, data.arguments, data.environment))
    }
}

/// Resets signal handlers to their defaults. Ignored signals stay ignored, except SIGPIPE, which Rust programs ignore and
/// others rely on.
unsafe fn reset_handlers() {
    // SAFETY: the child has its own table of handlers. `sigaction` rejects signals that cannot have one.
    unsafe {
        for signal in 1..=64 {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            if libc::sigaction(signal, null(), &raw mut action) != 0 {
                continue;
            }
            let ignored = action.sa_sigaction == libc::SIG_IGN && signal != libc::SIGPIPE;
            if action.sa_sigaction != libc::SIG_DFL && !ignored {
                action = MaybeUninit::zeroed().assume_init();
                libc::sigaction(signal, &raw const action, null_mut());
            }
        }
    }
}
