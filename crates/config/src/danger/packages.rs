//! Packages that a command fetches before it runs them: whether their version is pinned, and where they come from.

use super::invocation::Invocation;

/// The options of one family of package runners.
struct Family {
    is_npm: bool,
    /// Options that name the package or its origin; the name of the program then says nothing.
    package: &'static [&'static str],
    /// Options that select another registry, or settings with one.
    registry: &'static [&'static str],
    /// Other options whose value is the next argument.
    valued: &'static [&'static str],
}

const NPM: Family = Family {
    is_npm: true,
    package: &["-p", "--package"],
    registry: &["--registry", "--userconfig", "--globalconfig"],
    valued: &["-c", "--call", "--cache", "--prefix", "-w", "--workspace", "--loglevel"],
};

const PYTHON: Family = Family {
    is_npm: false,
    package: &["--from", "--spec"],
    registry: &[
        "--index-url",
        "-i",
        "--index",
        "--default-index",
        "--extra-index-url",
        "--find-links",
        "-f",
        "--config-file",
        "--pip-args",
    ],
    valued: &["--with", "-w", "--with-editable", "--python", "-p", "--directory", "--project", "--env-file"],
};

/// What a command fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fetch<'a> {
    /// The package if its latest version is fetched; `None` if a version is pinned.
    pub(crate) unpinned: Option<&'a str>,
    /// Whether the user's registry is replaced.
    pub(crate) other_registry: bool,
    /// Whether it is an npm package that is installed without a question, as by `npx -y`.
    pub(crate) is_silent_npm: bool,
}

/// Returns what a command fetches; `None` if it is not a package runner, or names no package.
pub(crate) fn fetched_package<'a>(command: &str, args: &'a [String]) -> Option<Fetch<'a>> {
    let run = Invocation::of(command, args);
    let words: Vec<&'a str> = run.args.iter().map(String::as_str).collect();
    let (family, rest, asks) = match (run.program.as_str(), words.as_slice()) {
        ("npx", rest) | ("npm", ["exec" | "x", rest @ ..]) => (&NPM, rest, true),
        ("bunx" | "pnpx", rest) | ("pnpm" | "yarn", ["dlx", rest @ ..]) | ("bun", ["x", rest @ ..]) => {
            (&NPM, rest, false)
        }
        ("uvx", rest) | ("uv", ["tool", "run", rest @ ..]) | ("pipx", ["run", rest @ ..]) => (&PYTHON, rest, false),
        _ => return None,
    };
    let mut package = None;
    let mut other_registry = false;
    let mut says_yes = false;
    let mut words = rest.iter().copied();
    // What follows the package belongs to its program.
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            package = package.or(Some(word));
            break;
        }
        let (name, joined) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        if family.package.contains(&name) {
            package = joined.or_else(|| words.next());
        } else if family.registry.contains(&name) || name.ends_with(":registry") {
            other_registry = true;
            if joined.is_none() {
                words.next();
            }
        } else if family.valued.contains(&name) && joined.is_none() {
            words.next();
        }
        says_yes |= matches!(word, "-y" | "--yes" | "--yes=true");
    }
    let package = package?;
    let unpinned = is_unpinned(package).then_some(package);
    Some(Fetch { unpinned, other_registry, is_silent_npm: family.is_npm && (says_yes || !asks) })
}

fn is_unpinned(package: &str) -> bool {
    let version = package.strip_prefix('@').unwrap_or(package).split_once(['@', '=', '<', '>', '~']);
    let is_path = package.contains("://") || package.starts_with(['.', '/']);
    match version {
        Some((_, version)) => matches!(version, "" | "latest" | "next") && !is_path,
        None => !is_path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        fetched_package(&words[0], &words[1..]).and_then(|fetch| fetch.unpinned).map(str::to_owned)
    }

    fn has(line: &str, property: fn(Fetch<'_>) -> bool) -> bool {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        fetched_package(&words[0], &words[1..]).is_some_and(property)
    }

    #[test]
    fn unpinned_packages_are_detected() {
        assert_eq!(check("npx -y @scope/pkg").as_deref(), Some("@scope/pkg"));
        assert_eq!(check("npx -y pkg@latest").as_deref(), Some("pkg@latest"));
        assert_eq!(check("npx -y @scope/pkg@1.2.3"), None);
        assert_eq!(check("npx --package=pkg run").as_deref(), Some("pkg"));
        assert_eq!(check("nice npx -y --registry https://r.test pkg").as_deref(), Some("pkg"));
        assert_eq!(check("uvx mcp-server-time").as_deref(), Some("mcp-server-time"));
        assert_eq!(check("uvx -p 3.12 mcp-server-time").as_deref(), Some("mcp-server-time"));
        assert_eq!(check("uvx mcp-server-time==1.0"), None);
        assert_eq!(check("uvx --from git+https://x/y@abc tool"), None);
        assert_eq!(check("npx ./local"), None);
        assert_eq!(check("node server.js"), None);
    }

    #[test]
    fn another_registry_is_detected() {
        let other = |line: &str| has(line, |fetch| fetch.other_registry);
        for line in [
            "npx -y --registry https://r.test pkg@1.0.0",
            "npx --registry=https://r.test pkg",
            "npx --@scope:registry=https://r.test @scope/pkg",
            "env A=b npx --userconfig ./npmrc pkg",
            "uvx --index-url https://r.test pkg",
            "pipx run --pip-args=--index-url=https://r.test pkg",
        ] {
            assert!(other(line), "{line}");
        }
        for line in ["npx -y pkg --registry https://r.test", "uvx pkg --index-url x", "npx pkg"] {
            assert!(!other(line), "{line}");
        }
    }

    #[test]
    fn npm_packages_without_a_question_are_detected() {
        let silent = |line: &str| has(line, |fetch| fetch.is_silent_npm);
        assert!(silent("npx -y pkg") && silent("npx --yes pkg@1.0.0") && silent("bunx pkg") && silent("pnpm dlx pkg"));
        assert!(!silent("npx pkg -y") && !silent("npx pkg") && !silent("uvx pkg"));
    }
}
