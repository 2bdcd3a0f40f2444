//! A blocking API for programs that do not await.
//!
//! The work runs on a runtime of its own with its own threads, so these functions can be called from anywhere: from a plain
//! program, from inside a runtime (whose thread then waits), or with a runtime that the caller chooses. Only a session that
//! is connected on a runtime with one thread must not be used from that thread, because no thread would read its responses.

mod client;

#[cfg(feature = "fleet")]
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::sync_channel;

use tokio::runtime::{Handle, Runtime, RuntimeFlavor};
use wharf_client::{CallError, Session};
#[cfg(feature = "fleet")]
use wharf_config::Server;
use wharf_protocol::{Json, Listed, ServerName, Tool, ToolResult};

#[cfg(feature = "fleet")]
use crate::gather::{self, DescribeError, OVERALL_LIMIT};

pub use client::BlockingClient;

/// Runs futures on a runtime from code that does not await.
#[derive(Clone, Debug)]
pub struct Portal(Handle);

/// Why a [`Portal`] returned no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortalError {
    /// The calling thread is the only thread of the portal's runtime and cannot wait for itself.
    #[error("cannot block the only thread of the runtime that has to do the work")]
    OnlyThread,
    /// The future panicked, or the runtime was shut down.
    #[error("the work did not finish: it panicked, or its runtime was shut down")]
    Unfinished,
}

/// Why a blocking function failed.
#[derive(Debug, thiserror::Error)]
pub enum BlockingError<E> {
    /// The function did not run to its end.
    #[error(transparent)]
    Portal(PortalError),
    /// The function returned an error.
    #[error(transparent)]
    Failed(E),
    /// The scope of the client has ended.
    #[error(
        "the client of `{0}` is closed; use it inside of `Portal::with_client`, or open another one with that function"
    )]
    Closed(ServerName),
}

impl Portal {
    /// Returns the portal of the runtime that all blocking calls of the process share. The first call starts it.
    pub fn shared() -> io::Result<Self> {
        static RUNTIME: OnceLock<Runtime> = OnceLock::new();
        if let Some(runtime) = RUNTIME.get() {
            return Ok(Self(runtime.handle().clone()));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("wharf-blocking")
            .enable_all()
            .build()?;
        // Another thread may have been faster, and a runtime must not be dropped in an async context.
        if let Err(late) = RUNTIME.set(runtime) {
            late.shutdown_background();
        }
        let runtime = RUNTIME.get().ok_or_else(|| io::Error::other("the shared runtime is missing"))?;
        Ok(Self(runtime.handle().clone()))
    }

    /// Returns a portal of another runtime. It needs a thread other than the calling one.
    pub fn on(runtime: Handle) -> Self {
        Self(runtime)
    }

    /// Runs a future to its end. Never panics.
    pub fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Result<T, PortalError> {
        let current = Handle::try_current().ok().filter(|current| current.id() == self.0.id());
        let flavor = current.map(|current| current.runtime_flavor());
        if !matches!(flavor, None | Some(RuntimeFlavor::MultiThread)) {
            return Err(PortalError::OnlyThread);
        }
        let (sender, receiver) = sync_channel(1);
        let task = self.0.spawn(async move {
            let _ = sender.send(future.await);
        });
        let wait = || receiver.recv().map_err(|_| PortalError::Unfinished);
        // On a thread of the same runtime, its other work moves elsewhere during the wait.
        let result = if flavor.is_some() { tokio::task::block_in_place(wait) } else { wait() };
        task.abort();
        result
    }

    /// Calls a tool for a model. Failures become results that can be shown to it.
    pub fn use_tool(&self, session: &Session, tool_use_id: &str, tool: &str, arguments: &Json) -> ToolResult {
        let session = session.clone();
        let arguments = arguments.clone();
        let id = tool_use_id.to_owned();
        let tool = tool.to_owned();
        let result = self.run(async move { session.use_tool(&id, &tool, &arguments).await });
        result.unwrap_or_else(|error| ToolResult::error(tool_use_id, error.to_string()))
    }

    /// Lists the tools of a server.
    pub fn list_tools(&self, session: &Session) -> Result<Listed<Tool>, BlockingError<Box<CallError>>> {
        let session = session.clone();
        let listed = self.run(async move { session.list_tools().await.map_err(Box::new) });
        listed.map_err(BlockingError::Portal)?.map_err(BlockingError::Failed)
    }

    /// Returns the full names and descriptions of the servers' tools, only those in `filter` if there is one. Each server
    /// has 30 seconds, all together have 45.
    #[cfg(feature = "fleet")]
    pub fn tool_descriptions(
        &self,
        servers: Vec<Server>,
        filter: Option<BTreeSet<String>>,
    ) -> Result<BTreeMap<String, String>, BlockingError<DescribeError>> {
        let described = async move { gather::tool_descriptions(servers, filter.as_ref(), Some(OVERALL_LIMIT)).await };
        self.run(described).map_err(BlockingError::Portal)?.map_err(BlockingError::Failed)
    }

    /// Closes a session gracefully.
    pub fn close(&self, session: &Session) -> Result<(), PortalError> {
        let session = session.clone();
        self.run(async move { session.close().await })
    }
}

#[cfg(all(test, feature = "fleet"))]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;
    use wharf_client::{InProcess, NoHost, SessionOptions, Transport};
    use wharf_config::{Scope, TransportConfig};
    use wharf_protocol::ResultStatus;
    use wharf_testkit::{Script, Scripted};

    fn transport() -> impl Transport {
        let server = Scripted::new(Script::good());
        InProcess::new(move |stream| server.clone().serve(stream))
    }

    fn session() -> Session {
        Session::new("scripted".parse().expect("a name"), transport(), NoHost, SessionOptions::default())
    }

    fn server() -> Server {
        let transport = TransportConfig::Custom("scripted".into(), Arc::new(transport()));
        Server::new("scripted".parse().expect("a name"), Scope::Dynamic, transport)
    }

    fn works(portal: &Portal) {
        let session = session();
        assert_eq!(portal.list_tools(&session).expect("tools").items.len(), 2);
        let sum = portal.use_tool(&session, "tool-123", "add", &Json::from(json!({"x": 1, "a": 10, "b": 20})));
        assert_eq!((sum.status, sum.tool_use_id.as_str()), (ResultStatus::Success, "tool-123"));
        assert_eq!(serde_json::to_value(&sum.content).expect("JSON"), json!([{"text": "30"}]));
        portal.close(&session).expect("it closes");
        let described = portal.tool_descriptions(vec![server()], Some(BTreeSet::from(["add".to_owned()])));
        assert_eq!(described.expect("descriptions").into_keys().collect::<Vec<_>>(), ["mcp__scripted__add"]);
    }

    #[test]
    fn a_client_is_closed_after_its_scope_and_says_how_to_fix_that() {
        let portal = Portal::shared().expect("a runtime");
        let server = Scripted::new(Script::good());
        let copy = server.clone();
        let transport = InProcess::new(move |stream| copy.clone().serve(stream));
        let session = Session::new("scripted".parse().expect("a name"), transport, NoHost, SessionOptions::default());
        let arguments = Json::from(json!({"a": 10, "b": 20}));
        let escaped = portal.with_client(&session, |client| {
            assert!(session.is_connected());
            assert_eq!(client.list_tools().expect("tools").items.len(), 2);
            assert_eq!(client.call("add", &arguments).expect("a sum").text(), "30");
            assert_eq!(client.use_tool("1", "add", &arguments).status, ResultStatus::Success);
            client.clone()
        });
        let escaped = escaped.expect("it connects");
        assert!(!session.is_connected());
        let seen = server.log().methods().len();
        let error = escaped.call("add", &arguments).expect_err("the scope has ended");
        assert!(matches!(error, BlockingError::Closed(_)), "{error}");
        insta::assert_snapshot!(error, @"the client of `scripted` is closed; use it inside of `Portal::with_client`, or open another one with that function");
        assert!(matches!(escaped.list_tools(), Err(BlockingError::Closed(_))));
        assert_eq!(escaped.use_tool("1", "add", &arguments).status, ResultStatus::Error);
        assert_eq!(server.log().methods().len(), seen, "nothing was sent");
        // The session itself can be used again, also in another scope.
        let sum = portal.with_client(&session, |client| client.call("add", &arguments).expect("a sum").text());
        assert_eq!(sum.expect("it connects"), "30");
    }

    #[test]
    fn a_client_is_closed_after_a_panic_in_its_scope() {
        let portal = Portal::shared().expect("a runtime");
        let session = session();
        let thread = {
            let session = session.clone();
            std::thread::spawn(move || portal.with_client(&session, |_| -> () { panic!("on purpose") }))
        };
        assert!(thread.join().is_err());
        assert!(!session.is_connected());
    }

    #[test]
    fn it_works_outside_of_any_runtime() {
        works(&Portal::shared().expect("a runtime"));
    }

    #[tokio::test]
    async fn it_works_inside_a_runtime_with_one_thread() {
        works(&Portal::shared().expect("a runtime"));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn it_works_inside_a_runtime_with_threads() {
        works(&Portal::shared().expect("a runtime"));
    }

    #[test]
    fn it_works_from_inside_itself() {
        let portal = Portal::shared().expect("a runtime");
        let inner = portal.clone();
        portal.run(async move { works(&inner) }).expect("it ends");
    }

    #[tokio::test]
    async fn the_only_thread_of_a_runtime_gets_a_typed_error_from_every_function() {
        let portal = Portal::on(Handle::current());
        assert_eq!(portal.run(async {}), Err(PortalError::OnlyThread));
        let result = portal.use_tool(&session(), "id", "add", &Json::from(json!({})));
        assert_eq!(result.status, ResultStatus::Error);
        let listed = portal.list_tools(&session());
        assert!(matches!(listed, Err(BlockingError::Portal(PortalError::OnlyThread))), "{listed:?}");
        let described = portal.tool_descriptions(vec![server()], None);
        assert!(matches!(described, Err(BlockingError::Portal(PortalError::OnlyThread))), "{described:?}");
        assert_eq!(portal.close(&session()), Err(PortalError::OnlyThread));
    }

    #[test]
    fn it_works_on_another_runtime_and_reports_its_shutdown() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("one");
        let portal = Portal::on(runtime.handle().clone());
        works(&portal);
        runtime.shutdown_background();
        let result = portal.use_tool(&session(), "id", "add", &Json::from(json!({})));
        assert_eq!(result.status, ResultStatus::Error);
        let listed = portal.list_tools(&session());
        assert!(matches!(listed, Err(BlockingError::Portal(PortalError::Unfinished))), "{listed:?}");
    }

    #[test]
    fn a_panic_of_the_work_is_an_error() {
        let portal = Portal::shared().expect("a runtime");
        assert_eq!(portal.run(async { panic!("on purpose") }), Err::<(), _>(PortalError::Unfinished));
    }
}
