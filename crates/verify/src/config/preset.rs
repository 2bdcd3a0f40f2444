//! Presets: settings with a name.

use serde::{Deserialize, Serialize};

use super::VerificationConfig;

/// The maximum length of a name, in characters.
const MAX_NAME_CHARS: usize = 100;
/// The maximum length of a description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 500;

/// Settings with a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Name of the preset, which is also the name of its file.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The settings.
    pub config: VerificationConfig,
    /// When it was created: a date and time of RFC 3339.
    pub created_at: String,
    /// When it was last changed.
    pub updated_at: String,
}

/// An invalid name or description of a preset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPreset {
    /// The name is unusable as the name of a file.
    #[error("invalid preset name: expected 1 to {MAX_NAME_CHARS} letters, digits, `_`, `-` and `.`, not `.` first")]
    Name,
    /// The description is too long.
    #[error("the description is longer than {MAX_DESCRIPTION_CHARS} characters")]
    Description,
}

impl Preset {
    /// Checks a name. A valid one names a file in the folder of presets, and no other.
    ///
    /// # Errors
    /// If it is empty, too long, or has other characters.
    pub fn check_name(name: &str) -> Result<(), InvalidPreset> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let is_valid = (1..=MAX_NAME_CHARS).contains(&name.len()) && name.chars().all(is_plain);
        if is_valid && !name.starts_with('.') { Ok(()) } else { Err(InvalidPreset::Name) }
    }

    /// Checks the name and the description.
    ///
    /// # Errors
    /// If one of them is invalid.
    pub fn check(&self) -> Result<(), InvalidPreset> {
        Self::check_name(&self.name)?;
        let length = self.description.as_deref().unwrap_or_default().chars().count();
        if length <= MAX_DESCRIPTION_CHARS { Ok(()) } else { Err(InvalidPreset::Description) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_descriptions_have_limits() {
        let preset = |name: &str, description: usize| Preset {
            name: name.to_owned(),
            description: Some("é".repeat(description)),
            config: VerificationConfig::default(),
            created_at: String::new(),
            updated_at: String::new(),
        };
        assert_eq!(preset(&"n".repeat(100), 500).check(), Ok(()));
        for name in ["", "../x", "a/b", ".hidden", "a b", &"n".repeat(101)] {
            assert_eq!(preset(name, 0).check(), Err(InvalidPreset::Name), "{name}");
        }
        assert_eq!(preset("n", 501).check(), Err(InvalidPreset::Description));
    }
}
