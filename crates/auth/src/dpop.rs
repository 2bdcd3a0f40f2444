//! Sender-constrained tokens (`DPoP`, RFC 9449): a token is bound to a key, and every request proves possession of it.

mod nonces;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderName, HeaderValue, Method, Uri};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use wharf_io::address::{default_port, explicit_port};
use wharf_io::unix_now;
use wharf_protocol::Secret;

use crate::error::OAuthError;
use crate::random::{base64url, random_text};
pub(super) use nonces::Nonces;

/// The signature algorithm of all proofs.
pub(super) const ALGORITHM: &str = "ES256";
/// The error code of a server that requires a nonce in the proof.
pub(super) const USE_NONCE: &str = "use_dpop_nonce";
/// The header that carries the proof of a request.
pub(super) const PROOF: HeaderName = HeaderName::from_static("dpop");

/// The length of a coordinate of the curve, in bytes.
const COORDINATE_BYTES: usize = 32;

/// The key that the tokens of one sign-in are bound to.
pub(super) struct DpopKey {
    pair: EcdsaKeyPair,
    stored: Secret,
}

/// The request that a proof is for.
#[derive(Clone, Copy)]
pub(super) struct ProofTarget<'a> {
    pub(super) method: &'a Method,
    pub(super) url: &'a Uri,
    /// The access token that the request carries.
    pub(super) token: Option<&'a Secret>,
    /// The nonce that the server provided.
    pub(super) nonce: Option<&'a str>,
}

/// The key for token requests, and the nonces of authorization servers.
#[derive(Clone, Copy)]
pub(super) struct Binding<'a> {
    pub(super) key: &'a DpopKey,
    pub(super) nonces: &'a Nonces,
    /// Whether a token without a binding is refused.
    pub(super) is_required: bool,
}

impl DpopKey {
    /// Creates a key for a new sign-in.
    pub(super) fn generate() -> Result<Self, OAuthError> {
        let generated = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let generated = generated.map_err(|_| OAuthError::NoRandomness)?;
        Self::load(&Secret::new(base64url(generated.as_ref())))
    }

    /// Parses a key from its stored form.
    pub(super) fn load(stored: &Secret) -> Result<Self, OAuthError> {
        let der = URL_SAFE_NO_PAD.decode(stored.expose()).map_err(|_| OAuthError::InvalidDpopKey)?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &SystemRandom::new());
        Ok(Self { pair: pair.map_err(|_| OAuthError::InvalidDpopKey)?, stored: stored.clone() })
    }

    /// Returns the form in which the key is stored.
    pub(super) fn stored(&self) -> &Secret {
        &self.stored
    }

    /// Returns the thumbprint of the public key (RFC 7638), which binds an authorization code to it.
    pub(super) fn thumbprint(&self) -> String {
        let (x, y) = self.coordinates();
        // The members in the order that the thumbprint requires.
        let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        base64url(&Sha256::digest(canonical))
    }

    /// Returns a new proof for one request.
    pub(super) fn proof(&self, target: ProofTarget<'_>) -> Result<HeaderValue, OAuthError> {
        let head = json!({ "typ": "dpop+jwt", "alg": ALGORITHM, "jwk": self.public_key() });
        let mut claims = json!({
            "jti": random_text()?.expose(),
            "htm": target.method.as_str(),
            "htu": target_uri(target.url),
            "iat": unix_now(),
        });
        if let Some(token) = target.token {
            claims["ath"] = base64url(&Sha256::digest(token.expose())).into();
        }
        if let Some(nonce) = target.nonce {
            claims["nonce"] = nonce.into();
        }
        let signed = format!("{}.{}", base64url(head.to_string().as_bytes()), base64url(claims.to_string().as_bytes()));
        let signature =
            self.pair.sign(&SystemRandom::new(), signed.as_bytes()).map_err(|_| OAuthError::NoRandomness)?;
        let proof = HeaderValue::try_from(format!("{signed}.{}", base64url(signature.as_ref())));
        let mut proof = proof.map_err(|_| OAuthError::InvalidDpopKey)?;
        proof.set_sensitive(true);
        Ok(proof)
    }

    fn public_key(&self) -> Value {
        let (x, y) = self.coordinates();
        json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y })
    }

    /// Returns the coordinates of the public key, which is encoded as an uncompressed point.
    fn coordinates(&self) -> (String, String) {
        let point = self.pair.public_key().as_ref().get(1..).unwrap_or_default();
        let (x, y) = point.split_at(point.len().min(COORDINATE_BYTES));
        (base64url(x), base64url(y))
    }
}

/// Returns the URL of a request without query and fragment, as `htu` contains it. A web socket starts with an HTTP request.
fn target_uri(url: &Uri) -> String {
    let scheme = match url.scheme_str() {
        Some("ws" | "http") => "http",
        _ => "https",
    };
    let host = url.host().unwrap_or_default().to_ascii_lowercase();
    let port = explicit_port(url).ok().flatten().filter(|port| default_port(scheme) != Some(*port));
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    format!("{scheme}://{host}{port}{}", url.path())
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    fn decoded(part: &str) -> Value {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    fn proof(key: &DpopKey, url: &str, token: Option<&Secret>, nonce: Option<&str>) -> String {
        let target = ProofTarget { method: &Method::POST, url: &url.parse().unwrap(), token, nonce };
        key.proof(target).unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn a_proof_names_the_request_and_has_a_valid_signature() {
        let key = DpopKey::generate().unwrap();
        let token = Secret::new("t0k3n");
        let proof = proof(&key, "https://Mcp.example:443/mcp?a=b", Some(&token), Some("n-1"));
        let (signed, signature) = proof.rsplit_once('.').unwrap();
        let (head, claims) = signed.split_once('.').unwrap();
        let (head, claims) = (decoded(head), decoded(claims));
        assert_eq!((&head["typ"], &head["alg"]), (&json!("dpop+jwt"), &json!("ES256")));
        assert!(head["jwk"].get("d").is_none());
        assert_eq!((&claims["htm"], &claims["htu"]), (&json!("POST"), &json!("https://mcp.example/mcp")));
        assert_eq!(claims["nonce"], json!("n-1"));
        assert_eq!(claims["ath"], json!(base64url(&Sha256::digest("t0k3n"))));
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.pair.public_key().as_ref());
        public.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
    }

    #[test]
    fn every_proof_is_unique_and_a_stored_key_is_the_same_key() {
        let key = DpopKey::generate().unwrap();
        let url = "http://127.0.0.1:8000/token";
        assert_ne!(proof(&key, url, None, None), proof(&key, url, None, None));
        let claims = proof(&key, url, None, None);
        let claims = decoded(claims.split('.').nth(1).unwrap());
        assert!(claims.get("ath").is_none() && claims.get("nonce").is_none(), "{claims}");
        assert_eq!(DpopKey::load(key.stored()).unwrap().thumbprint(), key.thumbprint());
        assert_ne!(DpopKey::generate().unwrap().thumbprint(), key.thumbprint());
        for invalid in ["", "AAAA", "not base64!"] {
            let loaded = DpopKey::load(&Secret::new(invalid));
            assert!(matches!(loaded, Err(OAuthError::InvalidDpopKey)), "{invalid}");
        }
    }

    #[test]
    fn the_target_of_a_proof_is_the_http_url_without_its_query() {
        for (url, expected) in [
            ("https://A.example/Mcp?x#y", "https://a.example/Mcp"),
            ("http://a.example:80/mcp", "http://a.example/mcp"),
            ("http://[::1]:8000", "http://[::1]:8000/"),
            ("wss://a.example/ws", "https://a.example/ws"),
            ("ws://a.example:81/ws", "http://a.example:81/ws"),
        ] {
            assert_eq!(target_uri(&url.parse().unwrap()), expected, "{url}");
        }
    }
}
