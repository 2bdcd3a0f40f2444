//! The embeddings API against a fake endpoint.

use wharf_agent::models::{Dialect, OpenAiEmbeddings};
use wharf_agent::{Embedder as _, Embeddings, ModelError, ModelErrorKind};
use wharf_testkit::eventually;
use wharf_testkit::models::{FakeModels, Fault, Turn};

use super::kit::{KEY, endpoint};

async fn embed(fake: &FakeModels, texts: &[&str]) -> Result<Embeddings, ModelError> {
    let model = OpenAiEmbeddings::new(Dialect::OpenAi, endpoint(fake), "text-embedding-3-small").unwrap();
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    eventually(model.embed(&texts)).await
}

#[tokio::test(start_paused = true)]
async fn each_text_has_its_vector_and_the_request_its_cost() {
    let fake = FakeModels::default().embedding([("a", vec![1.0, 0.0]), ("b", vec![0.0, 1.0])]);
    let found = embed(&fake, &["b", "a"]).await.unwrap();
    assert_eq!(found.vectors, [[0.0, 1.0], [1.0, 0.0]], "the order of the response has no meaning");
    assert_eq!((found.model.as_str(), found.usage.input_tokens), ("text-embedding-3-small", 8));
    assert!(found.usage.cost_usd.is_some_and(|cost| cost > 0.0), "{:?}", found.usage);
    let request = &fake.requests()[0];
    assert!(request.path.ends_with("/v1/embeddings"), "{}", request.path);
    assert_eq!(request.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(fake.bodies()[0]["input"], serde_json::json!(["b", "a"]));
}

#[tokio::test(start_paused = true)]
async fn responses_that_are_no_vectors_are_malformed() {
    let bodies = [
        "{}",
        "[]",
        "not JSON",
        r#"{"data": []}"#,
        r#"{"data": [{"index": 0, "embedding": [1]}]}"#,
        r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}"#,
        r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 7, "embedding": [1]}]}"#,
        r#"{"data": [{"embedding": [1]}, {"embedding": [1, 2]}]}"#,
        r#"{"data": [{"embedding": []}, {"embedding": []}]}"#,
        r#"{"data": [{"embedding": [1e99]}, {"embedding": [1]}]}"#,
        r#"{"data": [{"embedding": ["x"]}, {"embedding": [1]}]}"#,
        r#"{"data": [{"embedding": [1]}, {"embedding": [1]}, {"embedding": [1]}]}"#,
    ];
    for body in bodies {
        let fake = FakeModels::new([Turn::status(200, &[], body)]);
        let error = embed(&fake, &["a", "b"]).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Malformed, "{body}: {error}");
    }
    let fake = FakeModels::new([Turn::status(200, &[], r#"{"data": [{"embedding": [1]}, {"embedding": [2]}]}"#)]);
    assert_eq!(embed(&fake, &["a", "b"]).await.unwrap().vectors, [[1.0], [2.0]]);
}

#[tokio::test(start_paused = true)]
async fn failures_are_those_of_other_requests_and_never_contain_the_key() {
    let cases = [
        (Turn::fault(Fault::HangUp), ModelErrorKind::Network),
        (Turn::fault(Fault::HangBeforeHead), ModelErrorKind::Timeout),
        (Turn::status(429, &[], ""), ModelErrorKind::RateLimit),
        (Turn::status(401, &[], format!(r#"{{"error": {{"message": "bad key {KEY}"}}}}"#)), ModelErrorKind::Auth),
        (Turn::status(500, &[], ""), ModelErrorKind::Server),
    ];
    for (turn, expected) in cases {
        let error = embed(&FakeModels::new([turn]), &["a"]).await.unwrap_err();
        assert_eq!(error.kind, expected, "{error}");
        assert!(!error.to_string().contains(KEY), "{error}");
    }
    let unknown = embed(&FakeModels::default(), &["a"]).await.unwrap_err();
    assert!(unknown.to_string().contains("no vector for"), "{unknown}");
}
