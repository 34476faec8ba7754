//! `memory_search`, `memory_get`, `memory_read` and, in files of their own, the tools that change the memory.
//!
//! The turn of a call decides whose memories it sees, never its arguments.

mod commitment;
mod forget;
mod write;

use std::borrow::Cow;
use std::sync::Arc;

use chrono::NaiveDate;
use schemars::JsonSchema;
use serde::Deserialize;

use super::typed::{About, Property, TypedTool, tool};
use super::{Needs, blocking};
use crate::agent::{Context, Reach, Tool, ToolOutput};
use crate::clock;
use crate::config::Readers;
use crate::memory::collections;
use crate::memory::index::{Filter, Hit, Query, Source, Strategy};
use crate::memory::items;
use crate::memory::items::Item;
use crate::memory::person_profile;
use crate::memory::{Memory, Scope, Viewer, show_lines};
use crate::text::{shorten, visible};
use crate::trust::Provenance;

/// Results when no number is named, and the most (specification §12).
const RESULTS: usize = 6;
const MAX_RESULTS: usize = 20;
/// Results below this score are left out (specification §12).
const MIN_SCORE: f32 = 0.35;
/// The most characters of a result (specification §12).
const MAX_PASSAGE: usize = 700;
/// Characters of an item that are shown when no limit is named (specification §12).
const READ_CHARS: usize = 1_000;

pub(super) fn all(needs: &Arc<Needs>) -> Vec<Arc<dyn Tool>> {
    vec![
        tool(Search(needs.clone())),
        tool(Get(needs.clone())),
        tool(Read(needs.clone())),
        tool(write::Write(needs.clone())),
        tool(write::Remember(needs.clone())),
        tool(commitment::CommitmentUpdate(needs.clone())),
        tool(forget::Forget(needs.clone())),
    ]
}

/// Where the memories of groups lie.
const GROUPS: &str = "workspace/memory/groups/";

/// Whose memories a call sees.
struct Sight {
    viewer: Viewer,
    /// The group's own, in an owner's turn there: what others noted is marked, and what they said stays out.
    of_group: Option<Scope>,
}

impl Sight {
    fn of(context: &Context) -> Self {
        let scope = Scope::Chat(context.conversation.0.clone());
        let is_group = person_profile::group_file(&context.conversation).is_some();
        let of_group = (is_group && !context.viewer.may_see(&scope)).then_some(scope);
        let viewer = context.viewer.clone();
        let viewer = match &of_group {
            Some(scope) => viewer.and(scope.clone()),
            None => viewer,
        };
        Self { viewer, of_group }
    }

    fn is_of_group(&self, hit: &Hit) -> bool {
        let of_group = self.of_group.as_ref();
        of_group.is_some_and(|of_group| of_group.to_string() == hit.scope)
    }
}

struct Search(Arc<Needs>);

#[derive(Deserialize, JsonSchema)]
struct SearchArgs {
    query: String,
    #[schemars(range(min = 1, max = 20))]
    max_results: Option<usize>,
    #[schemars(range(min = 50))]
    max_tokens: Option<usize>,
    /// YYYY-MM-DD
    #[serde(default)]
    after: String,
    #[serde(default)]
    before: String,
    kind: Option<String>,
    tag: Option<String>,
    person: Option<String>,
    source: Option<SourceName>,
    min_score: Option<f32>,
}

// The sources by their names; no documentation, which the model would read.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SourceName {
    Memory,
    Session,
    Item,
    Summary,
    Fact,
}

impl SourceName {
    fn source(self) -> Source {
        match self {
            Self::Memory => Source::Memory,
            Self::Session => Source::Session,
            Self::Item => Source::Item,
            Self::Summary => Source::Summary,
            Self::Fact => Source::Fact,
        }
    }
}

impl TypedTool for Search {
    type Args = SearchArgs;

    const ABOUT: About = About {
        name: "memory_search",
        description: "Search notes and past conversations, by a question or words.",
        properties: &[Property::Anybody, Property::ReadOnly],
    };

    fn description(&self) -> Cow<'static, str> {
        described(Self::ABOUT.description, self.0.memory.collections().names())
    }

    fn reach(&self, _args: &SearchArgs, _context: &Context) -> Reach {
        Reach::Free
    }

    async fn run(&self, args: SearchArgs, context: &Context) -> ToolOutput {
        let (needs, sight) = (self.0.clone(), Sight::of(context));
        let speaker = context.person.clone();
        blocking(move || {
            let after = day("after", &args.after)?;
            let before = day("before", &args.before)?;
            if let Some(fault) = fault(&args.query, args.min_score, after.zip(before)) {
                return Err(fault.to_owned());
            }
            let person = args.person.filter(|name| !name.trim().is_empty());
            let person = person.map(|name| match name.trim() == speaker {
                true => Ok(speaker),
                // Whom the owner knows is told to nobody else.
                false if !sight.viewer.may_see(&Scope::Owner) => {
                    Err("only the owner may search what is known of others".to_owned())
                }
                false => write::person_id(&needs, name.trim()),
            });
            let scopes = person
                .transpose()?
                .map(|id| vec![Scope::Person(id).to_string()]);
            let query = Query {
                k: args.max_results.unwrap_or(RESULTS).clamp(1, MAX_RESULTS),
                max_tokens: args.max_tokens,
                max_chars: MAX_PASSAGE,
                min_score: args.min_score.unwrap_or(MIN_SCORE).clamp(0.0, 1.0),
                strategy: Strategy::of(&needs.search),
                share: needs.search.vector_weight,
                filter: Filter {
                    scopes,
                    sources: args.source.map(|source| vec![source.source()]),
                    kind: args.kind.filter(|kind| !kind.trim().is_empty()),
                    tag: args.tag.filter(|tag| !tag.trim().is_empty()),
                    days: Filter::days(after, before),
                },
                today: Some(clock::local_date(clock::now_ms(), needs.zone)),
                ..Query::new(&args.query)
            };
            search(&needs.memory, &sight, &query)
        })
        .await
    }
}

/// Returns what is said of the search, with the collections that it goes through.
fn described<'a>(
    own: &'static str,
    collections: impl Iterator<Item = (&'a str, Readers)>,
) -> Cow<'static, str> {
    let names = collections.map(|(name, readers)| match readers {
        Readers::Owner => format!("{name} (for the owner)"),
        Readers::Everybody => name.to_owned(),
    });
    let names: Vec<String> = names.collect();
    match names.is_empty() {
        true => own.into(),
        false => format!(
            "{own} Shared documents are searched too: {}.",
            names.join(", ")
        )
        .into(),
    }
}

/// Returns what is wrong with a search that would find nothing whatever there is.
fn fault(
    query: &str,
    min_score: Option<f32>,
    days: Option<(NaiveDate, NaiveDate)>,
) -> Option<&'static str> {
    match () {
        () if query.trim().is_empty() => Some("`query` is empty; say what is sought"),
        () if min_score.is_some_and(|score| !(0.0..=1.0).contains(&score)) => {
            Some("`min_score` goes from 0 to 1: 0.35 is 35 %")
        }
        () if days.is_some_and(|(after, before)| after > before) => {
            Some("`after` is later than `before`")
        }
        () => None,
    }
}

fn day(name: &str, text: &str) -> Result<Option<NaiveDate>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let day = text.parse().map(Some);
    day.map_err(|_| format!("`{name}` must be a day like 2026-05-31"))
}

fn search(memory: &Memory, sight: &Sight, query: &Query) -> Result<ToolOutput, String> {
    // What was written by hand a moment ago is found, too.
    match sight.viewer.may_see(&Scope::Owner) {
        true => memory.refresh(),
        false => memory.refresh_for_others(),
    };
    let mut found = memory
        .search(&sight.viewer, query.clone())
        .map_err(|error| match sight.viewer.may_see(&Scope::Owner) {
            true => format!("{error}; the owner can run: agent-index rebuild"),
            false => "the memory cannot be searched now".to_owned(),
        })?;
    found
        .hits
        .retain(|hit| !sight.is_of_group(hit) || hit.path.starts_with(GROUPS));
    let shared = memory.collections().search(&sight.viewer, query);
    let not_searched = shared.merge_into(&mut found.hits, query.k);
    cut(&mut found.hits, query.max_tokens);
    let mut parts: Vec<String> = (1..)
        .zip(&found.hits)
        .map(|(number, hit)| shown(number, hit))
        .collect();
    if parts.is_empty() {
        parts.push("nothing was found".to_owned());
    }
    // A model that is not told takes what is missing for what is not so.
    parts.extend(missed(&not_searched, sight.viewer.may_see(&Scope::Owner)));
    let is_marked = |hit: &&Hit| {
        let scope = Scope::parse(&hit.scope);
        is_shared(&hit.path)
            || memory.is_untrusted(&hit.path)
            || scope.is_some_and(|scope| sight.viewer.sees_as_foreign(&scope))
    };
    let marked = found.hits.iter().find(is_marked);
    Ok(ToolOutput::ok(parts.join("\n\n")).marked(marked.map(|hit| of_file(&hit.path))))
}

/// Returns true for what is in a collection: other people wrote it.
fn is_shared(path: &str) -> bool {
    path.starts_with(collections::PREFIX)
}

/// Keeps what fits into so many tokens: each search had as many.
fn cut(hits: &mut Vec<Hit>, max_tokens: Option<usize>) {
    let mut left = max_tokens.map_or(usize::MAX, |tokens| {
        tokens.saturating_mul(crate::text::CHARS_PER_TOKEN)
    });
    hits.retain(|hit| {
        let length = hit.text.chars().count();
        let fits = length <= left;
        left -= if fits { length } else { 0 };
        fits
    });
}

/// Returns what is said of collections that could not be searched; why is the owner's.
fn missed(missed: &[(String, String)], is_owner: bool) -> Option<String> {
    let lines: Vec<String> = missed
        .iter()
        .map(|(name, why)| match is_owner {
            true => format!("not searched: the collection {name} ({})", visible(why)),
            false => format!("not searched: the collection {name}"),
        })
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Returns what is said when a collection cannot be asked; why is the owner's.
fn away(why: String, is_owner: bool) -> String {
    match is_owner {
        true => why,
        false => "the collection cannot be read now".to_owned(),
    }
}

fn of_file(path: &str) -> Provenance {
    Provenance::File(visible(path))
}

/// Returns a hit: its place and relevance, its type or else its source, its time, and the id of an item; then what it says.
fn shown(number: usize, hit: &Hit) -> String {
    let percent = hit.score * 100.0;
    let words = crate::text::shorten(&hit.text, MAX_PASSAGE);
    let kind = match hit.kind.is_empty() {
        true => hit.source.clone(),
        false => visible(&shorten(&hit.kind, 40)),
    };
    let day = (hit.time > 0).then(|| {
        let time = clock::rfc3339(hit.time).replace('T', " ");
        // Midnight is the time of what is known by its day.
        let time = crate::text::head(&time, 16);
        format!(", {}", time.strip_suffix(" 00:00").unwrap_or(time))
    });
    let id = hit.path.strip_prefix("workspace/memory/items/");
    let id = id.and_then(|name| name.strip_suffix(".md"));
    let id = id.map(|id| format!(", id {id}"));
    format!(
        "[{number}] {}:{}-{} ({percent:.0}%) {kind}{}{}\n{words}",
        hit.path,
        hit.start_line,
        hit.end_line,
        day.unwrap_or_default(),
        id.unwrap_or_default()
    )
}

struct Get(Arc<Needs>);

#[derive(Deserialize, JsonSchema)]
struct GetArgs {
    path: String,
    #[schemars(range(min = 1))]
    start_line: Option<u64>,
    #[schemars(range(min = 1))]
    end_line: Option<u64>,
}

impl TypedTool for Get {
    type Args = GetArgs;

    const ABOUT: About = About {
        name: "memory_get",
        description: "Show lines of a file that memory_search named.",
        properties: &[Property::Anybody, Property::ReadOnly, Property::Rare],
    };

    fn reach(&self, _args: &GetArgs, _context: &Context) -> Reach {
        Reach::Free
    }

    async fn run(&self, args: GetArgs, context: &Context) -> ToolOutput {
        let (needs, sight) = (self.0.clone(), Sight::of(context));
        let viewer = context.viewer.clone();
        let number = |line: u64| u32::try_from(line).unwrap_or(u32::MAX);
        let (first, last) = (args.start_line.map(number), args.end_line.map(number));
        blocking(move || {
            let memory = &needs.memory;
            if is_shared(&args.path) {
                let path = &args.path;
                let lines = memory.collections().lines(&viewer, path, (first, last));
                let lines = lines.map_err(|why| away(why, viewer.may_see(&Scope::Owner)))?;
                let unknown = || format!("{} is no document that this conversation may see; memory_search names those", visible(path));
                let lines = lines.ok_or_else(unknown)?;
                return Ok(ToolOutput::ok(lines).marked(Some(of_file(path))));
            }
            let of_group = sight.of_group.is_some() && args.path.starts_with(GROUPS);
            let viewer = if of_group { &sight.viewer } else { &viewer };
            let lines = show_lines::lines(memory.home(), viewer, &args.path, first, last);
            // A conversation that the owner does not see alone has words of others.
            let is_foreign =
                !viewer.may_see(&Scope::Owner) && args.path.starts_with("state/");
            let is_marked = of_group || is_foreign || memory.is_untrusted(&args.path);
            let marked = is_marked.then(|| of_file(&args.path));
            Ok::<_, String>(ToolOutput::from(lines.map_err(|error| error.to_string())).marked(marked))
        })
        .await
    }
}

struct Read(Arc<Needs>);

#[derive(Deserialize, JsonSchema)]
struct ReadArgs {
    id: String,
    /// characters
    #[serde(default)]
    offset: usize,
    /// characters, default 1000
    #[schemars(range(min = 1))]
    limit: Option<usize>,
}

impl TypedTool for Read {
    type Args = ReadArgs;

    const ABOUT: About = About {
        name: "memory_read",
        description: "Read an item of memory/items by its id.",
        properties: &[Property::ReadOnly, Property::Rare],
    };

    fn reach(&self, _args: &ReadArgs, _context: &Context) -> Reach {
        Reach::Shows
    }

    async fn run(&self, args: ReadArgs, context: &Context) -> ToolOutput {
        let needs = self.0.clone();
        let may_see = context.viewer.may_see(&Scope::Owner);
        blocking(move || {
            let item = match may_see {
                true => items::read(&needs.root, &args.id),
                false => Err(items::Error::Unknown(args.id)),
            };
            let item = item.map_err(|error| error.to_string())?;
            let key = format!("memory/items/{}.md", item.id);
            let marked = needs.memory.is_untrusted(&key).then(|| of_file(&key));
            let words = part(&item, args.offset, args.limit.unwrap_or(READ_CHARS));
            Ok::<_, String>(ToolOutput::ok(words).marked(marked))
        })
        .await
    }
}

/// Returns what an item is, then `limit` characters of its content from `offset` on.
fn part(item: &Item, offset: usize, limit: usize) -> String {
    let total = item.content.chars().count();
    let words: String = item.content.chars().skip(offset).take(limit).collect();
    let next = offset.saturating_add(limit);
    let rest = match next < total {
        true => format!("\n[{total} characters; go on with offset {next}]"),
        false => String::new(),
    };
    let tags = match item.tags.is_empty() {
        true => String::new(),
        false => format!(" [{}]", item.tags.join(", ")),
    };
    format!("{}{tags}, {}\n{words}{rest}", item.kind, item.created_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_can_find_nothing_says_why() {
        let day = |text: &str| text.parse::<NaiveDate>().expect("a day");
        let days = |after: &str, before: &str| Some((day(after), day(before)));
        let wrong = [
            fault(" ", None, None),
            fault("tea", Some(35.0), None),
            fault("tea", Some(-0.1), None),
            fault("tea", None, days("2026-05-02", "2026-05-01")),
        ];
        assert!(wrong.iter().all(Option::is_some), "{wrong:?}");
        let right = fault("tea", Some(1.0), days("2026-05-01", "2026-05-01"));
        assert_eq!(right, None);
    }

    #[test]
    fn the_model_is_told_which_shared_documents_are_searched() {
        let collections = [("handbook", Readers::Everybody), ("hr", Readers::Owner)];
        assert_eq!(
            described("Search notes.", collections.into_iter()),
            "Search notes. Shared documents are searched too: handbook, hr (for the owner)."
        );
        assert_eq!(described("Search notes.", [].into_iter()), "Search notes.");
    }

    #[test]
    fn only_the_owner_is_told_why_a_collection_was_not_searched() {
        let why = [("docs".to_owned(), "db.example.org: no".to_owned())];
        assert_eq!(
            [missed(&why, true), missed(&why, false), missed(&[], true)],
            [
                Some("not searched: the collection docs (db.example.org: no)".to_owned()),
                Some("not searched: the collection docs".to_owned()),
                None
            ]
        );
    }

    #[test]
    fn only_the_owner_is_told_why_a_document_cannot_be_read() {
        let why = "db.example.org: no";
        assert_eq!(away(why.to_owned(), true), why);
        let told = away(why.to_owned(), false);
        assert_eq!(told, "the collection cannot be read now");
    }

    #[test]
    fn a_hit_says_what_it_is_and_when_it_was_written() {
        let hit = Hit {
            path: "workspace/memory/items/2026-11-22-tea-k3f9.md".into(),
            start_line: 7,
            end_line: 7,
            source: "item".into(),
            score: 0.82,
            vector_score: None,
            text_score: None,
            text: "Likes tea.".into(),
            scope: "owner".into(),
            kind: "preference".into(),
            time: 1_795_305_600_000,
            matched: Vec::new(),
        };
        let place = "[1] workspace/memory/items/2026-11-22-tea-k3f9.md:7-7 (82%)";
        let expected =
            format!("{place} preference, 2026-11-22, id 2026-11-22-tea-k3f9\nLikes tea.");
        assert_eq!(shown(1, &hit), expected);
        let noon = Hit {
            time: hit.time + 12 * 3_600_000,
            ..hit.clone()
        };
        assert!(shown(1, &noon).contains("preference, 2026-11-22 12:00, id"));
        let plain = Hit {
            path: "workspace/MEMORY.md".into(),
            source: "memory".into(),
            kind: String::new(),
            time: 0,
            ..hit
        };
        assert_eq!(
            shown(2, &plain),
            "[2] workspace/MEMORY.md:7-7 (82%) memory\nLikes tea."
        );
    }

    #[test]
    fn an_item_is_read_in_parts() {
        let item = Item {
            id: "x".into(),
            kind: "note".into(),
            tags: vec!["a".into()],
            created_at: "T".into(),
            fact: None,
            content: "äbcdef".into(),
        };
        assert_eq!(part(&item, 0, 1000), "note [a], T\näbcdef");
        assert_eq!(
            part(&item, 1, 2),
            "note [a], T\nbc\n[6 characters; go on with offset 3]"
        );
        assert_eq!(part(&item, 9, 2), "note [a], T\n");
    }
}
