//! A schema as a graph of its subschemas, so that the work of a check can be counted before the work is done.
//!
//! A few lines of schema can demand endless work: definitions that refer to each other twice per level double the work
//! with each level. The graph holds each subschema once, whatever refers to it.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};
use wharf_io::percent;

use super::error::SchemaError;
use super::pattern::{PatternWeight, pattern_weight};
use super::size::{Size, scanned};

/// The index of a subschema. A subschema's own index is lower than those of all subschemas that it applies in place.
pub(super) type NodeId = usize;

/// How often a subschema is evaluated in place beside `unevaluatedProperties` or `unevaluatedItems`: once for its own
/// sake, and again to find out what it has evaluated.
const EVALUATIONS_BESIDE_UNEVALUATED: u64 = 3;

/// Parsing a string takes about as long as this many scans.
const SCANS_BY_PARSING: u64 = 8;

/// Dividing a number by a fraction takes about as long as this many keywords.
const WORK_BY_DIVIDING: u64 = 100;

/// The subschemas of a schema, and how they apply each other.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) root: NodeId,
    /// All patterns, each once.
    pub(super) patterns: Vec<String>,
    /// How many states all patterns compile to.
    pub(super) pattern_states: u64,
    /// Whether any subschema is reached by a reference.
    pub(super) has_references: bool,
}

/// One subschema: the subschemas that it applies, and to what.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Those for the same value, with how often each is evaluated.
    pub(super) in_place: Vec<(NodeId, u64)>,
    /// Those for properties by name.
    pub(super) properties: HashMap<String, NodeId>,
    /// Those for every property's value.
    pub(super) values: Vec<NodeId>,
    /// Those for every property's name.
    pub(super) names: Vec<NodeId>,
    /// Those for the first elements, by position.
    pub(super) prefix: Vec<NodeId>,
    /// Those for every element.
    pub(super) elements: Vec<NodeId>,
    /// The work for a value, without other subschemas.
    pub(super) weight: u64,
    /// The work for each byte of a string.
    pub(super) string_weight: u64,
    /// The work for each byte of a property's name.
    pub(super) name_weight: u64,
    /// How often a string is read from beginning to end, apart from patterns.
    pub(super) scans: u64,
    /// How often a property's name is read from beginning to end, apart from patterns.
    pub(super) name_scans: u64,
    /// How often all strings and names in an array or object are read.
    pub(super) deep_scans: u64,
    /// Whether a string is parsed as a regular expression, which takes the square of its length.
    pub(super) parses_regex: bool,
    /// Whether the elements of an array are compared with each other.
    pub(super) compares_elements: bool,
}

impl Node {
    /// Counts a name that is looked up in every object.
    fn reads_name(&mut self, name: &str) {
        // Few names are compared one after the other, and shorter ones without reading all of them.
        const MAX_COMPARED: u64 = 16;
        const MAX_SHORT_BYTES: usize = 16;
        let is_compared = name.len() > MAX_SHORT_BYTES && self.name_scans < MAX_COMPARED;
        if self.name_scans == 0 || is_compared {
            self.name_scans += 1;
        }
        self.weight = self.weight.saturating_add(1 + scanned(name.len() as u64, 1));
    }

    /// Counts a value that other values are compared with.
    fn compares(&mut self, value: &Value) {
        let size = Size::of(value, 1);
        self.weight = self.weight.saturating_add(size.values).saturating_add(scanned(size.bytes, 1));
        // A name in an object is looked up in the other object.
        if matches!(value, Value::Array(_) | Value::Object(_)) {
            self.deep_scans += 1;
        } else {
            self.scans = self.scans.max(1);
        }
    }

    /// All subschemas that it applies to parts of a value.
    pub(super) fn parts(&self) -> impl Iterator<Item = NodeId> {
        let lists = [&self.values, &self.names, &self.prefix, &self.elements];
        self.properties.values().copied().chain(lists.into_iter().flatten().copied())
    }
}

/// Builds the graph of a schema. Fails if a subschema cannot be found or applies itself to the same value.
pub(super) fn graph(document: &Value, max_nodes: usize) -> Result<Graph, SchemaError> {
    let mut builder = Builder::new(document, max_nodes);
    let root = builder.id(document)?;
    while let Some((id, schema)) = builder.unread.pop() {
        builder.nodes[id] = builder.read(schema)?;
    }
    let Builder { nodes, patterns, has_references, .. } = builder;
    let pattern_states = patterns.values().fold(0_u64, |sum, weight| sum.saturating_add(weight.states));
    let patterns = patterns.into_keys().map(str::to_owned).collect();
    in_order(Graph { nodes, root, patterns, pattern_states, has_references })
}

struct Builder<'a> {
    document: &'a Value,
    max_nodes: usize,
    nodes: Vec<Node>,
    ids: HashMap<*const Value, NodeId>,
    unread: Vec<(NodeId, &'a Value)>,
    anchors: HashMap<&'a str, Vec<&'a Value>>,
    /// How many subschemas references apply. A name can stand for many, and each counts at least once in the end.
    referred: usize,
    patterns: HashMap<&'a str, PatternWeight>,
    has_references: bool,
}

impl<'a> Builder<'a> {
    fn new(document: &'a Value, max_nodes: usize) -> Self {
        let mut anchors = HashMap::new();
        if let Value::Object(_) = document {
            find_anchors(document, &mut anchors);
        }
        Self {
            document,
            max_nodes,
            nodes: Vec::new(),
            ids: HashMap::new(),
            unread: Vec::new(),
            anchors,
            referred: 0,
            patterns: HashMap::new(),
            has_references: false,
        }
    }

    fn id(&mut self, schema: &'a Value) -> Result<NodeId, SchemaError> {
        if let Some(id) = self.ids.get(&std::ptr::from_ref(schema)) {
            return Ok(*id);
        }
        let id = self.nodes.len();
        if id >= self.max_nodes {
            return Err(self.too_many());
        }
        self.nodes.push(Node::default());
        self.ids.insert(std::ptr::from_ref(schema), id);
        self.unread.push((id, schema));
        Ok(id)
    }

    fn too_many(&self) -> SchemaError {
        SchemaError::OverBudget(format!("it has more than {} subschemas", self.max_nodes))
    }

    fn read(&mut self, schema: &'a Value) -> Result<Node, SchemaError> {
        let mut node = Node { weight: 1, ..Node::default() };
        let Value::Object(keywords) = schema else { return Ok(node) };
        // A reference inside it would be relative to it, and so would all pointers.
        if !std::ptr::eq(schema, self.document) && embeds_document(keywords) {
            return Err(SchemaError::unusable("a subschema has its own `$id`, which is not supported"));
        }
        let is_unevaluated = |key: &String| key == "unevaluatedProperties" || key == "unevaluatedItems";
        let times = if keywords.keys().any(is_unevaluated) { EVALUATIONS_BESIDE_UNEVALUATED } else { 1 };
        for (key, value) in keywords {
            node.weight += 1;
            match (key.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                    self.has_references = true;
                    let targets = self.targets(reference)?;
                    self.referred += targets.len();
                    if self.referred > self.max_nodes {
                        return Err(self.too_many());
                    }
                    for target in targets {
                        node.in_place.push((self.id(target)?, times));
                    }
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(several)) => {
                    for one in several {
                        node.in_place.push((self.id(one)?, times));
                    }
                }
                ("not" | "if" | "then" | "else", one) => node.in_place.push((self.id(one)?, times)),
                ("dependentSchemas" | "dependencies" | "dependentRequired", Value::Object(named)) => {
                    for (name, one) in named {
                        node.reads_name(name);
                        if let Value::Array(required) = one {
                            required.iter().filter_map(Value::as_str).for_each(|name| node.reads_name(name));
                        } else {
                            node.in_place.push((self.id(one)?, times));
                        }
                    }
                }
                ("required", Value::Array(names)) => {
                    names.iter().filter_map(Value::as_str).for_each(|name| node.reads_name(name));
                }
                ("properties", Value::Object(named)) => {
                    for (name, one) in named {
                        node.reads_name(name);
                        let id = self.id(one)?;
                        node.properties.insert(name.clone(), id);
                    }
                }
                ("patternProperties", Value::Object(named)) => {
                    for (pattern, one) in named {
                        node.name_weight = node.name_weight.saturating_add(self.pattern(pattern));
                        node.reads_name(pattern);
                        node.values.push(self.id(one)?);
                    }
                }
                ("additionalProperties" | "unevaluatedProperties", one) => node.values.push(self.id(one)?),
                ("propertyNames", one) => node.names.push(self.id(one)?),
                ("prefixItems" | "items", Value::Array(several)) => {
                    for one in several {
                        node.prefix.push(self.id(one)?);
                    }
                }
                ("items" | "additionalItems" | "contains" | "unevaluatedItems", one) => {
                    node.elements.push(self.id(one)?);
                }
                ("pattern", Value::String(pattern)) => {
                    node.string_weight = node.string_weight.saturating_add(self.pattern(pattern));
                    // A pattern without operators is compared like a constant.
                    node.weight += scanned(pattern.len() as u64, 1);
                }
                ("minLength" | "maxLength", _) => node.scans += 1,
                ("format", Value::String(format)) if format == "regex" => node.parses_regex = true,
                ("format" | "contentEncoding" | "contentMediaType", _) => node.scans += SCANS_BY_PARSING,
                // Dividing by a fraction may take integers of a thousand bits.
                ("multipleOf", Value::Number(number)) if !number.is_u64() => node.weight += WORK_BY_DIVIDING,
                ("uniqueItems", Value::Bool(true)) => node.compares_elements = true,
                ("const", value) => node.compares(value),
                ("enum", Value::Array(values)) => values.iter().for_each(|value| node.compares(value)),
                _ => {}
            }
        }
        Ok(node)
    }

    /// Returns the work of matching a pattern, for each byte. Equal patterns are compiled once.
    fn pattern(&mut self, pattern: &'a str) -> u64 {
        self.patterns.entry(pattern).or_insert_with(|| pattern_weight(pattern)).steps
    }

    /// Returns the targets of a reference: one, or for an anchor all that have its name.
    fn targets(&self, reference: &str) -> Result<Vec<&'a Value>, SchemaError> {
        let missing = || SchemaError::Unusable(format!("`$ref` to `{reference}` has no target"));
        let Some(fragment) = reference.strip_prefix('#') else {
            return Err(SchemaError::Unusable(format!("external `$ref` to `{reference}` is not supported")));
        };
        let fragment = percent::decode(fragment);
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.document.pointer(&fragment).map(|target| vec![target]).ok_or_else(missing);
        }
        self.anchors.get(&*fragment).cloned().ok_or_else(missing)
    }
}

/// Whether a subschema is a document of its own: it has an identifier other than an anchor.
fn embeds_document(keywords: &Map<String, Value>) -> bool {
    let id = |key| keywords.get(key).and_then(Value::as_str);
    ["$id", "id"].into_iter().filter_map(id).any(|id| !id.starts_with('#'))
}

/// Collects every anchor of a document, wherever it is. Its depth is limited by the parser.
fn find_anchors<'a>(value: &'a Value, found: &mut HashMap<&'a str, Vec<&'a Value>>) {
    match value {
        Value::Object(fields) => {
            for key in ["$anchor", "$dynamicAnchor", "$id", "id"] {
                let Some(name) = fields.get(key).and_then(Value::as_str) else { continue };
                let name = if key.ends_with("id") { name.strip_prefix('#') } else { Some(name) };
                if let Some(name) = name {
                    found.entry(name).or_default().push(value);
                }
            }
            fields.values().for_each(|one| find_anchors(one, found));
        }
        Value::Array(several) => several.iter().for_each(|one| find_anchors(one, found)),
        _ => {}
    }
}

/// Renumbers the subschemas so that each comes before those that it applies in place.
fn in_order(graph: Graph) -> Result<Graph, SchemaError> {
    let mut applied = vec![0_usize; graph.nodes.len()];
    for (target, _) in graph.nodes.iter().flat_map(|node| &node.in_place) {
        applied[*target] += 1;
    }
    let mut ready: Vec<NodeId> = (0..graph.nodes.len()).filter(|id| applied[*id] == 0).collect();
    let mut order = Vec::with_capacity(graph.nodes.len());
    while let Some(id) = ready.pop() {
        order.push(id);
        for (target, _) in &graph.nodes[id].in_place {
            applied[*target] -= 1;
            if applied[*target] == 0 {
                ready.push(*target);
            }
        }
    }
    if order.len() < graph.nodes.len() {
        return Err(SchemaError::unusable("a subschema refers to itself for the same value"));
    }
    let mut renamed = vec![0; order.len()];
    for (new, old) in order.iter().enumerate() {
        renamed[*old] = new;
    }
    let mut nodes: BTreeMap<NodeId, Node> = BTreeMap::new();
    for (old, mut node) in graph.nodes.into_iter().enumerate() {
        let Node { in_place, properties, values, names, prefix, elements, .. } = &mut node;
        let in_place = in_place.iter_mut().map(|(id, _)| id);
        let lists = [values, names, prefix, elements].into_iter().flatten();
        for id in in_place.chain(properties.values_mut()).chain(lists) {
            *id = renamed[*id];
        }
        nodes.insert(renamed[old], node);
    }
    Ok(Graph { nodes: nodes.into_values().collect(), root: renamed[graph.root], ..graph })
}
