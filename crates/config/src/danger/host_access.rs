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

/// Options that give a container more of this machine, whatever their value is.
const VALUED_PRIVILEGES: [&str; 7] =
    ["--cap-add", "--device", "--device-cgroup-rule", "--volumes-from", "--runtime", "--cgroup-parent", "--sysctl"];
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
            "--mount" => mount_source(value),
            _ => None,
        };
        if name == "--env-file" && !value.is_empty() {
            found.push(HostAccess::Mount(value));
        }
        // A name without a slash is a volume of the engine.
        let is_host_path = |source: &&str| source.starts_with(['/', '.', '~', '$']);
        found.extend(source.filter(is_host_path).map(HostAccess::Mount));
        let is_privilege = match name {
            "--privileged" => value != "false",
            "--use-api-socket" => true,
            "--pid" | "--network" | "--net" | "--ipc" | "--userns" | "--uts" | "--cgroupns" => {
                value == "host" || value.starts_with("container:")
            }
            "--security-opt" => !value.is_empty() && !value.starts_with("no-new-privileges"),
            name => VALUED_PRIVILEGES.contains(&name) && !value.is_empty(),
        };
        // What follows a switch is not its value.
        let is_switch = matches!(name, "--privileged" | "--use-api-socket");
        if is_privilege && (arg.starts_with('-') || !is_switch) {
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

/// Returns the place of a mount on this machine. Its fields may be quoted, and a volume can have a device.
fn mount_source(mount: &str) -> Option<&str> {
    let fields = mount.split(',').map(|field| field.trim_matches('"')).filter_map(|field| field.split_once('='));
    let source = |(key, value)| match key {
        "source" | "src" => Some(value),
        "volume-opt" => str::strip_prefix(value, "device="),
        _ => None,
    };
    let is_place = |source: &&str| source.starts_with(['/', '.', '~', '$']);
    fields.filter_map(source).find(is_place)
}

/// Returns the volume of `-v`, which may follow letters without a value, and which may be the next argument instead.
fn attached_volume(arg: &str) -> Option<&str> {
    let letters = arg.strip_prefix('-')?;
    let value = letters.trim_start_matches(['a', 'd', 'i', 'q', 't', 'P']).strip_prefix('v')?;
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
        check("docker run --mount \"type=bind\",\"source=/home/me\" image", &[Mount("/home/me")]);
        check("docker run --mount type=volume,volume-opt=type=none,volume-opt=device=/ image", &[Mount("/")]);
        check("docker run -av /:/host image", &[Mount("/")]);
        check("docker run --env-file secrets.env image", &[Mount("secrets.env")]);
        check("docker run --uts=host --ipc container:x image", &[Privilege("--uts"), Privilege("--ipc")]);
        check("docker run --volumes-from db --runtime=x image", &[Privilege("--volumes-from"), Privilege("--runtime")]);
        check("docker run --security-opt seccomp=unconfined image", &[Privilege("--security-opt")]);
        check("docker run --security-opt no-new-privileges --uts private image", &[]);
        check("docker run --use-api-socket image", &[Privilege("--use-api-socket")]);
        check("docker run -i --rm -e A=b -v data:/data --network none --privileged=false image", &[]);
        check("node -v /x", &[]);
    }
}
