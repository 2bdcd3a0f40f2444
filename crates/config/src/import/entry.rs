//! Converts one entry of a host that uses JSON.

use serde_json::{Map, Value};

use super::draft::{ConvertedEntry, Draft};
use super::placeholders::Placeholders;

/// Keys of other hosts that are not supported, with the reason.
const UNSUPPORTED: [(&str, &str); 10] = [
    ("auth", "sign in to the server, or set a header"),
    ("envFile", "put its variables into `env`"),
    ("sandbox", "servers do not run in a sandbox"),
    ("sandboxEnabled", "servers do not run in a sandbox"),
    ("dev", "only for developing a server in an editor"),
    ("autoApprove", "a server cannot approve its own calls"),
    ("alwaysAllow", "a server cannot approve its own calls"),
    ("trust", "a server cannot approve its own calls"),
    ("gallery", "only says where the server was found"),
    ("version", "only says where the server was found"),
];

/// The supported keys of `oauth`.
const OAUTH_KEYS: [&str; 5] = ["clientId", "clientSecret", "callbackPort", "scopes", "authServerMetadataUrl"];

/// Converts an entry; fails with the reason.
pub(super) fn convert(theirs: &Map<String, Value>, placeholders: &Placeholders<'_>) -> Result<ConvertedEntry, String> {
    let mut draft = Draft::new(theirs);
    match transport(&mut draft)? {
        "stdio" => {
            draft.put("type", "stdio");
            let command = draft.text("command")?.filter(|text| !text.is_empty()).ok_or("has no `command`")?;
            let command = placeholders.path(command, &mut draft.notes);
            draft.put("command", command);
            let args = draft.texts("args")?.map(|args| draft.translate_all(placeholders, &args));
            draft.put_some("args", args.filter(|args| !args.is_empty()));
            let env = draft.table("env")?;
            draft.put_table("env", env, placeholders);
            if let Some(cwd) = draft.text("cwd")? {
                let cwd = placeholders.path(cwd, &mut draft.notes);
                draft.put("cwd", cwd);
            }
        }
        remote => {
            draft.put("type", remote);
            let url = ["url", "serverUrl", "httpUrl"].into_iter().find_map(|key| draft.text(key).transpose());
            let url = url.transpose()?.filter(|url| !url.is_empty()).ok_or("has no `url`")?;
            let url = placeholders.text(url, &mut draft.notes);
            draft.put("url", url);
            let headers = draft.table("headers")?;
            draft.put_table("headers", headers, placeholders);
            if let Some(helper) = draft.take("headersHelper") {
                draft.put("headersHelper", helper.clone());
            }
            convert_oauth(&mut draft, placeholders);
        }
    }
    draft.milliseconds("timeout", "timeout", 1.0)?;
    let always_load = draft.flag("alwaysLoad")?;
    draft.put_some("alwaysLoad", always_load);
    let enabled = draft.flag("enabled")?.unwrap_or(true) && !draft.flag("disabled")?.unwrap_or(false);
    draft.put_some("enabled", (!enabled).then_some(false));
    for key in ["tools", "includeTools", "excludeTools"] {
        if let Some(tools) = draft.take(key) {
            draft.put(key, tools.clone());
        }
    }
    Ok(draft.finish(&UNSUPPORTED))
}

/// Returns the transport of the entry.
fn transport(draft: &mut Draft<'_>) -> Result<&'static str, String> {
    let is_local = draft.has("command");
    let is_remote = draft.has("url") || draft.has("serverUrl") || draft.has("httpUrl");
    match draft.text("type")?.map(str::to_ascii_lowercase).as_deref() {
        Some("stdio") => Ok("stdio"),
        Some("http" | "streamable-http" | "streamablehttp" | "streamable_http") => Ok("http"),
        Some("sse") => Ok("sse"),
        Some("ws" | "websocket") => Ok("ws"),
        Some(other) => Err(format!("type `{other}` works only in that host")),
        None if is_local && is_remote => Err("has both `command` and `url`".to_owned()),
        None if is_local => Ok("stdio"),
        None if is_remote => Ok("http"),
        None => Err("has neither `command` nor `url`".to_owned()),
    }
}

/// Converts the OAuth settings. Supported keys have the same names.
fn convert_oauth(draft: &mut Draft<'_>, placeholders: &Placeholders<'_>) {
    let Some(theirs) = draft.take("oauth") else { return };
    let mut ours = Map::new();
    for (key, value) in theirs.as_object().into_iter().flatten() {
        match value.as_str() {
            _ if !OAUTH_KEYS.contains(&key.as_str()) => {
                draft.notes.push(format!("ignored `oauth.{key}`: not supported"));
            }
            Some(text) => drop(ours.insert(key.clone(), placeholders.text(text, &mut draft.notes).into())),
            None => drop(ours.insert(key.clone(), value.clone())),
        }
    }
    draft.put_some("oauth", (!ours.is_empty()).then_some(ours));
    draft.notes.push("credentials are not imported: sign in to the server again".to_owned());
}
