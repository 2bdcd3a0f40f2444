//! The HTML report: the file, its data and its page in a real browser.

mod browser;
mod file;
mod hostile;
mod parts;
mod sample;
mod statistics;
