//! Client authentication with a key instead of a secret (`private_key_jwt`, RFC 7523).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::json;
use wharf_io::unix_now;
use wharf_protocol::Secret;

use crate::error::OAuthError;
use crate::random::{base64url, random_text};

/// Lifetime of an assertion in seconds.
const LIFETIME: u64 = 300;

/// The private key of a client.
#[derive(Debug)]
pub struct SigningKey {
    pair: Pair,
    /// The key ID (`kid`) that the authorization server knows.
    id: Option<String>,
}

enum Pair {
    Ecdsa(Box<EcdsaKeyPair>),
    Rsa(Box<RsaKeyPair>),
}

/// Omits the key.
impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.algorithm())
    }
}

impl SigningKey {
    /// Parses a P-256 or RSA key in PEM (PKCS #8, starting with `BEGIN PRIVATE KEY`).
    ///
    /// # Errors
    /// Returns [`OAuthError::NoKey`] if the key is invalid.
    pub fn from_pem(pem: &Secret, id: Option<String>) -> Result<Self, OAuthError> {
        let lines = pem.expose().lines().map(str::trim);
        let inside = lines.skip_while(|line| *line != "-----BEGIN PRIVATE KEY-----").skip(1);
        let text: String = inside.take_while(|line| !line.starts_with("-----END")).collect();
        let der = STANDARD.decode(text).ok().filter(|der| !der.is_empty()).ok_or(OAuthError::NoKey)?;
        let random = SystemRandom::new();
        let ecdsa = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random);
        let pair = ecdsa.map(|pair| Pair::Ecdsa(Box::new(pair)));
        let pair = pair.or_else(|_| RsaKeyPair::from_pkcs8(&der).map(|pair| Pair::Rsa(Box::new(pair))));
        Ok(Self { pair: pair.map_err(|_| OAuthError::NoKey)?, id })
    }

    /// Returns a signed assertion that identifies the client to `audience`.
    pub(super) fn assertion(&self, client: &str, audience: &str) -> Result<Secret, OAuthError> {
        let mut head = json!({ "alg": self.pair.algorithm(), "typ": "JWT" });
        if let Some(id) = &self.id {
            head["kid"] = json!(id);
        }
        let now = unix_now();
        let claims = json!({
            "iss": client,
            "sub": client,
            "aud": audience,
            "iat": now,
            "exp": now + LIFETIME,
            "jti": random_text()?.expose(),
        });
        let signed = format!("{}.{}", base64url(head.to_string().as_bytes()), base64url(claims.to_string().as_bytes()));
        let signature = self.pair.sign(signed.as_bytes())?;
        Ok(Secret::new(format!("{signed}.{}", base64url(&signature))))
    }
}

impl Pair {
    fn algorithm(&self) -> &'static str {
        match self {
            Self::Ecdsa(_) => "ES256",
            Self::Rsa(_) => "RS256",
        }
    }

    fn sign(&self, text: &[u8]) -> Result<Vec<u8>, OAuthError> {
        let random = SystemRandom::new();
        match self {
            Self::Ecdsa(pair) => {
                let signature = pair.sign(&random, text).map_err(|_| OAuthError::NoRandomness)?;
                Ok(signature.as_ref().to_vec())
            }
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature).map_err(|_| OAuthError::NoRandomness)?;
                Ok(signature)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use ring::signature::{ECDSA_P256_SHA256_FIXED, KeyPair as _, UnparsedPublicKey};
    use serde_json::Value;

    use super::*;

    #[test]
    fn an_assertion_identifies_the_client_and_has_a_valid_signature() {
        let generated = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(&generated));
        let key = SigningKey::from_pem(&Secret::new(pem), Some("k1".to_owned())).unwrap();
        let one = key.assertion("me", "https://as").unwrap();
        let other = key.assertion("me", "https://as").unwrap();
        assert_ne!(one, other, "assertions must be unique to prevent replay");
        let (signed, signature) = one.expose().rsplit_once('.').unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, generated.as_ref(), &SystemRandom::new())
            .unwrap();
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref());
        public.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
        let parts = signed.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).unwrap());
        let parts: Vec<Value> = parts.map(|part| serde_json::from_slice(&part).unwrap()).collect();
        assert_eq!(parts[0], json!({"alg": "ES256", "typ": "JWT", "kid": "k1"}));
        assert_eq!(
            (&parts[1]["iss"], &parts[1]["sub"], &parts[1]["aud"]),
            (&json!("me"), &json!("me"), &json!("https://as"))
        );
        assert_eq!(parts[1]["exp"].as_u64().unwrap() - parts[1]["iat"].as_u64().unwrap(), LIFETIME);
        assert_eq!(format!("{key:?}"), "SigningKey { pair: ES256, id: Some(\"k1\") }");
    }

    #[test]
    fn an_invalid_key_is_an_error() {
        for pem in [
            "",
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
            "-----BEGIN EC PRIVATE KEY-----\nAAAA\n",
        ] {
            assert!(matches!(SigningKey::from_pem(&Secret::new(pem), None), Err(OAuthError::NoKey)), "{pem}");
        }
    }
}
