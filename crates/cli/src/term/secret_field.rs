//! Recognizes fields of a server's form that ask for a secret: passwords, tokens, keys, codes and card numbers.
//!
//! A server that needs a secret has other ways to get one, such as its environment or a sign-in page. A form that asks
//! for one is likely a trick.

use serde_json::Value;

/// Words that name a secret wherever they stand, also inside of another word.
const PARTS: [&str; 7] = ["password", "passwd", "passphrase", "passcode", "apikey", "credential", "passwort"];
/// Words that name a secret as a word, or as the end of one (`clienttoken`).
const ENDINGS: [&str; 2] = ["token", "secret"];
/// Short words that name a secret as a word only.
const WORDS: [&str; 3] = ["pwd", "secrets", "mnemonic"];
/// Words for secrets that are numbers.
const NUMBERS: [&str; 7] = ["pin", "otp", "cvv", "cvc", "csc", "ssn", "iban"];
/// Several words that name a secret.
const PHRASES: [&[&str]; 12] = [
    &["api", "key"],
    &["access", "key"],
    &["private", "key"],
    &["secret", "key"],
    &["signing", "key"],
    &["ssh", "key"],
    &["pass", "word"],
    &["pass", "phrase"],
    &["seed", "phrase"],
    &["recovery", "phrase"],
    &["recovery", "code"],
    &["social", "security"],
];
/// Several words that name a secret which is a number.
const NUMBER_PHRASES: [&[&str]; 6] = [
    &["card", "number"],
    &["credit", "card"],
    &["security", "code"],
    &["verification", "code"],
    &["one", "time", "code"],
    &["account", "number"],
];
/// Letters of other alphabets, and the ASCII letters that they look like.
const LOOK_ALIKES: (&str, &str) = ("аеіїјкморсԁтухѕαεικορτυχ", "aeiijkmopcdtyxsaeikoptux");

/// Whether a field asks for a secret, by its name, title, description or format. Its type does not matter: the server
/// chooses it, and the user does not see it.
pub(super) fn is_secret(name: &str, field: &Value) -> bool {
    if field["format"] == "password" || field["writeOnly"] == true {
        return true;
    }
    let texts = [Some(name), field["title"].as_str(), field["description"].as_str()];
    texts.into_iter().flatten().any(names_secret)
}

/// Whether a message asks for a secret. All fields are meant for it then. Short words such as "pin" are too common in
/// messages.
pub(super) fn is_secret_message(message: &str) -> bool {
    let words = words(message);
    names_text_secret(&words) || has_phrase(&words, &NUMBER_PHRASES)
}

fn names_secret(text: &str) -> bool {
    let words = words(text);
    let is_number = words.iter().any(|word| NUMBERS.contains(&word.as_str())) || has_phrase(&words, &NUMBER_PHRASES);
    is_number || names_text_secret(&words)
}

fn names_text_secret(words: &[String]) -> bool {
    let is_name = |word: &String| {
        PARTS.iter().any(|part| word.contains(part))
            || ENDINGS.iter().any(|ending| word.ends_with(ending))
            || WORDS.contains(&word.as_str())
    };
    words.iter().any(is_name) || has_phrase(words, &PHRASES)
}

fn has_phrase(words: &[String], phrases: &[&[&str]]) -> bool {
    phrases.iter().any(|phrase| words.windows(phrase.len()).any(|some| some == *phrase))
}

/// Splits a text into lowercase words, also between `camelCase` humps and before digits.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    let mut letters = text.chars().filter_map(folded).peekable();
    while let Some(letter) = letters.next() {
        let is_hump = before.is_lowercase() && letter.is_uppercase();
        let ends_acronym =
            before.is_uppercase() && letter.is_uppercase() && letters.peek().is_some_and(|next| next.is_lowercase());
        if !letter.is_alphabetic() || is_hump || ends_acronym {
            words.push(String::new());
        }
        if let (Some(word), true) = (words.last_mut(), letter.is_alphabetic()) {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the ASCII letter that a character looks like, or else the character; `None` for one that shows nothing.
fn folded(c: char) -> Option<char> {
    match c {
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}' => None,
        // Full-width forms have a fixed offset from ASCII.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0),
        c => {
            let (theirs, ours) = LOOK_ALIKES;
            let place = theirs.chars().position(|letter| letter == c);
            Some(place.and_then(|place| ours.chars().nth(place)).unwrap_or(c))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
        assert!(!is_secret("max_tokens", &json!({"type": "integer", "description": "How many tokens"})));
    }
}
