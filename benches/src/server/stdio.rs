//! Reads a line, writes a line.

use std::io::{BufRead as _, BufReader, BufWriter, Write as _};

use super::{LARGE, answer, huge};

/// Length of a huge result, as a multiple of a large one.
const HUGE: usize = 300;

pub(crate) fn serve() {
    let mut input = BufReader::with_capacity(1 << 16, std::io::stdin().lock());
    let mut output = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let large = "x".repeat(LARGE);
    let mut line = String::new();
    while input.read_line(&mut line).is_ok_and(|length| length > 0) {
        if line.contains("\"huge\"") {
            let _ = huge(&line, HUGE, &mut output);
        } else {
            answer(&line, &large, &mut output);
        }
        line.clear();
        // Responses to requests that are already buffered are flushed together.
        if input.buffer().is_empty() && output.flush().is_err() {
            return;
        }
    }
}
