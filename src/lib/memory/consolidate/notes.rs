//! The statements of a file in the workspace.

use super::transcripts::{Speaker, Utterance};
use crate::memory::extract;
use crate::memory::extract::Claim;
use crate::memory::facts::store::Statement;
use crate::memory::scope::Scope;
use crate::memory::sources;
use crate::memory::sources::{Candidate, Source};
use crate::text::front_matter::FrontMatter;
use crate::workspace;

/// Characters of a note that a model is shown.
const MAX_CHARS: usize = 50_000;

/// Returns the lines of a note as its owner's words, for a model.
pub(super) fn lines(file: &Candidate, bytes: &[u8]) -> Vec<Utterance> {
    let text = sources::text_of(bytes);
    let text = workspace::without_template(&file.shown, crate::text::head(&text, MAX_CHARS));
    let at = sources::time_of(&file.shown, file.stamp);
    (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| Utterance {
            speaker: Speaker::Owner,
            words: line.trim().to_owned(),
            run_id: String::new(),
            path: file.shown.clone(),
            line: number,
            seq: number,
            at,
            said_at: at,
        })
        .collect()
}

/// Returns what the file states.
pub(super) fn statements(file: &Candidate, bytes: &[u8]) -> Vec<Statement> {
    let text = sources::text_of(bytes);
    let claims = match file.source {
        Source::Item => item(&text),
        Source::Memory if is_of_person(&file.shown) => extract::notes_of_person(&text),
        Source::Memory | Source::Session | Source::Summary | Source::Fact => {
            extract::notes(&workspace::without_template(&file.shown, &text))
        }
    };
    let at = sources::time_of(&file.shown, file.stamp);
    let scope = sources::scope_of(&file.shown);
    let statement = |claim: Claim| Statement {
        scope: scope.clone(),
        entity: claim.entity,
        said_of: None,
        attribute: claim.attribute,
        value: claim.value,
        ended: claim.ended,
        confidence: claim.confidence,
        path: file.shown.clone(),
        line: i64::from(claim.line) + 1,
        session: None,
        quote: claim.quote,
        at,
    };
    claims.into_iter().map(statement).collect()
}

/// Returns those of `stated` whose text is still in the file.
pub(super) fn left_of(mut stated: Vec<Statement>, bytes: &[u8]) -> Vec<Statement> {
    let text = crate::text::one_line(&sources::text_of(bytes));
    stated.retain(|one| text.contains(one.quote.trim_end_matches('…')));
    stated
}

/// Returns true for `memory/people/NAME.md`, whose title is that person's name; episodes have others.
fn is_of_person(shown: &str) -> bool {
    matches!(sources::scope_of(shown), Scope::Person(_)) && !shown.ends_with(".episodes.md")
}

/// Returns what an item states: one of `type: fact` what its head says, any other what its text says.
fn item(text: &str) -> Vec<Claim> {
    let matter = FrontMatter::split(text);
    let Some((matter, fields)) = matter.and_then(|matter| Some((matter, matter.fields()?))) else {
        return extract::notes(text);
    };
    let field = |name: &str| {
        let field = fields.iter().find(|field| field.key == name)?;
        Some((field.line, field.text())).filter(|(_, value)| !value.is_empty())
    };
    if field("type").is_some_and(|(_, kind)| kind == "fact")
        && let (Some((entity_line, entity)), Some((attribute_line, attribute)), Some((line, value))) =
            (field("entity"), field("attribute"), field("value"))
    {
        // The value alone may be that of another, too.
        let first = line.min(entity_line).min(attribute_line);
        let last = line.max(entity_line).max(attribute_line);
        let lines = (2..)
            .zip(matter.head.lines())
            .filter(|(number, _)| (first..=last).contains(number))
            .map(|(_, line)| line.trim());
        return vec![Claim {
            entity,
            attribute,
            value,
            ended: false,
            confidence: 1.0,
            // Claims count lines from 0.
            line: line - 1,
            quote: lines.collect::<Vec<_>>().join(" "),
        }];
    }
    // Blank lines in place of the head, so that the others keep their numbers.
    extract::notes(&format!("{}{}", "\n".repeat(matter.lines()), matter.body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::sources::Stamp;

    fn check(shown: &str, source: Source, text: &str, expected: &[(&str, &str, &str, i64)]) {
        let stamp = Stamp {
            size: 0,
            times: (7_000_000, 0),
        };
        let file = Candidate {
            shown: shown.to_owned(),
            path: shown.into(),
            source,
            stamp,
            gone: None,
        };
        let stated = statements(&file, text.as_bytes());
        let found: Vec<(String, &str, &str, i64)> = stated
            .iter()
            .map(|one| {
                (
                    one.scope.to_string(),
                    one.attribute.as_str(),
                    one.value.as_str(),
                    one.line,
                )
            })
            .collect();
        let found: Vec<(&str, &str, &str, i64)> = found
            .iter()
            .map(|(scope, a, v, line)| (scope.as_str(), *a, *v, *line))
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn a_note_states_what_its_owner_wrote_and_not_what_init_did() {
        check(
            "workspace/USER.md",
            Source::Memory,
            workspace::template("USER.md"),
            &[],
        );
        let text = format!("{}\n- Birthday: 3 May\n", workspace::template("MEMORY.md"));
        check(
            "workspace/MEMORY.md",
            Source::Memory,
            &text,
            &[("owner", "birthday", "3 May", 5)],
        );
        check(
            "workspace/memory/people/1002.md",
            Source::Memory,
            "- Birthday: 4 May",
            &[("person:1002", "birthday", "4 May", 1)],
        );
        let titled = "# Bob\n\n- Birthday: 4 May\n\nI like jazz.\n\n# Ana\n\n- Birthday: 3 May\n";
        check(
            "workspace/memory/people/1002.md",
            Source::Memory,
            titled,
            &[("person:1002", "birthday", "4 May", 3)],
        );
        let typed = format!("---\ntype: person\n---\n{titled}");
        check(
            "workspace/memory/people/1002.md",
            Source::Memory,
            &typed,
            &[("person:1002", "birthday", "4 May", 6)],
        );
    }

    #[test]
    fn an_item_that_is_a_fact_states_that_and_nothing_else() {
        let head = "---\nid: i1\ntype: \"fact\"\nentity: Ana\nattribute: city\nvalue: \"New: York\"\n---\n- Birthday: 3 May\n";
        check(
            "workspace/memory/items/i1.md",
            Source::Item,
            head,
            &[("owner", "city", "New: York", 6)],
        );
        check(
            "workspace/memory/items/i1.md",
            Source::Item,
            &format!("\u{feff}{}", head.replace('\n', "\r\n")),
            &[("owner", "city", "New: York", 6)],
        );
        let note = "---\nid: i1\ntype: note\ntags: x\n---\n- Birthday: 3 May\n";
        check(
            "workspace/memory/items/i1.md",
            Source::Item,
            note,
            &[("owner", "birthday", "3 May", 6)],
        );
        check(
            "workspace/memory/items/i1.md",
            Source::Item,
            "- Birthday: 3 May",
            &[("owner", "birthday", "3 May", 1)],
        );
    }
}
