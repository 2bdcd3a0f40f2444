//! Embedding requests through the journal. Only similarities are recorded, not the vectors.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wharf_agent::{Embeddings, ModelError, ModelErrorKind};
use wharf_protocol::Usage;

use super::steps::{Executed, FinishedStep, Steps};
use super::stop::StopCause;
use crate::embedding::EmbeddingModel;
use crate::journal::{RequestPermit, StepKind};

/// How long one attempt may take.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(120);
/// How often a request is retried after a transient error.
const MAX_RETRIES: u32 = 2;
/// The pause before the first retry. It doubles with each one.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Two texts whose meanings are compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct TextPair {
    pub(crate) first: String,
    pub(crate) second: String,
}

/// The similarities of pairs.
#[derive(Debug)]
pub(crate) struct Similarities {
    /// For each pair, the cosine of its vectors. `None` if one of them has no direction.
    pub(crate) cosines: Vec<Option<f64>>,
    pub(crate) usage: Usage,
}

/// Why pairs could not be compared.
#[derive(Debug)]
pub(crate) enum EmbeddingError {
    /// The request failed, after all retries.
    Model(ModelError),
    /// No further step is executed.
    Stopped(StopCause),
}

/// The recorded form of an attempt.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum EmbeddingBody {
    Cosines(Vec<Option<f64>>),
    Error(ModelError),
    /// The time limit of the run, in seconds, ended the request.
    TimeLimit(u64),
}

#[derive(Serialize)]
struct RequestDigest<'a> {
    interface: &'a str,
    model: &'a str,
    pairs: &'a [TextPair],
}

/// Compares pairs of texts in one request, with retries. A replay does not retry: failures on record are final.
pub(crate) async fn similarities(
    steps: &Steps,
    model: &EmbeddingModel,
    pairs: &[TextPair],
    is_replay: bool,
) -> Result<Similarities, EmbeddingError> {
    let embedder = &*model.embedder;
    let digest = steps.digest(&RequestDigest { interface: embedder.interface(), model: embedder.name(), pairs });
    let mut retries = 0;
    loop {
        let on_time_limit = |seconds| body(&EmbeddingBody::TimeLimit(seconds));
        let Some(permit) = steps.permit(embedder.interface()).await else { return Err(stopped(steps)) };
        let request = execute(model, pairs, permit);
        let result = steps.run(StepKind::Embedding, digest.clone(), request, on_time_limit).await;
        let Some(FinishedStep { result, .. }) = result else { return Err(stopped(steps)) };
        let Some(recorded) = steps.decode(&result) else { return Err(stopped(steps)) };
        let error = match recorded {
            EmbeddingBody::Cosines(cosines) => {
                steps.add_call(result.millis);
                return Ok(Similarities { cosines, usage: result.usage });
            }
            EmbeddingBody::TimeLimit(seconds) => return Err(EmbeddingError::Stopped(StopCause::TimeLimit(seconds))),
            EmbeddingBody::Error(error) => error,
        };
        if is_replay || retries == MAX_RETRIES || !error.is_transient() {
            return Err(EmbeddingError::Model(error));
        }
        tokio::time::sleep(RETRY_PAUSE * 2_u32.pow(retries)).await;
        retries += 1;
    }
}

fn stopped(steps: &Steps) -> EmbeddingError {
    let unknown = || StopCause::Invalid("an embedding request was not executed".to_owned());
    EmbeddingError::Stopped(steps.stop().cause().unwrap_or_else(unknown))
}

async fn execute(model: &EmbeddingModel, pairs: &[TextPair], mut permit: RequestPermit) -> Executed {
    let texts: Vec<String> = pairs.iter().flat_map(|pair| [pair.first.clone(), pair.second.clone()]).collect();
    let late = |_| {
        let message = format!("no embeddings within {} s", ATTEMPT_TIMEOUT.as_secs());
        Err(ModelError::new(ModelErrorKind::Timeout, message))
    };
    if let Err(error) = permit.send().await {
        let error = ModelError::new(ModelErrorKind::Overloaded, error.to_string());
        return Executed { body: body(&EmbeddingBody::Error(error)), failed: true, usage: Usage::default() };
    }
    let attempt = tokio::time::timeout(ATTEMPT_TIMEOUT, model.embedder.embed(&texts)).await.unwrap_or_else(late);
    match attempt {
        Ok(Embeddings { vectors, .. }) if vectors.len() != texts.len() => {
            let error = ModelError::new(ModelErrorKind::Malformed, "another number of vectors than of texts");
            Executed { body: body(&EmbeddingBody::Error(error)), failed: true, usage: Usage::default() }
        }
        Ok(Embeddings { vectors, usage, .. }) => {
            permit.finish(&usage);
            let cosines = vectors.chunks(2).map(|pair| Embeddings::cosine(&pair[0], &pair[1])).collect();
            Executed { body: body(&EmbeddingBody::Cosines(cosines)), failed: false, usage }
        }
        Err(error) => {
            let failed = error.is_transient();
            if error.kind == ModelErrorKind::RateLimit
                && let Err(error) = permit.refused(error.retry_after).await
            {
                tracing::warn!(%error, "other workers do not learn that the provider refuses requests");
            }
            Executed { body: body(&EmbeddingBody::Error(error)), failed, usage: Usage::default() }
        }
    }
}

fn body(body: &EmbeddingBody) -> String {
    serde_json::to_string(body).unwrap_or_default()
}
