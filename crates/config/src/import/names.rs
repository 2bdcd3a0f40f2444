//! Converts server names of other hosts, which may be any text, to valid ones.

use std::collections::HashSet;

use wharf_protocol::ServerName;

use crate::entry_name::{MAX_NAME_BYTES, plain, renamed};

/// Letters of other alphabets, and the ASCII letters that they look like.
const LOOK_ALIKES: [(&str, &str); 4] = [
    ("АВЕЅІЈКМНОРСТУХаеорсухіјѕһԁӏԛԝ", "ABESIJKMHOPCTYXaeopcyxijshdlqw"),
    ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧανορτυ", "ABEZHIKMNOPTYXavoptu"),
    ("‐‑‒–—―−․＿", "-------._"),
    ("ıȷɡɑɩʏ", "ijgaiy"),
];

/// Assigns a unique valid name to each server of a file.
#[derive(Default)]
pub(super) struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// Reserves the names that are already valid, so that no other server gets them.
    pub(super) fn reserve<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let taken = names.filter(|name| name.parse::<ServerName>().is_ok()).map(str::to_owned).collect();
        Self { taken }
    }

    /// Returns a name for a server, and a note if it differs; fails with the reason.
    pub(super) fn assign(&mut self, original: &str) -> Result<(ServerName, Option<String>), String> {
        if let Ok(name) = original.parse() {
            return Ok((name, None));
        }
        if !original.is_ascii() {
            return Err(non_ascii_reason(original));
        }
        let plain = plain(original);
        if plain.is_empty() {
            return Err("its name contains no letter or digit".to_owned());
        }
        let candidates = (1..).map(|number| match number {
            1 => plain.clone(),
            number => {
                let suffix = format!("-{number}");
                format!("{}{suffix}", &plain[..plain.len().min(MAX_NAME_BYTES - suffix.len())])
            }
        });
        let name = candidates.into_iter().find(|name| self.taken.insert(name.clone())).unwrap_or(plain);
        let note = renamed(&name);
        name.parse().map(|name| (name, Some(note))).map_err(|error: wharf_protocol::InvalidName| error.to_string())
    }
}

/// Returns the reason for a non-ASCII name. It is not converted, since it could impersonate another server.
fn non_ascii_reason(original: &str) -> String {
    let reason = "its name contains non-ASCII letters";
    match look_alike(original) {
        Some(other) => format!("{reason} and looks like `{other}`; rename it"),
        None => format!("{reason}; rename it"),
    }
}

/// Returns the ASCII name that a name looks like.
fn look_alike(name: &str) -> Option<String> {
    name.chars().map(|c| if c.is_ascii() { Some(c) } else { letter(c) }).collect()
}

fn letter(c: char) -> Option<char> {
    // Full-width forms are ASCII with an offset.
    let full_width = u32::from(c).checked_sub(0xFEE0).and_then(char::from_u32).filter(char::is_ascii_graphic);
    let listed = || {
        let find = |(these, those): &(&str, &str)| those.chars().nth(these.chars().position(|one| one == c)?);
        LOOK_ALIKES.iter().find_map(find)
    };
    full_width.or_else(listed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn assigned(name: &str) -> String {
        match Names::default().assign(name) {
            Ok((name, _)) => name.to_string(),
            Err(reason) => format!("({reason})"),
        }
    }

    #[test]
    fn names_become_valid_or_are_rejected_with_a_reason() {
        let long = "very long ".repeat(20);
        let names = ["github", "My Server", "plugin:docs:search", " / ", "", "gіthub", "ｇithub", "Übersetzer", &long];
        let table: Vec<String> =
            names.map(|name| format!("{} -> {}", &name[..name.len().min(20)], assigned(name))).into();
        insta::assert_snapshot!(table.join("\n"), @"
        github -> github
        My Server -> My-Server
        plugin:docs:search -> plugin-docs-search
         /  -> (its name contains no letter or digit)
         -> (its name contains no letter or digit)
        gіthub -> (its name contains non-ASCII letters and looks like `github`; rename it)
        ｇithub -> (its name contains non-ASCII letters and looks like `github`; rename it)
        Übersetzer -> (its name contains non-ASCII letters; rename it)
        very long very long  -> very-long-very-long-very-long-very-long-very-long-very-long-very
        ");
    }

    #[test]
    fn every_look_alike_maps_to_one_letter() {
        for (these, those) in LOOK_ALIKES {
            assert_eq!(these.chars().count(), those.chars().count(), "{these}");
            assert!(those.is_ascii() && these.chars().all(|c| !c.is_ascii()), "{these}");
        }
    }

    proptest! {
        #[test]
        fn assigned_names_are_unique(names in prop::collection::hash_set("[a-b ./:]{0,4}|(long){20}[ -]x?", 1..12)) {
            let mut ours = Names::reserve(names.iter().map(String::as_str));
            let given: Vec<String> = names.iter().filter_map(|name| Some(ours.assign(name).ok()?.0.to_string())).collect();
            let distinct: HashSet<&String> = given.iter().collect();
            prop_assert_eq!(distinct.len(), given.len());
        }
    }
}
