//! Packages: which program runs them, and how a version is pinned.

use super::server_json::RawPackage;

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
    let version = pinned_version(version.as_deref())?;
    let separator = if runtime == Runtime::Uvx { "==" } else { "@" };
    Ok(Runnable { runtime, pinned: format!("{identifier}{separator}{version}") })
}

fn container(package: &RawPackage) -> Result<Runnable, String> {
    let runtime = match package.runtime_hint.as_deref() {
        None | Some("" | "docker") => Runtime::Container("docker"),
        Some("podman") => Runtime::Container("podman"),
        Some(other) => return Err(format!("needs the runtime `{}`; images run with docker or podman", brief(other))),
    };
    let mut image = package.identifier.clone();
    let base = package.registry_base_url.as_deref().map(|base| base.trim_end_matches('/'));
    if let Some(host) = base.and_then(|base| base.strip_prefix("https://"))
        && !matches!(host, "docker.io" | "registry-1.docker.io" | "index.docker.io")
        && !image.starts_with(&format!("{host}/"))
    {
        image = format!("{host}/{image}");
    }
    let name = image.rsplit('/').next().unwrap_or_default();
    if !name.contains([':', '@']) {
        let version = pinned_version(package.version.as_deref())?;
        image = format!("{image}:{version}");
    }
    if image.ends_with(":latest") {
        return Err("has no fixed version: its image is tagged `latest`".to_owned());
    }
    if !is_image(&image) {
        return Err(format!("has an invalid name: `{}`", brief(&image)));
    }
    Ok(Runnable { runtime, pinned: image })
}

fn pinned_version(version: Option<&str>) -> Result<&str, String> {
    let version = version.filter(|version| !version.is_empty()).ok_or("has no version to pin")?;
    let is_plain = version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+_-!".contains(&byte));
    let is_fixed = version.starts_with(|c: char| c.is_ascii_alphanumeric()) && version != "latest";
    if is_plain && is_fixed && version.len() <= 128 {
        Ok(version)
    } else {
        Err(format!("has no fixed version: `{}`", brief(version)))
    }
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
        has no fixed version: its image is tagged `latest`
        has an invalid name: `--privileged:1`
        ");
    }
}
