//! The settings of a run: flags, then a file of settings, then a preset, then the environment, then defaults.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};
use wharf::agent::yaml;
use wharf::verify::VerificationConfig;
use wharf::verify::karenina;
use wharf::verify::store::Recovery;

use super::args::{ModeArg, PanelArg, SettingsArgs};
use super::preset;
use crate::config::Paths;
use crate::env::variable;
use crate::error::{UsageError, usage_error};
use crate::models::choose::read_file;
use crate::term;
use crate::verification::engine::DEFAULT_LEASE;

/// The environment variable of a setting is this and the name of the setting in capitals.
pub(super) const VARIABLE_PREFIX: &str = "WHARF_VERIFY_";

/// The shortest lease: a heartbeat must fit in several times.
const MIN_LEASE: Duration = Duration::from_secs(1);
/// The longest lease.
const MAX_LEASE: Duration = Duration::from_secs(3600);

/// Returns the settings of all sources, merged.
pub(super) fn merged(args: &SettingsArgs, paths: &Paths) -> Result<VerificationConfig, UsageError> {
    let environment = of_environment(&|name| variable(&[name]))?;
    let preset = match &args.preset {
        Some(name) => preset::load(paths, name)?.config,
        None => VerificationConfig::default(),
    };
    Ok(of_command_line(args)?.or(preset).or(environment))
}

/// Returns the settings that this command line names: flags, and the file of `--config`.
pub(super) fn of_command_line(args: &SettingsArgs) -> Result<VerificationConfig, UsageError> {
    let file = match &args.config {
        Some(file) => of_file(file)?,
        None => VerificationConfig::default(),
    };
    Ok(of_flags(args)?.or(file))
}

fn of_flags(args: &SettingsArgs) -> Result<VerificationConfig, UsageError> {
    let numbers = [("--max-cost", args.max_cost), ("--max-time", args.max_time), ("--fail-under", args.fail_under)];
    for (flag, number) in numbers {
        // JSON has no such numbers: they would be absent below.
        if let Some(number) = number.filter(|number| !number.is_finite()) {
            return Err(usage_error(format!("{flag}: expected a finite number, found {number}"), None));
        }
    }
    let some = |names: &Vec<String>| Some(names.clone()).filter(|names| !names.is_empty());
    let config = VerificationConfig {
        models: some(&args.model),
        models_file: args.models.as_ref().map(|file| file.display().to_string()),
        judges: some(&args.judge),
        evaluation_mode: args.mode.map(ModeArg::mode),
        panel: args.panel.map(PanelArg::rule),
        allow_self_judging: args.allow_self_judging.then_some(true),
        replicates: args.replicates,
        concurrency: args.concurrency,
        recovery: args.at_most_once.then_some(Recovery::Indeterminate),
        max_cost_usd: args.max_cost,
        max_tokens: args.max_tokens,
        max_time: args.max_time,
        fail_under: args.fail_under,
        ..VerificationConfig::default()
    };
    // The rules for values are those of a file.
    let text = serde_json::to_string(&config).unwrap_or_default();
    VerificationConfig::parse(&text, Path::new("")).map_err(|problems| {
        let problem = problems.into_iter().next();
        let (path, message) = problem.map(|problem| (problem.path, problem.message)).unwrap_or_default();
        let flag = match path.as_str() {
            "models" => "--model".to_owned(),
            "judges" => "--judge".to_owned(),
            "evaluation_mode" => "--mode".to_owned(),
            "max_cost_usd" => "--max-cost".to_owned(),
            key => format!("--{}", key.replace('_', "-")),
        };
        usage_error(format!("{flag}: {message}"), None)
    })
}

fn of_file(file: &Path) -> Result<VerificationConfig, UsageError> {
    let text = read_file(file)?;
    if let Some(preset) = karenina::preset(&text) {
        if !preset.ignored.is_empty() {
            term::note(&format!("{}: without effect here: {}", file.display(), preset.ignored.join(", ")));
        }
        let models_file = Some(file.display().to_string());
        return Ok(VerificationConfig { models_file, ..preset.config });
    }
    let mut config = VerificationConfig::parse(&text, file).map_err(|problems| {
        problems.iter().for_each(term::problem);
        usage_error(format!("{} is not a valid file of settings", file.display()), None)
    })?;
    // A path in the file is relative to the file.
    if let (Some(models), Some(folder)) = (&mut config.models_file, file.parent()) {
        *models = folder.join(&models).display().to_string();
    }
    Ok(config)
}

/// Reads `WHARF_VERIFY_…`. Lists are separated by commas; limits of providers are written `anthropic=4,openai=8`,
/// and those per minute as in a file.
fn of_environment(variable: &dyn Fn(&str) -> Option<String>) -> Result<VerificationConfig, UsageError> {
    let mut config = VerificationConfig::default();
    for key in VerificationConfig::KEYS {
        let name = format!("{VARIABLE_PREFIX}{}", key.to_ascii_uppercase());
        let Some(text) = variable(&name) else { continue };
        let value = value_of(key, &text);
        let one = VerificationConfig::parse(&json!({ key: value }).to_string(), Path::new(""));
        let one = one.map_err(|problems| {
            let reason = problems.into_iter().next().map(|problem| problem.message).unwrap_or_default();
            usage_error(format!("invalid {name} `{text}`: {reason}"), Some("fix it, or unset it"))
        })?;
        config = config.or(one);
    }
    Ok(config)
}

/// Returns how long a process that was killed holds its trials.
pub(super) fn lease() -> Result<Duration, UsageError> {
    let name = format!("{VARIABLE_PREFIX}LEASE");
    let Some(text) = variable(&[&name]) else { return Ok(DEFAULT_LEASE) };
    let seconds = text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let valid = seconds.filter(|lease| (MIN_LEASE..=MAX_LEASE).contains(lease));
    let hint = "fix it, or unset it";
    valid.ok_or_else(|| usage_error(format!("invalid {name} `{text}`: expected 1 to 3600 seconds"), Some(hint)))
}

fn value_of(key: &str, text: &str) -> Value {
    let parts = || text.split(',').map(str::trim).filter(|part| !part.is_empty());
    match key {
        "models" | "judges" => parts().collect(),
        "models_file" => Value::from(text),
        "provider_limits" => {
            let pair = |part: &str| {
                let (name, limit) = part.split_once('=').unwrap_or((part, ""));
                (name.trim().to_owned(), scalar(limit.trim()))
            };
            Value::Object(parts().map(pair).collect::<Map<_, _>>())
        }
        _ => scalar(text.trim()),
    }
}

fn scalar(text: &str) -> Value {
    yaml::from_str(text).unwrap_or_else(|_| Value::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_variable() {
        let values = [
            ("WHARF_VERIFY_MODELS", "a, b"),
            ("WHARF_VERIFY_MODELS_FILE", "m.yaml"),
            ("WHARF_VERIFY_JUDGES", "j"),
            ("WHARF_VERIFY_PANEL", "unanimity"),
            ("WHARF_VERIFY_ALLOW_SELF_JUDGING", "yes"),
            ("WHARF_VERIFY_REPLICATES", "3"),
            ("WHARF_VERIFY_EVALUATION_MODE", "template_only"),
            ("WHARF_VERIFY_USE_FULL_TRACE_FOR_TEMPLATE", "true"),
            ("WHARF_VERIFY_USE_FULL_TRACE_FOR_RUBRIC", "false"),
            ("WHARF_VERIFY_ABSTENTION_ENABLED", "true"),
            ("WHARF_VERIFY_SUFFICIENCY_ENABLED", "yes"),
            ("WHARF_VERIFY_RUBRIC_EVALUATION_STRATEGY", "sequential"),
            ("WHARF_VERIFY_DEEP_JUDGMENT_MODE", "full"),
            ("WHARF_VERIFY_DEEP_JUDGMENT_RUBRIC_MODE", "disabled"),
            ("WHARF_VERIFY_DEEP_JUDGMENT_MAX_EXCERPTS_PER_ATTRIBUTE", "2"),
            ("WHARF_VERIFY_DEEP_JUDGMENT_RUBRIC_MAX_EXCERPTS_DEFAULT", "5"),
            ("WHARF_VERIFY_DEEP_JUDGMENT_FUZZY_MATCH_THRESHOLD", "0.9"),
            ("WHARF_VERIFY_DEEP_JUDGMENT_EXCERPT_RETRY_ATTEMPTS", "1"),
            ("WHARF_VERIFY_EMBEDDING_CHECK_MODEL", "ollama:nomic-embed-text"),
            ("WHARF_VERIFY_EMBEDDING_CHECK_THRESHOLD", "0.9"),
            ("WHARF_VERIFY_CONCURRENCY", "8"),
            ("WHARF_VERIFY_PROVIDER_LIMITS", "anthropic=4, openai=8"),
            ("WHARF_VERIFY_RATE_LIMITS", "{anthropic: {requests_per_minute: 50}}"),
            ("WHARF_VERIFY_RECOVERY", "indeterminate"),
            ("WHARF_VERIFY_MAX_COST_USD", "2.5"),
            ("WHARF_VERIFY_MAX_TOKENS", "1000"),
            ("WHARF_VERIFY_MAX_TIME", "60"),
            ("WHARF_VERIFY_FAIL_UNDER", "80"),
        ];
        let variable =
            |name: &str| values.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let config = of_environment(&variable).unwrap();
        let Value::Object(fields) = serde_json::to_value(&config).unwrap() else { panic!("an object") };
        assert_eq!(fields.len(), VerificationConfig::KEYS.len(), "{fields:?}");
        assert_eq!(fields["models"], json!(["a", "b"]));
        assert_eq!(fields["provider_limits"], json!({"anthropic": 4, "openai": 8}));
        assert_eq!(fields["rate_limits"]["anthropic"]["requests_per_minute"], json!(50));
    }

    #[test]
    fn an_invalid_variable_is_named() {
        let variable = |name: &str| (name == "WHARF_VERIFY_REPLICATES").then(|| "0".to_owned());
        let error = of_environment(&variable).unwrap_err();
        assert_eq!(error.message, "invalid WHARF_VERIFY_REPLICATES `0`: invalid value: expected 1 to 10000");
    }

    #[test]
    fn an_invalid_flag_is_named() {
        let args = SettingsArgs { max_cost: Some(-1.0), ..SettingsArgs::default() };
        let error = of_command_line(&args).unwrap_err();
        assert_eq!(error.message, "--max-cost: invalid value: expected an amount in dollars greater than 0");
    }
}
