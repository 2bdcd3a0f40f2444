//! Named places at which a test ends the process or makes a write fail. Without the feature `failpoints` they are empty.

/// A gap between two durable states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failpoint {
    /// Trials are claimed, and none has started.
    AfterClaim,
    /// The intent of a step is durable, and the step is not executed yet.
    AfterIntent,
    /// A step was executed, and its result is not recorded.
    BeforeResult,
    /// The result of a step is durable, and the next stage has not started.
    AfterResult,
    /// All steps of a unit are done, and its result is not recorded.
    BeforeFinalize,
    /// Results are written, and the counters of the run are not.
    BeforeCounters,
    /// A part of the tables exists.
    DuringMigration,
    /// A row and its blobs are written, and not committed.
    AfterBlobWrite,
    /// A transaction is durable, and its writers do not know.
    AfterCommit,
}

#[cfg(feature = "failpoints")]
mod armed {
    use std::sync::Mutex;

    use super::Failpoint;

    /// What happens at a failpoint.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Action {
        /// The process is killed, as by `kill -9`.
        Kill,
        /// The operation fails.
        Fail,
    }

    struct Armed {
        at: Failpoint,
        hits_before: u32,
        action: Action,
    }

    static ARMED: Mutex<Option<Armed>> = Mutex::new(None);

    /// Makes a failpoint act once, after it was passed `hits_before` times.
    pub fn arm(at: Failpoint, hits_before: u32, action: Action) {
        *ARMED.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(Armed { at, hits_before, action });
    }

    /// Passes a failpoint. Returns whether the operation must fail.
    pub(crate) fn hit(at: Failpoint) -> bool {
        let mut armed = ARMED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match armed.as_mut() {
            Some(point) if point.at == at && point.hits_before == 0 => {
                let action = point.action;
                *armed = None;
                if action == Action::Kill {
                    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
                    // The signal may arrive a moment later; nothing more must happen until then.
                    std::thread::sleep(std::time::Duration::from_secs(60));
                }
                true
            }
            Some(point) if point.at == at => {
                point.hits_before -= 1;
                false
            }
            _ => false,
        }
    }
}

#[cfg(feature = "failpoints")]
pub(crate) use armed::hit;
#[cfg(feature = "failpoints")]
pub use armed::{Action, arm};

/// Passes a failpoint. Returns whether the operation must fail: never, in this build.
#[cfg(not(feature = "failpoints"))]
pub(crate) fn hit(_at: Failpoint) -> bool {
    false
}
