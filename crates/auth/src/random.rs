//! What nobody can guess: states, verifiers, and the challenges made of them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::{Digest as _, Sha256};
use wharf_protocol::Secret;

use super::OAuthError;

/// 256 bits of chance as text, which is what a state and a verifier need.
pub(super) fn random() -> Result<Secret, OAuthError> {
    let mut bytes = [0_u8; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| OAuthError::NoChance)?;
    Ok(Secret::new(encoded(&bytes)))
}

/// The challenge that goes with a verifier (S256).
pub(super) fn challenge(verifier: &Secret) -> String {
    encoded(&Sha256::digest(verifier.expose().as_bytes()))
}

pub(super) fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_that_of_the_standard() {
        let verifier = Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(challenge(&verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        let (one, other) = (random().unwrap(), random().unwrap());
        assert!(one != other && one.expose().len() == 43);
    }
}
