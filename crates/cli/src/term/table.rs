//! Tables.

use anstyle::Style;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};

use super::output::terminal_width;
use super::style::painted;
use super::text::flat;
use super::wrap::{columns, wrapped};

/// The space between two columns.
const GAP: usize = 2;

/// Renders a table, as wide as the terminal at most. Cells break between words only: names and URIs stay whole. If that
/// does not fit, each row is a block. Output to a pipe is not wrapped: a row is a line.
pub(crate) fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let rows: Vec<Vec<String>> = rows.into_iter().map(|row| row.iter().map(|cell| flat(cell)).collect()).collect();
    let Some(width) = terminal_width() else { return rendered(head, &rows, None) };
    let widths = longest_words(head, &rows);
    let least = widths.iter().sum::<usize>() + GAP * head.len().saturating_sub(1);
    if least > usize::from(width) {
        return blocks(head, &rows, usize::from(width));
    }
    rendered(head, &rows, Some((width, &widths)))
}

/// Renders rows below each other, within a width and with columns of these widths at least.
fn rendered(head: &[&str], rows: &[Vec<String>], limits: Option<(u16, &[usize])>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(head.iter().map(|title| title.to_uppercase()));
    for row in rows {
        table.add_row(row);
    }
    let last = head.len().saturating_sub(1);
    for (index, column) in table.column_iter_mut().enumerate() {
        let gap = if index == last { 0 } else { GAP };
        column.set_padding((0, u16::try_from(gap).unwrap_or_default()));
        if let Some((_, widths)) = limits {
            let minimum = u16::try_from(widths[index] + gap).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(minimum)));
        }
    }
    if let Some((width, _)) = limits {
        table.set_width(width);
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

/// Returns the columns that the longest word of each column takes.
fn longest_words(head: &[&str], rows: &[Vec<String>]) -> Vec<usize> {
    let longest = |text: &str| text.split(' ').map(columns).max().unwrap_or(0);
    let of_column = |(index, title): (usize, &&str)| {
        let cells = rows.iter().filter_map(|row| row.get(index)).map(|cell| longest(cell));
        cells.chain([columns(title)]).max().unwrap_or(0)
    };
    head.iter().enumerate().map(of_column).collect()
}

/// Renders each row as a block: the first cell, and below it the others with their titles.
fn blocks(head: &[&str], rows: &[Vec<String>], width: usize) -> String {
    let title_width = head.iter().skip(1).map(|title| columns(title)).max().unwrap_or(0);
    let indent = GAP + title_width + GAP;
    let mut lines = Vec::new();
    for row in rows {
        lines.extend(row.first().cloned());
        for (title, cell) in head.iter().zip(row).skip(1).filter(|(_, cell)| !cell.is_empty()) {
            let mut parts = wrapped(cell, width.saturating_sub(indent).max(1)).into_iter();
            let first = parts.next().unwrap_or_default();
            lines.push(format!("{:GAP$}{title:title_width$}{:GAP$}{first}", "", ""));
            lines.extend(parts.map(|part| format!("{:indent$}{part}", "")));
        }
    }
    lines.join("\n")
}

/// A column of a rendered table, found by its title and by that of the column to its right.
#[derive(Clone, Copy)]
pub(crate) struct Column<'a> {
    pub(crate) title: &'a str,
    pub(crate) next_title: &'a str,
}

/// Colors the cells of one column, if stdout shows colors.
pub(crate) fn colored_column(table: &str, column: Column<'_>, style: impl Fn(&str) -> Option<Style>) -> String {
    let head = table.lines().next().unwrap_or_default();
    let position = |title: &str| head.find(&title.to_uppercase()).map(|at| head[..at].chars().count());
    let (Some(from), Some(to)) = (position(column.title), position(column.next_title)) else {
        return table.to_owned();
    };
    let line = |line: &str| {
        let cell: String = line.chars().skip(from).take(to.saturating_sub(from)).collect();
        let text = cell.trim_end();
        let Some(style) = style(text) else { return line.to_owned() };
        let before: String = line.chars().take(from).collect();
        let after: String = line.chars().skip(from + text.chars().count()).collect();
        format!("{before}{}{after}", painted(text, style))
    };
    table.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: [&str; 3] = ["server", "tool", "description"];

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        vec![
            row(["files", "read_multiple_files", "Read several files at once and return their contents"]),
            row(["docs", "fetch", "See https://example.com/a/very/long/page"]),
        ]
    }

    fn at(width: u16) -> String {
        let rows = rows();
        let widths = longest_words(&HEAD, &rows);
        rendered(&HEAD, &rows, Some((width, &widths)))
    }

    #[test]
    fn cells_break_between_words_only() {
        insta::assert_snapshot!(at(72), @"
        SERVER  TOOL                 DESCRIPTION
        files   read_multiple_files  Read several files at once and return their
                                     contents
        docs    fetch                See https://example.com/a/very/long/page
        ");
    }

    #[test]
    fn on_a_narrow_terminal_a_row_is_a_block() {
        insta::assert_snapshot!(blocks(&HEAD, &rows(), 34), @"
        files
          tool         read_multiple_files
          description  Read several files
                       at once and return
                       their contents
        docs
          tool         fetch
          description  See
                       https://example.com/a/very/long/page
        ");
    }
}
