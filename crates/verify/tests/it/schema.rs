//! The published JSON Schema and the reference documentation agree with the code.

use std::path::{Path, PathBuf};

use serde_json::Value;
use wharf_verify::benchmark::{json_schema, reference_tables};

use crate::corpus;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a committed file with what the code generates, and leaves the generated one to copy.
#[track_caller]
fn expect_file(path: &str, generated: &str) {
    let committed = std::fs::read_to_string(repository().join(path)).unwrap_or_default();
    if committed != generated {
        let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Path::new(path).file_name().unwrap());
        std::fs::write(&copy, generated).unwrap();
        panic!("{path} is out of date: copy {} over it", copy.display());
    }
}

#[test]
fn the_committed_schema_is_generated_from_the_notation() {
    let mut schema = serde_json::to_string_pretty(&json_schema()).unwrap();
    schema.push('\n');
    expect_file("docs/schemas/benchmark.schema.json", &schema);
}

fn value(text: &str) -> Value {
    wharf_agent::yaml::from_str(text).unwrap()
}

#[test]
fn the_schema_accepts_valid_files_and_rejects_wrong_shapes() {
    let validator = jsonschema::validator_for(&json_schema()).unwrap();
    for text in corpus::VALID {
        let errors: Vec<String> = validator.iter_errors(&value(text)).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}\n{text}");
    }
    for case in corpus::wrong_shapes() {
        assert!(!validator.is_valid(&value(case.file)), "{}\n{}", case.problems, case.file);
    }
}

#[test]
fn the_schema_accepts_the_examples() {
    let validator = jsonschema::validator_for(&json_schema()).unwrap();
    let mut found = Vec::new();
    benchmark_files(&repository().join("examples/benchmarks"), &mut found);
    for file in found {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(validator.is_valid(&value(&text)), "{}", file.display());
        wharf_verify::Benchmark::parse(&text, &file).unwrap();
    }
}

fn benchmark_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            benchmark_files(&path, found);
        } else if path.file_stem().is_some_and(|stem| stem == "benchmark") {
            found.push(path);
        }
    }
}

/// Replaces every table after a marker `<!-- table: NAME -->` with the generated one.
#[test]
fn the_tables_of_the_reference_are_generated_from_the_notation() {
    let page = "docs/benchmarks.md";
    let text = std::fs::read_to_string(repository().join(page)).unwrap();
    let mut generated = String::new();
    let mut lines = text.lines().peekable();
    let mut tables = reference_tables();
    while let Some(line) = lines.next() {
        generated.push_str(line);
        generated.push('\n');
        let name = line.strip_prefix("<!-- table: ").and_then(|rest| rest.strip_suffix(" -->"));
        let Some(name) = name else { continue };
        let position = tables.iter().position(|(known, _)| *known == name);
        let (_, table) = tables.remove(position.unwrap_or_else(|| panic!("{page} has an unknown table {name:?}")));
        generated.push('\n');
        generated.push_str(&table);
        while lines.next_if(|line| line.is_empty() || line.starts_with('|')).is_some() {}
        if lines.peek().is_some() {
            generated.push('\n');
        }
    }
    let missing: Vec<_> = tables.iter().map(|(name, _)| name).collect();
    assert!(missing.is_empty(), "{page} lacks the tables {missing:?}");
    expect_file(page, &generated);
}

/// Every block of YAML in the reference that starts with `name:` is a whole benchmark.
#[test]
fn the_examples_of_the_reference_are_valid() {
    let text = std::fs::read_to_string(repository().join("docs/benchmarks.md")).unwrap();
    let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let whole: Vec<&str> = blocks.filter(|block| block.starts_with("name:")).collect();
    assert!(!whole.is_empty());
    for block in whole {
        wharf_verify::Benchmark::parse(block, Path::new("x.yaml")).unwrap();
    }
}
