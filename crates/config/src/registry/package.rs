//! Packages: which program runs them, and how a version is pinned.

use super::server_json::RawPackage;
use crate::danger::is_exact_npm_version;

/// Words of image tags that authors move to another image.
const MOVING_TAGS: [&str; 14] = [
    "latest", "main", "master", "trunk", "edge", "nightly", "dev", "develop", "stable", "next", "beta", "alpha",
    "canary", "snapshot",
];
/// The names of the default image registry.
const DOCKER_HUB: [&str; 3] = ["docker.io", "registry-1.docker.io", "index.docker.io"];
const MAX_VERSION_BYTES: usize = 128;

/// How packages of a registry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runtime {
    Npx,
    Uvx,
    /// `docker` or `podman`.
    Container(&'static str),
    Dnx,
}

/// A package that can run.
#[derive(Debug)]
pub(super) struct Runnable {
    pub(super) runtime: Runtime,
    /// The package with its version, as an argument of the runtime.
    pub(super) pinned: String,
}

impl Runtime {
    pub(super) fn command(self) -> &'static str {
        match self {
            Self::Npx => "npx",
            Self::Uvx => "uvx",
            Self::Container(command) => command,
            Self::Dnx => "dnx",
        }
    }
}

/// Decides how a package runs; fails with the reason why it cannot.
pub(super) fn runnable(package: &RawPackage) -> Result<Runnable, String> {
    let RawPackage { registry_type, identifier, version, runtime_hint, .. } = package;
    let default_base = match registry_type.as_str() {
        "npm" => "https://registry.npmjs.org",
        "pypi" => "https://pypi.org",
        "nuget" => "https://api.nuget.org/v3/index.json",
        "oci" => return container(package),
        "mcpb" => return Err("is a bundle for Claude Desktop (mcpb), which Wharf does not install".to_owned()),
        other => return Err(format!("is in a `{}` registry, which Wharf does not know", brief(other))),
    };
    // The runtime would install a package of the same name from the default registry.
    if let Some(base) = package.registry_base_url.as_deref().filter(|base| !is_same_url(base, default_base)) {
        return Err(format!("is in the package registry {}; only {default_base} is used", brief(base)));
    }
    let (runtime, is_valid): (Runtime, fn(&str) -> bool) = match registry_type.as_str() {
        "npm" => (Runtime::Npx, is_npm_name),
        "pypi" => (Runtime::Uvx, is_plain_name),
        _ => (Runtime::Dnx, is_plain_name),
    };
    if let Some(hint) = runtime_hint.as_deref().filter(|hint| !hint.is_empty() && *hint != runtime.command()) {
        return Err(format!(
            "needs the runtime `{}`; {registry_type} packages run with {}",
            brief(hint),
            runtime.command()
        ));
    }
    if !is_valid(identifier) {
        return Err(format!("has an invalid name: `{}`", brief(identifier)));
    }
    let is_fixed = if runtime == Runtime::Npx { is_exact_npm_version } else { is_release };
    let version = pinned_version(version.as_deref(), is_fixed)?;
    let separator = if runtime == Runtime::Uvx { "==" } else { "@" };
    Ok(Runnable { runtime, pinned: format!("{identifier}{separator}{version}") })
}

fn container(package: &RawPackage) -> Result<Runnable, String> {
    let runtime = match package.runtime_hint.as_deref() {
        None | Some("" | "docker") => Runtime::Container("docker"),
        Some("podman") => Runtime::Container("podman"),
        Some(other) => return Err(format!("needs the runtime `{}`; images run with docker or podman", brief(other))),
    };
    let image = image_name(&package.identifier, package.registry_base_url.as_deref())?;
    let name = image.rsplit('/').next().unwrap_or_default();
    let pinned = match (name.split_once('@'), name.split_once(':')) {
        // A digest is the content.
        (Some(_), _) => image,
        (None, Some((_, tag))) => {
            pinned_version(Some(tag), is_fixed_tag)?;
            image
        }
        (None, None) => format!("{image}:{}", pinned_version(package.version.as_deref(), is_fixed_tag)?),
    };
    if !is_image(&pinned) {
        return Err(format!("has an invalid name: `{}`", brief(&pinned)));
    }
    Ok(Runnable { runtime, pinned })
}

/// Returns the name of an image with its registry. The image may name the registry itself, but not another one.
fn image_name(identifier: &str, base: Option<&str>) -> Result<String, String> {
    let Some(base) = base.filter(|base| !base.is_empty()) else { return Ok(identifier.to_owned()) };
    let host = base.get(..8).filter(|scheme| scheme.eq_ignore_ascii_case("https://")).map(|_| &base[8..]);
    let host = host.map(|host| host.trim_end_matches('/').to_ascii_lowercase());
    let is_host =
        |host: &String| !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-:".contains(&b));
    let Some(host) = host.filter(is_host) else {
        return Err(format!("is in the image registry `{}`; expected https:// and a host", brief(base)));
    };
    let is_hub = |host: &str| DOCKER_HUB.contains(&host);
    match named_registry(identifier) {
        Some(named) if named.eq_ignore_ascii_case(&host) || is_hub(named) && is_hub(&host) => Ok(identifier.to_owned()),
        Some(named) => Err(format!("names two image registries: {} and {}", brief(named), brief(&host))),
        None if is_hub(&host) => Ok(identifier.to_owned()),
        None => Ok(format!("{host}/{identifier}")),
    }
}

/// Returns the registry that the name of an image begins with.
fn named_registry(image: &str) -> Option<&str> {
    let (first, _) = image.split_once('/')?;
    (first == "localhost" || first.contains(['.', ':'])).then_some(first)
}

/// Returns a version that names one release; fails for one that may become another.
fn pinned_version(version: Option<&str>, is_fixed: fn(&str) -> bool) -> Result<&str, String> {
    let version = version.filter(|version| !version.is_empty()).ok_or("has no version to pin")?;
    let is_plain = version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+_-!".contains(&byte));
    if is_plain && version.len() <= MAX_VERSION_BYTES && is_fixed(version) {
        Ok(version)
    } else {
        Err(format!("has no fixed version: `{}`", brief(version)))
    }
}

/// Whether a version is that of a release and not a word such as `latest`.
fn is_release(version: &str) -> bool {
    version.strip_prefix('v').unwrap_or(version).starts_with(|c: char| c.is_ascii_digit())
}

/// Whether the tag of an image names a release: it has a number, and no word that moves.
fn is_fixed_tag(tag: &str) -> bool {
    let is_moving = |word: &str| MOVING_TAGS.iter().any(|moving| word.eq_ignore_ascii_case(moving));
    tag.starts_with(|c: char| c.is_ascii_alphanumeric())
        && tag.bytes().any(|byte| byte.is_ascii_digit())
        && !tag.split(['-', '_', '.', '+']).any(is_moving)
}

fn is_same_url(one: &str, other: &str) -> bool {
    one.trim_end_matches('/').eq_ignore_ascii_case(other)
}

fn is_npm_name(name: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-~".contains(&byte))
    };
    match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| part(scope) && part(name)),
        None => part(name),
    }
}

fn is_plain_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

fn is_image(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte))
        && !name.contains("..")
}

/// Returns the beginning of a text.
pub(super) fn brief(text: &str) -> String {
    text.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn outcome(package: Value) -> String {
        match runnable(&serde_json::from_value(package).unwrap()) {
            Ok(Runnable { runtime, pinned }) => format!("{} {pinned}", runtime.command()),
            Err(reason) => reason,
        }
    }

    #[test]
    fn packages_are_pinned_and_run_only_with_their_own_runtime() {
        let package = |kind: &str, name: &str| json!({"registryType": kind, "identifier": name, "version": "1.2.3"});
        assert_eq!(outcome(package("npm", "@scope/pkg")), "npx @scope/pkg@1.2.3");
        assert_eq!(outcome(package("pypi", "mcp-server-time")), "uvx mcp-server-time==1.2.3");
        assert_eq!(outcome(package("nuget", "Some.Server")), "dnx Some.Server@1.2.3");
        assert_eq!(outcome(package("oci", "ghcr.io/owner/image")), "docker ghcr.io/owner/image:1.2.3");
        assert_eq!(
            outcome(json!({"registryType": "oci", "identifier": "localhost:5000/a@sha256:00ff"})),
            "docker localhost:5000/a@sha256:00ff"
        );
        let ghcr =
            json!({"registryType": "oci", "registryBaseUrl": "https://ghcr.io", "identifier": "o/i", "version": "1"});
        assert_eq!(outcome(ghcr), "docker ghcr.io/o/i:1");
        let image = |base: &str, name: &str| {
            outcome(json!({"registryType": "oci", "registryBaseUrl": base, "identifier": name, "version": "1.0"}))
        };
        assert_eq!(image("https://docker.io/", "o/i"), "docker o/i:1.0");
        assert_eq!(image("https://docker.io", "index.docker.io/o/i"), "docker index.docker.io/o/i:1.0");
        assert_eq!(image("HTTPS://GHCR.IO", "ghcr.io/o/i:2.0"), "docker ghcr.io/o/i:2.0");
    }

    #[test]
    fn an_image_of_another_registry_is_refused_and_not_fetched_from_the_default_one() {
        let image = |base: &str, name: &str| {
            outcome(json!({"registryType": "oci", "registryBaseUrl": base, "identifier": name, "version": "1.0"}))
        };
        for base in [
            "http://registry.example",
            "registry.example",
            "oci://registry.example",
            "https://",
            "https://a b",
            "https://u@h",
        ] {
            let expected = format!("is in the image registry `{base}`; expected https:// and a host");
            assert_eq!(image(base, "o/i"), expected);
        }
        assert_eq!(
            image("https://ghcr.io", "evil.example/o/i"),
            "names two image registries: evil.example and ghcr.io"
        );
        assert_eq!(image("https://docker.io", "ghcr.io/o/i:1"), "names two image registries: ghcr.io and docker.io");
    }

    #[test]
    fn versions_that_move_are_refused() {
        for (kind, version) in [
            ("npm", "1"),
            ("npm", "1.2"),
            ("npm", "1.x"),
            ("npm", "next"),
            ("npm", "LATEST"),
            ("npm", ""),
            ("pypi", "latest"),
            ("pypi", ">=1"),
            ("pypi", "1.*"),
            ("nuget", "*"),
            ("nuget", "1.*"),
            ("oci", "latest"),
            ("oci", "Latest"),
            ("oci", "main"),
            ("oci", "py3-latest"),
            ("oci", "stable"),
            ("oci", ""),
        ] {
            let shown = outcome(json!({"registryType": kind, "identifier": "p", "version": version}));
            assert!(
                shown.starts_with("has no fixed version") || shown == "has no version to pin",
                "{kind} {version}: {shown}"
            );
        }
        for tag in ["main", "edge", "latest-alpine3.20"] {
            let shown = outcome(json!({"registryType": "oci", "identifier": format!("o/i:{tag}")}));
            assert_eq!(shown, format!("has no fixed version: `{tag}`"));
        }
        for (kind, version) in
            [("npm", "1.2.3-beta.1"), ("pypi", "2024.1"), ("nuget", "1.0"), ("oci", "v1.2.3"), ("oci", "sha-0a1b2c3")]
        {
            let shown = outcome(json!({"registryType": kind, "identifier": "p", "version": version}));
            assert!(shown.ends_with(version), "{kind} {version}: {shown}");
        }
    }

    #[test]
    fn what_cannot_run_safely_is_refused_with_a_reason() {
        let npm = |key: &str, value: &str| {
            let mut package = json!({"registryType": "npm", "identifier": "pkg", "version": "1.0.0"});
            package[key] = json!(value);
            outcome(package)
        };
        let refused = [
            npm("registryType", "mcpb"),
            npm("registryType", "cargo"),
            npm("registryBaseUrl", "https://evil.example"),
            npm("runtimeHint", "bash"),
            npm("identifier", "--call=rm -rf ~"),
            npm("identifier", "git+https://evil.example/x"),
            npm("version", "latest"),
            npm("version", "^1.2.3"),
            npm("version", "1.0.0 --registry=http://evil"),
            outcome(json!({"registryType": "oci", "identifier": "owner/image:latest"})),
            outcome(json!({"registryType": "oci", "identifier": "--privileged", "version": "1"})),
        ];
        insta::assert_snapshot!(refused.join("\n"), @"
        is a bundle for Claude Desktop (mcpb), which Wharf does not install
        is in a `cargo` registry, which Wharf does not know
        is in the package registry https://evil.example; only https://registry.npmjs.org is used
        needs the runtime `bash`; npm packages run with npx
        has an invalid name: `--call=rm -rf ~`
        has an invalid name: `git+https://evil.example/x`
        has no fixed version: `latest`
        has no fixed version: `^1.2.3`
        has no fixed version: `1.0.0 --registry=http://evil`
        has no fixed version: `latest`
        has an invalid name: `--privileged:1`
        ");
    }
}
