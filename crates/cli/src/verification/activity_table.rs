//! What happens in a run, for people: its rate, what is stuck, and its workers.

use wharf::verify::store::{RunActivity, RunState, RunSummary, WorkerStatus};

use crate::term;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// Returns the table of a run that is not finished.
pub(crate) fn of(run: &RunSummary, activity: &RunActivity) -> Option<String> {
    if run.state == RunState::Finished {
        return None;
    }
    let rate = activity.units_per_minute.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    let row = vec![
        run.progress.running.to_string(),
        activity.expired_leases.to_string(),
        rate,
        activity.eta_seconds.map_or_else(|| "-".to_owned(), duration),
        activity.stuck_units.to_string(),
        activity.priority.to_string(),
    ];
    let head = ["trials in flight", "expired", "units/min", "time left", "stuck units", "priority"];
    let mut text = term::table(&head, vec![row]);
    if activity.stuck_units > 0 && activity.stuck_reasons.is_empty() {
        text.push_str("\n\nstuck: no worker is running");
    }
    for reason in &activity.stuck_reasons {
        text.push_str("\n\nleft to other workers: ");
        text.push_str(reason);
    }
    Some(text)
}

/// Returns the table of workers, if any is registered.
pub(crate) fn of_workers(workers: &[WorkerStatus]) -> Option<String> {
    if workers.is_empty() {
        return None;
    }
    let row = |worker: &WorkerStatus| {
        vec![
            worker.host.clone(),
            worker.pid.to_string(),
            worker.version.clone(),
            worker.run.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            format!("{}/{}", worker.trials, worker.slots),
            format!("{} ago", duration(worker.seen_seconds_ago)),
            if worker.is_alive { "alive" } else { "lost" }.to_owned(),
        ]
    };
    let head = ["worker", "pid", "version", "run", "trials", "seen", "state"];
    Some(term::table(&head, workers.iter().map(row).collect()))
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..MINUTE => format!("{seconds} s"),
        MINUTE..HOUR => format!("{} min", seconds.div_ceil(MINUTE)),
        _ => format!("{} h {} min", seconds / HOUR, seconds % HOUR / MINUTE),
    }
}
