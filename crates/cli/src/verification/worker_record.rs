//! How this process is registered as a worker.

use wharf::verify::RunId;
use wharf::verify::store::WorkerRecord;

/// Returns the record of this process. `id` is unique among all processes.
pub(crate) fn of_this_process(id: String, slots: usize, run: Option<RunId>) -> WorkerRecord {
    WorkerRecord {
        id,
        host: host(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        slots: u32::try_from(slots).unwrap_or(u32::MAX),
        run,
    }
}

/// Returns the name of this machine.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
