//! A little chance, so that many who failed together do not try again together.

use std::hash::{BuildHasher, RandomState};

/// A number between 0 and 1.
pub(crate) fn chance() -> f64 {
    // Every `RandomState` has other keys; what is hashed does not matter.
    let random = u32::try_from(RandomState::new().hash_one(0_u8) >> 32).unwrap_or_default();
    f64::from(random) / f64::from(u32::MAX)
}
