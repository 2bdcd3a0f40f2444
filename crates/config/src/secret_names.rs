//! Which names and texts mean a secret: of variables, headers and options, of the fields of forms, and of messages.
//!
//! Texts are compared without accents and look-alikes, with digits read as the letters they replace (`p4ssword`), and with
//! letters that stand alone joined (`p a s s w o r d`).

use crate::folding::folded;

/// Parts of the names of settings that say that the value may be a secret. A value is redacted rather than shown by mistake.
const SETTING_PARTS: [&str; 12] =
    ["TOKEN", "SECRET", "PASS", "PWD", "KEY", "AUTH", "CRED", "COOKIE", "SESSION", "SIGNATURE", "MNEMONIC", "WEBHOOK"];
/// Words of the names of settings that say the same. As parts of other words they do not: `PINECONE_REGION`, `PATH`.
const SETTING_WORDS: [&str; 13] =
    ["PIN", "PINS", "PINCODE", "BANKPIN", "OTP", "TOTP", "MFA", "CVV", "CVC", "SSN", "PAT", "SEED", "SEEDPHRASE"];
/// Words of the names of settings whose value is certainly a secret, beside those that name one in any text.
const CREDENTIAL_SETTINGS: [&str; 2] = ["authorization", "cookie"];

/// Words that name a secret wherever they stand, also inside of another word.
const PARTS: [&str; 29] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "apikey",
    "secretkey",
    "privatekey",
    "accesskey",
    "sshkey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "passkey",
    "pincode",
    "apitoken",
    "seedphrase",
    "verificationcode",
    "credential",
    "passwort",
    "kennwort",
    "contraseña",
    "wachtwoord",
    "hasło",
    "пароль",
    "密码",
    "密碼",
    "パスワード",
    "비밀번호",
    "암호",
];
/// Words that name a secret as a word, or as the end of one (`clienttoken`).
const ENDINGS: [&str; 2] = ["token", "secret"];
/// Short words that name a secret as a word only.
const WORDS: [&str; 11] =
    ["pwd", "secrets", "mnemonic", "bearer", "senha", "cred", "creds", "jwt", "jwts", "sifre", "heslo"];
/// Words for secrets that are numbers, or that are too short to look for in messages.
const NUMBERS: [&str; 9] = ["pin", "otp", "totp", "cvv", "cvc", "csc", "ssn", "iban", "pat"];
/// Several words that name a secret. The last one may be a plural.
const PHRASES: [&[&str]; 18] = [
    &["pass", "word"],
    &["pass", "phrase"],
    &["pass", "code"],
    &["seed", "phrase"],
    &["recovery", "phrase"],
    &["social", "security"],
    &["mot", "de", "passe"],
    &["parola", "d", "ordine"],
    &["access", "token"],
    &["api", "token"],
    &["auth", "token"],
    &["refresh", "token"],
    &["session", "token"],
    &["session", "cookie"],
    &["auth", "cookie"],
    &["id", "rsa"],
    &["id", "ecdsa"],
    // Words end before digits: `id_ed25519`.
    &["id", "ed"],
];
/// Several words that name a secret which is a number.
const NUMBER_PHRASES: [&[&str]; 3] = [&["card", "number"], &["credit", "card"], &["account", "number"]];
/// Words before `code` that make it a secret. Most codes are none: of countries, of errors, of programs.
const SECRET_CODES: [&str; 22] = [
    "access",
    "activation",
    "auth",
    "authentication",
    "authenticator",
    "authorization",
    "backup",
    "confirmation",
    "device",
    "digit",
    "fa",
    "factor",
    "login",
    "mfa",
    "recovery",
    "reset",
    "secret",
    "security",
    "sms",
    "time",
    "unlock",
    "verification",
];
/// Words before `key` that make it no secret. All other keys are secrets: providers have too many names to list them.
const ORDINARY_KEYS: [&str; 25] = [
    "arrow",
    "cache",
    "column",
    "composite",
    "config",
    "dictionary",
    "foreign",
    "group",
    "index",
    "issue",
    "json",
    "lookup",
    "map",
    "musical",
    "object",
    "partition",
    "primary",
    "project",
    "public",
    "row",
    "setting",
    "shortcut",
    "sort",
    "storage",
    "unique",
];
/// Words after `key` that make it an ordinary word.
const AFTER_ORDINARY_KEY: [&str; 10] =
    ["binding", "figure", "idea", "length", "metric", "point", "question", "result", "signature", "value"];
/// Words before `key` in a message that do not name one.
const ARTICLES: [&str; 12] = ["a", "all", "an", "any", "each", "every", "no", "that", "the", "these", "this", "which"];

/// Whether the name of a variable, a header or an option says that its value may be a secret, which is then redacted.
pub fn is_secret_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    SETTING_PARTS.iter().any(|part| upper.contains(part))
        || upper.split(|c: char| !c.is_ascii_alphabetic()).any(|word| SETTING_WORDS.contains(&word))
        || names_secret(name)
}

/// Whether the name of a variable, a header or an option says that its value is a secret, which deserves a warning.
pub(crate) fn names_credential(name: &str) -> bool {
    let is_credential = |word: &String| CREDENTIAL_SETTINGS.iter().any(|setting| word.ends_with(setting));
    names_secret(name) || words(name).iter().any(is_credential)
}

/// Whether a text names a secret that is not a number. Short words such as "pin" are common in descriptions.
pub fn is_secret_text(text: &str) -> bool {
    readings(text).iter().any(|words| names_text_secret(words))
}

/// Whether a message asks for a secret. All fields are meant for it then. Short words such as "pin" are too common in
/// messages, and so is a "key" without a name.
pub fn is_secret_message(message: &str) -> bool {
    readings(message).iter().any(|words| {
        names_text_secret(words)
            || has_phrase(words, &NUMBER_PHRASES)
            || keys(words).any(|before| before.is_some_and(|before| !ARTICLES.contains(&before)))
    })
}

/// Whether the name, title or description of a value names a secret.
pub fn names_secret(text: &str) -> bool {
    readings(text).iter().any(|words| {
        // As one word among others it means something else: a boarding pass, the tests that pass.
        let is_pass = matches!(words.as_slice(), [word] if word == "pass");
        let is_number = words.iter().any(|word| NUMBERS.iter().any(|name| is_word(word, name)));
        is_pass
            || is_number
            || has_phrase(words, &NUMBER_PHRASES)
            || names_text_secret(words)
            || keys(words).next().is_some()
    })
}

fn names_text_secret(words: &[String]) -> bool {
    let is_name = |word: &String| {
        PARTS.iter().any(|part| word.contains(&letters(part)))
            || ENDINGS.iter().any(|ending| word.ends_with(ending))
            || WORDS.contains(&word.as_str())
    };
    let is_code = |pair: &[String]| SECRET_CODES.contains(&pair[0].as_str()) && is_word(&pair[1], "code");
    words.iter().any(is_name) || has_phrase(words, &PHRASES) || words.windows(2).any(is_code)
}

/// Returns the word before each `key` that may be a secret.
fn keys(words: &[String]) -> impl Iterator<Item = Option<&str>> {
    let is_key = |word: &String| is_word(word, "key");
    let found = words.iter().enumerate().filter(move |(_, word)| is_key(word));
    found.filter_map(move |(index, _)| {
        let before = index.checked_sub(1).map(|before| words[before].as_str());
        let after = words.get(index + 1);
        let is_ordinary = before.is_some_and(|before| ORDINARY_KEYS.contains(&before))
            || after.is_some_and(|after| AFTER_ORDINARY_KEY.iter().any(|word| is_word(after, word)));
        (!is_ordinary).then_some(before)
    })
}

fn has_phrase(words: &[String], phrases: &[&[&str]]) -> bool {
    let matches = |words: &[String], phrase: &[&str]| {
        let last = phrase.len() - 1;
        words.iter().zip(phrase).enumerate().all(
            |(index, (word, name))| {
                if index == last { is_word(word, name) } else { word == name }
            },
        )
    };
    phrases.iter().any(|phrase| words.windows(phrase.len()).any(|some| matches(some, phrase)))
}

/// Whether a word is this one or its plural.
fn is_word(word: &str, name: &str) -> bool {
    word == name || word.strip_suffix('s') == Some(name)
}

/// Returns the ways to read a text: as it is written, and with digits as the letters that they replace.
fn readings(text: &str) -> [Vec<String>; 2] {
    let as_letter = |c: char| match c {
        '0' => 'o',
        '1' | '!' => 'i',
        '3' => 'e',
        '4' | '@' => 'a',
        '5' | '$' => 's',
        '7' => 't',
        c => c,
    };
    [words(text), words(&text.chars().map(as_letter).collect::<String>())]
}

/// Splits a text into lowercase words, also between `camelCase` humps and before digits. Several letters that stand alone
/// are joined to a word.
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
    let is_letter = |word: &String| word.chars().nth(1).is_none();
    let joined: Vec<String> = words
        .chunk_by(|one, next| is_letter(one) && is_letter(next))
        .filter(|run| run.len() > 2)
        .map(<[_]>::concat)
        .collect();
    words.extend(joined);
    words
}

/// Returns a word in the form in which words are compared.
fn letters(word: &str) -> String {
    word.chars().filter_map(folded).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_settings_are_judged_with_the_words_of_all_texts() {
        for name in
            ["GITHUB_TOKEN", "X-Api-Key", "Authorization", "Set-Cookie", "dbPassword", "OPENAI_API_KEY", "user-pin"]
        {
            assert!(is_secret_name(name) && names_credential(name), "{name}");
        }
        // May be a secret, and is redacted without a warning.
        for name in ["AUTH_MODE", "SESSION_NAME", "SLACK_WEBHOOK", "MONKEY", "PUBLIC_KEY"] {
            assert!(is_secret_name(name) && !names_credential(name), "{name}");
        }
        for text in ["pass", "Şifre", "heslo", "parola_d_ordine"] {
            assert!(names_secret(text), "{text}");
        }
        assert!(!names_secret("Number of the boarding pass"));
        for name in ["PATH_LEVELS", "SPINNER", "MODE", "NODE_ENV", "PINECONE_REGION"] {
            assert!(!is_secret_name(name) && !names_credential(name), "{name}");
        }
    }
}
