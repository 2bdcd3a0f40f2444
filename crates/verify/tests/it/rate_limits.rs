//! Limits per minute that workers share through their store.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use wharf_testkit::{Postgres, soon};
use wharf_verify::journal::{RequestLimits, RequestPermit};
use wharf_verify::rate_limit::{RateGrant, RateReport};
use wharf_verify::store::{PostgresStore, RunStore, SqliteStore};
use wharf_verify::worker::{Stop, WorkerEnd};
use wharf_verify::{RateLimit, Worker, WorkerOptions};

use crate::pipeline_kit::*;
use crate::store_kit::{planned, run_id};

/// How long a request waits that gets nothing for much longer.
const A_MOMENT: Duration = Duration::from_millis(100);

fn requests(per_minute: u32) -> RateLimit {
    RateLimit { requests_per_minute: Some(per_minute), ..RateLimit::default() }
}

fn report(limit: RateLimit, wanted: u32) -> RateReport {
    RateReport { provider: "fake".to_owned(), limit, wanted, ..RateReport::default() }
}

/// Part of the contract of every store.
pub(crate) async fn limits_are_shared_by_all_workers(store: &dyn RunStore) {
    let other = store.reopen().await.unwrap();
    let limit = requests(90);
    let grant =
        async |store: &dyn RunStore, report: RateReport| -> RateGrant { store.exchange_rate(&report).await.unwrap() };
    // A burst of two seconds, for both together.
    assert_eq!(grant(store, report(limit, 2)).await.requests, 2);
    assert_eq!(grant(&*other, report(limit, 9)).await.requests, 1);
    let empty = grant(store, report(limit, 1)).await;
    assert_eq!(empty.requests, 0);
    assert!(empty.wait > Duration::from_millis(20) && empty.wait < Duration::from_secs(1), "{empty:?}");
    // What one returns, another gets.
    grant(store, RateReport { returned: 2, ..report(limit, 0) }).await;
    assert!(grant(&*other, report(limit, 2)).await.requests == 2);
    // Other providers have their own limits.
    let another = RateReport { provider: "another".to_owned(), ..report(limit, 3) };
    assert_eq!(grant(store, another).await.requests, 3);
    // A refusal stops all of them.
    grant(store, RateReport { pause: Some(Duration::from_secs(500)), ..report(limit, 0) }).await;
    let paused = grant(&*other, RateReport { returned: 9, ..report(limit, 1) }).await;
    assert_eq!((paused.requests, paused.wait), (0, Duration::from_secs(15)));
    other.close().await.unwrap();
}

/// The minutes pass by moving what the store remembers into the past.
#[tokio::test]
async fn many_workers_together_stay_below_the_limit_of_every_minute() {
    const PER_MINUTE: usize = 120;
    const WORKERS: usize = 8;
    let postgres = Postgres::start().await;
    let url = postgres.create_database("runs").parse().unwrap();
    let stores: Vec<PostgresStore> =
        futures_util::future::join_all((0..WORKERS).map(|_| async { PostgresStore::open(&url).await.unwrap() })).await;
    let limit = requests(u32::try_from(PER_MINUTE).unwrap());
    let (began, mut moved) = (Instant::now(), Duration::ZERO);
    let mut last_minute: VecDeque<Duration> = VecDeque::new();
    let (mut accepted, mut refused) = (0_usize, 0_usize);
    for _ in 0..120 {
        let asked = report(limit, 10);
        let grants = futures_util::future::join_all(stores.iter().map(|store| store.exchange_rate(&asked))).await;
        for _ in 0..grants.into_iter().map(|grant| grant.unwrap().requests).sum() {
            let now = began.elapsed() + moved;
            while last_minute.front().is_some_and(|first| *first + Duration::from_secs(60) <= now) {
                last_minute.pop_front();
            }
            // The provider counts, and answers 429 beyond its limit.
            if last_minute.len() < PER_MINUTE {
                last_minute.push_back(now);
                accepted += 1;
            } else {
                refused += 1;
            }
        }
        postgres.execute("runs", "UPDATE wharf.provider_rate SET updated = updated - 1500");
        moved += Duration::from_millis(1_500);
    }
    assert_eq!(refused, 0, "after {accepted} requests");
    assert!(accepted * 60 > PER_MINUTE * 180 * 85 / 100, "only {accepted} requests in three minutes");
}

async fn is_pending(limits: &RequestLimits) -> bool {
    timeout(A_MOMENT, limits.permit("fake")).await.is_err()
}

async fn permit(limits: &RequestLimits) -> RequestPermit {
    soon(limits.permit("fake")).await.unwrap()
}

#[tokio::test]
async fn a_worker_waits_for_the_requests_of_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let limits = BTreeMap::from([("fake".to_owned(), requests(2))]);
    let open = async || Arc::new(SqliteStore::open(&path).await.unwrap()) as Arc<dyn RunStore>;
    let [one, two] = [RequestLimits::new(&limits, &open().await), RequestLimits::new(&limits, &open().await)];
    // Providers without a limit are not limited.
    drop(soon(one.permit("another")).await.unwrap());
    let unused = permit(&one).await;
    assert!(is_pending(&two).await);
    // A request that is not sent is there for another one, of this worker or of others.
    drop(unused);
    drop(permit(&one).await);
    one.settle().await.unwrap();
    let mut sent = permit(&two).await;
    sent.send().await.unwrap();
    sent.finish(&wharf_protocol::Usage::default());
    two.settle().await.unwrap();
    assert!(is_pending(&one).await, "it was sent");
}

#[tokio::test]
async fn a_refused_request_makes_all_workers_wait() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    // Without numbers: the provider's refusals are shared.
    let limits = BTreeMap::from([("fake".to_owned(), RateLimit::default())]);
    let open = async || Arc::new(SqliteStore::open(&path).await.unwrap()) as Arc<dyn RunStore>;
    let [one, two] = [RequestLimits::new(&limits, &open().await), RequestLimits::new(&limits, &open().await)];
    let mut refused = permit(&one).await;
    refused.send().await.unwrap();
    refused.refused(Some(Duration::from_secs(300))).await.unwrap();
    assert!(is_pending(&one).await && is_pending(&two).await);
}

#[tokio::test]
async fn requests_of_a_run_report_what_they_used() {
    let answering = Fake::new("fake-1", |_, _| Ok(says("It is Paris.")));
    let judge = judge(|_, _| Ok(says(&right().to_string())));
    let setup = Setup::new(city_question(), &answering, &judge);
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn RunStore> = Arc::new(SqliteStore::open(&folder.path().join("runs.db")).await.unwrap());
    let tool_sets = setup.tool_sets().await;
    let plan = setup.plan(&tool_sets).unwrap();
    planned(&*store, &run_id("run"), &plan.trials().collect::<Vec<_>>()).await;
    let runner = Arc::new(setup.runner(tool_sets));
    let (_stop, stopped) = watch::channel(Stop::No);
    let provider = setup.models[0].settings.interface.clone();
    let limit = RateLimit { tokens_per_minute: Some(10_000_000), ..RateLimit::default() };
    let rate_limits = BTreeMap::from([(provider.clone(), limit)]);
    let options = WorkerOptions { rate_limits, ..WorkerOptions::new(run_id("run"), "w") };
    let worker = Worker::new(Arc::clone(&store), runner.clone(), options, stopped);
    assert_eq!(soon(worker.run()).await.unwrap().end, WorkerEnd::Finished);
    soon(runner.close()).await;
    let next = store.exchange_rate(&RateReport { provider, ..report(limit, 1) }).await.unwrap();
    // 15 tokens each, of the model and of the judge.
    assert!((next.reserve.tokens - 15.0).abs() < 1e-6, "{next:?}");
}
