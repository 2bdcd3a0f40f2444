//! Tables.

use anstyle::Style;
use comfy_table::{ContentArrangement, Table, presets};

use super::output::terminal_width;
use super::style::painted;
use super::text::flat;

/// Renders a table, as wide as the terminal at most. Output to a pipe is not wrapped: a row is a line.
pub(crate) fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = terminal_width() {
        table.set_width(width);
    }
    table.set_header(head.iter().map(|title| title.to_uppercase()));
    for row in rows {
        table.add_row(row.iter().map(|cell| flat(cell)));
    }
    let last = head.len().saturating_sub(1);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index == last { 0 } else { 2 }));
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
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
