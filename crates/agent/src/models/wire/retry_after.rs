//! The delay that a provider requests before a retry: in a header, in a field, or in the message.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

/// Maximum delay. Larger values are not meant.
const MAX_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads the delay from the headers of an error response.
pub(super) fn from_headers(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let exact = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()).map(|millis| millis / 1000.0);
    if let Some(after) = exact.and_then(seconds) {
        return Some(after);
    }
    let value = text(RETRY_AFTER.as_str())?;
    if let Some(after) = value.parse::<f64>().ok().and_then(seconds) {
        return Some(after);
    }
    let date = httpdate::parse_http_date(value).ok()?;
    // Compares with the response's own date, if it has one: the local clock may be wrong.
    let now = text(DATE.as_str()).and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or_else(now);
    Some(date.duration_since(now).unwrap_or_default().min(MAX_DELAY))
}

#[expect(clippy::disallowed_methods, reason = "an HTTP date is wall-clock time")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// Reads the delay from text: `try again in 1m2.5s`, `in 20ms`, `retry after 6 seconds`, `"retryDelay": "34s"`.
pub(super) fn from_text(text: &str) -> Option<Duration> {
    let text = text.to_lowercase();
    let phrases = ["try again in ", "retry in ", "retry after ", "retrydelay\": \"", "retrydelay\":\""];
    let mut rest = phrases.iter().find_map(|phrase| text.split_once(phrase))?.1;
    let mut sum = 0.0;
    let mut any = false;
    loop {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let Ok(number) = rest[..digits].trim_end_matches('.').parse::<f64>() else { break };
        let unit = rest[digits..].trim_start();
        let letters = unit.len() - unit.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let factor = match &unit[..letters] {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            _ => break,
        };
        sum += number * factor;
        any = true;
        rest = &unit[letters..];
    }
    any.then(|| seconds(sum)).flatten()
}

/// Converts seconds to a duration, limited to the maximum delay.
pub(super) fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok().map(|after| after.min(MAX_DELAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_contain_seconds_milliseconds_or_a_date() {
        let after = |pairs: &[(&'static str, &'static str)]| {
            from_headers(&pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect())
        };
        assert_eq!(after(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(after(&[("retry-after", "0.5")]), Some(Duration::from_millis(500)));
        assert_eq!(after(&[("retry-after-ms", "1500"), ("retry-after", "2")]), Some(Duration::from_millis(1500)));
        let date = ("date", "Mon, 16 Nov 1998 10:00:00 GMT");
        assert_eq!(after(&[("retry-after", "Mon, 16 Nov 1998 10:00:30 GMT"), date]), Some(Duration::from_secs(30)));
        assert_eq!(after(&[("retry-after", "Mon, 16 Nov 1998 09:00:00 GMT"), date]), Some(Duration::ZERO));
        assert_eq!(after(&[("retry-after", "Mon, 16 Nov 1998 09:00:00 GMT")]), Some(Duration::ZERO));
        assert_eq!(after(&[("retry-after", "99999999999")]), Some(MAX_DELAY));
        assert_eq!(after(&[("retry-after", "soon")]), None);
        assert_eq!(after(&[("retry-after", "-1")]), None);
        assert_eq!(after(&[]), None);
    }

    #[test]
    fn text_contains_the_delay_in_many_forms() {
        let millis = |text: &str| from_text(text).map(|after| after.as_millis());
        assert_eq!(millis("Rate limit reached. Please try again in 1.242s. Visit"), Some(1242));
        assert_eq!(millis("Please try again in 20ms."), Some(20));
        assert_eq!(millis("Please try again in 1m2.5s"), Some(62_500));
        assert_eq!(millis("Please retry after 6 seconds."), Some(6000));
        assert_eq!(millis(r#"{"@type":"RetryInfo","retryDelay": "34s"}"#), Some(34_000));
        assert_eq!(millis("try again in a moment"), None);
        assert_eq!(millis("retry after 5"), None);
    }
}
