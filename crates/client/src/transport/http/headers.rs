//! The headers of requests: those that never change, those a helper command tells, and those of one call.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use tokio::io::AsyncReadExt as _;
use tokio::sync::Semaphore;
use wharf_io::{Child, ChildSpec, Environment, Exit, Grace};

use super::{InvalidRemote, header};

/// How long the helper may take.
const HELPER_LIMIT: Duration = Duration::from_secs(10);
/// The most it may say.
const MOST_SAID: u64 = 64 * 1024;

/// What only the client itself may set.
pub(super) const OURS: [&str; 12] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
    "upgrade",
];

/// A command that prints headers as one JSON object, for tokens that do not live long. It is run before the first request
/// and again when the server answers 401 or 403. Nothing goes through a shell.
#[derive(Clone, Debug)]
pub struct HeaderCommand {
    /// The command.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// What it may see of the environment.
    pub environment: Environment,
    /// Where it runs; where the host runs if absent.
    pub directory: Option<std::path::PathBuf>,
}

#[derive(Clone)]
pub(in crate::transport) struct Headers {
    fixed: Arc<HeaderMap>,
    helped: Option<Arc<Helped>>,
}

struct Helped {
    helper: HeaderCommand,
    /// What it said last, and how often it has been asked.
    said: Mutex<(u64, Option<Arc<HeaderMap>>)>,
    turn: Semaphore,
}

impl Headers {
    pub(super) fn new(fixed: &[(String, String)], helper: Option<HeaderCommand>) -> Result<Self, InvalidRemote> {
        let asked = |helper| Arc::new(Helped { helper, said: Mutex::default(), turn: Semaphore::new(1) });
        Ok(Self { fixed: Arc::new(parse(fixed)?), helped: helper.map(asked) })
    }

    /// What tells these headers from others; the values are in it.
    pub(super) fn fingerprint(&self) -> String {
        let said = self.helped.as_ref().map(|helped| helped.said());
        // Who the helper signs in may be another one each time it is asked.
        let said = said.map(|(number, said)| format!("{number} {:?}", said.as_deref().map(pairs)));
        format!("{:?} {said:?}", pairs(&self.fixed))
    }

    /// All of them, and the number of the helper's saying they come from, for [`Headers::refresh`].
    pub(in crate::transport) async fn get(&self) -> Result<(HeaderMap, u64), String> {
        let mut all = (*self.fixed).clone();
        let Some(helped) = &self.helped else { return Ok((all, 0)) };
        let (number, said) = helped.said();
        let (number, said) = match said {
            Some(said) => (number, said),
            None => helped.ask(number).await?,
        };
        all.extend((*said).clone());
        Ok((all, number))
    }

    /// Asks the helper again, unless somebody has since `number`; `false` if there is none.
    pub(in crate::transport) async fn refresh(&self, number: u64) -> Result<bool, String> {
        let Some(helped) = &self.helped else { return Ok(false) };
        helped.ask(number).await?;
        Ok(true)
    }
}

impl Helped {
    fn said(&self) -> (u64, Option<Arc<HeaderMap>>) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs the helper, once for all who wait.
    async fn ask(&self, seen: u64) -> Result<(u64, Arc<HeaderMap>), String> {
        let _turn = self.turn.acquire().await;
        if let (number, Some(said)) = self.said()
            && number != seen
        {
            return Ok((number, said));
        }
        let command = &self.helper.command;
        let told = tokio::time::timeout(HELPER_LIMIT, self.run()).await;
        let told = told.unwrap_or_else(|_| Err(format!("did not end within {} s", HELPER_LIMIT.as_secs())));
        let headers = told.map_err(|reason| format!("the header helper `{command}` {reason}"))?;
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        *said = (said.0 + 1, Some(Arc::new(headers)));
        Ok((said.0, said.1.clone().unwrap_or_default()))
    }

    async fn run(&self) -> Result<HeaderMap, String> {
        let HeaderCommand { command, args, environment, directory } = self.helper.clone();
        let args = args.into_iter().map(Into::into).collect();
        let spec = ChildSpec { command: command.into(), args, environment, cwd: directory, watcher: None };
        let (child, pipes) = Child::spawn(&spec).await.map_err(|error| format!("cannot be run: {error}"))?;
        drop(pipes.stdin);
        let mut said = String::new();
        let read = pipes.stdout.take(MOST_SAID).read_to_string(&mut said).await;
        read.map_err(|error| format!("said something that cannot be read: {error}"))?;
        let exit = child.exited().await;
        child.stop(Grace::default()).await;
        if exit != Exit::Status(0) {
            // Its stderr may hold what nobody should see.
            return Err(format!("{exit}; run it by hand to see why"));
        }
        // What it said is secret, so errors do not quote it.
        let pairs: std::collections::BTreeMap<String, String> =
            serde_json::from_str(&said).map_err(|_| "did not print one JSON object with texts in it".to_owned())?;
        parse(&pairs.into_iter().collect::<Vec<_>>()).map_err(|error| format!("said too much: {error}"))
    }
}

/// Names and values, the secret ones too.
fn pairs(headers: &HeaderMap) -> Vec<(&str, &[u8])> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
}

/// Headers from texts.
pub(crate) fn parse(pairs: &[(String, String)]) -> Result<HeaderMap, InvalidRemote> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let (name, value) = header(name, value)?;
        headers.append(name, value);
    }
    Ok(headers)
}
