//! HTTP responses of a provider.

use bytes::Bytes;
use http_body_util::Full;
use serde_json::Value;

pub(super) type Response = http::Response<Full<Bytes>>;

pub(super) const JSON: (&str, &str) = ("content-type", "application/json");

pub(super) fn json_document(status: u16, object: &Value) -> Response {
    with_headers(status, &[JSON], object.to_string())
}

pub(super) fn with_headers(status: u16, headers: &[(&str, &str)], content: String) -> Response {
    let mut response = http::Response::builder().status(status);
    for (name, text) in headers {
        response = response.header(*name, *text);
    }
    // Only a test can define an invalid header.
    response.body(Full::new(content.into())).unwrap_or_default()
}
