//! The writer: one task that commits the queued writes of all trials together.
//!
//! A commit waits for the disk. While it does, new writes queue up; the next commit takes many of them. A write is durable
//! when it is answered. Intents, which trials wait for, and results of steps, which were paid for, are committed before the
//! results of units, which follow from them; earlier writes of the same trial are committed with them.
//!
//! A transaction that fails because the database is away for a moment is tried again with the same writes.

use std::collections::{HashSet, VecDeque};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use wharf_protocol::BoxFuture;

use crate::failpoint::{self, Failpoint};
use crate::store::{Commit, Lease, StoreError};

use super::blob::Blob;
use super::connection::Connection;
use super::link::{CommitOutcome, Link};
use super::retries::Retries;
use super::transaction::{Transaction, Trouble};

/// Queued writes. Callers wait beyond that.
const QUEUE_SIZE: usize = 1024;
/// Writes in one transaction that are not urgent. Urgent ones may come next.
const MAX_BATCH: usize = 64;

/// A change of the database.
///
/// It may be applied several times, after a rollback. An expected refusal such as [`StoreError::LeaseLost`] is returned
/// before anything is changed; a [`StoreError::Failed`] rolls the change back.
pub(in crate::store) trait Write: Send + Sync + 'static {
    /// What the caller gets.
    type Output: Send + Sync + 'static;

    /// Makes the change.
    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<Self::Output, StoreError>>;

    /// Returns the blobs of the change.
    fn blobs(&self) -> Vec<&Blob> {
        Vec::new()
    }

    /// Returns whether the change is in the database, after a commit whose outcome is unknown.
    fn is_recorded<'a>(
        &'a self,
        output: &'a Self::Output,
        connection: &'a mut Connection<'_>,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        let _ = (output, connection);
        Box::pin(async { Ok(false) })
    }

    /// Returns the lease that the write needs. Writes of one lease are committed in their order.
    fn lease(&self) -> Option<&Lease> {
        None
    }

    /// Returns whether it goes before others: a trial waits for it, or it records what was paid for.
    fn is_urgent(&self) -> bool {
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

    fn is_urgent(&self) -> bool;

    fn blobs(&self) -> Vec<&Blob>;

    /// Applies the write. Returns the error for which the transaction must be rolled back.
    fn apply<'a>(&'a mut self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Replaces the outcome by an error unless the write is in the database.
    fn confirm<'a>(&'a mut self, error: &'a StoreError, connection: &'a mut Connection<'_>) -> BoxFuture<'a, ()>;

    /// Replaces the outcome by an error.
    fn fail(&mut self, error: &StoreError);

    /// Answers the caller, if it still waits.
    fn answer(self: Box<Self>);
}

impl<W: Write> AnyQueued for Queued<W> {
    fn lease(&self) -> Option<&Lease> {
        self.write.lease()
    }

    fn is_urgent(&self) -> bool {
        self.write.is_urgent()
    }

    fn blobs(&self) -> Vec<&Blob> {
        self.write.blobs()
    }

    fn apply<'a>(&'a mut self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let outcome = self.write.apply(transaction).await;
            let rolls_back = match &outcome {
                Err(error @ StoreError::Failed(_)) => Err(error.clone()),
                _ => Ok(()),
            };
            self.outcome = Some(outcome);
            rolls_back
        })
    }

    fn confirm<'a>(&'a mut self, error: &'a StoreError, connection: &'a mut Connection<'_>) -> BoxFuture<'a, ()> {
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
pub(in crate::store) struct Writer {
    queue: mpsc::Sender<Command>,
    _task: JoinSet<()>,
}

impl Writer {
    /// Starts the task on the current runtime.
    pub(in crate::store) fn start(link: Box<dyn Link>) -> Self {
        let (queue, commands) = mpsc::channel(QUEUE_SIZE);
        let mut task = JoinSet::new();
        task.spawn(run(link, commands));
        Self { queue, _task: task }
    }

    /// Commits a write.
    pub(in crate::store) async fn commit<W: Write>(&self, write: W) -> Result<W::Output, StoreError> {
        let answer = self.enqueue(write).await?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Queues a write.
    pub(in crate::store) async fn queue<W: Write<Output = ()>>(&self, write: W) -> Result<Commit, StoreError> {
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
    pub(in crate::store) async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        if self.queue.send(Command::Close(reply)).await.is_ok() {
            let _ = closed.await;
        }
    }
}

fn closed() -> StoreError {
    StoreError::Failed("it is closed".to_owned())
}

async fn run(mut link: Box<dyn Link>, mut commands: mpsc::Receiver<Command>) {
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
        commit(&mut *link, &mut batch).await;
        for write in batch {
            write.answer();
        }
    }
    if let Some(reply) = closing {
        link.close().await;
        let _ = reply.send(());
    }
}

/// Takes the writes of the next transaction: the urgent ones, or else the first ones.
fn next_batch(waiting: &mut VecDeque<Box<dyn AnyQueued>>) -> Vec<Box<dyn AnyQueued>> {
    if !waiting.iter().any(|write| write.is_urgent()) {
        let count = waiting.len().min(MAX_BATCH);
        return waiting.drain(..count).collect();
    }
    let mut leases: HashSet<Lease> = HashSet::new();
    let (mut batch, mut rest) = (Vec::new(), Vec::new());
    // From the last one: whether a later write of the same trial is urgent.
    for write in std::mem::take(waiting).into_iter().rev() {
        if write.is_urgent() {
            leases.extend(write.lease().cloned());
            batch.push(write);
        } else if write.lease().is_some_and(|lease| leases.contains(lease)) {
            batch.push(write);
        } else {
            rest.push(write);
        }
    }
    batch.reverse();
    *waiting = rest.into_iter().rev().collect();
    batch
}

/// What one attempt to commit a batch led to.
enum Attempt {
    /// All writes have their final outcome.
    Done,
    /// One of several writes failed.
    Split,
    /// Nothing was committed, and the next attempt may succeed.
    Retry(StoreError),
}

/// Commits a batch. If one of its writes fails, each of them gets a transaction of its own: the others succeed.
async fn commit(link: &mut dyn Link, batch: &mut [Box<dyn AnyQueued>]) {
    if batch.is_empty() {
        return;
    }
    let mut retries = Retries::within(link.retry_time());
    loop {
        match attempt(link, batch).await {
            Attempt::Done => return,
            Attempt::Split => {
                for write in batch {
                    Box::pin(commit(link, std::slice::from_mut(write))).await;
                }
                return;
            }
            Attempt::Retry(error) => {
                tracing::debug!(%error, "a transaction is tried again");
                if !retries.wait().await {
                    return fail_all(batch, &link.describe(error));
                }
            }
        }
    }
}

/// Applies writes in one transaction.
async fn attempt(link: &mut dyn Link, batch: &mut [Box<dyn AnyQueued>]) -> Attempt {
    let mut is_refused = false;
    if let Err(Trouble { error, fault }) = apply(link, batch, &mut is_refused).await {
        link.roll_back(fault).await;
        return match fault {
            Some(_) => Attempt::Retry(error),
            None if is_refused && batch.len() > 1 => Attempt::Split,
            None => {
                fail_all(batch, &error);
                Attempt::Done
            }
        };
    }
    let mut error = link.commit().await.err();
    if failpoint::hit(Failpoint::AfterCommit) {
        error = Some(StoreError::Failed("the outcome of the commit is unknown".to_owned()));
    }
    let Some(error) = error else { return Attempt::Done };
    match link.look_up().await {
        CommitOutcome::Committed => {}
        CommitOutcome::RolledBack => return Attempt::Retry(error),
        CommitOutcome::InRows(mut connection) => {
            for write in batch.iter_mut() {
                write.confirm(&error, &mut connection).await;
            }
        }
        CommitOutcome::Unknown => fail_all(batch, &link.describe(error)),
    }
    Attempt::Done
}

/// Begins a transaction and makes all changes. Sets `is_refused` if one of the writes failed by itself.
async fn apply(link: &mut dyn Link, batch: &mut [Box<dyn AnyQueued>], is_refused: &mut bool) -> Result<(), Trouble> {
    let mut transaction = link.begin().await?;
    let blobs = batch.iter().flat_map(|write| write.blobs()).collect();
    let stored = transaction.store_blobs(blobs).await;
    stored.map_err(|error| transaction.trouble(error))?;
    for write in batch.iter_mut() {
        if let Err(error) = write.apply(&mut transaction).await {
            *is_refused = true;
            return Err(transaction.trouble(error));
        }
    }
    let finished = transaction.finish().await;
    finished.map_err(|error| transaction.trouble(error))
}

fn fail_all(batch: &mut [Box<dyn AnyQueued>], error: &StoreError) {
    for write in batch {
        write.fail(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{RunId, TrialId};

    /// A write of a trial that changes nothing.
    struct Named {
        lease: Lease,
        is_urgent: bool,
    }

    impl Write for Named {
        type Output = ();

        fn apply<'a>(&'a self, _: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), StoreError>> {
            Box::pin(async { Ok(()) })
        }

        fn lease(&self) -> Option<&Lease> {
            Some(&self.lease)
        }

        fn is_urgent(&self) -> bool {
            self.is_urgent
        }
    }

    fn queue(names: &[&'static str]) -> VecDeque<Box<dyn AnyQueued>> {
        let queued = |name: &&'static str| {
            let trial = TrialId(name[..1].into());
            let lease = Lease { run: RunId("run".into()), trial, fence: 1 };
            let write = Named { lease, is_urgent: name.ends_with('!') };
            Box::new(Queued { write, outcome: None, reply: oneshot::channel().0 }) as Box<dyn AnyQueued>
        };
        names.iter().map(queued).collect()
    }

    fn names(writes: &[Box<dyn AnyQueued>]) -> Vec<&str> {
        writes.iter().map(|write| &*write.lease().unwrap().trial.0).collect()
    }

    #[test]
    fn urgent_writes_go_first_with_the_earlier_writes_of_their_trial() {
        let mut waiting = queue(&["a unit", "b unit", "a!", "c!", "c unit"]);
        let batch = next_batch(&mut waiting);
        assert_eq!(names(&batch), ["a", "a", "c"], "in the order in which they were queued");
        let rest = next_batch(&mut waiting);
        assert_eq!(names(&rest), ["b", "c"]);
        assert!(waiting.is_empty());
    }
}
