//! No token, code, verifier, state or client secret appears in logs, errors or debug output.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use wharf_auth::{Account, FileStore, OAuthOptions, RegisteredClient};
use wharf_protocol::Secret;
use wharf_testkit::provider::{Registration, TokenFault};

use super::{Scene, look};

/// Records all log events.
#[derive(Clone, Default)]
struct Everything(Arc<Mutex<String>>);

impl Visit for Everything {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        writeln!(self.0.lock().unwrap(), "{field}={value:?}").unwrap();
    }
}

impl Subscriber for Everything {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn logs_and_errors_contain_no_secret() {
    let said = Everything::default();
    let _logging = tracing::subscriber::set_default(said.clone());
    let folder = tempfile::tempdir().unwrap();
    for method in ["client_secret_basic", "client_secret_post"] {
        let scene = Scene::with(|config| {
            config.registration = Registration::Secret(method);
            config.errors_quote_request = true;
        });
        let scene = Scene { store: Arc::new(FileStore::at(folder.path())), ..scene.await };
        let session = scene.session();
        let note = |what: &dyn Debug| writeln!(said.0.lock().unwrap(), "{what:?}").unwrap();
        // A sign-in and a refresh succeed, then a refresh fails; then the client is unknown and the code is invalid.
        look(&session).await.unwrap();
        scene.provider.expire();
        look(&session).await.unwrap();
        scene.provider.expire();
        for trouble in [TokenFault::HangUp, TokenFault::Raw(500, "{}".to_owned()), TokenFault::Raw(200, "[".to_owned())]
        {
            scene.provider.update(|config| config.tokens = trouble);
            let error = look(&session).await.unwrap_err();
            note(&(&error, error.to_string()));
        }
        scene.provider.update(|config| config.tokens = TokenFault::None);
        scene.provider.revoke_all();
        let account = Account { endpoint: scene.provider.url(), profile: "default".to_owned() };
        note(&scene.store.sign_in(&account).await.unwrap());
        scene.provider.forget_clients();
        look(&session).await.unwrap();
        scene.provider.revoke_all();
        scene.provider.add_client("known", Some("SECRET-of another"), method);
        let client = Some(RegisteredClient::with_secret("known", Secret::new("SECRET-known")));
        let error = look(&scene.session_with(OAuthOptions { client, ..scene.options() })).await.unwrap_err();
        note(&(&error, error.to_string()));
        let said = said.0.lock().unwrap();
        assert!(said.contains("invalid_client") && said.contains("the refresh token is no longer valid"), "{said}");
        for secret in scene.provider.secrets().iter().filter(|secret| secret.len() > 8) {
            assert!(!said.contains(secret.as_str()), "{secret} in {said}");
        }
        assert!(!said.contains("SECRET"), "{said}");
    }
}

#[tokio::test]
async fn errors_do_not_contain_secrets_quoted_by_the_provider() {
    let scene = Scene::with(|config| config.errors_quote_request = true).await;
    let known = RegisteredClient::with_secret("known", Secret::new("a secret/with+signs"));
    scene.provider.add_client("known", Some("another"), "client_secret_post");
    for method in ["client_secret_basic", "client_secret_post"] {
        let client = Some(RegisteredClient { token_endpoint_auth_method: method.to_owned(), ..known.clone() });
        let session = scene.session_with(OAuthOptions { client, ..scene.options() });
        let error = format!("{:?}", look(&session).await.unwrap_err());
        assert!(error.contains("invalid_client") && error.contains("grant_type"), "{error}");
        for secret in ["a secret", "a%20secret", "SECRET", "a25vd24"] {
            assert!(!error.contains(secret), "{secret}: {error}");
        }
        for secret in scene.provider.secrets() {
            assert!(!error.contains(&secret), "{secret}: {error}");
        }
    }
}
