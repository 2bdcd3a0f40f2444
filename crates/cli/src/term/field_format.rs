//! The formats of text fields in forms: those that the protocol allows.

/// Describes a format; `None` if it is unknown and not checked.
pub(super) fn description(format: &str) -> Option<&'static str> {
    Some(match format {
        "email" => "an email address",
        "uri" => "a URI, for example https://example.com",
        "date" => "a date, for example 2026-01-31",
        "date-time" => "a date and time, for example 2026-01-31T12:00:00Z",
        _ => return None,
    })
}

/// Whether a text has a format. Unknown formats match every text.
pub(super) fn matches(format: &str, text: &str) -> bool {
    match format {
        "email" => is_email(text),
        "uri" => is_uri(text),
        "date" => is_date(text),
        "date-time" => is_date_time(text),
        _ => true,
    }
}

fn is_email(text: &str) -> bool {
    let is_plain = |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || c == '@');
    text.rsplit_once('@').is_some_and(|(user, host)| is_plain(user) && is_plain(host))
}

fn is_uri(text: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    };
    let is_visible = !text.contains(|c: char| c.is_whitespace() || c.is_control());
    is_visible && text.split_once(':').is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty())
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2)) else {
        return false;
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// RFC 3339: a date, `T`, a time, and `Z` or an offset.
fn is_date_time(text: &str) -> bool {
    let Some((date, rest)) = text.split_once(['T', 't', ' ']) else { return false };
    let (time, offset) = match rest.find(['Z', 'z', '+', '-']) {
        Some(at) => rest.split_at(at),
        None => return false,
    };
    let is_offset = matches!(offset, "Z" | "z") || is_hours_and_minutes(&offset[1..]);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let is_fraction = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let Some((minutes, seconds)) = time.rsplit_once(':') else { return false };
    let is_time = is_hours_and_minutes(minutes) && digits(seconds, 2).is_some_and(|seconds| seconds <= 60);
    is_date(date) && is_time && is_fraction && is_offset
}

fn is_hours_and_minutes(text: &str) -> bool {
    let parsed = text.split_once(':').map(|(hours, minutes)| (digits(hours, 2), digits(minutes, 2)));
    matches!(parsed, Some((Some(0..=23), Some(0..=59))))
}

/// Returns a number of exactly this many digits.
fn digits(text: &str, count: usize) -> Option<u32> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_match_their_formats() {
        for (format, right, wrong) in [
            ("email", ["ada@example.com", "a+b@x"], ["ada", "a@b@", "a b@c"]),
            ("uri", ["https://example.com/?q=1", "urn:isbn:1"], ["example.com", "https:", "http://a b"]),
            ("date", ["2024-02-29", "2026-12-31"], ["2026-02-29", "2026-13-01", "1-1-1"]),
            (
                "date-time",
                ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.5+02:00"],
                ["2026-01-31", "2026-01-31T25:00:00Z", "2026-01-31T12:00:00"],
            ),
        ] {
            assert!(right.iter().all(|text| matches(format, text)), "{format}");
            assert!(wrong.iter().all(|text| !matches(format, text)), "{format}");
            assert!(description(format).is_some());
        }
        assert!(matches("hostname", "anything") && description("hostname").is_none());
        assert!(!matches("date-time", "2026-01-31Té") && !matches("date", "2026-é1-01"));
    }
}
