//! Protection of this process from its own children. Applies to the guard and the demo server too.

use wharf::close_descriptors_on_exec;

/// Denies other processes of the user access to the memory and the environment of this one, and passes no inherited
/// descriptor on.
///
/// The environment holds API keys. Without this, a server could read it in `/proc`, although the server does not get it.
/// Processes with capabilities such as `CAP_SYS_PTRACE` still can.
pub(crate) fn harden() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // An error is impossible: the value is valid.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
    close_descriptors_on_exec();
}

/// Lets a write over the limit of file sizes (`ulimit -f`) fail, as on a full disk, instead of ending the process: a run
/// that cannot be saved stops in order. Needs a runtime.
pub(crate) fn survive_file_size_limit() {
    let signal = rustix::process::Signal::XFSZ.as_raw();
    // The handler stays after its receiver is gone. Children get the default again.
    let _ = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(signal));
}
