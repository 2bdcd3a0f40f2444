//! Embeddings: texts as vectors, whose directions are similar if their meanings are.

use serde::{Deserialize, Serialize};
use wharf_protocol::{BoxFuture, Usage};

use crate::ModelError;

/// A model that turns texts into vectors.
pub trait Embedder: Send + Sync {
    /// Returns the name of the interface, for example `openai`.
    fn interface(&self) -> &str;

    /// Returns the name of the model at its provider.
    fn name(&self) -> &str;

    /// Returns one vector for each text, in order.
    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Embeddings, ModelError>>;
}

/// The vectors of texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Embeddings {
    /// One vector for each text, all of the same length. The numbers are finite.
    pub vectors: Vec<Vec<f32>>,
    /// The model that responded, according to its provider.
    pub model: String,
    /// Tokens and cost.
    pub usage: Usage,
}

impl Embeddings {
    /// Returns the cosine of the angle between two vectors, from -1 to 1. `None` if one of them has no direction.
    pub fn cosine(first: &[f32], second: &[f32]) -> Option<f64> {
        let product =
            |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum() };
        let length = (product(first, first) * product(second, second)).sqrt();
        let cosine = product(first, second) / length;
        (first.len() == second.len() && cosine.is_finite()).then(|| cosine.clamp(-1.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cosine_compares_directions_and_not_lengths() {
        let check = |first: &[f32], second: &[f32], expected: Option<f64>| {
            let found = Embeddings::cosine(first, second);
            assert!(
                found.is_some() == expected.is_some()
                    && (found.unwrap_or_default() - expected.unwrap_or_default()).abs() < 1e-9,
                "{first:?} {second:?}: {found:?}"
            );
        };
        check(&[1.0, 0.0], &[3.0, 0.0], Some(1.0));
        check(&[1.0, 0.0], &[0.0, 2.0], Some(0.0));
        check(&[1.0, 0.0], &[-1.0, 0.0], Some(-1.0));
        check(&[3.0, 4.0], &[4.0, 3.0], Some(0.96));
        check(&[0.0, 0.0], &[1.0, 0.0], None);
        check(&[1.0], &[1.0, 0.0], None);
        check(&[], &[], None);
        check(&[f32::MAX, f32::MAX], &[f32::MAX, f32::MAX], Some(1.0));
    }
}
