use std::collections::VecDeque;

use super::*;

/// A time after the start, as every real one is.
const START: i64 = 1_700_000_000_000;

fn limit(requests: Option<u32>, tokens: Option<u64>, usd: Option<f64>) -> RateLimit {
    RateLimit { requests_per_minute: requests, tokens_per_minute: tokens, usd_per_minute: usd }
}

fn wanting(limit: RateLimit, wanted: u32) -> RateReport {
    RateReport { provider: "anthropic".to_owned(), limit, wanted, ..RateReport::default() }
}

/// Returns the most that a window of a minute sees, and the sum of ten minutes. Every 100 ms several workers want more than
/// they get, and send it as late as they may.
fn most_in_a_minute(limit: RateLimit) -> (usize, usize) {
    let mut bucket = Bucket::default();
    let (mut window, mut most, mut sum) = (VecDeque::new(), 0, 0);
    for tick in 0..6_000 {
        let now = START + tick * 100;
        for worker in 0..3 {
            let grant = bucket.exchange(&wanting(limit, 50), now);
            let sent = now + if (tick + worker) % 2 == 0 { 0 } else { 2_000 };
            window.extend(std::iter::repeat_n(sent, grant.requests as usize));
            sum += grant.requests as usize;
        }
    }
    let mut times: Vec<i64> = window.drain(..).collect();
    times.sort_unstable();
    for (first, start) in times.iter().enumerate() {
        let end = times.partition_point(|time| *time < start + 60_000);
        most = most.max(end - first);
    }
    (most, sum)
}

#[test]
fn no_minute_sees_more_requests_than_allowed_and_most_are_used() {
    for per_minute in [1, 2, 5, 31, 50, 1_000, 4_000] {
        let (most, sum) = most_in_a_minute(limit(Some(per_minute), None, None));
        assert!(most <= per_minute as usize, "{most} of {per_minute}");
        assert!(sum * 100 >= per_minute as usize * 10 * 90, "{sum} in ten minutes of {per_minute}");
    }
}

#[test]
fn tokens_beyond_the_reserve_delay_the_next_requests() {
    let limit = limit(None, Some(6_000), None);
    let mut bucket = Bucket::default();
    // Nothing is known yet: one request.
    let first = bucket.exchange(&wanting(limit, 10), START);
    assert_eq!(first.requests, 1);
    assert_eq!(bucket.exchange(&wanting(limit, 10), START).requests, 0);
    let report = RateReport {
        finished: 1,
        used: Reserve { tokens: 1_000.0, usd: 0.0 },
        released: first.reserve,
        ..wanting(limit, 10)
    };
    let next = bucket.exchange(&report, START);
    assert_eq!(next.requests, 0);
    // 1,000 tokens drain in some ten seconds.
    assert!((9..12).contains(&next.wait.as_secs()), "{next:?}");
    assert_eq!(bucket.exchange(&wanting(limit, 10), START + 8_000).requests, 0);
    assert_eq!(bucket.exchange(&wanting(limit, 10), START + 11_500).requests, 1);
}

#[test]
fn money_is_a_limit_too() {
    let limit = limit(None, None, Some(0.6));
    let mut bucket = Bucket::default();
    let first = bucket.exchange(&wanting(limit, 1), START);
    let used = Reserve { tokens: 10.0, usd: 0.005 };
    let report = RateReport { finished: 1, used, released: first.reserve, ..wanting(limit, 10) };
    // Of two cents, half a cent is used, and the average is reserved for each.
    assert_eq!(bucket.exchange(&report, START).requests, 3);
}

#[test]
fn what_is_returned_can_be_granted_again() {
    let limit = limit(Some(600), None, None);
    let mut bucket = Bucket::default();
    assert_eq!(bucket.exchange(&wanting(limit, 100), START).requests, 20);
    let report = RateReport { returned: 7, ..wanting(limit, 100) };
    assert_eq!(bucket.exchange(&report, START).requests, 7);
}

#[test]
fn a_refusal_pauses_everything_and_the_bucket_starts_full() {
    let limit = limit(Some(600), None, None);
    let mut bucket = Bucket::default();
    let pause = RateReport { pause: Some(Duration::from_secs(7)), ..wanting(limit, 0) };
    assert_eq!(bucket.exchange(&pause, START).wait, Duration::from_secs(7));
    assert_eq!(bucket.exchange(&wanting(limit, 1), START + 6_999).requests, 0);
    assert_eq!(bucket.exchange(&wanting(limit, 1), START + 7_001).requests, 1);
    // Without limits it is the pause alone.
    let mut bucket = Bucket::default();
    let unlimited = RateLimit::default();
    bucket.exchange(&RateReport { pause: Some(Duration::from_secs(7)), ..wanting(unlimited, 0) }, START);
    assert_eq!(bucket.exchange(&wanting(unlimited, 9), START + 1).requests, 0);
    assert_eq!(bucket.exchange(&wanting(unlimited, 9), START + 7_001).requests, 9);
}

#[test]
fn a_clock_that_is_set_back_stops_nothing() {
    let limit = limit(Some(60), None, None);
    let mut bucket = Bucket::default();
    assert_eq!(bucket.exchange(&wanting(limit, 9), START).requests, 2);
    // A little: nothing drains twice. A lot: it starts from there.
    assert_eq!(bucket.exchange(&wanting(limit, 9), START - 2_000).requests, 0);
    assert_eq!(bucket.updated, START);
    assert_eq!(bucket.exchange(&wanting(limit, 9), START - 3_600_000).requests, 0);
    assert_eq!(bucket.exchange(&wanting(limit, 9), START - 3_600_000 + 2_500).requests, 2);
}
