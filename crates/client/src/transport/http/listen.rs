//! Listens to what a server says unasked, on a stream that is opened again when it ends, but never in a storm.

use std::sync::Weak;

use http::HeaderValue;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::exchange::Exchange;
use super::governor::Governor;
use crate::transport::Frame;

/// Listens until the server turns out to have nothing to say, or the session is over.
pub(super) async fn listen(exchange: Weak<Exchange>, frames: mpsc::Sender<Frame>) {
    let (mut governor, mut last) = (Governor::patient(), None::<HeaderValue>);
    loop {
        let (opened, mut useful, mut wish) = (Instant::now(), false, None);
        let Some(open) = exchange.upgrade() else { return };
        let stream = open.open_stream(last.as_ref()).await;
        drop(open);
        match stream {
            Ok(Some(mut events)) => {
                while let Some(Ok(event)) = events.next().await {
                    // Events that only name an id say nothing.
                    let said = String::from_utf8(event.data).ok().filter(|text| !text.trim().is_empty());
                    let Some(text) = said.filter(|_| event.kind == "message") else { continue };
                    useful = true;
                    if frames.send(Frame::Message(text)).await.is_err() {
                        return;
                    }
                }
                wish = events.retry();
                if let Some(id) = events.last_id() {
                    last = HeaderValue::from_str(id).ok();
                }
            }
            Ok(None) => {}
            Err(reason) => {
                tracing::debug!(reason, "the server does not speak unasked");
                return;
            }
        }
        let Some(pause) = governor.ended(opened.elapsed(), useful, wish) else {
            tracing::debug!("the server's stream keeps ending; it is no longer listened to");
            return;
        };
        tokio::time::sleep(pause).await;
    }
}
