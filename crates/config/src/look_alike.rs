//! Names that a person may take for another one: `GitHub`, `github` and `g1thub`.

/// Returns the form that look-alike names have in common.
///
/// Names are ASCII, so what differs is the case, the separators, and letters that share their shape with a digit or with
/// two other letters.
pub(crate) fn skeleton(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|letter| match letter.to_ascii_lowercase() {
            '0' => 'o',
            '1' | 'i' => 'l',
            '5' => 's',
            '_' | '.' => '-',
            letter => letter,
        })
        .collect();
    plain.replace("rn", "m").replace("vv", "w")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_alike_names_have_the_same_skeleton() {
        for (one, other) in [
            ("github", "GitHub"),
            ("github", "g1thub"),
            ("gitlab", "gitIab"),
            ("my-server", "my_server"),
            ("google", "g0ogle"),
            ("mail", "rnail"),
            ("web", "vveb"),
        ] {
            assert_eq!(skeleton(one), skeleton(other));
        }
        for (one, other) in [("github", "gitlab"), ("time", "times"), ("a1", "a2"), ("db-1", "db1")] {
            assert_ne!(skeleton(one), skeleton(other));
        }
    }
}
