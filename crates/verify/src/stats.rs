//! Statistics of results: agreement of judges, repeated attempts, paired comparisons and percentiles. Pure functions.
//!
//! Every function returns `None` where its value is undefined, for example without observations. Reports show the number
//! of observations beside each value.

mod agreement;
mod attempts;
mod holm;
mod paired;
mod percentile;

pub use agreement::{cohen_kappa, fleiss_kappa};
pub use attempts::{Attempts, is_flaky, pass_all_k, pass_at_k, replicate_agreement};
pub use holm::holm;
pub use paired::{DifferenceEstimate, Discordance, bootstrap_mean_difference, mcnemar};
pub use percentile::percentile;

/// Converts a count. Counts are far below 2^52, where `f64` is exact.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn number(count: usize) -> f64 {
    count as f64
}
