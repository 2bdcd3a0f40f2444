//! W3C trace context, which lets a server continue the caller's trace.

use serde::Serialize;

/// The W3C trace context of one call, sent in its `_meta`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceContext {
    traceparent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    baggage: Option<String>,
}

/// The error of parsing a `traceparent`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid traceparent `{0}`: expected a value like 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]
pub struct InvalidTraceParent(String);

impl TraceContext {
    /// Parses a `traceparent`: version, trace id, parent id and flags in lowercase hexadecimal.
    pub fn new(traceparent: &str) -> Result<Self, InvalidTraceParent> {
        let hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let parts: Vec<&str> = traceparent.split('-').collect();
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        let zero = |part: &&str| part.bytes().all(|byte| byte == b'0');
        let is_valid = lengths == [2, 32, 16, 2]
            && parts.iter().all(|part| hex(part))
            && parts[0] != "ff"
            && !parts[1..3].iter().any(zero);
        if !is_valid {
            return Err(InvalidTraceParent(traceparent.chars().take(100).collect()));
        }
        Ok(Self { traceparent: traceparent.to_owned(), tracestate: None, baggage: None })
    }

    /// Sets the `tracestate`.
    #[must_use]
    pub fn with_state(mut self, tracestate: &str) -> Self {
        self.tracestate = Some(tracestate.to_owned());
        self
    }

    /// Sets the `baggage`.
    #[must_use]
    pub fn with_baggage(mut self, baggage: &str) -> Self {
        self.baggage = Some(baggage.to_owned());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_traceparents_are_rejected() {
        assert!(TraceContext::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").is_ok());
        for other in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        ] {
            assert!(TraceContext::new(other).is_err(), "{other}");
        }
    }
}
