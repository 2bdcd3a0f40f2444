//! A thousand servers, some of them faulty.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use wharf_fleet::{Fleet, FleetOptions, ServerSpec, ServerState};
use wharf_testkit::{Script, Scripted, Step};

use super::{LONG, call, entry, in_memory};

/// The faults, in equal shares.
fn bad(number: usize) -> Script {
    match number % 5 {
        0 => Script::good().on("initialize", [Step::Hang]).on("server/discover", [Step::Hang]),
        1 => Script::good().at_start([Step::HangUp]),
        2 => Script::good().on("tools/list", [Step::Hang]),
        3 => {
            Script::good().on("initialize", [Step::Line("{\"jsonrpc\": \"2.0\", \"id\": {id}, \"result\": 7}".into())])
        }
        _ => Script::good().on("tools/list", [Step::Normally, Step::HangUp]),
    }
}

/// A thousand servers of which every tenth is bad, or none.
async fn fleet(bad_ones: bool) -> Fleet {
    let servers = (0..1000).map(|number| {
        let script = if bad_ones && number % 10 == 0 { bad(number / 10) } else { Script::good() };
        ServerSpec::from(in_memory(&format!("s{number}"), &Scripted::new(script)))
    });
    let options = FleetOptions { local_gate: 1000, ..FleetOptions::default() };
    let fleet = Fleet::open(servers, options);
    let mut changes = fleet.changes();
    let good = |fleet: &Fleet| {
        let good = |status: &wharf_fleet::ServerStatus| status.name.as_str()[1..].parse::<usize>().unwrap() % 10 != 0;
        fleet.statuses().iter().filter(|status| good(status) && status.state == ServerState::Connected).count()
    };
    while good(&fleet) < 900 {
        changes.changed().await.unwrap();
    }
    fleet
}

/// The 99th percentile of the duration of calls to the good servers.
async fn p99(fleet: &Fleet) -> Duration {
    let mut times = Vec::new();
    for number in (0..1000).filter(|number| number % 10 != 0) {
        let add = entry(fleet, &format!("mcp__s{number}__add"));
        let began = Instant::now();
        assert_eq!(call(&add, json!({"a": 1, "b": 1})).await.unwrap().text(), "2");
        times.push(began.elapsed());
    }
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

/// With a paused clock, the durations count waits for other servers, not the speed of the machine.
#[tokio::test(start_paused = true)]
async fn bad_servers_do_not_slow_down_the_good_ones() {
    let well = fleet(false).await;
    let ill = fleet(true).await;
    let baseline = p99(&well).await;
    let faulty = p99(&ill).await;
    assert!(faulty <= baseline * 2 + Duration::from_millis(1), "{faulty:?} instead of {baseline:?}");
    assert_eq!(ill.statuses().iter().filter(|status| status.state == ServerState::Connected).count(), 900);
    well.close().await;
    tokio::time::timeout(LONG, ill.close()).await.unwrap();
}
