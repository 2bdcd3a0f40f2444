//! Reads the stream of a legacy server's notifications and requests, and reopens it with growing delays when it ends.

use std::sync::Weak;

use http::HeaderValue;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::exchange::Exchange;
use super::reconnect::ReconnectBackoff;
use crate::transport::Frame;

/// Listens until the server refuses the stream, it keeps ending, or the connection is closed.
pub(super) async fn listen(exchange: Weak<Exchange>, frames: mpsc::Sender<Frame>) {
    let mut backoff = ReconnectBackoff::for_notifications();
    let mut last = None::<HeaderValue>;
    loop {
        let opened_at = Instant::now();
        let mut useful = false;
        let mut retry = None;
        let Some(open) = exchange.upgrade() else { return };
        let negotiated = open.negotiated.load_full();
        let stream = open.events(&negotiated, last.as_ref()).await;
        drop(open);
        match stream {
            Ok(Some(mut events)) => {
                while let Some(Ok(event)) = events.next().await {
                    if event.kind != "message" {
                        continue;
                    }
                    // Events without data only set the event id.
                    let text = String::from_utf8(event.data).ok().filter(|text| !text.trim().is_empty());
                    let Some(text) = text else { continue };
                    useful = true;
                    if frames.send(Frame::Message(text)).await.is_err() {
                        return;
                    }
                }
                retry = events.retry();
                if let Some(id) = events.last_id() {
                    last = HeaderValue::from_str(id).ok();
                }
            }
            Ok(None) => {}
            Err(reason) => {
                tracing::debug!(reason, "the server has no notification stream");
                return;
            }
        }
        let Some(delay) = backoff.next_delay(opened_at.elapsed(), useful, retry) else {
            tracing::debug!("giving up the notification stream: it keeps ending");
            return;
        };
        tokio::time::sleep(delay).await;
    }
}
