//! Containers that reach the machine they run on.

use super::invocation::Invocation;

/// What a command gives its container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostAccess<'a> {
    /// A file or folder of this machine.
    Mount(&'a str),
    /// All devices, or the processes or the network of this machine. Names the option.
    Privilege(&'a str),
}

const ENGINES: [&str; 3] = ["docker", "podman", "nerdctl"];

/// Returns what a command gives its container.
pub(crate) fn host_access<'a>(command: &str, args: &'a [String]) -> Vec<HostAccess<'a>> {
    let run = Invocation::of(command, args);
    if !ENGINES.contains(&run.program.as_str()) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut before = "";
    for arg in run.args {
        let attached = attached_volume(arg);
        let (name, value) = match arg.split_once('=') {
            _ if attached.is_some() => ("-v", attached.unwrap_or_default()),
            Some((name, value)) if name.starts_with('-') => (name, value),
            _ if arg.starts_with('-') => (arg.as_str(), ""),
            _ => (before, arg.as_str()),
        };
        let source = match name {
            "-v" | "--volume" => value.split(':').next(),
            "--mount" => {
                let fields = value.split(',').filter_map(|field| field.split_once('='));
                fields.into_iter().find(|(key, _)| matches!(*key, "source" | "src")).map(|(_, source)| source)
            }
            _ => None,
        };
        // A name without a slash is a volume of the engine.
        let is_host_path = |source: &&str| source.starts_with(['/', '.', '~', '$']);
        found.extend(source.filter(is_host_path).map(HostAccess::Mount));
        let is_privilege = match name {
            "--privileged" => value != "false",
            "--pid" | "--network" | "--net" | "--ipc" | "--userns" => value == "host",
            "--cap-add" | "--device" => !value.is_empty(),
            _ => false,
        };
        if is_privilege && (arg.starts_with('-') || name != "--privileged") {
            found.push(HostAccess::Privilege(name));
        }
        before = match attached {
            Some("") => "-v",
            None if arg.starts_with('-') && !arg.contains('=') => arg,
            _ => "",
        };
    }
    found
}

/// Returns the volume of `-v`, which may follow letters without a value, and which may be the next argument instead.
fn attached_volume(arg: &str) -> Option<&str> {
    let letters = arg.strip_prefix('-')?;
    let value = letters.trim_start_matches(['d', 'i', 'q', 't', 'P']).strip_prefix('v')?;
    Some(value.strip_prefix('=').unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &[HostAccess<'_>]) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        assert_eq!(host_access(&words[0], &words[1..]), expected, "{line}");
    }

    #[test]
    fn mounts_and_privileges_of_containers_are_detected() {
        use HostAccess::{Mount, Privilege};
        check("docker run -i --rm -v /:/host image", &[Mount("/")]);
        check("podman run -v/etc:/x image", &[Mount("/etc")]);
        check("podman run -v=/etc:/x image", &[Mount("/etc")]);
        check("docker run -itv /:/host image", &[Mount("/")]);
        check("docker run -itv/:/host image", &[Mount("/")]);
        check("nice docker run --volume=/var/run/docker.sock:/s image", &[Mount("/var/run/docker.sock")]);
        check("docker run --mount type=bind,source=/home/me,target=/x image", &[Mount("/home/me")]);
        check("docker run --mount=type=bind,src=.,dst=/x image", &[Mount(".")]);
        check("docker run --privileged image", &[Privilege("--privileged")]);
        check("docker run --pid=host --network host image", &[Privilege("--pid"), Privilege("--network")]);
        check("docker run --cap-add SYS_ADMIN image", &[Privilege("--cap-add")]);
        check("docker run -i --rm -e A=b -v data:/data --network none --privileged=false image", &[]);
        check("node -v /x", &[]);
    }
}
