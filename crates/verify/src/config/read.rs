//! Reading settings from YAML or JSON: misspelled keys, misplaced MCP settings and values out of range are errors.

use std::path::Path;

use serde_json::Value;
use wharf_agent::yaml;
use wharf_config::{Problem, Severity};
use wharf_protocol::nearest;

use super::VerificationConfig;
use crate::rate_limit::RateLimit;

/// The maximum number of replicates, and of trials that run at the same time.
const MAX_COUNT: u32 = 10_000;

/// The maximum number of excerpts, and of attempts to replace them.
const MAX_EXCERPTS: u32 = 100;

/// MCP settings that people look for here.
const MCP_KEYS: [&str; 9] = [
    "mcp_urls_dict",
    "mcp_tool_filter",
    "mcp_tool_description_overrides",
    "mcp_http_timeout",
    "mcp_sse_read_timeout",
    "mcpServers",
    "mcp_servers",
    "servers",
    "required_servers",
];

impl VerificationConfig {
    /// The keys of a file.
    pub const KEYS: [&'static str; 28] = [
        "models",
        "models_file",
        "judges",
        "panel",
        "allow_self_judging",
        "replicates",
        "evaluation_mode",
        "use_full_trace_for_template",
        "use_full_trace_for_rubric",
        "abstention_enabled",
        "sufficiency_enabled",
        "rubric_evaluation_strategy",
        "deep_judgment_mode",
        "deep_judgment_rubric_mode",
        "deep_judgment_max_excerpts_per_attribute",
        "deep_judgment_rubric_max_excerpts_default",
        "deep_judgment_fuzzy_match_threshold",
        "deep_judgment_excerpt_retry_attempts",
        "embedding_check_model",
        "embedding_check_threshold",
        "concurrency",
        "provider_limits",
        "rate_limits",
        "recovery",
        "max_cost_usd",
        "max_tokens",
        "max_time",
        "fail_under",
    ];

    /// Reads a YAML or JSON text. `file` only names it in problems.
    ///
    /// # Errors
    /// Returns every misplaced and unknown key, or else the first invalid value.
    pub fn parse(text: &str, file: &Path) -> Result<Self, Vec<Problem>> {
        let whole = |message: String| vec![Problem::of_file(Severity::Error, file, message)];
        let unreadable = |error: yaml::Error| {
            let problem = Problem::of_file(Severity::Error, file, error.message());
            vec![Problem { line: error.line().unwrap_or_default(), ..problem }]
        };
        let value: Value = yaml::from_str(text).map_err(unreadable)?;
        let Value::Object(fields) = value else {
            return Err(whole("invalid verification config: expected a mapping of settings".to_owned()));
        };
        let problems: Vec<Problem> = fields
            .keys()
            .filter(|key| !Self::KEYS.contains(&key.as_str()))
            .map(|key| {
                let problem = unknown_key(key, file);
                Problem { line: line_of(text, key).unwrap_or_default(), path: key.clone(), ..problem }
            })
            .collect();
        if !problems.is_empty() {
            return Err(problems);
        }
        let config: Self = yaml::from_str(text).map_err(unreadable)?;
        config.check(text, file)?;
        Ok(config)
    }

    fn check(&self, text: &str, file: &Path) -> Result<(), Vec<Problem>> {
        let mut problems = Vec::new();
        let mut expect = |key: &str, holds: bool, expected: String| {
            if !holds {
                let problem = Problem::of_file(Severity::Error, file, format!("invalid value: expected {expected}"));
                problems.push(Problem {
                    line: line_of(text, key).unwrap_or_default(),
                    path: key.to_owned(),
                    ..problem
                });
            }
        };
        let is_count = |count: Option<u32>| count.is_none_or(|count| (1..=MAX_COUNT).contains(&count));
        let is_amount = |amount: Option<f64>| amount.is_none_or(|amount| amount.is_finite() && amount > 0.0);
        let count = format!("1 to {MAX_COUNT}");
        expect("replicates", is_count(self.replicates), count.clone());
        expect("concurrency", is_count(self.concurrency), count.clone());
        let limits = self.provider_limits.iter().flatten();
        expect("provider_limits", limits.clone().all(|(_, limit)| is_count(Some(*limit))), count);
        let is_limit = |limit: &RateLimit| {
            limit.requests_per_minute != Some(0)
                && limit.tokens_per_minute != Some(0)
                && is_amount(limit.usd_per_minute)
        };
        let rates = self.rate_limits.iter().flatten();
        expect("rate_limits", rates.clone().all(|(_, limit)| is_limit(limit)), "numbers greater than 0".to_owned());
        expect("max_cost_usd", is_amount(self.max_cost_usd), "an amount in dollars greater than 0".to_owned());
        expect("max_tokens", self.max_tokens.is_none_or(|tokens| tokens > 0), "a number greater than 0".to_owned());
        expect("max_time", is_amount(self.max_time), "a number of seconds greater than 0".to_owned());
        let is_percentage = self.fail_under.is_none_or(|percent| (0.0..=100.0).contains(&percent));
        expect("fail_under", is_percentage, "a percentage from 0 to 100".to_owned());
        let is_fraction = |of: Option<f64>| of.is_none_or(|of| (0.0..=1.0).contains(&of));
        let fraction = "a number from 0 to 1".to_owned();
        let threshold = is_fraction(self.deep_judgment_fuzzy_match_threshold);
        expect("deep_judgment_fuzzy_match_threshold", threshold, fraction.clone());
        expect("embedding_check_threshold", is_fraction(self.embedding_check_threshold), fraction);
        let is_small = |count: Option<u32>, min: u32| count.is_none_or(|count| (min..=MAX_EXCERPTS).contains(&count));
        let excerpts = format!("1 to {MAX_EXCERPTS}");
        let max = is_small(self.deep_judgment_max_excerpts_per_attribute, 1);
        expect("deep_judgment_max_excerpts_per_attribute", max, excerpts.clone());
        let max = is_small(self.deep_judgment_rubric_max_excerpts_default, 1);
        expect("deep_judgment_rubric_max_excerpts_default", max, excerpts);
        let retries = is_small(self.deep_judgment_excerpt_retry_attempts, 0);
        expect("deep_judgment_excerpt_retry_attempts", retries, format!("0 to {MAX_EXCERPTS}"));
        let is_empty = |names: &Option<Vec<String>>| names.as_ref().is_some_and(Vec::is_empty);
        expect("models", !is_empty(&self.models), "at least one model".to_owned());
        expect("judges", !is_empty(&self.judges), "at least one judge".to_owned());
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

fn unknown_key(key: &str, file: &Path) -> Problem {
    if MCP_KEYS.contains(&key) || key.to_ascii_lowercase().starts_with("mcp") {
        let message = "MCP settings do not belong in a verification config".to_owned();
        let hint = "write the servers of one model as `mcp_urls_dict` into the model file, and those of all models as \
                    `servers` into the benchmark";
        return Problem::of_file(Severity::Error, file, message).with_hint(hint);
    }
    let problem = Problem::of_file(Severity::Error, file, "unknown key");
    match nearest(key, VerificationConfig::KEYS) {
        Some(name) => problem.with_hint(format!("did you mean `{name}`?")),
        None => problem.with_hint(format!("known keys: {}", VerificationConfig::KEYS.join(", "))),
    }
}

/// Returns the line of a key, from 1.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let is_key = |line: &str| {
        let line = line.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '{' | ',' | '"' | '\''));
        line.strip_prefix(key).is_some_and(|rest| rest.trim_start_matches(['"', '\'', ' ']).starts_with(':'))
    };
    text.lines().position(is_key).map(|line| line + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> String {
        let found = VerificationConfig::parse(text, Path::new("run.yaml")).unwrap_err();
        let line = |problem: &Problem| {
            let hint = problem.hint.as_deref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            format!("{}:{}: {}: {}{hint}", problem.file.display(), problem.line, problem.path, problem.message)
        };
        found.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_key_is_read() {
        let text = "models: [a]\nmodels_file: m.yaml\njudges: [b]\npanel: unanimity\nallow_self_judging: yes\nreplicates: 2\nevaluation_mode: rubric_only\n\
            use_full_trace_for_template: yes\nuse_full_trace_for_rubric: no\nabstention_enabled: yes\n\
            sufficiency_enabled: yes\nrubric_evaluation_strategy: sequential\ndeep_judgment_mode: full\ndeep_judgment_rubric_mode: enable_all\n\
            deep_judgment_max_excerpts_per_attribute: 2\ndeep_judgment_rubric_max_excerpts_default: 5\n\
            deep_judgment_fuzzy_match_threshold: 0.9\ndeep_judgment_excerpt_retry_attempts: 1\n\
            embedding_check_model: ollama:nomic\nembedding_check_threshold: 0.9\nconcurrency: 3\nprovider_limits: {anthropic: 2}\nrate_limits: {anthropic: {requests_per_minute: 50, usd_per_minute: 2.5}}\nrecovery: indeterminate\n\
            max_cost_usd: 1.5\nmax_tokens: 10\nmax_time: 60\nfail_under: 80\n";
        let config = VerificationConfig::parse(text, Path::new("run.yaml")).unwrap();
        let Value::Object(written) = serde_json::to_value(&config).unwrap() else { panic!("an object") };
        let written: Vec<&str> = written.keys().map(String::as_str).collect();
        assert_eq!(written, VerificationConfig::KEYS, "every key has a field");
        // The first source that has a setting decides, for each of them.
        assert_eq!(VerificationConfig::default().or(config.clone()), config);
        let other = VerificationConfig::parse("replicates: 9\nmodels: [z]\n", Path::new("o")).unwrap();
        let merged = other.clone().or(config.clone());
        assert_eq!((merged.replicates, &merged.models, merged.concurrency), (Some(9), &other.models, Some(3)));
        assert_eq!(config.clone().or(other), config);
    }

    #[test]
    fn mcp_settings_are_rejected_with_the_place_they_belong_to() {
        for key in MCP_KEYS.into_iter().chain(["mcp_anything", "MCP"]) {
            let found = problems(&format!("replicates: 2\n{key}: {{}}\n"));
            assert!(found.starts_with(&format!("run.yaml:2: {key}: MCP settings do not belong")), "{found}");
            assert!(found.contains("`mcp_urls_dict` into the model file"), "{found}");
        }
    }

    #[test]
    fn unknown_keys_and_values_out_of_range_are_reported_with_their_line() {
        insta::assert_snapshot!(problems("replicate: 2\n\"judge\": x\nzzz: 1\n"), @"
        run.yaml:1: replicate: unknown key (did you mean `replicates`?)
        run.yaml:2: judge: unknown key (did you mean `judges`?)
        run.yaml:3: zzz: unknown key (known keys: models, models_file, judges, panel, allow_self_judging, replicates, evaluation_mode, use_full_trace_for_template, use_full_trace_for_rubric, abstention_enabled, sufficiency_enabled, rubric_evaluation_strategy, deep_judgment_mode, deep_judgment_rubric_mode, deep_judgment_max_excerpts_per_attribute, deep_judgment_rubric_max_excerpts_default, deep_judgment_fuzzy_match_threshold, deep_judgment_excerpt_retry_attempts, embedding_check_model, embedding_check_threshold, concurrency, provider_limits, rate_limits, recovery, max_cost_usd, max_tokens, max_time, fail_under)
        ");
        insta::assert_snapshot!(
            problems("replicates: 0\nfail_under: 101\nmax_cost_usd: -1\nmodels: []\nprovider_limits: {a: 0}\nrate_limits: {a: {tokens_per_minute: 0}}\n"),
            @"
        run.yaml:1: replicates: invalid value: expected 1 to 10000
        run.yaml:5: provider_limits: invalid value: expected 1 to 10000
        run.yaml:6: rate_limits: invalid value: expected numbers greater than 0
        run.yaml:3: max_cost_usd: invalid value: expected an amount in dollars greater than 0
        run.yaml:2: fail_under: invalid value: expected a percentage from 0 to 100
        run.yaml:4: models: invalid value: expected at least one model
        "
        );
        insta::assert_snapshot!(problems("replicates: many\n"), @r#"run.yaml:1: : invalid value: string "many", expected an integer"#);
        insta::assert_snapshot!(problems("- replicates\n"), @"run.yaml:0: : invalid verification config: expected a mapping of settings");
    }
}
