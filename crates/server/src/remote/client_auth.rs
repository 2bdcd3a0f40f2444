//! Which clients may send requests.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};

use super::reply::{self, Reply};

/// Which clients may send requests.
#[derive(Clone, Debug, Default)]
pub enum ClientAuth {
    /// Every client on this machine. Only loopback addresses can be bound.
    #[default]
    Local,
    /// Clients with a valid bearer token.
    Bearer(TokenCheck),
    /// Every client that reaches the address. For servers behind a proxy that authenticates, or in a network of trusted
    /// machines.
    Anyone,
}

/// Decides whether a bearer token is valid.
#[derive(Clone)]
pub struct TokenCheck(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl TokenCheck {
    /// Creates a check from a function of the token. It runs for every request.
    pub fn new(is_valid: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_valid))
    }

    /// Creates a check for one token. The time of the comparison does not depend on where a wrong token differs.
    pub fn token(expected: impl Into<String>) -> Self {
        let expected: String = expected.into();
        Self::new(move |token| !expected.is_empty() && is_equal(expected.as_bytes(), token.as_bytes()))
    }
}

impl fmt::Debug for TokenCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenCheck")
    }
}

impl ClientAuth {
    /// Fails with the response if a request is not authorized.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), Box<Reply>> {
        let Self::Bearer(TokenCheck(is_valid)) = self else { return Ok(()) };
        if bearer(headers).is_some_and(|token| is_valid(token)) {
            return Ok(());
        }
        let mut reply = reply::plain(StatusCode::UNAUTHORIZED, "Unauthorized");
        reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        Err(Box::new(reply))
    }
}

/// Returns the only bearer token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Compares without an early return.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |different, (one, other)| different | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(auth: &ClientAuth, values: &[&str]) -> bool {
        let headers = values.iter().map(|value| (AUTHORIZATION, value.parse().unwrap()));
        auth.check(&headers.collect()).is_ok()
    }

    #[test]
    fn only_the_token_is_accepted() {
        let auth = ClientAuth::Bearer(TokenCheck::token("s3cret"));
        assert!(is_allowed(&auth, &["Bearer s3cret"]) && is_allowed(&auth, &["bearer s3cret"]));
        for values in [
            &[][..],
            &["Bearer s3cre"],
            &["Bearer s3cret1"],
            &["Bearer "],
            &["Basic s3cret"],
            &["s3cret"],
            &["Bearer s3cret", "Bearer s3cret"],
        ] {
            assert!(!is_allowed(&auth, values), "{values:?}");
        }
        assert!(!is_allowed(&ClientAuth::Bearer(TokenCheck::token("")), &["Bearer "]));
        assert!(is_allowed(&ClientAuth::Local, &[]) && is_allowed(&ClientAuth::Anyone, &[]));
        assert_eq!(format!("{auth:?}"), "Bearer(TokenCheck)");
    }
}
