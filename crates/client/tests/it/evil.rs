//! Peers that ruin what an honest server says.

use std::time::Duration;

use tokio::time::Instant;
use wharf_client::CallErrorKind;
use wharf_testkit::{HttpScripted, Script, Step, eventually};

use crate::none;
use crate::remote::websocket;

#[tokio::test(start_paused = true)]
async fn the_end_of_a_connection_is_known_at_once() {
    for end in [Step::HangUp, Step::Reset] {
        let server = HttpScripted::new(Script::good().any_tool("tool").on_call("tool", [end]));
        let session = websocket(&server);
        eventually(session.connect()).await.unwrap();
        let began = Instant::now();
        let error = eventually(session.call("tool", &none())).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Lost(_)), "{error}");
        assert_eq!(began.elapsed(), Duration::ZERO, "{error}");
    }
}
