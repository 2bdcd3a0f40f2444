//! Recognizes fields of a server's form that ask for a secret: passwords, tokens, keys, codes and card numbers.
//!
//! A server that needs a secret has other ways to get one, such as its environment or a sign-in page. A form that asks
//! for one is likely a trick. `wharf::config` knows which words name a secret.

use serde_json::Value;
use wharf::config::{is_secret_text, names_secret};

/// Whether a field asks for a secret, by its name, title, description or format. Its type does not matter: the server
/// chooses it, and the user does not see it.
pub(super) fn is_secret(name: &str, field: &Value) -> bool {
    if field["format"] == "password" || field["writeOnly"] == true {
        return true;
    }
    // A field with few values holds no PIN, whatever its description mentions.
    let describes_secret = if has_few_values(field) { is_secret_text } else { names_secret };
    let texts = [Some(name), field["title"].as_str()];
    texts.into_iter().flatten().any(names_secret) || field["description"].as_str().is_some_and(describes_secret)
}

/// Whether a field accepts few values: yes or no, or a number in a small range.
fn has_few_values(field: &Value) -> bool {
    const MAX_RANGE: f64 = 1_000.0;
    let is_number = field["type"] == "integer" || field["type"] == "number";
    let range = field["minimum"].as_f64().zip(field["maximum"].as_f64()).map(|(least, most)| most - least);
    field["type"] == "boolean" || is_number && range.is_some_and(|range| range < MAX_RANGE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wharf::config::is_secret_message;

    use super::*;

    #[test]
    fn a_field_with_few_values_holds_no_pin() {
        let field = |field: Value| is_secret("pinned", &field);
        assert!(!field(json!({"type": "boolean", "description": "Pin the message"})));
        let number = "Your favorite integer (not your pin)";
        assert!(!field(json!({"type": "integer", "minimum": 1, "maximum": 100, "description": number})));
        assert!(field(json!({"type": "integer", "minimum": 1000, "maximum": 9999, "description": "Your pin"})));
        assert!(field(json!({"type": "integer", "description": "Your pin"})));
    }

    #[test]
    fn fields_that_ask_for_secrets_are_recognized() {
        for name in [
            "password",
            "userPassword2",
            "mypasswd",
            "pass_phrase",
            "PIN",
            "cvv",
            "apiKey",
            "API_KEY",
            "OPENAI_API_KEY",
            "accessToken",
            "authtoken",
            "client-secret",
            "cardNumber",
            "card number",
            "pаssword",
            "ｐａｓｓｗｏｒｄ",
            "pass\u{200b}word",
            "seedPhrase",
            "Credentials",
            "Your API keys",
            "Anthropic key",
            "Key",
            "2FA code",
            "6-digit code",
            "one-time code",
            "Bearer tokens",
            "access tokens",
            "pa\u{301}ssword",
            "p4ssword",
            "P@55w0rd",
            "t0ken",
            "p a s s w o r d",
            "p-i-n",
            "GitHub PAT",
            "Mot de passe",
            "Contraseña",
            "Kennwort",
            "Senha",
            "пароль",
            "密码",
            "パスワード",
            "비밀번호",
            "secretkey",
            "awssecretkey",
            "sshkey",
            "privatekey",
            "accesskey",
            "creds",
            "dbCreds",
            "JWT",
            "Session cookie",
            "id_rsa",
            "id_ed25519",
            "masterkey",
            "passkey",
            "pincode",
            "apitokens",
            "seedphrase",
            "verificationcode",
            "pass\u{2065}word",
            "pаsspℏrase",
            "passpɦrase",
            "passpᏂrase",
            "pꭵncode",
            "s℮cret",
        ] {
            assert!(is_secret(name, &json!({"type": "string"})), "{name}");
            assert!(is_secret("x", &json!({"type": "string", "title": name})), "{name}");
            assert!(is_secret("x", &json!({"description": format!("Enter your {name}, please")})), "{name}");
            for kind in ["boolean", "integer", "array", "object", "null", "unknown"] {
                assert!(is_secret("x", &json!({"type": kind, "title": name})), "{name} {kind}");
            }
        }
        assert!(is_secret("x", &json!({"type": "string", "format": "password"})));
        assert!(is_secret("pin", &json!({"type": "integer"})));
        assert!(is_secret("x", &json!({"type": ["number", "null"], "title": "Card number"})));
    }

    #[test]
    fn ordinary_fields_are_not_secrets() {
        for name in ["city", "spinner", "tokenizer", "secretary", "pinned", "keyboard", "path", "passenger", "card"] {
            assert!(!is_secret(name, &json!({"type": "string", "title": name})), "{name}");
        }
        for name in [
            "monkey",
            "primary key",
            "issueKey",
            "Key points",
            "country code",
            "zip_code",
            "source code",
            "x y z",
            "patient",
            "address1",
            "sacred",
            "cookie",
            "desenhar",
        ] {
            assert!(!is_secret(name, &json!({"type": "string", "title": name})), "{name}");
        }
        assert!(!is_secret("max_tokens", &json!({"type": "integer", "description": "How many tokens"})));
    }

    #[test]
    fn messages_that_ask_for_secrets_are_recognized() {
        for message in ["Paste your Anthropic key", "What is your 2FA code?", "Your p a s s w o r d, please"] {
            assert!(is_secret_message(message), "{message}");
        }
        for message in ["Which key comes first?", "Press any key", "Sort by the primary key?", "Pin this tab?"] {
            assert!(!is_secret_message(message), "{message}");
        }
    }
}
