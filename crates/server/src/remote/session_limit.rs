//! The maximum number of sessions, over all transports.

use std::sync::Arc;

use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::reply::{self, Reply};

/// When a refused client should try again, in seconds.
const RETRY_SECONDS: &str = "5";

/// Counts the sessions that are open, and those that are about to be.
pub(crate) struct SessionLimit {
    max: usize,
    /// A permit per event stream and WebSocket, and per `initialize` of Streamable HTTP in flight.
    slots: Arc<Semaphore>,
}

impl SessionLimit {
    pub(crate) fn new(max: usize) -> Self {
        let max = max.min(Semaphore::MAX_PERMITS);
        Self { max, slots: Arc::new(Semaphore::new(max)) }
    }

    /// Reserves a session while `others` exist besides the reserved ones. It is free again when the permit is dropped.
    /// Fails with the response for a client that has to wait.
    pub(crate) fn reserve(&self, others: usize) -> Result<OwnedSemaphorePermit, Box<Reply>> {
        match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(permit) if self.max - self.slots.available_permits() + others <= self.max => Ok(permit),
            _ => {
                let mut reply = reply::plain(StatusCode::SERVICE_UNAVAILABLE, "too many sessions");
                reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_SECONDS));
                Err(Box::new(reply))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_and_other_sessions_share_the_limit() {
        let limit = SessionLimit::new(2);
        let first = limit.reserve(1).unwrap();
        let refused = limit.reserve(1).unwrap_err();
        assert_eq!((refused.status().as_u16(), &refused.headers()[RETRY_AFTER]), (503, &"5".parse().unwrap()));
        drop(first);
        let first = limit.reserve(0).unwrap();
        let _second = limit.reserve(0).unwrap();
        assert!(limit.reserve(0).is_err());
        drop(first);
        assert!(limit.reserve(0).is_ok() && limit.reserve(1).is_err());
        assert!(SessionLimit::new(0).reserve(0).is_err());
    }
}
