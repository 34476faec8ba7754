//! The ids of all findings with their meanings, for `doctor --list`; agent-daemon(1) lists the same ids.

/// Returns each id and the fault behind it, from ids.txt, in order.
pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    include_str!("ids.txt")
        .lines()
        .filter_map(|line| line.split_once(": "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::all;

    /// Returns the words in quotes that look like an id, in the checks' own code.
    fn in_source() -> BTreeSet<String> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib/app/doctor");
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(dir).expect("the sources").flatten() {
            if entry.path().extension().is_none_or(|end| end != "rs")
                || entry.file_name() == "ids.rs"
            {
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).expect("text");
            let code = text
                .split("#[cfg(test)]\nmod tests")
                .next()
                .unwrap_or_default()
                .to_owned();
            let is_id = |word: &&str| {
                word.contains('-')
                    && word.split('-').all(|part| {
                        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase())
                    })
            };
            found.extend(code.split('"').filter(is_id).map(str::to_owned));
        }
        found
    }

    #[test]
    fn every_id_is_listed_once_in_order_and_none_is_listed_that_no_check_has() {
        let listed: Vec<&str> = all().map(|(id, _)| id).collect();
        assert!(listed.is_sorted_by(|a, b| a < b), "{listed:?}");
        let programs = [
            "agent-daemon",
            "agent-send",
            "agent-index",
            "agent-consolidate",
            "agent-monitor",
        ];
        let mut found = in_source();
        found.retain(|word| !programs.contains(&word.as_str()));
        let listed: BTreeSet<String> = listed.into_iter().map(str::to_owned).collect();
        assert_eq!(found, listed);
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("man/agent-daemon.1");
        let page = std::fs::read_to_string(page).expect("the page");
        let words: BTreeSet<&str> = page.split_whitespace().collect();
        let missing: Vec<&String> = listed
            .iter()
            .filter(|id| !words.contains(id.as_str()))
            .collect();
        assert!(
            missing.is_empty(),
            "agent-daemon(1) does not list {missing:?}"
        );
    }
}
