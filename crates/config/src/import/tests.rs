//! Realistic files of other hosts, and what they are converted to.

use super::*;

fn imported(host: ImportHost, text: &str) -> String {
    imported_in(host, text, Some(Path::new("/home/me/shop")))
}

fn imported_in(host: ImportHost, text: &str, project: Option<&Path>) -> String {
    let file = match read(host, text, project) {
        Ok(file) => file,
        Err(error) => return format!("error: {error}"),
    };
    let mut lines = Vec::new();
    for server in &file.servers {
        lines.push(format!("{} {}", server.name, serde_json::to_string(&server.entry).unwrap()));
        lines.extend(server.notes.iter().map(|note| format!("  - {note}")));
    }
    lines.extend(file.skipped.iter().map(|(name, reason)| format!("skipped {name}: {reason}")));
    lines.extend(file.notes.iter().map(|note| format!("note: {note}")));
    lines.join("\n")
}

#[test]
fn claude_code_stores_servers_of_the_user_and_of_every_project() {
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
    insta::assert_snapshot!(imported(ImportHost::ClaudeCode, file), @r#"
    github {"type":"stdio","command":"docker","args":["run","-e","GITHUB_TOKEN","ghcr.io/github/github-mcp-server"],"env":{"GITHUB_TOKEN":"${GITHUB_TOKEN}"}}
    memory {"type":"stdio","command":"npx","args":["-y","@modelcontextprotocol/server-memory"],"enabled":false}
    tracker {"type":"sse","url":"https://mcp.example.com/sse","oauth":{"clientId":"x","clientSecret":"s3cr3t-0123456789abcdef","callbackPort":8090},"timeout":90000}
      - ignored `oauth.xaa`: not supported
      - credentials are not imported: sign in to the server again
      - `oauth.clientSecret` contains a secret; use `${CLIENTSECRET}` to keep it out of the file
    skipped github: the project has a server with the same name, which was imported instead
    skipped in-page: type `sdk` works only in that host
    note: another project has servers too; import them from there
    "#);
    assert!(
        read(ImportHost::ClaudeCode, file, None).unwrap().servers.iter().any(|server| server.entry["type"] == "http")
    );
}

#[test]
fn a_project_file_is_imported_unchanged() {
    let file = r#"{"mcpServers": {
        "api": {"type": "http", "url": "${API_URL:-https://api.example.com}/mcp", "headersHelper": "./token.sh", "headers": {"X-Team": "shop"}},
        "socket": {"type": "ws", "url": "wss://example.com/mcp"}
    }}"#;
    insta::assert_snapshot!(imported(ImportHost::ClaudeCode, file), @r#"
    api {"type":"http","url":"${API_URL:-https://api.example.com}/mcp","headers":{"X-Team":"shop"},"headersHelper":"./token.sh"}
    socket {"type":"ws","url":"wss://example.com/mcp"}
    "#);
}

#[test]
fn claude_desktop_has_no_variables_and_free_names() {
    let file = r#"{"globalShortcut": "", "mcpServers": {
        "File System": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/ada/${x}"]},
        "file-system": {"command": "other"},
        "file system": {"command": "third"},
        "Brave": {"command": "npx", "args": ["brave", 3], "env": {"BRAVE_API_KEY": "BSA-0123456789", "PORT": 80}}
    }}"#;
    insta::assert_snapshot!(imported(ImportHost::ClaudeDesktop, file), @r#"
    File-System {"type":"stdio","command":"npx","args":["-y","@modelcontextprotocol/server-filesystem","/Users/ada/$${x}"]}
      - renamed to `File-System`: names consist of letters, digits, `_`, `.` and `-`
      - `${` is plain text in that host; written as `$${` here
    file-system {"type":"stdio","command":"other"}
    file-system-2 {"type":"stdio","command":"third"}
      - renamed to `file-system-2`: names consist of letters, digits, `_`, `.` and `-`
    Brave {"type":"stdio","command":"npx","args":["brave","3"],"env":{"BRAVE_API_KEY":"BSA-0123456789","PORT":"80"}}
      - `env.BRAVE_API_KEY` contains a secret; use `${BRAVE_API_KEY}` to keep it out of the file
    "#);
}

#[test]
fn cursor_has_placeholders_for_directories_and_variables() {
    let file = r#"{"mcpServers": {
        "local": {"command": "${workspaceFolder}/.venv/bin/python", "args": ["${workspaceFolderBasename}", "${userHome}/x${/}y", "${config:theme}"],
            "env": {"API_KEY": "${env:SHOP_API_KEY}"}, "envFile": "${workspaceFolder}/.env"},
        "remote": {"url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}, "auth": {"CLIENT_ID": "a"}, "disabled": true}
    }}"#;
    insta::assert_snapshot!(imported(ImportHost::Cursor, file), @r#"
    local {"type":"stdio","command":"/home/me/shop/.venv/bin/python","args":["shop","${HOME}/x/y","$${config:theme}"],"env":{"API_KEY":"${SHOP_API_KEY}"}}
      - `${config:theme}` is not supported and became plain text
      - ignored `envFile`: put its variables into `env`
    remote {"type":"http","url":"https://mcp.example.com/mcp","headers":{"Authorization":"Bearer ${TOKEN}"},"enabled":false}
      - ignored `auth`: sign in to the server, or set a header
    "#);
    let alone =
        imported_in(ImportHost::Cursor, r#"{"mcpServers": {"a": {"command": "${workspaceFolder}/run"}}}"#, None);
    insta::assert_snapshot!(alone, @r#"
    a {"type":"stdio","command":"${WORKSPACE_FOLDER}/run"}
      - `${workspaceFolder}` requires a project; set the variable WORKSPACE_FOLDER
    "#);
}

#[test]
fn vscode_inputs_become_variables() {
    let file = r#"{
        // Prompted for once and stored.
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
    insta::assert_snapshot!(imported(ImportHost::VsCode, file), @r#"
    perplexity {"type":"stdio","command":"${HOME}/bin/perplexity","args":["--region","${REGION:-eu}"],"env":{"KEY":"${PERPLEXITY_KEY}","OTHER":"${PERPLEXITY_KEY_2}"}}
      - `${input:region}` needs a prompt; set the variable REGION instead
      - ignored `env.UNSET`: no value
      - `${input:perplexity-key}` (Perplexity API Key) needs a prompt; set the variable PERPLEXITY_KEY instead
      - `${input:perplexity.key}` (the other one) needs a prompt; set the variable PERPLEXITY_KEY_2 instead
      - ignored `dev`: only for developing a server in an editor
    github {"type":"http","url":"https://api.githubcopilot.com/mcp"}
      - ignored `gallery`: only says where the server was found
    "#);
}

#[test]
fn vscode_settings_can_contain_servers() {
    let inside = r#"{"editor.fontSize": 12, "mcp": {"inputs": [], "servers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}}"#;
    let dotted = r#"{"mcp.servers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}"#;
    let expected = "time {\"type\":\"stdio\",\"command\":\"uvx\",\"args\":[\"mcp-server-time\"]}";
    assert_eq!([imported(ImportHost::VsCode, inside), imported(ImportHost::VsCode, dotted)], [expected, expected]);
}

#[test]
fn codex_uses_toml_and_separate_keys_for_variables() {
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
    insta::assert_snapshot!(imported(ImportHost::Codex, file), @r#"
    context7 {"type":"stdio","command":"npx","args":["-y","@upstash/context7-mcp"],"env":{"MODE":"$${literal}","CONTEXT7_KEY":"${CONTEXT7_KEY}","HOME_TOKEN":"${HOME_TOKEN}"},"cwd":"/work","connectTimeout":12500}
      - `${` is plain text in that host; written as `$${` here
    figma {"type":"http","url":"https://mcp.figma.com/mcp","headers":{"X-Figma-Region":"us-east-1","X-Team":"${FIGMA_TEAM}","Authorization":"Bearer ${FIGMA_OAUTH_TOKEN}"},"timeout":45000,"enabled":false,"required":true,"includeTools":["open"],"excludeTools":["shut"]}
      - ignored `scopes`: sign in to the server again
      - ignored `wings`: not supported
    skipped both: has both `command` and `url`
    "#);
}

#[test]
fn invalid_servers_are_skipped_with_a_reason() {
    let file = r#"{"mcpServers": {
        "gіthub": {"command": "x"}, "日本": {"command": "x"}, "text": "npx", "empty": {}, "args": {"command": "x", "args": "y"},
        "env": {"command": "x", "env": {"A": []}}, "number": {"command": 5}, "both": {"command": "x", "url": "https://x"},
        "slow": {"command": "x", "timeout": 30}, "good": {"url": "https://ada:pw@example.com/mcp?api_key=0123456789"}
    }}"#;
    insta::assert_snapshot!(imported(ImportHost::Cursor, file), @r#"
    slow {"type":"stdio","command":"x"}
      - ignored `timeout`: 30 is out of range
    good {"type":"http","url":"https://ada:pw@example.com/mcp?api_key=0123456789"}
      - `url` contains a secret; use a header, or `${VAR}`
    skipped gіthub: its name contains non-ASCII letters and looks like `github`; rename it
    skipped 日本: its name contains non-ASCII letters; rename it
    skipped text: its entry is not an object
    skipped empty: has neither `command` nor `url`
    skipped args: `args` is not a list of strings
    skipped env: `env` is not an object of strings
    skipped number: `command` is not a string
    skipped both: has both `command` and `url`
    "#);
}

#[test]
fn errors_of_invalid_files_do_not_contain_their_content() {
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
    let results: Vec<String> = table.iter().map(|(host, text)| format!("{host}: {}", imported(*host, text))).collect();
    assert!(!results.join("\n").contains("s3cret"), "{results:?}");
    insta::assert_snapshot!(results.join("\n"), @"
    claude-desktop: error: invalid JSON in line 2: Expected comma
    claude-desktop: error: the file does not contain an object
    claude-desktop: error: `mcpServers` is not an object of servers
    claude-desktop: note: the file has no `mcpServers`
    claude-desktop: note: the file has no servers
    claude-code: note: the file has no `mcpServers`, but `servers`, as in files of other hosts
    vscode: note: the file has no `servers`
    cursor: note: the file is empty
    codex: error: invalid TOML in line 2: invalid TOML value, did you mean to use a quoted string?
    codex: note: the file has no `mcp_servers`
    ");
}

#[test]
fn deep_nesting_is_an_error_without_a_stack_overflow() {
    for open in ["[", "{\"a\":"] {
        assert!(read(ImportHost::Cursor, &open.repeat(100_000), None).is_err());
    }
    assert!(read(ImportHost::Codex, &format!("a = {}", "[".repeat(100_000)), None).is_err());
}

#[test]
fn every_host_has_default_files() {
    let dirs =
        ImportDirs { home: Path::new("~"), config: Path::new("~/.config"), project: Some(Path::new("/home/me/shop")) };
    let line = |host: ImportHost| {
        let files: Vec<String> = default_files(host, &dirs).iter().map(|file| file.display().to_string()).collect();
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
        "unknown host `zed`: expected one of claude-code, claude-desktop, cursor, vscode, codex"
    );
}

#[test]
fn debug_output_contains_no_secrets() {
    let file = r#"{"mcpServers": {"a": {"command": "x", "env": {"A_TOKEN": "s3cret-s3cret"}}}}"#;
    assert!(!format!("{:?}", read(ImportHost::Cursor, file, None)).contains("s3cret"));
}
