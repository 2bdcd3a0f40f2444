//! Names of other hosts, which may be anything, as names of servers here.

use std::collections::HashSet;

use wharf_protocol::ServerName;

/// The longest name.
const LONGEST: usize = 64;

/// What letters of other scripts are mistaken for.
const LOOK_ALIKES: [(&str, &str); 4] = [
    ("АВЕЅІЈКМНОРСТУХаеорсухіјѕһԁӏԛԝ", "ABESIJKMHOPCTYXaeopcyxijshdlqw"),
    ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧανορτυ", "ABEZHIKMNOPTYXavoptu"),
    ("‐‑‒–—―−․＿", "-------._"),
    ("ıȷɡɑɩʏ", "ijgaiy"),
];

/// Gives names of our own to those of a file, none twice.
#[derive(Default)]
pub(super) struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// Names that need no change come first, so that no other takes theirs.
    pub(super) fn reserve<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let taken = names.filter(|name| name.parse::<ServerName>().is_ok()).map(str::to_owned).collect();
        Self { taken }
    }

    /// A name for a server, and a note if it is another one; or why there is none.
    pub(super) fn name(&mut self, original: &str) -> Result<(ServerName, Option<String>), String> {
        if let Ok(name) = original.parse() {
            return Ok((name, None));
        }
        if !original.is_ascii() {
            return Err(refusal(original));
        }
        let plain = plain(original);
        if plain.is_empty() {
            return Err("has no letter or digit to make a name of".to_owned());
        }
        let candidates = (1..).map(|number| match number {
            1 => plain.clone(),
            number => {
                let suffix = format!("-{number}");
                format!("{}{suffix}", &plain[..plain.len().min(LONGEST - suffix.len())])
            }
        });
        let name = candidates.into_iter().find(|name| self.taken.insert(name.clone())).unwrap_or(plain);
        let note = format!("is called `{name}` here: names are made of letters, digits, `_`, `.` and `-`");
        name.parse().map(|name| (name, Some(note))).map_err(|error: wharf_protocol::InvalidName| error.to_string())
    }
}

/// A name of ASCII with what names cannot have replaced.
fn plain(original: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let words: Vec<&str> = original.split(|c| !allowed(c)).filter(|word| !word.is_empty()).collect();
    let mut plain = words.join("-");
    plain.truncate(LONGEST);
    if plain.chars().any(|c| c.is_ascii_alphanumeric()) { plain } else { String::new() }
}

/// A name that is not what it seems could pass for another server, so that it is not made into one.
fn refusal(original: &str) -> String {
    let reason = "has letters in its name that are not ASCII";
    match look_alike(original) {
        Some(seems) => format!("{reason}, and looks like `{seems}`, which it is not; rename it"),
        None => format!("{reason}; rename it"),
    }
}

/// What a name looks like, if all of it looks like ASCII.
fn look_alike(name: &str) -> Option<String> {
    name.chars().map(|c| if c.is_ascii() { Some(c) } else { letter(c) }).collect()
}

fn letter(c: char) -> Option<char> {
    // Full-width forms are ASCII with an offset.
    let narrow = u32::from(c).checked_sub(0xFEE0).and_then(char::from_u32).filter(char::is_ascii_graphic);
    let listed = || {
        let find = |(these, those): &(&str, &str)| those.chars().nth(these.chars().position(|one| one == c)?);
        LOOK_ALIKES.iter().find_map(find)
    };
    narrow.or_else(listed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(name: &str) -> String {
        match Names::default().name(name) {
            Ok((name, _)) => name.to_string(),
            Err(reason) => format!("({reason})"),
        }
    }

    #[test]
    fn names_become_valid_or_say_why_not() {
        let long = "very long ".repeat(20);
        let names = ["github", "My Server", "plugin:docs:search", " / ", "", "gіthub", "ｇithub", "Übersetzer", &long];
        let table: Vec<String> = names.map(|name| format!("{} -> {}", &name[..name.len().min(20)], named(name))).into();
        insta::assert_snapshot!(table.join("\n"), @"
        github -> github
        My Server -> My-Server
        plugin:docs:search -> plugin-docs-search
         /  -> (has no letter or digit to make a name of)
         -> (has no letter or digit to make a name of)
        gіthub -> (has letters in its name that are not ASCII, and looks like `github`, which it is not; rename it)
        ｇithub -> (has letters in its name that are not ASCII, and looks like `github`, which it is not; rename it)
        Übersetzer -> (has letters in its name that are not ASCII; rename it)
        very long very long  -> very-long-very-long-very-long-very-long-very-long-very-long-very
        ");
    }

    #[test]
    fn every_look_alike_has_its_letter() {
        for (these, those) in LOOK_ALIKES {
            assert_eq!(these.chars().count(), those.chars().count(), "{these}");
            assert!(those.is_ascii() && these.chars().all(|c| !c.is_ascii()), "{these}");
        }
    }

    proptest! {
        #[test]
        fn no_two_servers_get_one_name(names in prop::collection::hash_set("[a-b ./:]{0,4}|(long){20}[ -]x?", 1..12)) {
            let mut ours = Names::reserve(names.iter().map(String::as_str));
            let given: Vec<String> = names.iter().filter_map(|name| Some(ours.name(name).ok()?.0.to_string())).collect();
            let distinct: HashSet<&String> = given.iter().collect();
            prop_assert_eq!(distinct.len(), given.len());
        }
    }
}
