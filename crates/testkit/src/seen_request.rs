//! HTTP requests as the fakes received them.

/// A received HTTP request.
#[derive(Clone, Debug)]
pub struct SeenRequest {
    /// The HTTP method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers.
    pub headers: http::HeaderMap,
    /// The whole body.
    pub body: String,
    /// The number of its connection; the first is 1.
    pub connection: u64,
}
