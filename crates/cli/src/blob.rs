//! Binary content of servers, which arrives in base64.

use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine as _};

/// Some servers omit the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decodes base64, which may contain line breaks.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, DecodeError> {
    let text: String = text.split_ascii_whitespace().collect();
    BASE64.decode(text)
}
