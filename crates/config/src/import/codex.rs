//! Codex: `[mcp_servers.NAME]` in a file of TOML.

use serde_json::{Map, Value};

use super::entry::Draft;
use super::servers::{Found, all, under};
use super::words::{Dialect, Words};
use super::{ImportError, ImportedFile};

/// Keys that have no meaning here.
const LEFT_OUT: [(&str, &str); 7] = [
    ("scopes", "sign in to the server"),
    ("oauth_resource", "sign in to the server"),
    ("oauth", "sign in to the server"),
    ("tools", "what needs approval is set for the whole of a run"),
    ("default_tools_approval_mode", "what needs approval is set for the whole of a run"),
    ("supports_parallel_tool_calls", "only tools that change nothing are called together"),
    ("name", "it only describes the server"),
];

pub(super) fn read(text: &str) -> Result<ImportedFile, ImportError> {
    let file: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let line =
            error.span().and_then(|span| text.get(..span.start)).map_or(1, |before| before.lines().count().max(1));
        ImportError::Unreadable { format: "TOML", line, reason: error.message().to_owned() }
    })?;
    let file: Map<String, Value> = match serde_json::to_value(file) {
        Ok(Value::Object(file)) => file,
        _ => return Err(ImportError::Shape("the file has values that JSON has no words for".to_owned())),
    };
    let found: Found = under(&file, &["mcp_servers"])?;
    Ok(all(found, convert))
}

fn convert(theirs: &Map<String, Value>) -> Result<(Map<String, Value>, Vec<String>), String> {
    let words = Words::new(Dialect::Plain, None);
    let mut draft = Draft::new(theirs);
    match (draft.text("command")?, draft.text("url")?) {
        (Some(command), None) => {
            draft.put("type", "stdio");
            let command = words.text(command, &mut draft.notes);
            draft.put("command", command);
            let args = draft.texts("args")?.map(|args| draft.translated(&words, &args));
            draft.put_some("args", args.filter(|args| !args.is_empty()));
            let env = draft.table("env")?;
            draft.put_table("env", env, &words);
            let passed = passed(&mut draft)?;
            insert(&mut draft, "env", passed);
            let cwd = draft.text("cwd")?.map(|cwd| words.text(cwd, &mut draft.notes));
            draft.put_some("cwd", cwd);
        }
        (None, Some(url)) => {
            draft.put("type", "http");
            let url = words.text(url, &mut draft.notes);
            draft.put("url", url);
            let headers = draft.table("http_headers")?;
            draft.put_table("headers", headers, &words);
            let from_variables = draft.table("env_http_headers")?.unwrap_or_default();
            insert(
                &mut draft,
                "headers",
                from_variables.into_iter().map(|(name, from)| (name, format!("${{{from}}}"))),
            );
            let token = draft.text("bearer_token")?.map(|token| words.text(token, &mut draft.notes));
            let token = draft.text("bearer_token_env_var")?.map(|from| format!("${{{from}}}")).or(token);
            insert(&mut draft, "headers", token.map(|token| ("Authorization".to_owned(), format!("Bearer {token}"))));
        }
        (Some(_), Some(_)) => return Err("has both `command` and `url`".to_owned()),
        (None, None) => return Err("has neither `command` nor `url`".to_owned()),
    }
    draft.milliseconds("startup_timeout_ms", "connectTimeout", 1.0)?;
    draft.milliseconds("startup_timeout_sec", "connectTimeout", 1000.0)?;
    draft.milliseconds("tool_timeout_sec", "timeout", 1000.0)?;
    let (enabled, required) = (draft.flag("enabled")?, draft.flag("required")?);
    draft.put_some("enabled", enabled.filter(|enabled| !enabled));
    draft.put_some("required", required.filter(|required| *required));
    let (only, without) = (draft.texts("enabled_tools")?, draft.texts("disabled_tools")?);
    draft.put_some("includeTools", only);
    draft.put_some("excludeTools", without);
    Ok(draft.finish(&LEFT_OUT))
}

/// The variables that are passed on, each as a text or as a table with its name.
fn passed(draft: &mut Draft<'_>) -> Result<Vec<(String, String)>, String> {
    let Some(names) = draft.take("env_vars") else { return Ok(Vec::new()) };
    let name = |value: &Value| value.as_str().or_else(|| value.get("name")?.as_str()).map(str::to_owned);
    let names: Option<Vec<String>> = names.as_array().and_then(|names| names.iter().map(name).collect());
    let names = names.ok_or("`env_vars` is no list of names")?;
    Ok(names.into_iter().map(|name| (name.clone(), format!("${{{name}}}"))).collect())
}

/// Adds to a table of the entry.
fn insert(draft: &mut Draft<'_>, key: &str, pairs: impl IntoIterator<Item = (String, String)>) {
    let mut table = draft.entry.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
    table.extend(pairs.into_iter().map(|(name, text)| (name, Value::String(text))));
    if !table.is_empty() {
        draft.put(key, table);
    }
}
