//! Random values: `state`, the PKCE verifier and its challenge.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::{Digest as _, Sha256};
use wharf_protocol::Secret;

use crate::error::OAuthError;

/// Returns 256 random bits as text, for `state` and the PKCE verifier.
pub(super) fn random_text() -> Result<Secret, OAuthError> {
    let mut bytes = [0_u8; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| OAuthError::NoRandomness)?;
    Ok(Secret::new(base64url(&bytes)))
}

/// Returns the PKCE challenge of a verifier (S256).
pub(super) fn pkce_challenge(verifier: &Secret) -> String {
    base64url(&Sha256::digest(verifier.expose().as_bytes()))
}

/// Encodes bytes as base64url without padding.
pub(super) fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pkce_challenge_matches_the_rfc_example() {
        let verifier = Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(pkce_challenge(&verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        let one = random_text().unwrap();
        let other = random_text().unwrap();
        assert!(one != other && one.expose().len() == 43);
    }
}
