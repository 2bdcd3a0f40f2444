//! Sessions with a fixed era do not detect it.

use tokio::time::Instant;
use wharf_client::{ConnectErrorKind, ProtocolMode};
use wharf_testkit::{Script, Step, eventually};

use super::{LEGACY, MODERN, negotiated_revision, unsupported, with_mode};
use crate::seconds;

#[tokio::test(start_paused = true)]
async fn legacy_mode_never_sends_discover() {
    for script in [Script::good(), Script::dual_era()] {
        let (session, server) = with_mode(script, ProtocolMode::Legacy);
        assert_eq!(negotiated_revision(&session).await, LEGACY);
        assert_eq!((server.log().count("server/discover"), server.log().count("initialize")), (0, 1));
    }
    let (session, server) = with_mode(Script::modern(), ProtocolMode::Legacy);
    let error = eventually(session.connect()).await.unwrap_err();
    assert!(matches!(error.kind, ConnectErrorKind::Refused(_)), "{error}");
    assert_eq!(server.log().methods(), ["initialize"]);
}

#[tokio::test(start_paused = true)]
async fn modern_mode_never_sends_a_handshake() {
    for script in [Script::modern(), Script::dual_era()] {
        let (session, server) = with_mode(script, ProtocolMode::Modern);
        assert_eq!(negotiated_revision(&session).await, MODERN);
        assert_eq!((server.connections(), server.log().count("initialize")), (1, 0));
    }
    let refusing = [
        Script::good(),
        Script::good().on("server/discover", [unsupported(&[LEGACY])]),
        Script::good().on("server/discover", [Step::Result(serde_json::json!({}))]),
    ];
    for script in refusing {
        let (session, server) = with_mode(script, ProtocolMode::Modern);
        let error = eventually(session.connect()).await.unwrap_err();
        assert!(matches!(error.kind, ConnectErrorKind::Refused(_)), "{error}");
        assert!(error.to_string().contains("does not support the modern protocol"), "{error}");
        assert_eq!((server.connections(), server.log().count("initialize")), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn modern_mode_waits_for_a_silent_server_on_one_connection() {
    let (session, server) = with_mode(Script::good().on("server/discover", [Step::Hang]), ProtocolMode::Modern);
    let began = Instant::now();
    let error = eventually(session.connect()).await.unwrap_err();
    assert!(matches!(error.kind, ConnectErrorKind::Timeout(_)), "{error}");
    assert_eq!((began.elapsed(), server.connections(), server.log().count("initialize")), (seconds(30), 1, 0));

    let (session, server) = with_mode(Script::modern().at_start([Step::Wait(20_000)]), ProtocolMode::Modern);
    assert_eq!(negotiated_revision(&session).await, MODERN);
    assert_eq!(server.connections(), 1);

    let (session, server) = with_mode(Script::good().on("server/discover", [Step::HangUp]), ProtocolMode::Modern);
    let error = eventually(session.connect()).await.unwrap_err();
    assert!(matches!(error.kind, ConnectErrorKind::Ended(_)), "{error}");
    assert_eq!(server.connections(), 1);
}
