//! `[telegram]`: finds ids of the wrong kind, and a bot to which anybody may write.

use crate::config::key_names;
use crate::config::types::{Config, DmPolicy};

/// Returns keys that are probably not meant as they are, and why.
pub(super) fn doubts(config: &Config) -> Vec<(String, String)> {
    let telegram = &config.telegram;
    let mut doubts = Vec::new();
    for (key, ids) in [
        ("telegram.owner", &telegram.owner),
        ("telegram.allow_from", &telegram.allow_from),
    ] {
        for id in ids.iter().filter(|id| **id <= 0) {
            doubts.push((key.to_owned(), no_person(*id)));
        }
    }
    for (id, group) in &telegram.groups {
        let key = key_names::join("telegram.groups", id);
        let number = id.parse::<i64>();
        if let Some(number) = number.ok().filter(|number| *number > 0) {
            let what = format!(
                "is no group's id: those of Telegram are negative; probably [telegram.groups.\"-{number}\"]"
            );
            doubts.push((key.clone(), what));
        }
        for id in group.allow_from.iter().flatten().filter(|id| **id <= 0) {
            doubts.push((key_names::join(&key, "allow_from"), no_person(*id)));
        }
    }
    doubts
}

fn no_person(id: i64) -> String {
    format!("has {id}, which is no person's id but a group's: people have positive ones")
}

/// Returns the channels that anybody may write to at the owner's cost, and what bounds it; nothing where models are free.
pub(super) fn open_to_all(config: &Config, is_paid: bool) -> Vec<(String, String)> {
    let cost = &config.cost;
    let limits = [
        ("day_usd", cost.day_usd),
        ("month_usd", cost.month_usd),
        ("message_usd", cost.message_usd),
    ];
    let set: Vec<String> = limits
        .into_iter()
        .filter(|(_, usd)| *usd > 0.0)
        .map(|(key, usd)| format!("{key} = {usd}"))
        .collect();
    let bound = match set.as_slice() {
        [] => "nothing bounds it: set `day_usd` in [cost]".to_owned(),
        set => format!("[cost] bounds it for all together: {}", set.join(", ")),
    };
    let open = config
        .open_channels()
        .filter(|channel| is_paid && config.dm_policy(channel) == DmPolicy::Open);
    open.map(|channel| {
        let table = match channel {
            "telegram" => channel.to_owned(),
            name => key_names::join("channels", name),
        };
        let what = format!("is `open`: everybody may write, and spends your money; {bound}");
        (key_names::join(&table, "dm_policy"), what)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        toml::from_str(text).expect(text)
    }

    #[test]
    fn an_id_of_the_wrong_kind_is_told() {
        let told = |text: &str| {
            let doubts = doubts(&config(text));
            doubts.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
        };
        let check = |text: &str, expected: &[&str]| assert_eq!(told(text), expected, "{text}");
        check(
            "[telegram]\nowner = [-1001234567890]\n",
            &["telegram.owner"],
        );
        check(
            "[telegram]\nallow_from = [7, -5]\n",
            &["telegram.allow_from"],
        );
        check(
            "[telegram.groups.\"1001234567890\"]\n",
            &["telegram.groups.1001234567890"],
        );
        check(
            "[telegram.groups.\"-100\"]\nallow_from = [-7]\n",
            &["telegram.groups.-100.allow_from"],
        );
        check(
            "[telegram]\nowner = [7]\n[telegram.groups.\"-100\"]\nallow_from = [7]\n",
            &[],
        );
    }

    #[test]
    fn an_open_bot_with_a_paid_model_is_told_with_what_bounds_it() {
        let open = "[telegram]\nenabled = true\ndm_policy = \"open\"\n";
        let told = |text: &str, is_paid| {
            let mut told = open_to_all(&config(text), is_paid);
            assert!(told.len() < 2, "{told:?}");
            told.pop().map(|(_, what)| what).unwrap_or_default()
        };
        assert!(told(open, true).ends_with("nothing bounds it: set `day_usd` in [cost]"));
        let bound = told(&format!("{open}[cost]\nday_usd = 2.5\n"), true);
        assert!(
            bound.ends_with("for all together: day_usd = 2.5"),
            "{bound}"
        );
        assert_eq!(told(open, false), "");
        assert_eq!(told("[telegram]\nenabled = true\n", true), "");
    }
}
