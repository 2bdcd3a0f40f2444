//! Values that look like plaintext secrets.

use crate::secret_names::names_credential;

/// Returns whether the value of a variable or header looks like a plaintext secret.
pub fn looks_secret(name: &str, value: &str) -> bool {
    const PREFIXES: [&str; 14] = [
        "sk-",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "xoxp-",
        "AKIA",
        "AIza",
        "eyJ",
        "npm_",
        "hf_",
    ];
    let value = value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("Basic ")).unwrap_or(value).trim();
    if value.is_empty() || value.contains("${") {
        return false;
    }
    if PREFIXES.iter().any(|prefix| value.starts_with(prefix)) && value.len() >= 16 {
        return true;
    }
    // A path or a short word is not a secret, whatever its name.
    names_credential(name) && value.len() >= 8 && !value.starts_with(['/', '.', '~'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plaintext_secrets_are_detected() {
        assert!(looks_secret("GITHUB_TOKEN", "abcdefghij"));
        assert!(looks_secret("Authorization", "Bearer sk-12345678901234567890"));
        assert!(looks_secret("X-Api-Key", "0123456789"));
        assert!(!looks_secret("GITHUB_TOKEN", "${GITHUB_TOKEN}"));
        assert!(!looks_secret("TOKEN_FILE", "/run/secrets/token"));
        assert!(!looks_secret("MODE", "production"));
        assert!(!looks_secret("MONKEY", "bananabanana"));
    }
}
