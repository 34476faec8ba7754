//! A bar chart of the cost of days, as SVG.

use chrono_tz::Tz;

use super::html::escaped;
use crate::clock;

/// Width and height of the chart, and the gap between two bars, units of the drawing.
const SIZE: (f64, f64) = (560.0, 90.0);
const GAP: f64 = 4.0;
/// Room for the words below and above the bars.
const FOOT: f64 = 16.0;
const HEAD: f64 = 14.0;

/// A day: its date, and US dollars.
pub(super) type Day = (String, f64);

/// Returns the last `count` days up to that of `now`, the oldest first, with what each cost.
pub(super) fn days(now: i64, count: i64, zone: Tz, cost: impl Fn(&str) -> f64) -> Vec<Day> {
    let today = clock::local_date(now, zone);
    let dates = (0..count)
        .rev()
        .filter_map(|back| today.checked_sub_days(chrono::Days::new(u64::try_from(back).ok()?)));
    dates
        .map(|date| date.to_string())
        .map(|date| (date.clone(), cost(&date)))
        .collect()
}

/// Returns the chart; each bar names its day and sum.
pub(super) fn bars(days: &[Day]) -> String {
    let most = days.iter().map(|(_, usd)| *usd).fold(0.0, f64::max);
    let (width, height) = SIZE;
    let count = f64::from(u32::try_from(days.len().max(1)).unwrap_or(u32::MAX));
    let step = width / count;
    let room = height - FOOT - HEAD;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"US dollars of the last {} days\"><title>US dollars a day, the most ${most:.4}</title>",
        days.len()
    );
    for (at, (date, usd)) in days.iter().enumerate() {
        let left = step * f64::from(u32::try_from(at).unwrap_or(u32::MAX)) + GAP / 2.0;
        // A day that cost something is seen.
        let tall = if most > 0.0 && *usd > 0.0 {
            (usd / most * room).max(1.0)
        } else {
            0.0
        };
        let top = HEAD + room - tall;
        let (date, bar) = (escaped(date), step - GAP);
        svg.push_str(&format!(
            "<g><title>{date}: ${usd:.4}</title><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{bar:.1}\" height=\"{tall:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
            left + bar / 2.0,
            height - 3.0,
            date.get(8..).unwrap_or_default()
        ));
    }
    svg.push_str(&format!(
        "<text class=\"most\" x=\"{:.1}\" y=\"11\">${most:.4}</text></svg>",
        width - 2.0
    ));
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tallest_bar_fills_the_room_and_nothing_has_none() {
        let now = clock::parse_rfc3339("2026-03-01T12:00:00Z").expect("a time");
        let days = days(
            now,
            3,
            Tz::UTC,
            |day| if day == "2026-03-01" { 0.5 } else { 0.0 },
        );
        assert_eq!(
            days,
            [
                ("2026-02-27".into(), 0.0),
                ("2026-02-28".into(), 0.0),
                ("2026-03-01".into(), 0.5)
            ]
        );
        let svg = bars(&days);
        assert!(
            svg.contains("height=\"60.0\"") && svg.matches("height=\"0.0\"").count() == 2,
            "{svg}"
        );
        assert!(
            svg.contains("2026-03-01: $0.5000") && !svg.contains("NaN"),
            "{svg}"
        );
        assert!(!bars(&[]).contains("NaN"));
    }
}
