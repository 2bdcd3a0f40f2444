//! The writer: one task that commits the queued writes of all trials together.
//!
//! A commit waits for the disk. While it does, new writes queue up; the next commit takes many of them. A write is durable
//! when it is answered. What a trial waits for, such as an intent, is committed before results of others, and together with
//! the earlier writes of its own trial.

use std::collections::{HashSet, VecDeque};

use sqlx::{Connection as _, SqliteConnection};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use wharf_protocol::BoxFuture;

use crate::failpoint::{self, Failpoint};
use crate::store::{Commit, Lease, StoreError};

use super::failed;

/// Queued writes. Callers wait beyond that.
const QUEUE_SIZE: usize = 1024;
/// Writes in one transaction that no trial waits for. What a trial waits for may come next.
const MAX_BATCH: usize = 64;

/// A change of the database.
///
/// It may be applied several times, after a rollback. An expected refusal such as [`StoreError::LeaseLost`] is returned
/// before anything is changed; a [`StoreError::Failed`] rolls the change back.
pub(super) trait Write: Send + Sync + 'static {
    /// What the caller gets.
    type Output: Send + Sync + 'static;

    /// Makes the change within the current transaction.
    fn apply<'a>(&'a self, connection: &'a mut SqliteConnection) -> BoxFuture<'a, Result<Self::Output, StoreError>>;

    /// Returns whether the change is in the database, after a commit whose outcome is unknown.
    fn is_recorded<'a>(
        &'a self,
        output: &'a Self::Output,
        connection: &'a mut SqliteConnection,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        let _ = (output, connection);
        Box::pin(async { Ok(false) })
    }

    /// Returns the lease that the write needs. Writes of one lease are committed in their order.
    fn lease(&self) -> Option<&Lease> {
        None
    }

    /// Returns whether a trial waits for it before it does anything.
    fn is_awaited(&self) -> bool {
        false
    }

    /// Marks the moment after the commit, for tests that end the process there.
    fn committed(&self) {}
}

/// A write with its caller.
struct Queued<W: Write> {
    write: W,
    outcome: Option<Result<W::Output, StoreError>>,
    reply: oneshot::Sender<Result<W::Output, StoreError>>,
}

/// A write of any type.
trait AnyQueued: Send {
    fn lease(&self) -> Option<&Lease>;

    fn is_awaited(&self) -> bool;

    /// Applies the write. Returns whether the transaction must be rolled back.
    fn apply<'a>(&'a mut self, connection: &'a mut SqliteConnection) -> BoxFuture<'a, bool>;

    /// Replaces the outcome by an error unless the write is in the database.
    fn confirm<'a>(&'a mut self, error: &'a StoreError, connection: &'a mut SqliteConnection) -> BoxFuture<'a, ()>;

    /// Replaces the outcome by an error.
    fn fail(&mut self, error: &StoreError);

    /// Answers the caller, if it still waits.
    fn answer(self: Box<Self>);
}

impl<W: Write> AnyQueued for Queued<W> {
    fn lease(&self) -> Option<&Lease> {
        self.write.lease()
    }

    fn is_awaited(&self) -> bool {
        self.write.is_awaited()
    }

    fn apply<'a>(&'a mut self, connection: &'a mut SqliteConnection) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let outcome = self.write.apply(connection).await;
            let must_roll_back = matches!(outcome, Err(StoreError::Failed(_)));
            self.outcome = Some(outcome);
            must_roll_back
        })
    }

    fn confirm<'a>(&'a mut self, error: &'a StoreError, connection: &'a mut SqliteConnection) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(Ok(output)) = &self.outcome
                && !matches!(self.write.is_recorded(output, connection).await, Ok(true))
            {
                self.outcome = Some(Err(error.clone()));
            }
        })
    }

    fn fail(&mut self, error: &StoreError) {
        self.outcome = Some(Err(error.clone()));
    }

    fn answer(self: Box<Self>) {
        self.write.committed();
        let outcome = self.outcome.unwrap_or_else(|| Err(closed()));
        let _ = self.reply.send(outcome);
    }
}

enum Command {
    Write(Box<dyn AnyQueued>),
    Close(oneshot::Sender<()>),
}

/// The handle of the writer. Dropping it ends the task; writes that are not committed by then are lost.
pub(super) struct Writer {
    queue: mpsc::Sender<Command>,
    _task: JoinSet<()>,
}

impl Writer {
    /// Starts the task on the current runtime.
    pub(super) fn start(connection: SqliteConnection) -> Self {
        let (queue, commands) = mpsc::channel(QUEUE_SIZE);
        let mut task = JoinSet::new();
        task.spawn(run(connection, commands));
        Self { queue, _task: task }
    }

    /// Commits a write.
    pub(super) async fn commit<W: Write>(&self, write: W) -> Result<W::Output, StoreError> {
        let answer = self.enqueue(write).await?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Queues a write.
    pub(super) async fn queue<W: Write<Output = ()>>(&self, write: W) -> Result<Commit, StoreError> {
        let answer = self.enqueue(write).await?;
        Ok(Box::pin(async { answer.await.unwrap_or_else(|_| Err(closed())) }))
    }

    async fn enqueue<W: Write>(
        &self,
        write: W,
    ) -> Result<oneshot::Receiver<Result<W::Output, StoreError>>, StoreError> {
        let (reply, answer) = oneshot::channel();
        let queued = Command::Write(Box::new(Queued { write, outcome: None, reply }));
        self.queue.send(queued).await.map_err(|_| closed())?;
        Ok(answer)
    }

    /// Commits what is queued, and closes the connection.
    pub(super) async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        if self.queue.send(Command::Close(reply)).await.is_ok() {
            let _ = closed.await;
        }
    }
}

fn closed() -> StoreError {
    StoreError::Failed("it is closed".to_owned())
}

async fn run(mut connection: SqliteConnection, mut commands: mpsc::Receiver<Command>) {
    let mut received = Vec::with_capacity(QUEUE_SIZE);
    let mut waiting: VecDeque<Box<dyn AnyQueued>> = VecDeque::new();
    let mut closing = None;
    loop {
        if !waiting.is_empty() {
            while received.len() < QUEUE_SIZE
                && let Ok(command) = commands.try_recv()
            {
                received.push(command);
            }
        } else if commands.recv_many(&mut received, QUEUE_SIZE).await == 0 {
            break;
        }
        for command in received.drain(..) {
            match command {
                Command::Write(write) => waiting.push_back(write),
                Command::Close(reply) => {
                    commands.close();
                    closing = Some(reply);
                }
            }
        }
        let mut batch = next_batch(&mut waiting);
        commit(&mut connection, &mut batch).await;
        for write in batch {
            write.answer();
        }
    }
    if let Some(reply) = closing {
        let _ = connection.close().await;
        let _ = reply.send(());
    }
}

/// Takes the writes of the next transaction: those that trials wait for, or else the first ones.
fn next_batch(waiting: &mut VecDeque<Box<dyn AnyQueued>>) -> Vec<Box<dyn AnyQueued>> {
    if !waiting.iter().any(|write| write.is_awaited()) {
        let count = waiting.len().min(MAX_BATCH);
        return waiting.drain(..count).collect();
    }
    let awaited = waiting.iter().filter(|write| write.is_awaited()).filter_map(|write| write.lease());
    let leases: HashSet<Lease> = awaited.cloned().collect();
    let is_next =
        |write: &dyn AnyQueued| write.is_awaited() || write.lease().is_some_and(|lease| leases.contains(lease));
    let (batch, rest): (Vec<_>, Vec<_>) = std::mem::take(waiting).into_iter().partition(|write| is_next(&**write));
    *waiting = rest.into();
    batch
}

/// Commits a batch. If one of its writes fails, each of them gets a transaction of its own: the others succeed.
async fn commit(connection: &mut SqliteConnection, batch: &mut [Box<dyn AnyQueued>]) {
    if batch.is_empty() || transaction(connection, batch).await || batch.len() == 1 {
        return;
    }
    for write in batch {
        transaction(connection, std::slice::from_mut(write)).await;
    }
}

/// Applies writes in one transaction. Returns whether all have their final outcome.
async fn transaction(connection: &mut SqliteConnection, batch: &mut [Box<dyn AnyQueued>]) -> bool {
    let mut error = execute(connection, "BEGIN IMMEDIATE").await.err();
    if let Some(error) = &error {
        for write in batch {
            write.fail(error);
        }
        return true;
    }
    for write in batch.iter_mut() {
        if write.apply(connection).await {
            // Some errors end the transaction by themselves, so this one may fail.
            let _ = execute(connection, "ROLLBACK").await;
            return batch.len() == 1;
        }
    }
    error = execute(connection, "COMMIT").await.err();
    if failpoint::hit(Failpoint::AfterCommit) {
        error = Some(StoreError::Failed("the outcome of the commit is unknown".to_owned()));
    }
    if let Some(error) = error {
        let _ = execute(connection, "ROLLBACK").await;
        for write in batch.iter_mut() {
            write.confirm(&error, connection).await;
        }
    }
    true
}

async fn execute(connection: &mut SqliteConnection, sql: &'static str) -> Result<(), StoreError> {
    sqlx::query(sql).execute(connection).await.map_err(failed)?;
    Ok(())
}
