//! Timeouts of model requests: one group of options for every command that calls a model.

use std::time::Duration;

use wharf::agent::middleware::ModelRetry;
use wharf::agent::models::ProviderTimeouts;

/// How long a model may take.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct ModelTimeouts {
    /// Limit the time until a model begins to respond, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "600")]
    first_byte_timeout: Duration,
    /// Limit the time between two parts of a model's response, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "300")]
    idle_timeout: Duration,
}

impl From<ModelTimeouts> for ProviderTimeouts {
    fn from(timeouts: ModelTimeouts) -> Self {
        Self { first_byte: timeouts.first_byte_timeout, idle: timeouts.idle_timeout, ..Self::default() }
    }
}

/// Reads a timeout. All attempts of a request share one limit, so a longer timeout would have no effect.
fn seconds(text: &str) -> Result<Duration, String> {
    let most = ModelRetry::MAX_TIME;
    let timeout = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    timeout
        .filter(|timeout| !timeout.is_zero() && *timeout <= most)
        .ok_or_else(|| format!("expected a number of seconds greater than 0, and at most {}", most.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Options {
        #[command(flatten)]
        timeouts: ModelTimeouts,
    }

    fn parse(arguments: &[&str]) -> Result<ProviderTimeouts, String> {
        let all = ["wharf"].iter().chain(arguments);
        let parsed = <Options as clap::Parser>::try_parse_from(all).map_err(|error| error.to_string())?;
        Ok(parsed.timeouts.into())
    }

    #[test]
    fn the_options_have_the_defaults_of_the_library_and_a_limit() {
        assert_eq!(parse(&[]).unwrap(), ProviderTimeouts::default());
        let set = parse(&["--first-byte-timeout", "0.5", "--idle-timeout", "3600"]).unwrap();
        assert_eq!((set.first_byte, set.idle), (Duration::from_millis(500), Duration::from_secs(3600)));
        for invalid in ["0", "-1", "3601", "inf", "soon"] {
            let error = parse(&[&format!("--idle-timeout={invalid}")]).unwrap_err();
            assert!(error.contains("greater than 0, and at most 3600"), "{error}");
        }
    }
}
