//! Converts entries of Codex: `[mcp_servers.NAME]` in a TOML file.

use serde_json::{Map, Value};
use toml_span::value::ValueInner;

use super::draft::{ConvertedEntry, Draft};
use super::imported::{ImportError, ImportedFile};
use super::placeholders::{Placeholders, Syntax};
use super::servers::{import_with, under};

/// Keys that are not supported, with the reason.
const UNSUPPORTED: [(&str, &str); 7] = [
    ("scopes", "sign in to the server again"),
    ("oauth_resource", "sign in to the server again"),
    ("oauth", "sign in to the server again"),
    ("tools", "approval is a setting of the whole run"),
    ("default_tools_approval_mode", "approval is a setting of the whole run"),
    ("supports_parallel_tool_calls", "only read-only tools are called in parallel"),
    ("name", "only describes the server"),
];

pub(super) fn read(text: &str) -> Result<ImportedFile, ImportError> {
    let unreadable = |error: toml_span::Error| {
        let line = error.line_info.map_or(1, |(line, _)| line + 1);
        ImportError::Unreadable { format: "TOML", line, reason: error.to_string() }
    };
    let Value::Object(file) = json(toml_span::parse(text).map_err(unreadable)?) else {
        return Err(ImportError::Shape("the file is not a table".to_owned()));
    };
    Ok(import_with(&under(&file, &["mcp_servers"])?, convert))
}

/// Converts TOML to JSON. Numbers that JSON cannot hold become `null`.
fn json(mut value: toml_span::Value<'_>) -> Value {
    match value.take() {
        ValueInner::String(text) => text.into_owned().into(),
        ValueInner::Integer(number) => number.into(),
        ValueInner::Float(number) => number.into(),
        ValueInner::Boolean(value) => value.into(),
        ValueInner::Array(items) => items.into_iter().map(json).collect(),
        ValueInner::Table(table) => {
            table.into_iter().map(|(key, value)| (key.name.into_owned(), json(value))).collect()
        }
    }
}

fn convert(theirs: &Map<String, Value>) -> Result<ConvertedEntry, String> {
    let placeholders = Placeholders::new(Syntax::Literal, None);
    let mut draft = Draft::new(theirs);
    match (draft.text("command")?, draft.text("url")?) {
        (Some(command), None) => {
            draft.put("type", "stdio");
            let command = placeholders.text(command, &mut draft.notes);
            draft.put("command", command);
            let args = draft.texts("args")?.map(|args| draft.translate_all(&placeholders, &args));
            draft.put_some("args", args.filter(|args| !args.is_empty()));
            let env = draft.table("env")?;
            draft.put_table("env", env, &placeholders);
            let inherited = inherited_variables(&mut draft)?;
            insert(&mut draft, "env", inherited);
            let cwd = draft.text("cwd")?.map(|cwd| placeholders.text(cwd, &mut draft.notes));
            draft.put_some("cwd", cwd);
        }
        (None, Some(url)) => {
            draft.put("type", "http");
            let url = placeholders.text(url, &mut draft.notes);
            draft.put("url", url);
            let headers = draft.table("http_headers")?;
            draft.put_table("headers", headers, &placeholders);
            let from_variables = draft.table("env_http_headers")?.unwrap_or_default();
            insert(
                &mut draft,
                "headers",
                from_variables.into_iter().map(|(name, from)| (name, format!("${{{from}}}"))),
            );
            let token = draft.text("bearer_token")?.map(|token| placeholders.text(token, &mut draft.notes));
            let token = draft.text("bearer_token_env_var")?.map(|from| format!("${{{from}}}")).or(token);
            insert(&mut draft, "headers", token.map(|token| ("Authorization".to_owned(), format!("Bearer {token}"))));
        }
        (Some(_), Some(_)) => return Err("has both `command` and `url`".to_owned()),
        (None, None) => return Err("has neither `command` nor `url`".to_owned()),
    }
    draft.milliseconds("startup_timeout_ms", "connectTimeout", 1.0)?;
    draft.milliseconds("startup_timeout_sec", "connectTimeout", 1000.0)?;
    draft.milliseconds("tool_timeout_sec", "timeout", 1000.0)?;
    let enabled = draft.flag("enabled")?;
    let required = draft.flag("required")?;
    draft.put_some("enabled", enabled.filter(|enabled| !enabled));
    draft.put_some("required", required.filter(|required| *required));
    let included = draft.texts("enabled_tools")?;
    let excluded = draft.texts("disabled_tools")?;
    draft.put_some("includeTools", included);
    draft.put_some("excludeTools", excluded);
    Ok(draft.finish(&UNSUPPORTED))
}

/// Reads the variables that the process inherits, each as a string or as a table with its name.
fn inherited_variables(draft: &mut Draft<'_>) -> Result<Vec<(String, String)>, String> {
    let Some(names) = draft.take("env_vars") else { return Ok(Vec::new()) };
    let name = |value: &Value| value.as_str().or_else(|| value.get("name")?.as_str()).map(str::to_owned);
    let names: Option<Vec<String>> = names.as_array().and_then(|names| names.iter().map(name).collect());
    let names = names.ok_or("`env_vars` is not a list of names")?;
    Ok(names.into_iter().map(|name| (name.clone(), format!("${{{name}}}"))).collect())
}

/// Adds to an object of the entry.
fn insert(draft: &mut Draft<'_>, key: &str, pairs: impl IntoIterator<Item = (String, String)>) {
    let mut table = draft.entry.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
    table.extend(pairs.into_iter().map(|(name, text)| (name, Value::String(text))));
    if !table.is_empty() {
        draft.put(key, table);
    }
}
