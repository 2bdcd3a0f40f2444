//! The files of karenina: its checkpoints (JSON-LD) become benchmarks, and benchmarks become checkpoints.
//!
//! An answer template there is the source text of a Python class. Wharf never executes it: it reads the declarative part
//! and lists everything else. A template is taken over as a whole or not at all, because a part of it would pass answers
//! that the whole one fails.

mod checkpoint;
mod export;
mod import;
mod omission;
mod preset;
mod python;
mod rating;
mod scenario;
mod template_source;
mod unique_names;

pub use export::{Export, export};
pub use import::{Import, ImportError, import};
pub use omission::{Omission, Omitted, ScenarioProblem, Subject};
pub use preset::{KareninaPreset, preset};
pub use template_source::HandWritten;
