//! The page around the chunks. It contains nothing of a run.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// The script and the style, built from `report-web`.
const SCRIPT: &str = include_str!("../../../report-web/dist/report.js");
const STYLE: &str = include_str!("../../../report-web/dist/report.css");
/// An image in the address itself, so that a browser requests none.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' \
                    height='16' rx='4' fill='%231f4f82'/%3E%3Cpath d='m3 5 2.5 6L8 6l2.5 5L13 5' fill='none' \
                    stroke='%23fff' stroke-width='1.6'/%3E%3C/svg%3E";

/// Writes everything before the first chunk.
pub(super) fn write_head(out: &mut impl Write) -> io::Result<()> {
    let (script, style) = (source_hash(SCRIPT), source_hash(STYLE));
    // The policy precedes everything that it applies to.
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src '{script}'; style-src \
         '{style}'; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"robots\" content=\"noindex\">\n<title>Wharf report</title>\n<link rel=\"icon\" href=\"{ICON}\">\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<div id=\"app\"><p class=\"loading\">Loading the report …</p></div>\n\
         <noscript><p class=\"loading\">This report needs JavaScript. Its script and its data are in this file: it loads \
         nothing from a network.</p></noscript>\n"
    )
}

/// Writes everything after the last chunk.
pub(super) fn write_tail(out: &mut impl Write) -> io::Result<()> {
    write!(out, "<script>{SCRIPT}</script>\n</body>\n</html>\n")
}

/// Returns the hash of a source for the content security policy.
fn source_hash(source: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(source.as_bytes())))
}
