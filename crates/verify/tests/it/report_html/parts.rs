//! The parts of a report, read as a browser reads them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use miniz_oxide::inflate::decompress_to_vec_zlib;
use serde_json::Value;

/// A chunk of a report.
pub(crate) struct Chunk {
    pub(crate) kind: String,
    pub(crate) first: usize,
    pub(crate) units: usize,
    pub(crate) data: Value,
}

/// Returns the text between two others, and what follows.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<(&'a str, &'a str)> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after)
}

pub(crate) fn chunks(html: &str) -> Vec<Chunk> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some((element, after)) = between(rest, "<script type=\"text/plain\" ", "</script>") {
        let attribute = |name: &str| between(element, &format!("{name}=\""), "\"").unwrap().0.to_owned();
        let (_, data) = element.split_once('>').unwrap();
        let json = decompress_to_vec_zlib(&STANDARD.decode(data).unwrap()).unwrap();
        found.push(Chunk {
            kind: attribute("data-chunk"),
            first: attribute("data-first").parse().unwrap(),
            units: attribute("data-units").parse().unwrap(),
            data: serde_json::from_slice(&json).unwrap(),
        });
        rest = after;
    }
    found
}

/// Returns all values of one kind, in order, and checks that the chunks count their units.
pub(crate) fn list(html: &str, kind: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for chunk in chunks(html).into_iter().filter(|chunk| chunk.kind == kind) {
        assert_eq!(chunk.first, all.len());
        let Value::Array(values) = chunk.data else { panic!("a list") };
        assert_eq!(chunk.units, values.len());
        all.extend(values);
    }
    all
}

pub(crate) fn overview(html: &str) -> Value {
    chunks(html).into_iter().find(|chunk| chunk.kind == "overview").unwrap().data
}

/// Returns the file without its chunks.
pub(crate) fn markup(html: &str) -> String {
    let mut found = String::new();
    let mut rest = html;
    while let Some((before, after)) = rest.split_once("<script type=\"text/plain\" ") {
        found.push_str(before);
        rest = after.split_once("</script>").unwrap().1;
    }
    found + rest
}

pub(crate) fn inline<'a>(html: &'a str, tag: &str) -> &'a str {
    between(html, &format!("<{tag}>"), &format!("</{tag}>")).unwrap().0
}
