//! Parquet: one row per result, typed columns, a row group per page of results.

use std::io::Write;
use std::sync::Arc;

use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::columns::{COLUMNS, Cell, CellType, Column};
use crate::outcome::UnitResult;

/// A Parquet file that is being written.
pub(super) struct ParquetFile<W: Write + Send> {
    writer: SerializedFileWriter<W>,
}

impl<W: Write + Send> ParquetFile<W> {
    /// Starts a file.
    pub(super) fn new(out: W) -> Result<Self, ParquetError> {
        let schema = Arc::new(parse_message_type(&schema())?);
        let writer = SerializedFileWriter::new(out, schema, Arc::new(WriterProperties::builder().build()))?;
        Ok(Self { writer })
    }

    /// Writes a page of results as one row group.
    pub(super) fn write_page(&mut self, page: &[Arc<UnitResult>]) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for column in COLUMNS {
            let Some(mut chunk) = group.next_column()? else { break };
            let cells = page.iter().map(|unit| (column.cell)(unit));
            match column.kind {
                CellType::Text => {
                    let values: Values<ByteArray> = cells.map(text).collect();
                    chunk.typed::<ByteArrayType>().write_batch(&values.present, Some(&values.levels), None)?;
                }
                CellType::Int => {
                    let values: Values<i64> = cells.map(|cell| int(&cell)).collect();
                    chunk.typed::<Int64Type>().write_batch(&values.present, Some(&values.levels), None)?;
                }
                CellType::Float => {
                    let values: Values<f64> = cells.map(|cell| float(&cell)).collect();
                    chunk.typed::<DoubleType>().write_batch(&values.present, Some(&values.levels), None)?;
                }
                CellType::Bool => {
                    let values: Values<bool> = cells.map(|cell| bool(&cell)).collect();
                    chunk.typed::<BoolType>().write_batch(&values.present, Some(&values.levels), None)?;
                }
            }
            chunk.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes the footer.
    pub(super) fn finish(self) -> Result<(), ParquetError> {
        self.writer.close().map(drop)
    }
}

/// The schema in Parquet's own notation.
fn schema() -> String {
    let columns: String = COLUMNS.iter().map(column).collect();
    format!("message result {{ {columns} }}")
}

fn column(column: &Column) -> String {
    let (physical, logical) = match column.kind {
        CellType::Text => ("binary", " (UTF8)"),
        CellType::Int => ("int64", ""),
        CellType::Float => ("double", ""),
        CellType::Bool => ("boolean", ""),
    };
    format!("optional {physical} {}{logical}; ", column.name)
}

/// The values of a column that are not empty, and for every row whether it has one.
struct Values<T> {
    present: Vec<T>,
    levels: Vec<i16>,
}

impl<T> FromIterator<Option<T>> for Values<T> {
    fn from_iter<I: IntoIterator<Item = Option<T>>>(cells: I) -> Self {
        let mut values = Self { present: Vec::new(), levels: Vec::new() };
        for cell in cells {
            values.levels.push(i16::from(cell.is_some()));
            values.present.extend(cell);
        }
        values
    }
}

fn text(cell: Cell) -> Option<ByteArray> {
    match cell {
        Cell::Text(text) => text.map(|text| ByteArray::from(text.into_bytes())),
        Cell::Int(_) | Cell::Float(_) | Cell::Bool(_) => None,
    }
}

fn int(cell: &Cell) -> Option<i64> {
    match cell {
        Cell::Int(number) => *number,
        Cell::Text(_) | Cell::Float(_) | Cell::Bool(_) => None,
    }
}

fn float(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Float(number) => *number,
        Cell::Text(_) | Cell::Int(_) | Cell::Bool(_) => None,
    }
}

fn bool(cell: &Cell) -> Option<bool> {
    match cell {
        Cell::Bool(is_set) => Some(*is_set),
        Cell::Text(_) | Cell::Int(_) | Cell::Float(_) => None,
    }
}
