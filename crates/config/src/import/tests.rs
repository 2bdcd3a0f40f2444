//! Files as people have them, and what becomes of them.

use super::*;

fn shown(host: ImportHost, text: &str) -> String {
    shown_in(host, text, Some(Path::new("/home/me/shop")))
}

fn shown_in(host: ImportHost, text: &str, project: Option<&Path>) -> String {
    let imported = match read(host, text, project) {
        Ok(imported) => imported,
        Err(error) => return format!("error: {error}"),
    };
    let mut lines = Vec::new();
    for server in &imported.servers {
        lines.push(format!("{} {}", server.name, serde_json::to_string(&server.entry).unwrap()));
        lines.extend(server.notes.iter().map(|note| format!("  - {note}")));
    }
    lines.extend(imported.skipped.iter().map(|(name, reason)| format!("skipped {name}: {reason}")));
    lines.extend(imported.notes.iter().map(|note| format!("note: {note}")));
    lines.join("\n")
}

#[test]
fn claude_code_has_a_persons_servers_and_those_of_every_project() {
    let file = r#"{
        "numStartups": 12,
        "mcpServers": {
            "github": {"type": "http", "url": "https://api.githubcopilot.com/mcp/", "headers": {"Authorization": "Bearer ghp_0123456789abcdef"}},
            "memory": {"type": "stdio", "command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"], "env": {}},
            "tracker": {"type": "sse", "url": "https://mcp.example.com/sse", "timeout": 90000, "oauth": {"clientId": "x", "clientSecret": "s3cr3t-0123456789abcdef", "callbackPort": 8090, "xaa": true}},
            "in-page": {"type": "sdk", "name": "x"}
        },
        "projects": {
            "/home/me/shop": {"allowedTools": [], "disabledMcpServers": ["memory"], "mcpServers": {
                "github": {"type": "stdio", "command": "docker", "args": ["run", "-e", "GITHUB_TOKEN", "ghcr.io/github/github-mcp-server"], "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}}
            }},
            "/home/me/other": {"mcpServers": {"db": {"command": "db"}}}
        }
    }"#;
    insta::assert_snapshot!(shown(ImportHost::ClaudeCode, file), @r#"
    github {"type":"stdio","command":"docker","args":["run","-e","GITHUB_TOKEN","ghcr.io/github/github-mcp-server"],"env":{"GITHUB_TOKEN":"${GITHUB_TOKEN}"}}
    memory {"type":"stdio","command":"npx","args":["-y","@modelcontextprotocol/server-memory"],"enabled":false}
    tracker {"type":"sse","url":"https://mcp.example.com/sse","oauth":{"clientId":"x","clientSecret":"s3cr3t-0123456789abcdef","callbackPort":8090},"timeout":90000}
      - `oauth.xaa` was left out: it means nothing here
      - sign-ins are not brought over: sign in with `wharf login`
      - `oauth.clientSecret` holds a secret; `${CLIENTSECRET}` would keep it out of the file
    skipped github: is there for this project too, and that one was taken
    skipped in-page: its type `sdk` works only in that host
    note: another project has servers of its own; import them from there
    "#);
    assert!(read(ImportHost::ClaudeCode, file, None).unwrap().servers.iter().any(|it| it.entry["type"] == "http"));
}

#[test]
fn a_projects_own_file_works_as_it_is() {
    let file = r#"{"mcpServers": {
        "api": {"type": "http", "url": "${API_URL:-https://api.example.com}/mcp", "headersHelper": "./token.sh", "headers": {"X-Team": "shop"}},
        "socket": {"type": "ws", "url": "wss://example.com/mcp"}
    }}"#;
    insta::assert_snapshot!(shown(ImportHost::ClaudeCode, file), @r#"
    api {"type":"http","url":"${API_URL:-https://api.example.com}/mcp","headers":{"X-Team":"shop"},"headersHelper":"./token.sh"}
    socket {"type":"ws","url":"wss://example.com/mcp"}
    "#);
}

#[test]
fn claude_desktop_expands_nothing_and_names_are_for_people() {
    let file = r#"{"globalShortcut": "", "mcpServers": {
        "File System": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/ada/${x}"]},
        "file-system": {"command": "other"},
        "file system": {"command": "third"},
        "Brave": {"command": "npx", "args": ["brave", 3], "env": {"BRAVE_API_KEY": "BSA-0123456789", "PORT": 80}}
    }}"#;
    insta::assert_snapshot!(shown(ImportHost::ClaudeDesktop, file), @r#"
    File-System {"type":"stdio","command":"npx","args":["-y","@modelcontextprotocol/server-filesystem","/Users/ada/$${x}"]}
      - is called `File-System` here: names are made of letters, digits, `_`, `.` and `-`
      - `${` is plain text there; here that is written `$${`
    file-system {"type":"stdio","command":"other"}
    file-system-2 {"type":"stdio","command":"third"}
      - is called `file-system-2` here: names are made of letters, digits, `_`, `.` and `-`
    Brave {"type":"stdio","command":"npx","args":["brave","3"],"env":{"BRAVE_API_KEY":"BSA-0123456789","PORT":"80"}}
      - `env.BRAVE_API_KEY` holds a secret; `${BRAVE_API_KEY}` would keep it out of the file
    "#);
}

#[test]
fn cursor_has_words_for_folders_and_variables() {
    let file = r#"{"mcpServers": {
        "local": {"command": "${workspaceFolder}/.venv/bin/python", "args": ["${workspaceFolderBasename}", "${userHome}/x${/}y", "${config:theme}"],
            "env": {"API_KEY": "${env:SHOP_API_KEY}"}, "envFile": "${workspaceFolder}/.env"},
        "remote": {"url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}, "auth": {"CLIENT_ID": "a"}, "disabled": true}
    }}"#;
    insta::assert_snapshot!(shown(ImportHost::Cursor, file), @r#"
    local {"type":"stdio","command":"/home/me/shop/.venv/bin/python","args":["shop","${HOME}/x/y","$${config:theme}"],"env":{"API_KEY":"${SHOP_API_KEY}"}}
      - `${config:theme}` means nothing here, and is plain text now
      - `envFile` was left out: put its variables into `env`
    remote {"type":"http","url":"https://mcp.example.com/mcp","headers":{"Authorization":"Bearer ${TOKEN}"},"enabled":false}
      - `auth` was left out: log in with `wharf login`, or send a header
    "#);
    let alone = shown_in(ImportHost::Cursor, r#"{"mcpServers": {"a": {"command": "${workspaceFolder}/run"}}}"#, None);
    insta::assert_snapshot!(alone, @r#"
    a {"type":"stdio","command":"${WORKSPACE_FOLDER}/run"}
      - `${workspaceFolder}` needs a project; set the variable WORKSPACE_FOLDER
    "#);
}

#[test]
fn vscode_asks_for_inputs_which_become_variables() {
    let file = r#"{
        // What is asked for once and kept.
        "inputs": [
            {"type": "promptString", "id": "perplexity-key", "description": "Perplexity API Key", "password": true},
            {"type": "pickString", "id": "region", "options": ["eu", "us"], "default": "eu"},
            {"type": "promptString", "id": "perplexity.key", "description": "the other one"},
        ],
        "servers": {
            "perplexity": {"type": "stdio", "command": "~/bin/perplexity", "args": ["--region", "${input:region}"],
                "env": {"KEY": "${input:perplexity-key}", "OTHER": "${input:perplexity.key}", "UNSET": null}, "dev": {"watch": "src"}},
            "github": {"type": "http", "url": "https://api.githubcopilot.com/mcp", "gallery": true}, /* the last */
        },
    }"#;
    insta::assert_snapshot!(shown(ImportHost::VsCode, file), @r#"
    perplexity {"type":"stdio","command":"${HOME}/bin/perplexity","args":["--region","${REGION:-eu}"],"env":{"KEY":"${PERPLEXITY_KEY}","OTHER":"${PERPLEXITY_KEY_2}"}}
      - `${input:region}` was asked of you; set the variable REGION instead
      - `env.UNSET` was left out: it has no value
      - `${input:perplexity-key}` was asked of you (Perplexity API Key); set the variable PERPLEXITY_KEY instead
      - `${input:perplexity.key}` was asked of you (the other one); set the variable PERPLEXITY_KEY_2 instead
      - `dev` was left out: it is for developing a server in an editor
    github {"type":"http","url":"https://api.githubcopilot.com/mcp"}
      - `gallery` was left out: it only says where the server was found
    "#);
}

#[test]
fn vscodes_settings_have_servers_too() {
    let inside = r#"{"editor.fontSize": 12, "mcp": {"inputs": [], "servers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}}"#;
    let dotted = r#"{"mcp.servers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}"#;
    let expected = "time {\"type\":\"stdio\",\"command\":\"uvx\",\"args\":[\"mcp-server-time\"]}";
    assert_eq!([shown(ImportHost::VsCode, inside), shown(ImportHost::VsCode, dotted)], [expected, expected]);
}

#[test]
fn codex_writes_toml_and_names_variables_in_fields() {
    let file = r#"
model = "gpt-5"

[mcp_servers.context7]
command = "npx"
args = ["-y", "@upstash/context7-mcp"]
env_vars = ["CONTEXT7_KEY", { name = "HOME_TOKEN", source = "remote" }]
startup_timeout_ms = 20000
startup_timeout_sec = 12.5
cwd = "/work"

[mcp_servers.context7.env]
MODE = "${literal}"

[mcp_servers.figma]
url = "https://mcp.figma.com/mcp"
bearer_token_env_var = "FIGMA_OAUTH_TOKEN"
http_headers = { "X-Figma-Region" = "us-east-1" }
env_http_headers = { "X-Team" = "FIGMA_TEAM" }
tool_timeout_sec = 45
enabled = false
required = true
enabled_tools = ["open"]
disabled_tools = ["shut"]
scopes = ["read"]
wings = 2

[mcp_servers.both]
command = "x"
url = "https://example.com"
"#;
    insta::assert_snapshot!(shown(ImportHost::Codex, file), @r#"
    context7 {"type":"stdio","command":"npx","args":["-y","@upstash/context7-mcp"],"env":{"MODE":"$${literal}","CONTEXT7_KEY":"${CONTEXT7_KEY}","HOME_TOKEN":"${HOME_TOKEN}"},"cwd":"/work","connectTimeout":12500}
      - `${` is plain text there; here that is written `$${`
    figma {"type":"http","url":"https://mcp.figma.com/mcp","headers":{"X-Figma-Region":"us-east-1","X-Team":"${FIGMA_TEAM}","Authorization":"Bearer ${FIGMA_OAUTH_TOKEN}"},"timeout":45000,"enabled":false,"required":true,"includeTools":["open"],"excludeTools":["shut"]}
      - `scopes` was left out: log in with `wharf login`
      - `wings` was left out: it means nothing here
    skipped both: has both `command` and `url`
    "#);
}

#[test]
fn a_server_that_cannot_be_brought_over_says_why_and_the_others_are() {
    let file = r#"{"mcpServers": {
        "gіthub": {"command": "x"}, "日本": {"command": "x"}, "text": "npx", "empty": {}, "args": {"command": "x", "args": "y"},
        "env": {"command": "x", "env": {"A": []}}, "number": {"command": 5}, "both": {"command": "x", "url": "https://x"},
        "slow": {"command": "x", "timeout": 30}, "good": {"url": "https://ada:pw@example.com/mcp?api_key=0123456789"}
    }}"#;
    insta::assert_snapshot!(shown(ImportHost::Cursor, file), @r#"
    slow {"type":"stdio","command":"x"}
      - `timeout` was left out: 30 is no limit that could be meant
    good {"type":"http","url":"https://ada:pw@example.com/mcp?api_key=0123456789"}
      - `url` holds a secret; send it as a header, or as `${VAR}`
    skipped gіthub: has letters in its name that are not ASCII, and looks like `github`, which it is not; rename it
    skipped 日本: has letters in its name that are not ASCII; rename it
    skipped text: is no table of settings
    skipped empty: has neither `command` nor `url`
    skipped args: `args` is no list of texts
    skipped env: `env` is no table of texts
    skipped number: `command` is no text
    skipped both: has both `command` and `url`
    "#);
}

#[test]
fn files_that_are_none_say_what_is_wrong_without_showing_what_they_hold() {
    let table = [
        (ImportHost::ClaudeDesktop, "{\n  \"mcpServers\": {\"a\": {\"command\": \"s3cret\" \"args\": []}}\n}"),
        (ImportHost::ClaudeDesktop, "[]"),
        (ImportHost::ClaudeDesktop, r#"{"mcpServers": []}"#),
        (ImportHost::ClaudeDesktop, "{}"),
        (ImportHost::ClaudeDesktop, r#"{"mcpServers": {}}"#),
        (ImportHost::ClaudeCode, r#"{"servers": {}}"#),
        (ImportHost::VsCode, "// nothing\n"),
        (ImportHost::Cursor, "\u{feff} \n"),
        (ImportHost::Codex, "[mcp_servers.a]\ncommand = s3cret\n"),
        (ImportHost::Codex, "model = \"x\""),
    ];
    let shown: Vec<String> = table.iter().map(|(host, text)| format!("{host}: {}", shown(*host, text))).collect();
    assert!(!shown.join("\n").contains("s3cret"), "{shown:?}");
    insta::assert_snapshot!(shown.join("\n"), @"
    claude-desktop: error: line 2 is no JSON: Expected comma
    claude-desktop: error: the file does not hold an object
    claude-desktop: error: `mcpServers` is no table of servers
    claude-desktop: note: the file has no `mcpServers`
    claude-desktop: note: there are no servers in the file
    claude-code: note: the file has no `mcpServers`, but `servers`, as other hosts have it
    vscode: note: the file has no `servers`
    cursor: note: the file is empty
    codex: error: line 2 is no TOML: invalid TOML value, did you mean to use a quoted string?
    codex: note: the file has no `mcp_servers`
    ");
}

#[test]
fn a_nest_without_end_is_an_error_and_no_overflow() {
    for open in ["[", "{\"a\":"] {
        assert!(read(ImportHost::Cursor, &open.repeat(100_000), None).is_err());
    }
    assert!(read(ImportHost::Codex, &format!("a = {}", "[".repeat(100_000)), None).is_err());
}

#[test]
fn every_host_has_its_places() {
    let folders =
        ImportDirs { home: Path::new("~"), config: Path::new("~/.config"), project: Some(Path::new("/home/me/shop")) };
    let line = |host: ImportHost| {
        let files: Vec<String> = default_files(host, &folders).iter().map(|file| file.display().to_string()).collect();
        format!("{host}: {}", files.join(", "))
    };
    insta::assert_snapshot!(ImportHost::ALL.map(line).join("\n"), @"
    claude-code: /home/me/shop/.mcp.json, ~/.claude.json
    claude-desktop: ~/.config/Claude/claude_desktop_config.json, ~/Library/Application Support/Claude/claude_desktop_config.json
    cursor: /home/me/shop/.cursor/mcp.json, ~/.cursor/mcp.json
    vscode: /home/me/shop/.vscode/mcp.json, ~/.config/Code/User/mcp.json, ~/.config/Code/User/settings.json, ~/Library/Application Support/Code/User/mcp.json, ~/Library/Application Support/Code/User/settings.json
    codex: /home/me/shop/.codex/config.toml, ~/.codex/config.toml
    ");
    assert!(ImportHost::ALL.iter().all(|host| host.as_str().parse() == Ok(*host)));
    assert_eq!(
        "zed".parse::<ImportHost>().unwrap_err(),
        "`zed` is no host that can be imported from; there are claude-code, claude-desktop, cursor, vscode, codex"
    );
}

#[test]
fn what_is_printed_for_a_developer_holds_no_secrets() {
    let file = r#"{"mcpServers": {"a": {"command": "x", "env": {"A_TOKEN": "s3cret-s3cret"}}}}"#;
    assert!(!format!("{:?}", read(ImportHost::Cursor, file, None)).contains("s3cret"));
}
