//! How a person is brought to the page on which they sign in, and back.

use futures_util::future::BoxFuture;

/// Brings people to pages.
pub trait AuthorizationUi: Send + Sync + 'static {
    /// Gets ready for one visit: from now on there is an address to come back to, if possible the one that was used before.
    fn begin<'a>(&'a self, before: Option<&'a str>) -> BoxFuture<'a, Result<Box<dyn AuthorizationFlow>, String>>;
}

/// One visit.
pub trait AuthorizationFlow: Send {
    /// Where the page has to send the person back to.
    fn redirect_uri(&self) -> &str;

    /// Shows the page at `url`, and waits until the person comes back with this state. What is returned is the whole
    /// address they came to.
    fn go(self: Box<Self>, url: String, state: String) -> BoxFuture<'static, Result<String, String>>;
}
