//! The one clock of the channels.

use std::time::UNIX_EPOCH;

/// Returns the time of day, milliseconds since 1970 UTC.
pub fn now_ms() -> u64 {
    let since = UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a time, milliseconds since 1970 UTC, as RFC 3339 in UTC; `None` after the year 9999, which that cannot say.
pub fn rfc3339(ms: u64) -> Option<String> {
    let (days, ms) = (ms / 86_400_000, ms % 86_400_000);
    // Years that begin in March end with the day that some of them lack
    // (howardhinnant.github.io/date_algorithms.html, "civil_from_days").
    let days = days.checked_add(719_468)?;
    let (era, day) = (days / 146_097, days % 146_097);
    let of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * of_era + of_era / 4 - of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12 + 1;
    let year = era * 400 + of_era + u64::from(month <= 2);
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    let ms = ms % 1_000;
    (year <= 9_999).then(|| {
        format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{ms:03}Z")
    })
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn a_time_is_written_as_its_day_and_time_of_day() {
        let check = |ms, expected: Option<&str>| assert_eq!(rfc3339(ms).as_deref(), expected);
        check(0, Some("1970-01-01T00:00:00.000Z"));
        check(951_782_399_999, Some("2000-02-28T23:59:59.999Z"));
        check(951_782_400_000, Some("2000-02-29T00:00:00.000Z"));
        check(951_868_800_000, Some("2000-03-01T00:00:00.000Z"));
        check(1_795_305_601_020, Some("2026-11-22T00:00:01.020Z"));
        check(4_107_542_400_000, Some("2100-03-01T00:00:00.000Z"));
        check(253_402_300_799_999, Some("9999-12-31T23:59:59.999Z"));
        check(253_402_300_800_000, None);
        check(u64::MAX, None);
    }
}
