use super::*;

#[expect(clippy::needless_pass_by_value, reason = "shorter calls")]
fn server(packages: Value, remotes: Value) -> RegistryServer {
    let server = json!({"name": "io.example/s", "version": "1.0.0", "description": "d", "packages": packages, "remotes": remotes});
    RegistryServer::from_response(&json!({ "server": server })).unwrap()
}

fn planned(packages: Value, remotes: Value, values: &[(&str, &str)]) -> String {
    let (usable, refused) = offers(&server(packages, remotes));
    if let Some(RefusedOffer { label, reason }) = refused.first() {
        return format!("{label} {reason}");
    }
    let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    match usable[0].plan(&values) {
        Ok(EntryPlan { entry, references, .. }) => format!("{} {references:?}", Value::Object(entry)),
        Err(NoEntry::Missing(input)) => format!("missing {} ({:?})", input.name, input.role),
        Err(NoEntry::TooLarge(limit)) => format!("larger than {limit}"),
    }
}

#[test]
fn a_package_becomes_a_pinned_command_with_references_to_variables() {
    let package = json!([{"registryType": "npm", "identifier": "@o/p", "version": "1.2.3", "transport": {"type": "stdio"},
        "runtimeArguments": [{"type": "named", "name": "--silent"}],
        "packageArguments": [
            {"type": "positional", "value": "serve"},
            {"type": "named", "name": "--root", "isRequired": true, "default": "/tmp"},
            {"type": "named", "name": "-p", "value": "{port}", "variables": {"port": {"default": "80"}}},
            {"type": "positional", "valueHint": "extra"}],
        "environmentVariables": [
            {"name": "API_KEY", "isRequired": true, "isSecret": true},
            {"name": "LOG", "default": "info"},
            {"name": "FIXED", "value": "x ${HOME}"}]}]);
    assert_eq!(
        planned(package.clone(), json!([]), &[]),
        r#"{"type":"stdio","command":"npx","args":["-y","--silent","@o/p@1.2.3","serve","--root=/tmp","-p","80"],"env":{"API_KEY":"${API_KEY}","FIXED":"x $${HOME}"}} ["API_KEY"]"#
    );
    assert_eq!(
        planned(package, json!([]), &[("API_KEY", "k"), ("LOG", "debug"), ("port", "81"), ("extra", "e")]),
        r#"{"type":"stdio","command":"npx","args":["-y","--silent","@o/p@1.2.3","serve","--root=/tmp","-p","81","e"],"env":{"API_KEY":"k","LOG":"debug","FIXED":"x $${HOME}"}} []"#
    );
}

#[test]
fn a_container_gets_its_variables_by_name() {
    let package = json!([{"registryType": "oci", "identifier": "ghcr.io/o/i:1.0.0",
        "runtimeArguments": [{"type": "positional", "value": "run"}, {"type": "named", "name": "--network", "value": "none"}],
        "environmentVariables": [{"name": "TOKEN", "isRequired": true, "isSecret": true}]}]);
    assert_eq!(
        planned(package, json!([]), &[]),
        r#"{"type":"stdio","command":"docker","args":["run","-i","--rm","--network=none","-e","TOKEN","ghcr.io/o/i:1.0.0"],"env":{"TOKEN":"${TOKEN}"}} ["TOKEN"]"#
    );
}

#[test]
fn a_remote_server_gets_headers_and_a_url_with_values() {
    let remote = json!([{"type": "streamable-http", "url": "https://{tenant}.example.com/mcp/{odd}",
        "variables": {"tenant": {"isRequired": true}},
        "headers": [{"name": "X-Api-Key", "isRequired": true, "isSecret": true},
            {"name": "Authorization", "value": "Bearer {token}", "isSecret": true, "variables": {"token": {"isRequired": true}}},
            {"name": "X-Optional"}]}]);
    assert_eq!(planned(json!([]), remote.clone(), &[]), "missing tenant (Part)");
    assert_eq!(
        planned(json!([]), remote, &[("tenant", "acme")]),
        r#"{"type":"http","url":"https://acme.example.com/mcp/{odd}","headers":{"X-Api-Key":"${X_API_KEY}","Authorization":"Bearer ${TOKEN}"}} ["TOKEN", "X_API_KEY"]"#
    );
}

#[test]
fn offers_that_cannot_be_used_say_why() {
    let remote = |remote: Value| planned(json!([]), json!([remote]), &[]);
    let package = |key: &str, value: Value| {
        let mut package = json!({"registryType": "npm", "identifier": "p", "version": "1.0.0"});
        package[key] = value;
        planned(json!([package]), json!([]), &[])
    };
    let refused = [
        remote(json!({"type": "streamable-http", "url": "http://example.com/mcp"})),
        remote(json!({"type": "carrier-pigeon", "url": "https://example.com/mcp"})),
        remote(json!({"type": "sse", "url": "https://u:p@example.com/mcp"})),
        remote(json!({"type": "sse", "url": "https://example.com/mcp", "headers": [{"name": "A\r\nB", "value": "x"}]})),
        package("transport", json!({"type": "streamable-http", "url": "http://localhost:{port}"})),
        package("environmentVariables", json!([{"name": "LD_PRELOAD=x", "value": "y"}])),
        package("packageArguments", json!([{"type": "named", "value": "y"}])),
    ];
    insta::assert_snapshot!(refused.join("\n"), @"
    http://example.com/mcp is not at an https:// URL
    https://example.com/mcp has an unknown transport: `carrier-pigeon`
    https://u:p@example.com/mcp has an invalid URL
    https://example.com/mcp has a header with an invalid name: `A
    B`
    npm package p starts its own streamable-http server, which is not supported
    npm package p has a variable with an invalid name: `LD_PRELOAD=x`
    npm package p has an option without a name
    ");
}

#[test]
fn text_of_the_registry_refers_to_no_variable_in_any_place() {
    let remote =
        |value: Value| json!([{"type": "streamable-http", "url": "https://x.example/mcp", "headers": [value]}]);
    let planned_header = |value: Value| planned(json!([]), remote(value), &[]);
    let literal = r#"{"type":"http","url":"https://x.example/mcp","headers":{"X":"$${KEY}"}} []"#;
    let by_value = json!({"name": "X", "value": "${v}", "variables": {"v": {"value": "{KEY}"}}});
    assert_eq!(planned_header(by_value), literal);
    let by_default =
        json!({"name": "X", "value": "${v}", "variables": {"v": {"default": "{KEY}", "isRequired": true}}});
    assert_eq!(planned_header(by_default), literal);
    let package = json!([{"registryType": "npm", "identifier": "p", "version": "1.0.0",
        "packageArguments": [{"type": "named", "name": "-k${KEY}"}]}]);
    let flag = planned(package, json!([]), &[]);
    assert!(flag.contains(r#""-k$${KEY}""#) && flag.ends_with("[]"), "{flag}");
}

#[test]
fn a_remote_server_is_encrypted_or_local() {
    for (url, default) in [
        ("http://x.example/mcp", ""),
        ("http://localhost.evil.example/mcp", ""),
        ("http://127.0.0.1.evil.example/mcp", ""),
        ("http://localhost{x}/mcp", ".evil.example"),
        ("{x}/mcp", "http://evil.example"),
    ] {
        let remote = json!([{"type": "streamable-http", "url": url,
            "variables": {"x": {"default": default, "isRequired": true}}}]);
        assert!(planned(json!([]), remote, &[]).contains("is not at an https:// URL"), "{url}");
    }
    let local = json!([{"type": "streamable-http", "url": "http://127.0.0.1:9/mcp"}]);
    assert!(planned(json!([]), local, &[]).contains("127.0.0.1:9"));
}

#[test]
fn arguments_of_the_runtime_that_change_what_runs_are_dangers() {
    let dangers = |kind: &str, version: &str, arguments: Value| {
        let package =
            json!([{"registryType": kind, "identifier": "p", "version": version, "runtimeArguments": arguments}]);
        offers(&server(package, json!([]))).0[0].plan(&BTreeMap::new()).unwrap().dangers
    };
    let positional = |words: &[&str]| json!(words.iter().map(|word| json!({"value": word})).collect::<Vec<_>>());
    for (kind, words) in [
        ("npm", &["--registry=https://evil.example"][..]),
        ("npm", &["--reg", "https://evil.example"]),
        ("npm", &["--script-shell=/tmp/x"]),
        ("npm", &["--node-options=--require=/tmp/x"]),
        ("npm", &["-p", "evil"]),
        ("npm", &["--package=evil"]),
        ("npm", &["-c", "id"]),
        ("npm", &["evil"]),
        ("pypi", &["--with", "evil"]),
        ("pypi", &["--from=evil"]),
        ("pypi", &["--index=https://evil.example"]),
        ("pypi", &["--extra-index-url=https://evil.example"]),
        ("pypi", &["--find-links=/tmp"]),
        ("pypi", &["--python=/tmp/x"]),
        ("nuget", &["--source=https://evil.example"]),
        ("nuget", &["--version", "9.9.9"]),
        ("oci", &["--mount", "\"type=bind\",\"source=/\",\"target=/x\""]),
        ("oci", &["-iv", "/:/x"]),
        ("oci", &["-v=/:/host"]),
        ("oci", &["--env-file=/etc/passwd"]),
        ("oci", &["--volumes-from=other"]),
        ("oci", &["--security-opt=seccomp=unconfined"]),
        ("oci", &["--uts=host"]),
        ("oci", &["--pid=container:x"]),
        ("oci", &["--ipc=host"]),
        ("oci", &["--network=host"]),
        ("oci", &["--privileged"]),
        ("oci", &["--cap-add=ALL"]),
        ("oci", &["--device=/dev/sda"]),
        ("oci", &["--entrypoint=sh"]),
        ("oci", &["-e", "AWS_SECRET_ACCESS_KEY"]),
        ("oci", &["evil/image"]),
    ] {
        let found = dangers(kind, "1.0.0", positional(words));
        assert!(found.first().is_some_and(|danger| danger.contains(words[0])), "{kind} {words:?}: {found:?}");
        let flag = words[0].split('=').next().unwrap_or_default();
        let named = json!([{"type": "named", "name": flag, "value": words.get(1).copied().unwrap_or("x")}]);
        assert!(
            !flag.starts_with('-') || flag == "-v" || !dangers(kind, "1.0.0", named).is_empty(),
            "{kind} {words:?}"
        );
    }
    for (kind, words) in [
        ("npm", &["-y", "--silent", "--prefer-offline", "--loglevel", "error"][..]),
        ("pypi", &["--quiet", "--python=3.12", "--isolated"]),
        ("nuget", &["--yes"]),
        ("oci", &["run", "-i", "--rm", "-it", "--init", "-e", "LOG=debug", "--network=none", "--cap-drop=ALL"]),
        ("oci", &["--security-opt=no-new-privileges", "--pull", "missing", "--memory=1g", "--user", "1000:1000"]),
    ] {
        assert_eq!(dangers(kind, "1.0.0", positional(words)), Vec::<String>::new(), "{kind} {words:?}");
    }
}

#[test]
fn a_value_that_is_secret_in_one_place_is_secret_everywhere() {
    let package = json!([{"registryType": "npm", "identifier": "p", "version": "1.0.0",
        "packageArguments": [{"type": "named", "name": "--key", "value": "{KEY}", "variables": {"KEY": {"default": "d"}}}],
        "environmentVariables": [{"name": "KEY", "isRequired": true, "isSecret": true}]}]);
    let shown = planned(package, json!([]), &[]);
    assert!(shown.contains(r#""--key=${KEY}""#), "{shown}");
}

#[test]
fn offers_without_bounds_are_refused() {
    let package = |key: &str, value: Value| {
        let mut package = json!({"registryType": "npm", "identifier": "p", "version": "1.0.0"});
        package[key] = value;
        planned(json!([package]), json!([]), &[])
    };
    let many = json!({"value": "{a}{a}{a}{a}", "variables": {"a": {"default": "y".repeat(3_000)}}});
    assert_eq!(package("packageArguments", json!([many, many, many])), "larger than 32768");
    let long = "x".repeat(5_000);
    let refused = [
        package("packageArguments", json!(vec![json!({"value": "x"}); 65])),
        package("packageArguments", json!([{"value": long}])),
        package("packageArguments", json!([{"type": "named", "name": long}])),
        package("environmentVariables", json!([{"name": "A", "choices": vec!["x"; 65]}])),
        package("environmentVariables", json!([{"name": "A", "value": "{a}", "variables": {"a": {"default": long}}}])),
        planned(
            json!([]),
            json!([{"type": "sse", "url": "https://x.example", "headers": vec![json!({"name": "A"}); 65]}]),
            &[],
        ),
        planned(json!([]), json!([{"type": "sse", "url": format!("https://{long}")}]), &[])
            .split(' ')
            .skip(1)
            .collect::<Vec<_>>()
            .join(" "),
    ];
    insta::assert_snapshot!(refused.join("\n"), @"
    npm package p is too large to review: `packageArguments` has more than 64 items
    npm package p is too large to review: `value` is longer than 4000 characters
    npm package p is too large to review: `name` is longer than 200 characters
    npm package p is too large to review: `choices` has more than 64 items
    npm package p is too large to review: `default` is longer than 4000 characters
    https://x.example is too large to review: `headers` has more than 64 items
    is too large to review: `url` is longer than 4000 characters
    ");
}
