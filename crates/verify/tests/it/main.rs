//! Tests of the crate's public behavior.

mod report_html;
mod template;
