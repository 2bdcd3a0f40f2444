//! Checks proofs of possession (RFC 9449), and hands out nonces.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::config::DpopConfig;
use super::response::{Response, json_document, with_headers};
use super::state::Shared;
use crate::seen_request::SeenRequest;

/// How old a proof may be, in seconds.
const MAX_AGE: u64 = 300;

/// What a proof must contain.
struct Expected<'a> {
    token: Option<&'a str>,
    nonce: Option<&'a str>,
}

/// Why a proof is refused.
enum ProofError {
    Invalid(&'static str),
    Nonce,
}

/// Returns the thumbprint of the key that signed the proof of a token request.
pub(super) fn check_token_request(
    shared: &Shared,
    config: &DpopConfig,
    seen: &SeenRequest,
) -> Result<String, Box<Response>> {
    let nonce = config.issuer_nonce.as_deref();
    check(shared, seen, &Expected { token: None, nonce }).map_err(|error| match error {
        ProofError::Invalid(reason) => {
            Box::new(json_document(400, &json!({"error": "invalid_dpop_proof", "error_description": reason})))
        }
        ProofError::Nonce => {
            let mut response = json_document(400, &json!({"error": "use_dpop_nonce"}));
            set_nonce(&mut response, nonce);
            Box::new(response)
        }
    })
}

/// Returns the thumbprint of the key that signed the proof of a request to the MCP server.
pub(super) fn check_request(
    shared: &Shared,
    config: &DpopConfig,
    seen: &SeenRequest,
    token: &str,
) -> Result<String, Box<Response>> {
    let nonce = server_nonce(shared, config);
    let checked = check(shared, seen, &Expected { token: Some(token), nonce: nonce.as_deref() });
    if checked.is_ok() {
        shared.grants().used_nonces += 1;
    }
    checked.map_err(|error| {
        let code = match error {
            ProofError::Invalid(reason) => format!(r#"DPoP error="invalid_dpop_proof", error_description="{reason}""#),
            ProofError::Nonce => r#"DPoP error="use_dpop_nonce""#.to_owned(),
        };
        Box::new(with_headers(401, &[("www-authenticate", &code)], String::new()))
    })
}

/// Adds the nonce of the next request to a response of the MCP server.
pub(super) fn add_nonce(shared: &Shared, config: Option<&DpopConfig>, response: &mut Response) {
    set_nonce(response, config.and_then(|config| server_nonce(shared, config)).as_deref());
}

fn server_nonce(shared: &Shared, config: &DpopConfig) -> Option<String> {
    let nonce = config.server_nonce.as_ref()?;
    Some(if config.rotates_nonces { format!("{nonce}-{}", shared.grants().used_nonces) } else { nonce.clone() })
}

fn set_nonce(response: &mut Response, nonce: Option<&str>) {
    if let Some(nonce) = nonce.and_then(|nonce| nonce.parse().ok()) {
        response.headers_mut().insert("dpop-nonce", nonce);
    }
}

fn check(shared: &Shared, seen: &SeenRequest, expected: &Expected<'_>) -> Result<String, ProofError> {
    let mut proofs = seen.headers.get_all("dpop").iter();
    let (Some(proof), None) = (proofs.next().and_then(|proof| proof.to_str().ok()), proofs.next()) else {
        return Err(ProofError::Invalid("expected one proof"));
    };
    let malformed = ProofError::Invalid("malformed proof");
    let Some((signed, signature)) = proof.rsplit_once('.') else { return Err(malformed) };
    let Some((head, claims)) = signed.split_once('.') else { return Err(malformed) };
    let (Some(head), Some(claims)) = (decode(head), decode(claims)) else { return Err(malformed) };
    let key = &head["jwk"];
    if head["typ"] != "dpop+jwt" || head["alg"] != "ES256" || key["kty"] != "EC" || !key["d"].is_null() {
        return Err(ProofError::Invalid("wrong header"));
    }
    let (x, y) = (key["x"].as_str().unwrap_or_default(), key["y"].as_str().unwrap_or_default());
    let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
    let point = [vec![4], bytes(x), bytes(y)].concat();
    let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
    if public.verify(signed.as_bytes(), &bytes(signature)).is_err() {
        return Err(ProofError::Invalid("wrong signature"));
    }
    let path = seen.path.split('?').next().unwrap_or_default();
    if claims["htm"] != seen.method.as_str() || claims["htu"] != format!("{}{path}", shared.origin) {
        return Err(ProofError::Invalid("proof of another request"));
    }
    if claims["iat"].as_u64().is_none_or(|at| at.abs_diff(unix_now()) > MAX_AGE) {
        return Err(ProofError::Invalid("old proof"));
    }
    let digest = expected.token.map(|token| URL_SAFE_NO_PAD.encode(Sha256::digest(token)));
    if claims["ath"].as_str() != digest.as_deref() {
        return Err(ProofError::Invalid("proof for another token"));
    }
    let id = claims["jti"].as_str().unwrap_or_default();
    if id.is_empty() || !shared.grants().proofs.insert(id.to_owned()) {
        return Err(ProofError::Invalid("repeated proof"));
    }
    if expected.nonce.is_some() && claims["nonce"].as_str() != expected.nonce {
        return Err(ProofError::Nonce);
    }
    let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
    Ok(URL_SAFE_NO_PAD.encode(Sha256::digest(canonical)))
}

fn decode(part: &str) -> Option<Value> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

#[expect(clippy::disallowed_methods, reason = "proofs contain the wall clock")]
fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
