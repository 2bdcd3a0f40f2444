//! Dates and times: parsing of common forms and of explicit formats, and their distance.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A date with an optional time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DateTime {
    /// Days since 1970-01-01, as written.
    pub(super) day: i64,
    /// Seconds since midnight, as written.
    seconds: i64,
    /// Seconds east of UTC; 0 if none is written.
    offset: i64,
}

const SECONDS_PER_DAY: i64 = 86_400;
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

impl DateTime {
    /// Returns the seconds since 1970-01-01 in UTC.
    pub(super) fn instant(self) -> i64 {
        self.day * SECONDS_PER_DAY + self.seconds - self.offset
    }

    /// Parses a date in a common form, with or without a time.
    ///
    /// The forms are `2026-11-16`, `2026/11/16`, `20261116`, `16 November 2026`, `November 16, 2026`, and `11/16/2026`
    /// (month first, unless the first number is greater than 12). A time `18:30`, `18:30:05` or `6:30 PM` may follow,
    /// and then `Z`, `UTC` or an offset such as `+02:00`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.len() > MAX_DATE_BYTES {
            return None;
        }
        let (date, time) = split_time(text);
        let day = parse_day(date)?;
        let (seconds, offset) = match time {
            Some(time) => parse_time(time)?,
            None => (0, 0),
        };
        Some(Self { day, seconds, offset })
    }
}

/// Longer texts are not dates.
const MAX_DATE_BYTES: usize = 64;

/// Splits a text into its date and its time: at a `T` between digits, or at the space before the first `:`.
fn split_time(text: &str) -> (&str, Option<&str>) {
    let bytes = text.as_bytes();
    let is_digit = |index: usize| bytes.get(index).is_some_and(u8::is_ascii_digit);
    let t = (1..bytes.len()).find(|&i| matches!(bytes[i], b'T' | b't') && is_digit(i - 1) && is_digit(i + 1));
    if let Some(at) = t {
        return (&text[..at], Some(&text[at + 1..]));
    }
    let Some(colon) = text.find(':') else { return (text, None) };
    match text[..colon].rfind(' ') {
        Some(at) => (text[..at].trim_end(), Some(&text[at + 1..])),
        None => (text, None),
    }
}

fn parse_day(text: &str) -> Option<i64> {
    let words: Vec<&str> = text.split([' ', ',', '-', '/', '.']).filter(|word| !word.is_empty()).collect();
    match *words.as_slice() {
        [whole] if whole.len() == 8 && whole.is_ascii() => {
            civil(number(&whole[..4])?, number(&whole[4..6])?, number(&whole[6..])?)
        }
        [a, b, c] => match (month(a), month(b)) {
            (Some(month), _) => civil(year(c)?, month, ordinal(b)?),
            (_, Some(month)) => match ordinal(a) {
                Some(day) if a.len() <= 4 && day <= 31 => civil(year(c)?, month, day),
                _ => civil(year(a)?, month, ordinal(c)?),
            },
            _ if a.len() == 4 => civil(year(a)?, number(b)?, number(c)?),
            _ => {
                let (first, second) = (number(a)?, number(b)?);
                if first > 12 { civil(year(c)?, second, first) } else { civil(year(c)?, first, second) }
            }
        },
        _ => None,
    }
}

/// Parses ASCII digits only, so that signs and other digits are rejected.
fn number(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.len() <= 6 && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

fn year(text: &str) -> Option<i64> {
    if text.len() == 4 { number(text) } else { None }
}

/// Parses `1`, `1st`, `2nd`, `3rd` and `16th`.
fn ordinal(text: &str) -> Option<i64> {
    let digits = ["st", "nd", "rd", "th"].iter().find_map(|ending| text.strip_suffix(ending)).unwrap_or(text);
    number(digits)
}

/// Parses the name of a month, or its first three letters or more.
fn month(text: &str) -> Option<i64> {
    let text = text.to_ascii_lowercase();
    let index = MONTHS.iter().position(|name| text.len() >= 3 && name.starts_with(text.as_str()))?;
    i64::try_from(index + 1).ok()
}

/// Returns the days since 1970-01-01 of a valid date of the Gregorian calendar.
fn civil(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    // The year starts in March, so that the leap day is its last.
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Parses a time with an optional zone. Returns the seconds since midnight and the seconds east of UTC.
fn parse_time(text: &str) -> Option<(i64, i64)> {
    let text = text.trim();
    let zone_at = text.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(text.len());
    let (clock, rest) = text.split_at(zone_at);
    let mut rest = rest.trim().to_ascii_uppercase();
    let half = ["AM", "PM"].into_iter().find(|half| rest.starts_with(half));
    if let Some(half) = half {
        rest = rest[half.len()..].trim().to_owned();
    }
    let parts: Vec<&str> = clock.split(':').collect();
    let (hours, minutes, seconds) = match *parts.as_slice() {
        [hours, minutes] => (number(hours)?, number(minutes)?, 0),
        [hours, minutes, seconds] => {
            let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
            if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            (number(hours)?, number(minutes)?, number(whole)?)
        }
        _ => return None,
    };
    let hours = match half {
        Some(_) if !(1..=12).contains(&hours) => return None,
        Some("PM") => hours % 12 + 12,
        Some(_) => hours % 12,
        None => hours,
    };
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    Some((hours * 3600 + minutes * 60 + seconds, parse_zone(&rest)?))
}

fn parse_zone(text: &str) -> Option<i64> {
    if matches!(text, "" | "Z" | "UTC" | "GMT") {
        return Some(0);
    }
    let (sign, rest) = if let Some(rest) = text.strip_prefix('+') { (1, rest) } else { (-1, text.strip_prefix('-')?) };
    let digits = rest.replace(':', "");
    let (hours, minutes) = match digits.len() {
        2 => (number(&digits)?, 0),
        4 => (number(digits.get(..2)?)?, number(digits.get(2..)?)?),
        _ => return None,
    };
    if hours > 14 || minutes > 59 { None } else { Some(sign * (hours * 3600 + minutes * 60)) }
}

/// A form of dates with the directives of `strftime`: `%Y`, `%y`, `%m`, `%d`, `%B`, `%b`, `%H`, `%M`, `%S` and `%%`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DateFormat(String);

/// A form of dates that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid date format: {reason}")]
pub struct InvalidDateFormat {
    /// Why it is invalid.
    pub reason: String,
}

impl TryFrom<String> for DateFormat {
    type Error = InvalidDateFormat;

    fn try_from(text: String) -> Result<Self, InvalidDateFormat> {
        let invalid = |reason: String| Err(InvalidDateFormat { reason });
        if text.len() > MAX_DATE_BYTES {
            return invalid(format!("longer than {MAX_DATE_BYTES} bytes"));
        }
        let mut found = String::new();
        let mut rest = text.chars();
        while let Some(character) = rest.next() {
            if character != '%' {
                continue;
            }
            match rest.next() {
                Some('%') => {}
                Some(directive) if "YymdBbHMS".contains(directive) => found.push(directive),
                Some(directive) => return invalid(format!("unknown directive `%{directive}`")),
                None => return invalid("it ends with `%`".to_owned()),
            }
        }
        let has = |directives: &str| found.contains(|c| directives.contains(c));
        if !has("Yy") || !has("mBb") || !has("d") {
            return invalid("it needs a year, a month and a day, for example `%Y-%m-%d`".to_owned());
        }
        Ok(Self(text))
    }
}

impl From<DateFormat> for String {
    fn from(format: DateFormat) -> Self {
        format.0
    }
}

impl fmt::Display for DateFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl DateFormat {
    /// Parses a date that has exactly this form.
    pub(super) fn parse(&self, text: &str) -> Option<DateTime> {
        let mut rest = text.trim();
        let (mut year, mut month_number, mut day) = (None, None, None);
        let (mut hours, mut minutes, mut seconds) = (0, 0, 0);
        let mut format = self.0.chars();
        while let Some(character) = format.next() {
            if character != '%' {
                rest = rest.strip_prefix(character)?;
                continue;
            }
            match format.next()? {
                'Y' => year = Some(take_number(&mut rest, 4)?),
                'y' => year = Some(full_year(take_number(&mut rest, 2)?)),
                'm' => month_number = Some(take_number(&mut rest, 2)?),
                'd' => day = Some(take_number(&mut rest, 2)?),
                'B' | 'b' => month_number = Some(take_month(&mut rest)?),
                'H' => hours = take_number(&mut rest, 2)?,
                'M' => minutes = take_number(&mut rest, 2)?,
                'S' => seconds = take_number(&mut rest, 2)?,
                other => rest = rest.strip_prefix(other)?,
            }
        }
        if !rest.is_empty() || hours > 23 || minutes > 59 || seconds > 59 {
            return None;
        }
        let day = civil(year?, month_number?, day?)?;
        Some(DateTime { day, seconds: hours * 3600 + minutes * 60 + seconds, offset: 0 })
    }
}

/// Completes a year of two digits as POSIX does.
fn full_year(year: i64) -> i64 {
    if year < 69 { 2000 + year } else { 1900 + year }
}

/// Takes up to `max` digits from the start of a text.
fn take_number(text: &mut &str, max: usize) -> Option<i64> {
    let digits = text.bytes().take(max).take_while(u8::is_ascii_digit).count();
    let (taken, rest) = text.split_at(digits);
    *text = rest;
    number(taken)
}

fn take_month(text: &mut &str) -> Option<i64> {
    let letters = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    let (taken, rest) = text.split_at(letters);
    *text = rest;
    month(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn day(text: &str) -> Option<i64> {
        DateTime::parse(text).map(|date| date.day)
    }

    #[test]
    fn days_count_from_1970_through_leap_years() {
        for (text, expected) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 11_016),
            ("2000-03-01", 11_017),
            ("2026-11-16", 20_773),
        ] {
            assert_eq!(day(text), Some(expected), "{text}");
        }
        for invalid in ["1900-02-29", "2026-02-30", "2026-13-01", "2026-00-10", "2026-04-31", "0000-01-01"] {
            assert_eq!(day(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn common_forms_name_the_same_day() {
        for text in [
            "2026-11-16",
            "2026/11/16",
            "2026.11.16",
            "20261116",
            " 2026-11-16 ",
            "16 November 2026",
            "16 Nov 2026",
            "16. November 2026",
            "16th November 2026",
            "November 16, 2026",
            "Nov 16 2026",
            "11/16/2026",
            "16/11/2026",
            "16.11.2026",
            "2026-11-16T18:46:53Z",
            "2026-11-16 18:46",
            "November 16, 2026 6:46 PM",
        ] {
            assert_eq!(day(text), Some(20_773), "{text}");
        }
        assert_eq!(day("03/04/2026"), day("2026-03-04"), "the month comes first");
        for invalid in
            ["", "today", "2026", "2026-11", "16 Smarch 2026", "2026-11-16-18", "１６.11.2026", "2026-11-16T25:00"]
        {
            assert_eq!(day(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn instants_respect_times_and_offsets() {
        let instant = |text: &str| DateTime::parse(text).unwrap().instant();
        assert_eq!(instant("1970-01-02T00:00:01Z"), 86_401);
        assert_eq!(instant("1970-01-01T02:00:00+02:00"), 0);
        assert_eq!(instant("1969-12-31 19:30 -0430"), 0);
        assert_eq!(instant("1970-01-01 12:05 AM"), 300);
        assert_eq!(instant("1970-01-01T00:00:01.250Z"), 1);
    }

    #[test]
    fn formats_are_exact() {
        let format = |text: &str| DateFormat::try_from(text.to_owned());
        let parse = |form: &str, text: &str| format(form).unwrap().parse(text).map(|date| date.day);
        assert_eq!(parse("%d/%m/%Y", "03/04/2026"), day("2026-04-03"));
        assert_eq!(parse("%d %B %Y", "16 November 2026"), Some(20_773));
        assert_eq!(parse("%d.%m.%y", "16.11.26"), Some(20_773));
        assert_eq!(parse("%Y-%m-%d", "2026/11/16"), None);
        assert_eq!(parse("%Y-%m-%d", "2026-11-16x"), None);
        assert_eq!(format("%Y-%m").unwrap_err().reason, "it needs a year, a month and a day, for example `%Y-%m-%d`");
        assert_eq!(format("%Y-%m-%q").unwrap_err().reason, "unknown directive `%q`");
        assert_eq!(format("%Y-%m-%d%").unwrap_err().reason, "it ends with `%`");
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "\\PC{0,70}", aimed in "[0-9Tt:/. ,+\\-ZAPMnové]{0,40}") {
            let _ = (DateTime::parse(&text), DateTime::parse(&aimed));
            let format = DateFormat("%d%b%Y%H%%".to_owned());
            let _ = (format.parse(&text), format.parse(&aimed));
        }

        #[test]
        fn consecutive_days_have_consecutive_numbers(year in 1..9998_i64, month in 1..=12_i64) {
            let last = days_in_month(year, month);
            let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            prop_assert_eq!(civil(year, month, last).unwrap() + 1, civil(next_year, next_month, 1).unwrap());
            prop_assert_eq!(civil(year, month, 1).unwrap() + last - 1, civil(year, month, last).unwrap());
        }
    }
}
