//! The manual pages against the programs: what one has and the other has not is named, in both
//! directions. A page that fails here is mended by writing what the message says.

mod examples;
mod mdoc;
mod programs;
mod protocol;
mod settings;

/// Fails with all of `wrong`, one a line.
fn report(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// Names what stands on one side only.
fn compare(page: &str, what: &str, expected: &[String], found: &[String]) -> Vec<String> {
    let missing = expected.iter().filter(|head| !found.contains(head));
    let wrong = missing.map(|head| {
        format!("man/{page}: {what}: the program has `{head}`, and the page has no such .It")
    });
    let extra = found.iter().filter(|head| !expected.contains(head));
    let extra = extra.map(|head| {
        format!("man/{page}: {what}: the page has `{head}`, and the program has no such thing")
    });
    let twice = found
        .iter()
        .enumerate()
        .filter(|(at, head)| found.iter().take(*at).any(|other| other == *head));
    let twice = twice.map(|(_, head)| format!("man/{page}: {what}: `{head}` stands there twice"));
    wrong.chain(extra).chain(twice).collect()
}
