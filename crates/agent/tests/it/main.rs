//! What models and runs do, against providers that say what they are told to say.

mod models;
