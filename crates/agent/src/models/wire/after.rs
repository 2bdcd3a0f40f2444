//! How long a provider wants to be left alone: in a header, in a field, or in words.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

/// Nobody means more than this.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// From the headers of a refusal.
pub(super) fn from_headers(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let exact = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()).map(|millis| millis / 1000.0);
    if let Some(after) = exact.and_then(seconds) {
        return Some(after);
    }
    let written = text(RETRY_AFTER.as_str())?;
    if let Some(after) = written.parse::<f64>().ok().and_then(seconds) {
        return Some(after);
    }
    let date = httpdate::parse_http_date(written).ok()?;
    // Two dates of one clock, where there are two; ours may be wrong.
    let now = text(DATE.as_str()).and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or_else(now);
    Some(date.duration_since(now).unwrap_or_default().min(LONGEST))
}

#[expect(clippy::disallowed_methods, reason = "a date can only be compared with the date")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// From words: `try again in 1m2.5s`, `in 20ms`, `retry after 6 seconds`, `"retryDelay": "34s"`.
pub(super) fn from_words(words: &str) -> Option<Duration> {
    let words = words.to_lowercase();
    let after = ["try again in ", "retry in ", "retry after ", "retrydelay\": \"", "retrydelay\":\""];
    let rest = after.iter().find_map(|phrase| words.split_once(phrase))?.1;
    let (mut rest, mut sum, mut any) = (rest, 0.0, false);
    loop {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let Ok(number) = rest[..digits].trim_end_matches('.').parse::<f64>() else { break };
        let behind = rest[digits..].trim_start();
        let letters = behind.len() - behind.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let factor = match &behind[..letters] {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            _ => break,
        };
        sum += number * factor;
        any = true;
        rest = &behind[letters..];
    }
    any.then(|| seconds(sum)).flatten()
}

/// A number of seconds, if it is one that can be waited.
pub(super) fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok().map(|after| after.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_it_in_seconds_in_milliseconds_or_by_date() {
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
        assert_eq!(after(&[("retry-after", "99999999999")]), Some(LONGEST));
        assert_eq!(after(&[("retry-after", "soon")]), None);
        assert_eq!(after(&[("retry-after", "-1")]), None);
        assert_eq!(after(&[]), None);
    }

    #[test]
    fn words_say_it_in_many_ways() {
        let millis = |words: &str| from_words(words).map(|after| after.as_millis());
        assert_eq!(millis("Rate limit reached. Please try again in 1.242s. Visit"), Some(1242));
        assert_eq!(millis("Please try again in 20ms."), Some(20));
        assert_eq!(millis("Please try again in 1m2.5s"), Some(62_500));
        assert_eq!(millis("Please retry after 6 seconds."), Some(6000));
        assert_eq!(millis(r#"{"@type":"RetryInfo","retryDelay": "34s"}"#), Some(34_000));
        assert_eq!(millis("try again in a moment"), None);
        assert_eq!(millis("retry after 5"), None);
    }
}
