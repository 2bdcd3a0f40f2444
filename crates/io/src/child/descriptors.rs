//! Descriptors that children must not inherit.
//!
//! Everything that Wharf opens is closed when a child executes its program. What is left was inherited: an editor's socket,
//! a shell's redirection, a lock.

/// Marks all descriptors above the standard streams to be closed when a program is executed, for programs that are started
/// by other means than [`Child`](super::Child). Does nothing where the system does not support it.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no safe interface has this system call")]
pub fn close_descriptors_on_exec() {
    // SAFETY: closes nothing and changes no memory; a flag of the descriptors is set.
    unsafe {
        libc::syscall(libc::SYS_close_range, FIRST, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
}

/// Does nothing: only Linux has a system call for it.
#[cfg(not(target_os = "linux"))]
pub fn close_descriptors_on_exec() {}

/// The first descriptor after the standard streams.
#[cfg(target_os = "linux")]
const FIRST: u32 = 3;
/// How many descriptors are closed one by one on kernels before 5.9, which cannot close a range.
#[cfg(target_os = "linux")]
const MAX_CLOSED_SINGLY: libc::c_int = 65_536;

/// Closes all descriptors above the standard streams, in a new process before it executes its program.
///
/// # Safety
/// The caller must not share its table of descriptors, and must not use one of them afterwards. Only makes system calls, so
/// that it can run where nothing may allocate, lock or panic.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "closes descriptors of other owners, which only a new process may do")]
pub(super) unsafe fn close_inherited() {
    // SAFETY: as promised by the caller.
    unsafe {
        if libc::syscall(libc::SYS_close_range, FIRST, u32::MAX, 0) == 0 {
            return;
        }
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        let end = libc::c_int::try_from(limit.rlim_cur).unwrap_or(MAX_CLOSED_SINGLY).min(MAX_CLOSED_SINGLY);
        let mut descriptor = libc::STDERR_FILENO + 1;
        while descriptor < end {
            libc::close(descriptor);
            descriptor += 1;
        }
    }
}
