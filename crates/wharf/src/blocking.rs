//! The same for programs that do not await.
//!
//! The work is done on a runtime of its own, on its own threads, so these functions may be called from anywhere: from
//! a plain program, from inside a runtime (whose thread then waits), or with a runtime of the caller's choice. Only a
//! session that is already connected on a runtime with one thread must not be used from that thread: nobody would read.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::sync_channel;

use tokio::runtime::{Handle, Runtime, RuntimeFlavor};
use wharf_client::{CallError, Session};
use wharf_protocol::{Json, Listed, Tool, ToolResult};

use crate::gather::{self, DescribeError, OVERALL_LIMIT};

/// A way out of plain code into a runtime.
#[derive(Clone, Debug)]
pub struct Portal(Handle);

impl Portal {
    /// The runtime that all blocking calls of this process share; it is started by the first of them.
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
        // Another thread may have been faster; a runtime must not be dropped where somebody awaits.
        if let Err(late) = RUNTIME.set(runtime) {
            late.shutdown_background();
        }
        let runtime = RUNTIME.get().ok_or_else(|| io::Error::other("there is no runtime"))?;
        Ok(Self(runtime.handle().clone()))
    }

    /// A runtime of the caller's choice. It needs a thread other than the one that calls.
    pub fn on(runtime: Handle) -> Self {
        Self(runtime)
    }

    /// Runs a future to its end; `None` if it panicked, if the runtime was shut down meanwhile, or if this is the only
    /// thread of that very runtime, which cannot wait for itself.
    pub fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let here = Handle::try_current().ok().filter(|here| here.id() == self.0.id());
        let (sender, receiver) = sync_channel(1);
        let task = self.0.spawn(async move {
            let _ = sender.send(future.await);
        });
        let wait = || receiver.recv().ok();
        let result = match here.map(|here| here.runtime_flavor()) {
            // On a thread of that very runtime: its other work moves elsewhere while we wait.
            Some(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
            // There is no elsewhere: waiting would be for ever.
            Some(_) => None,
            None => wait(),
        };
        task.abort();
        result
    }

    /// Calls a tool for a model: whatever happens, there is a result that can be shown to it.
    pub fn use_tool(&self, session: &Session, tool_use_id: &str, tool: &str, arguments: &Json) -> ToolResult {
        let (session, arguments) = (session.clone(), arguments.clone());
        let (id, tool) = (tool_use_id.to_owned(), tool.to_owned());
        let result = self.run(async move { session.use_tool(&id, &tool, &arguments).await });
        result.unwrap_or_else(|| {
            ToolResult::error(tool_use_id, "the call did not finish: it panicked, or its runtime cannot run it")
        })
    }

    /// The tools of a server.
    ///
    /// # Panics
    /// If the runtime is shut down meanwhile.
    pub fn list_tools(&self, session: &Session) -> Result<Listed<Tool>, Box<CallError>> {
        let session = session.clone();
        self.run(async move { session.list_tools().await.map_err(Box::new) })
            .expect("the runtime lives as long as the call")
    }

    /// Names and descriptions of the tools of `sessions`, only those in `filter` if there is one. Each server has 30
    /// seconds, all together have 45.
    ///
    /// # Panics
    /// If the runtime is shut down meanwhile.
    pub fn tool_descriptions(
        &self,
        sessions: Vec<Session>,
        filter: Option<BTreeSet<String>>,
    ) -> Result<BTreeMap<String, String>, DescribeError> {
        let described = async move { gather::tool_descriptions(sessions, filter.as_ref(), Some(OVERALL_LIMIT)).await };
        self.run(described).expect("the runtime lives as long as the call")
    }

    /// Closes a session in good order.
    pub fn close(&self, session: &Session) {
        let session = session.clone();
        self.run(async move { session.close().await });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wharf_client::{InProcess, NoHost, SessionOptions};
    use wharf_protocol::ResultStatus;
    use wharf_testkit::{Script, Scripted};

    fn session() -> Session {
        let server = Scripted::new(Script::good());
        let transport = InProcess::new(move |stream| server.clone().serve(stream));
        Session::new("scripted".parse().expect("a name"), transport, NoHost, SessionOptions::default())
    }

    fn works(portal: &Portal) {
        let session = session();
        assert_eq!(portal.list_tools(&session).expect("tools").items.len(), 2);
        let sum = portal.use_tool(&session, "tool-123", "add", &Json::from(json!({"x": 1, "a": 10, "b": 20})));
        assert_eq!((sum.status, sum.tool_use_id.as_str()), (ResultStatus::Success, "tool-123"));
        assert_eq!(serde_json::to_value(&sum.content).expect("JSON"), json!([{"text": "30"}]));
        portal.close(&session);
        let described = portal.tool_descriptions(vec![session], Some(BTreeSet::from(["add".to_owned()])));
        assert_eq!(described.expect("descriptions").len(), 1);
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
    async fn a_runtime_with_one_thread_is_not_waited_for_from_that_thread() {
        let result = Portal::on(Handle::current()).use_tool(&session(), "id", "add", &Json::from(json!({})));
        assert_eq!(result.status, ResultStatus::Error);
    }

    #[test]
    fn it_works_on_a_runtime_of_the_callers_choice_and_says_so_when_that_is_gone() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("one");
        let portal = Portal::on(runtime.handle().clone());
        works(&portal);
        runtime.shutdown_background();
        let result = portal.use_tool(&session(), "id", "add", &Json::from(json!({})));
        assert_eq!(result.status, ResultStatus::Error);
    }
}
