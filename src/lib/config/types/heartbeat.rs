//! `[heartbeat]`: when the agent wakes by itself.

use chrono::NaiveTime;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::session::TimeOfDay;

/// `[heartbeat]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Heartbeat {
    /// The interval of heartbeats, `1m` to `24h`; default `30m`.
    pub every: Every,
    /// Begin of the hours in which the agent speaks unasked, `HH:MM` in its zone: it wakes, and what was missed is
    /// made up for; default `08:00`.
    pub active_start: TimeOfDay,
    /// Their end; before the begin, they go over midnight; default `23:00`.
    pub active_end: TimeOfDay,
    /// `internal` (default) or `cron`.
    pub driver: Driver,
    /// The most that all of a day may cost, US dollars; default 0: no more than `[cost]` says.
    pub day_usd: f64,
}

impl Default for Heartbeat {
    fn default() -> Self {
        let hour = |hour| TimeOfDay(NaiveTime::from_hms_opt(hour, 0, 0).unwrap_or_default());
        Self {
            every: Every(30 * 60_000),
            active_start: hour(8),
            active_end: hour(23),
            driver: Driver::Internal,
            day_usd: 0.0,
        }
    }
}

/// Who wakes the heartbeat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    /// The daemon's timer.
    #[default]
    Internal,
    /// cron, by `agent-send --heartbeat`.
    Cron,
}

/// A span of time, milliseconds; written `90s`, `30m` or `2h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Every(pub i64);

impl Serialize for Every {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let units = [(3_600_000, "h"), (60_000, "m"), (1000, "s")];
        let (size, unit) = units
            .into_iter()
            .find(|(size, _)| self.0 % size == 0)
            .unwrap_or((1, "ms"));
        serializer.serialize_str(&format!("{}{unit}", self.0 / size))
    }
}

impl<'de> Deserialize<'de> for Every {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let units = [("s", 1000), ("m", 60_000), ("h", 3_600_000)];
        let millis = units.into_iter().find_map(|(unit, size)| {
            let number: i64 = text.trim().strip_suffix(unit)?.parse().ok()?;
            number.checked_mul(size)
        });
        millis
            .filter(|millis| (60_000..=24 * 3_600_000).contains(millis))
            .map(Self)
            .ok_or_else(|| {
                serde::de::Error::custom(format!(
                    "`{text}` is no span from `1m` to `24h`, expected such as `90s`, `30m` or `2h`"
                ))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_times_of_day_are_read_as_they_are_written() {
        let read = |text: &str| {
            toml::from_str::<Heartbeat>(text).map_err(|error| error.message().to_owned())
        };
        let own = read(
            "every = \"90m\"\nactive_start = \"22:30\"\nactive_end = \"06:00\"\ndriver = \"cron\"",
        )
        .expect("a table");
        assert_eq!((own.every, own.driver), (Every(5_400_000), Driver::Cron));
        let written = toml::to_string(&own).expect("text");
        assert!(
            written.contains("every = \"90m\"") && written.contains("active_start = \"22:30\""),
            "{written}"
        );
        assert_eq!(read(&written), Ok(own));
        for bad in [
            "every = \"30\"",
            "every = \"10s\"",
            "every = \"25h\"",
            "every = 30",
            "active_end = \"24:00\"",
            "active_end = \"8\"",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
