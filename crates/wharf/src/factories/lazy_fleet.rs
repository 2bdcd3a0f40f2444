//! A fleet that opens when it is first used, and can be ended for all who share it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wharf_fleet::{Fleet, FleetOptions, ServerSpec};

/// A fleet of servers on demand. Opening needs a Tokio runtime, and clients can be created without one.
pub(super) struct LazyFleet(Mutex<State>);

enum State {
    Unopened(Vec<ServerSpec>, Box<FleetOptions>),
    Open(Fleet),
    Ended,
}

impl LazyFleet {
    pub(super) fn new(servers: Vec<ServerSpec>, options: FleetOptions) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State::Unopened(servers, Box::new(options)))))
    }

    /// Opens the fleet if necessary; `None` if it has ended. Must be called inside a runtime.
    pub(super) fn open(&self) -> Option<Fleet> {
        let mut state = self.state();
        if let State::Unopened(servers, options) = &mut *state {
            let fleet = Fleet::open(std::mem::take(servers), (**options).clone());
            *state = State::Open(fleet);
        }
        match &*state {
            State::Open(fleet) => Some(fleet.clone()),
            State::Unopened(..) | State::Ended => None,
        }
    }

    /// Returns the fleet if it is open.
    pub(super) fn get(&self) -> Option<Fleet> {
        match &*self.state() {
            State::Open(fleet) => Some(fleet.clone()),
            State::Unopened(..) | State::Ended => None,
        }
    }

    /// Ends the fleet. Calls in flight continue.
    pub(super) fn end(&self) {
        *self.state() = State::Ended;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
