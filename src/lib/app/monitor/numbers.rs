//! Formats numbers for people.

use crate::clock;

/// Returns a span of milliseconds in two units at most, in whole seconds: a frame is looked at once
/// a second.
pub(super) fn span(millis: i64) -> String {
    let secs = millis.max(0) / 1000;
    match secs {
        0..60 => format!("{secs}s"),
        60..3600 => format!("{}m {}s", secs / 60, secs % 60),
        3600..86400 => format!("{}h {}m", secs / 3600, secs % 3600 / 60),
        _ => format!("{}d {}h", secs / 86400, secs % 86400 / 3600),
    }
}

/// Returns how long ago `at` was, or `?` where it is no time.
pub(super) fn since(at: &str, now: i64) -> String {
    clock::parse_rfc3339(at).map_or_else(|| "?".to_owned(), |at| span(now - at))
}

pub(super) fn took(millis: u64) -> String {
    let millis = i64::try_from(millis).unwrap_or(i64::MAX);
    if millis < 10_000 {
        format!("{}.{}s", millis / 1000, millis % 1000 / 100)
    } else {
        span(millis)
    }
}

pub(super) fn dollars(usd: f64) -> String {
    if usd > 0.0 && usd < 1.0 {
        format!("${usd:.4}")
    } else {
        format!("${usd:.2}")
    }
}

/// Returns the names, the same one in a row once with how often: `read ×3, exec`.
pub(super) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut runs: Vec<(&str, usize)> = Vec::new();
    for name in names {
        match runs.last_mut() {
            Some((last, times)) if *last == name => *times += 1,
            _ => runs.push((name, 1)),
        }
    }
    let words = runs.iter().map(|(name, times)| {
        if *times == 1 {
            (*name).to_owned()
        } else {
            format!("{name} ×{times}")
        }
    });
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_two_units() {
        let spans = [
            (1_500, "1s"),
            (42_000, "42s"),
            (61_000, "1m 1s"),
            (3_660_000, "1h 1m"),
            (90_000_000, "1d 1h"),
            (-5, "0s"),
        ];
        for (millis, text) in spans {
            assert_eq!(span(millis), text);
        }
        assert_eq!(
            [0, 1_590, 9_999, 10_000, u64::MAX].map(took),
            ["0.0s", "1.5s", "9.9s", "10s", "106751991167d 7h"]
        );
    }
}
