//! One entry of a host that writes JSON, as an entry of ours.

use serde_json::{Map, Value, json};

use super::words::Words;

/// The shortest limit, in milliseconds; what is less was not meant in milliseconds.
const SHORTEST: f64 = 1000.0;

/// Keys of hosts that have no meaning here, and what to do instead.
const LEFT_OUT: [(&str, &str); 11] = [
    ("auth", "sign in to the server, or send a header"),
    ("envFile", "put its variables into `env`"),
    ("sandbox", "servers are not put into a sandbox"),
    ("sandboxEnabled", "servers are not put into a sandbox"),
    ("dev", "it is for developing a server in an editor"),
    ("alwaysLoad", "which tools are shown is set for the model"),
    ("autoApprove", "a server does not approve its own calls"),
    ("alwaysAllow", "a server does not approve its own calls"),
    ("trust", "a server does not approve its own calls"),
    ("gallery", "it only says where the server was found"),
    ("version", "it only says where the server was found"),
];

/// What other hosts know about signing in, too.
const OAUTH: [&str; 5] = ["clientId", "clientSecret", "callbackPort", "scopes", "authServerMetadataUrl"];

/// An entry in the making: what was read of the other one, and what there is to say about it.
pub(super) struct Draft<'a> {
    theirs: &'a Map<String, Value>,
    read: Vec<&'static str>,
    pub(super) entry: Map<String, Value>,
    pub(super) notes: Vec<String>,
}

/// Turns an entry into one of ours, or says why there is none.
pub(super) fn convert(
    theirs: &Map<String, Value>,
    words: &Words<'_>,
) -> Result<(Map<String, Value>, Vec<String>), String> {
    let mut draft = Draft::new(theirs);
    match draft.transport()? {
        "stdio" => {
            draft.put("type", "stdio");
            let command = draft.text("command")?.filter(|text| !text.is_empty()).ok_or("has no `command`")?;
            let command = words.path(command, &mut draft.notes);
            draft.put("command", command);
            let args = draft.texts("args")?.map(|args| draft.translated(words, &args));
            draft.put_some("args", args.filter(|args| !args.is_empty()));
            let env = draft.table("env")?;
            draft.put_table("env", env, words);
            if let Some(cwd) = draft.text("cwd")? {
                let cwd = words.path(cwd, &mut draft.notes);
                draft.put("cwd", cwd);
            }
        }
        remote => {
            draft.put("type", remote);
            let url = ["url", "serverUrl", "httpUrl"].into_iter().find_map(|key| draft.text(key).transpose());
            let url = url.transpose()?.filter(|url| !url.is_empty()).ok_or("has no `url`")?;
            let url = words.text(url, &mut draft.notes);
            draft.put("url", url);
            let headers = draft.table("headers")?;
            draft.put_table("headers", headers, words);
            if let Some(helper) = draft.take("headersHelper") {
                draft.put("headersHelper", helper.clone());
            }
            draft.oauth(words);
        }
    }
    draft.milliseconds("timeout", "timeout", 1.0)?;
    let enabled = draft.flag("enabled")?.unwrap_or(true) && !draft.flag("disabled")?.unwrap_or(false);
    draft.put_some("enabled", (!enabled).then_some(false));
    for (theirs, ours) in [("tools", "tools"), ("includeTools", "includeTools"), ("excludeTools", "excludeTools")] {
        if let Some(tools) = draft.take(theirs) {
            draft.put(ours, tools.clone());
        }
    }
    Ok(draft.finish(&LEFT_OUT))
}

impl<'a> Draft<'a> {
    pub(super) fn new(theirs: &'a Map<String, Value>) -> Self {
        Self { theirs, read: Vec::new(), entry: Map::new(), notes: Vec::new() }
    }

    /// The entry, and a note for every field that was not looked at.
    pub(super) fn finish(mut self, known: &[(&str, &str)]) -> (Map<String, Value>, Vec<String>) {
        for key in self.theirs.keys().filter(|key| !self.read.contains(&key.as_str())) {
            let why = known.iter().find(|(other, _)| other == key).map_or("it means nothing here", |(_, why)| why);
            self.notes.push(format!("`{key}` was left out: {why}"));
        }
        (self.entry, self.notes)
    }

    /// The transport that the entry asks for.
    fn transport(&mut self) -> Result<&'static str, String> {
        let has = |key: &str| self.theirs.contains_key(key);
        let (local, remote) = (has("command"), has("url") || has("serverUrl") || has("httpUrl"));
        match self.text("type")?.map(str::to_ascii_lowercase).as_deref() {
            Some("stdio") => Ok("stdio"),
            Some("http" | "streamable-http" | "streamablehttp" | "streamable_http") => Ok("http"),
            Some("sse") => Ok("sse"),
            Some("ws" | "websocket") => Ok("ws"),
            Some(other) => Err(format!("its type `{other}` works only in that host")),
            None if local && remote => Err("has both `command` and `url`".to_owned()),
            None if local => Ok("stdio"),
            None if remote => Ok("http"),
            None => Err("has neither `command` nor `url`".to_owned()),
        }
    }

    /// What is known about signing in; the keys are the same where they mean the same.
    fn oauth(&mut self, words: &Words<'_>) {
        let Some(theirs) = self.take("oauth") else { return };
        let mut ours = Map::new();
        for (key, value) in theirs.as_object().into_iter().flatten() {
            match value.as_str() {
                _ if !OAUTH.contains(&key.as_str()) => {
                    self.notes.push(format!("`oauth.{key}` was left out: it means nothing here"));
                }
                Some(text) => drop(ours.insert(key.clone(), words.text(text, &mut self.notes).into())),
                None => drop(ours.insert(key.clone(), value.clone())),
            }
        }
        self.put_some("oauth", (!ours.is_empty()).then_some(ours));
        self.notes.push("sign-ins are not brought over: sign in to the server again".to_owned());
    }

    pub(super) fn take(&mut self, key: &'static str) -> Option<&'a Value> {
        self.read.push(key);
        self.theirs.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<&'a str>, String> {
        let Some(value) = self.take(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| format!("`{key}` is no text"))
    }

    pub(super) fn flag(&mut self, key: &'static str) -> Result<Option<bool>, String> {
        let Some(value) = self.take(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| format!("`{key}` is neither true nor false"))
    }

    /// A list of texts; numbers and truths are taken for texts, as shells take them.
    pub(super) fn texts(&mut self, key: &'static str) -> Result<Option<Vec<String>>, String> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let texts = value.as_array().and_then(|items| items.iter().map(scalar).collect());
        texts.map(Some).ok_or_else(|| format!("`{key}` is no list of texts"))
    }

    /// Names and texts. `null`, by which editors unset a variable, is left out with a note.
    pub(super) fn table(&mut self, key: &'static str) -> Result<Option<Vec<(String, String)>>, String> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let wrong = || format!("`{key}` is no table of texts");
        let mut pairs = Vec::new();
        for (name, value) in value.as_object().ok_or_else(wrong)? {
            if value.is_null() {
                self.notes.push(format!("`{key}.{name}` was left out: it has no value"));
                continue;
            }
            pairs.push((name.clone(), scalar(value).ok_or_else(wrong)?));
        }
        Ok(Some(pairs))
    }

    /// A limit in milliseconds, of a number that counts something longer.
    pub(super) fn milliseconds(&mut self, key: &'static str, ours: &str, factor: f64) -> Result<(), String> {
        let Some(value) = self.take(key) else { return Ok(()) };
        let limit = value.as_f64().ok_or_else(|| format!("`{key}` is no number"))? * factor;
        if !(SHORTEST..=1e12).contains(&limit) {
            self.notes.push(format!("`{key}` was left out: {value} is no limit that could be meant"));
            return Ok(());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is known to be in between")]
        self.put(ours, limit.round() as u64);
        Ok(())
    }

    pub(super) fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.entry.insert(key.to_owned(), value.into());
    }

    pub(super) fn put_some(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }

    pub(super) fn put_table(&mut self, key: &str, pairs: Option<Vec<(String, String)>>, words: &Words<'_>) {
        let mut table = Map::new();
        for (name, text) in pairs.into_iter().flatten() {
            table.insert(name, json!(words.text(&text, &mut self.notes)));
        }
        if !table.is_empty() {
            self.put(key, table);
        }
    }

    pub(super) fn translated(&mut self, words: &Words<'_>, texts: &[String]) -> Vec<String> {
        texts.iter().map(|text| words.text(text, &mut self.notes)).collect()
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}
