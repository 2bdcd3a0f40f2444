//! Packages that a command fetches before it runs them: whether their version is pinned, and where they come from.

use super::invocation::Invocation;

/// The options of one family of package runners.
struct Family {
    is_npm: bool,
    /// Options that name the package or its origin; the name of the program then says nothing.
    package: &'static [&'static str],
    /// Options that name packages beside the one that runs.
    extra: &'static [&'static str],
    /// Options that select another registry, or settings with one.
    registry: &'static [&'static str],
    /// Other options whose value is the next argument.
    valued: &'static [&'static str],
}

const NPM: Family = Family {
    is_npm: true,
    package: &["-p", "--package"],
    extra: &[],
    registry: &["--registry", "--userconfig", "--globalconfig"],
    valued: &["-c", "--call", "--cache", "--prefix", "-w", "--workspace", "--loglevel"],
};

const PYTHON: Family = Family {
    is_npm: false,
    package: &["--from", "--spec"],
    extra: &["--with", "-w", "--with-requirements"],
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
    valued: &["--with-editable", "--python", "-p", "--directory", "--project", "--env-file"],
};

/// The programs that run Python packages.
const PYTHON_PROGRAMS: [&str; 3] = ["uvx", "uv", "pipx"];

/// What a command fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fetch<'a> {
    /// The package if its latest version is fetched; `None` if a version is pinned.
    pub(crate) unpinned: Option<&'a str>,
    /// Where the code comes from, if not from a registry: a URL or a repository.
    pub(crate) place: Option<&'a str>,
    /// Whether the user's registry is replaced.
    pub(crate) other_registry: bool,
    /// Whether it is an npm package that is installed without a question, as by `npx -y`.
    pub(crate) is_silent_npm: bool,
}

/// Returns what a command fetches; `None` if it is not a package runner, or names no package.
pub(crate) fn fetched_package<'a>(command: &str, args: &'a [String]) -> Option<Fetch<'a>> {
    let run = Invocation::of(command, args);
    let words: Vec<&'a str> = run.args.iter().map(String::as_str).collect();
    let family = if PYTHON_PROGRAMS.contains(&run.program.as_str()) { &PYTHON } else { &NPM };
    // Options may stand before the subcommand.
    let (options, words) = words.split_at(family.leading_options(&words));
    let (rest, asks) = match (run.program.as_str(), words) {
        ("npx", rest) | ("npm", ["exec" | "x", rest @ ..]) => (rest, true),
        ("bunx" | "pnpx" | "uvx", rest)
        | ("pnpm" | "yarn", ["dlx", rest @ ..])
        | ("bun", ["x", rest @ ..])
        | ("uv", ["tool", "run", rest @ ..])
        | ("pipx", ["run", rest @ ..]) => (rest, false),
        _ => return None,
    };
    let mut packages = Vec::new();
    let mut is_named = false;
    let mut other_registry = false;
    let mut says_yes = false;
    let mut words = options.iter().chain(rest).copied();
    // What follows the package belongs to its program.
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            // Another option has named the package, and this is its program.
            if !is_named {
                packages.push(word);
                is_named = true;
            }
            break;
        }
        let (name, joined) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        if family.is_option(name, family.package) {
            packages.extend(joined.or_else(|| words.next()));
            is_named = true;
        } else if family.extra.contains(&name) {
            packages.extend(joined.or_else(|| words.next()).into_iter().flat_map(|value| value.split(',')));
        } else if family.is_option(name, family.registry) || name.ends_with(":registry") {
            other_registry = true;
            if joined.is_none() {
                words.next();
            }
        } else if family.valued.contains(&name) && joined.is_none() {
            words.next();
        }
        says_yes |= matches!(word, "-y" | "--yes" | "--yes=true");
    }
    if !is_named {
        return None;
    }
    let place = packages.iter().copied().find(|package| family.is_place(package));
    let unpinned = packages.iter().copied().find(|package| !family.is_place(package) && family.is_unpinned(package));
    Some(Fetch { unpinned, place, other_registry, is_silent_npm: family.is_npm && (says_yes || !asks) })
}

/// Returns the place of code that a command fetches, if the command is not a package runner: a URL or a repository that is
/// an argument of `uv run`, `pip install`, `go run`, Deno and the like.
pub(crate) fn fetched_code<'a>(command: &str, args: &'a [String]) -> Option<&'a str> {
    let is_url = |word: &&str| {
        word.contains("://") || word.starts_with("git+") || word.starts_with("npm:") || word.starts_with("jsr:")
    };
    let value = |word: &'a str| word.split_once('=').filter(|_| word.starts_with('-')).map_or(word, |(_, value)| value);
    let run = Invocation::of(command, args);
    // `uv run` is a wrapper, and its own options come before the program.
    let own = &args[..args.len() - run.args.len()];
    if own.iter().any(|word| word == "run") || run.program == "uv" {
        let found = own.iter().map(|word| value(word)).find(is_url);
        if found.is_some() {
            return found;
        }
    }
    let words: Vec<&'a str> = run.args.iter().map(String::as_str).collect();
    match (run.program.as_str(), &words[..]) {
        ("uv", rest) | ("pip" | "pip3", ["install", rest @ ..]) | ("python" | "python3", ["-m", "pip", rest @ ..]) => {
            rest.iter().map(|word| value(word)).find(is_url)
        }
        ("deno", ["run" | "serve" | "install", rest @ ..])
        | ("bun", ["run", rest @ ..])
        | ("deno" | "tsx" | "ts-node" | "bun" | "node", rest) => fetched_script(rest).filter(is_url),
        // A package of this module begins with a dot, or is a file.
        ("go", ["run" | "install", rest @ ..]) => {
            rest.iter().copied().find(|word| !word.starts_with('-')).filter(|package| package.contains('@'))
        }
        _ => None,
    }
}

/// Returns the script of a runtime. What follows an option may be its value: then a URL behind it is the script.
fn fetched_script<'a>(words: &[&'a str]) -> Option<&'a str> {
    let is_switch = |word: &str| {
        matches!(word, "-A" | "-q" | "-r")
            || ["--allow-", "--no-", "--quiet", "--unstable"].iter().any(|it| word.starts_with(it))
    };
    let mut may_be_value = false;
    for word in words {
        if word.starts_with('-') {
            may_be_value = !word.contains('=') && !is_switch(word);
        } else if word.contains("://") || !std::mem::take(&mut may_be_value) {
            return Some(word);
        }
    }
    None
}

impl Family {
    /// Whether an option is one of a list. npm accepts the beginning of a long one.
    fn is_option(&self, name: &str, options: &[&str]) -> bool {
        const MIN_ABBREVIATION: usize = "--reg".len();
        let is_abbreviated = self.is_npm && name.starts_with("--") && name.len() >= MIN_ABBREVIATION;
        options.iter().any(|option| *option == name || is_abbreviated && option.starts_with(name))
    }

    /// Returns how many words at the beginning are options and their values.
    fn leading_options(&self, words: &[&str]) -> usize {
        let mut count = 0;
        while let Some(word) = words.get(count).filter(|word| word.starts_with('-')) {
            let lists = [self.package, self.extra, self.registry, self.valued];
            let has_value = !word.contains('=') && lists.iter().any(|options| options.contains(word));
            count += if has_value { 2 } else { 1 };
        }
        count.min(words.len())
    }

    /// Whether a package is named by the place of its code instead of by its name in a registry.
    fn is_place(&self, package: &str) -> bool {
        let is_url = package.contains("://") || package.starts_with("git@") || package.starts_with("git+");
        // npm accepts `github:user/repository`, and `user/repository` for the same.
        let is_repository = self.is_npm
            && !package.starts_with(['@', '.', '/', '~'])
            && (package.contains('/') || package.contains(':') && !package.contains("@npm:"));
        is_url || is_repository
    }

    /// Whether the version of a package may change.
    fn is_unpinned(&self, package: &str) -> bool {
        if package.starts_with(['.', '/', '~']) {
            return false;
        }
        let name = package.strip_prefix('@').unwrap_or(package);
        if self.is_npm {
            return !name.split_once('@').is_some_and(|(_, version)| is_exact_npm_version(version));
        }
        let version = name.split_once("==").or_else(|| name.split_once('@')).map(|(_, version)| version.trim());
        let is_exact =
            |version: &str| version.starts_with(|c: char| c.is_ascii_digit()) && !version.contains(['*', ',']);
        !version.is_some_and(is_exact)
    }
}

/// Whether a version is neither a range nor a tag: `1.2.3`, with what may follow. npm reads `1.2` as a range.
pub(crate) fn is_exact_npm_version(version: &str) -> bool {
    let version = version.trim_start_matches(['=', 'v']);
    let numbers = version.split(['-', '+']).next().unwrap_or_default();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    numbers.split('.').count() == 3 && numbers.split('.').all(is_number) && !version.contains(' ')
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
        assert_eq!(check("npx -p evil -p pkg@1.0.0 run").as_deref(), Some("evil"));
        assert_eq!(check("npx --pack=evil run").as_deref(), Some("evil"));
        assert_eq!(check("uvx --with evil pkg==1.0").as_deref(), Some("evil"));
        assert_eq!(check("uvx --with a==1.0,evil --from pkg==1.0 run").as_deref(), Some("evil"));
        assert_eq!(check("uvx --with a==1.0 pkg==1.0"), None);
        for range in ["pkg@*", "pkg@^1", "pkg@~1.2.0", "pkg@1", "pkg@1.x", "pkg@beta", "@scope/pkg@>=1.0.0", "pkg@"] {
            assert_eq!(check(&format!("npx {range}")).as_deref(), Some(range));
        }
        for range in ["pkg>=1", "pkg~=1.0", "pkg==1.*", "pkg@latest", "pkg<2"] {
            assert_eq!(check(&format!("uvx {range}")).as_deref(), Some(range));
        }
        for pinned in ["npx pkg@1.2.3-rc.1", "npx pkg@=1.2.3", "uvx pkg@1.0", "uvx pkg[extra]==1.0.post1"] {
            assert_eq!(check(pinned), None, "{pinned}");
        }
        assert_eq!(check("node server.js"), None);
    }

    #[test]
    fn code_from_another_place_is_detected() {
        let place = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            fetched_package(&words[0], &words[1..]).and_then(|fetch| fetch.place).map(str::to_owned)
        };
        for (line, expected) in [
            ("npx https://evil.test/x.tgz", "https://evil.test/x.tgz"),
            ("npx -y -p git+ssh://git@x.test/y.git run", "git+ssh://git@x.test/y.git"),
            ("npx github:user/repo", "github:user/repo"),
            ("npx user/repo", "user/repo"),
            ("uvx --from git+https://x.test/y@abc tool", "git+https://x.test/y@abc"),
            ("pipx run --spec https://x.test/y.whl tool", "https://x.test/y.whl"),
        ] {
            assert_eq!(place(line).as_deref(), Some(expected), "{line}");
        }
        for line in ["npx @scope/pkg", "npx pkg@1.2.3", "npx ./local", "uvx pkg", "uvx ./local"] {
            assert_eq!(place(line), None, "{line}");
        }
    }

    #[test]
    fn code_that_other_programs_fetch_is_detected() {
        let place = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            fetched_code(&words[0], &words[1..]).map(str::to_owned)
        };
        for (line, expected) in [
            ("uv run --with git+https://x.test/y python -m y", "git+https://x.test/y"),
            ("uv run --with=git+https://x.test/y y", "git+https://x.test/y"),
            ("uv run https://x.test/y.py", "https://x.test/y.py"),
            ("uv pip install git+https://x.test/y", "git+https://x.test/y"),
            ("deno run -A https://x.test/y.ts", "https://x.test/y.ts"),
            ("deno run npm:pkg", "npm:pkg"),
            ("deno run --config deno.json https://x.test/y.ts", "https://x.test/y.ts"),
            ("tsx https://x.test/y.ts", "https://x.test/y.ts"),
            ("bun run https://x.test/y.ts", "https://x.test/y.ts"),
            ("go run x.test/y@latest", "x.test/y@latest"),
            ("nice pip install git+https://x.test/y", "git+https://x.test/y"),
            ("python3 -m pip install https://x.test/y.whl", "https://x.test/y.whl"),
        ] {
            assert_eq!(place(line).as_deref(), Some(expected), "{line}");
        }
        for line in [
            "uv run --with pkg python -m y",
            "uv run server.py --url https://x.test",
            "deno run server.ts https://x.test",
            "deno run -A server.ts https://x.test",
            "node server.js https://x.test",
            "go run ./cmd/server https://x.test/a@b",
            "pip install pkg",
            "curl https://x.test",
        ] {
            assert_eq!(place(line), None, "{line}");
        }
    }

    #[test]
    fn another_registry_is_detected() {
        let other = |line: &str| has(line, |fetch| fetch.other_registry);
        for line in [
            "npx -y --registry https://r.test pkg@1.0.0",
            "npx --registry=https://r.test pkg",
            "npx --reg https://r.test pkg",
            "npx --userconf=./npmrc pkg",
            "npm --registry=https://r.test exec pkg",
            "npm --registry https://r.test --silent exec -- pkg",
            "uv --index-url https://r.test tool run pkg",
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
