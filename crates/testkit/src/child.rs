//! The body of the binary `scripted-server`.

use std::path::PathBuf;

use crate::process;
use crate::script::Script;
use crate::serve::Scripted;

/// Serves the script in the file `script` over stdio, logging to the file `log`.
///
/// # Panics
/// If the script cannot be read.
pub async fn child_server(script: PathBuf, log: Option<PathBuf>) {
    if let Some(log) = log {
        process::log_to(log);
    }
    let text = std::fs::read_to_string(script).expect("the script can be read");
    let script: Script = serde_json::from_str(&text).expect("the script is valid");
    Scripted::new(script).serve_streams(tokio::io::stdin(), tokio::io::stdout()).await;
}
