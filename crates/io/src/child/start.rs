//! How a process is started on Linux: as `posix_spawn` does it, without a copy of our memory, and with the parent-death
//! signal, which `posix_spawn` does not know.
//!
//! A fork copies the tables of all our memory, and then every page that we write to before the child has become its
//! program. With many servers and a busy runtime that was most of the work of connecting. Here the child shares our
//! memory until it executes its program, and the thread that started it waits until then, so the child must leave
//! everything as it is: it makes system calls with what was put together before, and nothing else.

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

use super::launch::Launch;

/// What the child may use of its own stack, in units of 16 bytes: 64 KiB, and it needs a few hundred bytes.
const STACK: usize = 4 * 1024;

/// What the child needs, in the form in which the system takes it.
struct Needs {
    program: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    /// Null if it stays where we are.
    cwd: *const c_char,
    streams: [c_int; 3],
    parent: libc::pid_t,
    /// Why the program could not be executed.
    problem: AtomicI32,
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
    let (arguments, environment) = (ended(&arguments), ended(&environment));
    let needs = Needs {
        program: program.as_ptr(),
        arguments: arguments.as_ptr(),
        environment: environment.as_ptr(),
        cwd: cwd.as_ref().map_or(null(), |cwd| cwd.as_ptr()),
        streams: launch.streams.each_ref().map(AsRawFd::as_raw_fd),
        parent: Pid::as_raw(Some(rustix::process::getpid())),
        problem: AtomicI32::new(0),
    };
    let mut stack: Vec<MaybeUninit<u128>> = Vec::with_capacity(STACK);
    // SAFETY: everything `needs` points to lives until the end of this function, and because of CLONE_VFORK the child has
    // executed its program, or has ended, when `clone` returns. The stack grows down from its end, which is aligned.
    // No handler of ours runs in the child, since all signals are blocked until it has none any more.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(STACK).cast::<c_void>();
        let before = block_signals();
        let pid = libc::clone(
            child,
            top,
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            (&raw const needs).cast_mut().cast::<c_void>(),
        );
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut());
        // A negative number is none to rustix, which may panic over it; that would end the thread all children hang on.
        if pid < 0 {
            return Err(error);
        }
        Pid::from_raw(pid).ok_or(error)?
    };
    match needs.problem.load(Ordering::Relaxed) {
        0 => Ok(pid),
        problem => {
            let _ = waitpid(Some(pid), WaitOptions::empty());
            Err(io::Error::from_raw_os_error(problem))
        }
    }
}

/// A text as the system takes it. One with a zero in it would be another there.
fn text(text: &OsStr) -> io::Result<CString> {
    let zero = "a zero byte cannot be passed to a program";
    CString::new(text.as_bytes()).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, zero))
}

/// The addresses of some texts, with the one that ends such a list.
fn ended(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([null()]).collect()
}

/// Blocks all signals for this thread; what is returned is what was blocked before.
unsafe fn block_signals() -> libc::sigset_t {
    // SAFETY: both sets are ours, and the second is written before it is read.
    unsafe {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        libc::sigfillset(all.as_mut_ptr());
        libc::sigemptyset(before.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

/// The whole life of the child until it is another program.
extern "C" fn child(needs: *mut c_void) -> c_int {
    // SAFETY: the parent waits and has given us what is meant to be here.
    unsafe {
        let needs = &*needs.cast::<Needs>();
        if become_program(needs).is_none() {
            needs.problem.store(*libc::__errno_location(), Ordering::Relaxed);
        }
        libc::_exit(127)
    }
}

/// Becomes the program; `None`, with the reason in `errno`, if that is not possible.
///
/// Nothing here may allocate, lock or panic.
unsafe fn become_program(needs: &Needs) -> Option<()> {
    let done = |result: c_int| (result >= 0).then_some(());
    // SAFETY: all pointers are those of `start`, whose thread waits.
    unsafe {
        done(libc::setpgid(0, 0))?;
        done(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        // The parent may have died before the request was made.
        if libc::getppid() != needs.parent {
            *libc::__errno_location() = libc::ESRCH;
            return None;
        }
        forget_handlers();
        for (stream, target) in needs.streams.into_iter().zip(0..) {
            done(libc::dup2(stream, target))?;
        }
        if !needs.cwd.is_null() {
            done(libc::chdir(needs.cwd))?;
        }
        let mut none = MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), null_mut());
        done(libc::execve(needs.program, needs.arguments, needs.environment))
    }
}

/// From here on signals do what they usually do; what was ignored stays ignored, but for SIGPIPE, which Rust programs
/// ignore and others count on.
unsafe fn forget_handlers() {
    // SAFETY: the child has a table of handlers of its own. Signals that have none, or may have none, are refused.
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
