//! `web_search`: by DuckDuckGo's page without scripts, Brave's API or the owner's SearXNG.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::Web;
use super::content_type::ContentType;
use super::fetch::{STOPPED, network_error};
use super::readable;
use super::readable::{Hit, Task};
use crate::agent::{Context, Reach, ToolOutput};
use crate::config::SearchEngine;
use crate::net;
use crate::net::{Answer, Origin, Request};
use crate::text;
use crate::text::json;
use crate::tools::typed::{About, Property, TypedTool};
use crate::trust::Provenance;

/// Results when the model names no number, and the most.
const USUAL: usize = 5;
const MOST: usize = 10;
/// The most characters of a title and of a snippet.
const TITLE: usize = 200;
const SNIPPET: usize = 500;

/// Where they are asked: api-dashboard.search.brave.com/documentation, html.duckduckgo.com,
/// docs.searxng.org/dev/search_api.html (2026-11).
const BRAVE: (&str, &str) = ("https://api.search.brave.com", "/res/v1/web/search");
const DUCKDUCKGO: (&str, &str) = ("https://html.duckduckgo.com", "/html/");
const SEARXNG: &str = "/search";

pub(in crate::tools) struct WebSearch(pub(in crate::tools) Arc<Web>);

#[derive(Deserialize, JsonSchema)]
pub(in crate::tools) struct Args {
    query: String,
    #[schemars(range(min = 1, max = 10))]
    max_results: Option<usize>,
}

impl TypedTool for WebSearch {
    type Args = Args;

    const ABOUT: About = About {
        name: "web_search",
        description: "Search the web.",
        properties: &[Property::Anybody, Property::ReadOnly, Property::BringsPages],
    };

    fn reach(&self, args: &Args, _context: &Context) -> Reach {
        Reach::Searches(args.query.clone())
    }

    async fn run(&self, args: Args, context: &Context) -> ToolOutput {
        let query = text::one_line(&args.query);
        if query.is_empty() {
            return ToolOutput::error("`query` must say what to look for");
        }
        let count = args.max_results.unwrap_or(USUAL).clamp(1, MOST);
        let found = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return ToolOutput::error(STOPPED),
            found = self.search(&query, count, context) => found,
        };
        match found {
            Ok(hits) if hits.is_empty() => ToolOutput::ok("nothing was found"),
            Ok(hits) => ToolOutput::ok(listed(&hits, count)).marked(Some(self.server())),
            Err(error) => error,
        }
    }
}

impl WebSearch {
    /// Returns the provenance of what is found.
    fn server(&self) -> Provenance {
        let search = self.0.search.as_ref();
        let own = search.and_then(|search| search.url.as_deref());
        Provenance::of_url(own.unwrap_or(match search.map(|search| search.engine) {
            Some(SearchEngine::Brave) => BRAVE.0,
            _ => DUCKDUCKGO.0,
        }))
    }

    async fn search(
        &self,
        query: &str,
        count: usize,
        context: &Context,
    ) -> Result<Vec<Hit>, ToolOutput> {
        let Some(search) = &self.0.search else {
            return Err(ToolOutput::error("no search engine is configured"));
        };
        let count = count.to_string();
        let server = |usual: &'static str| search.url.as_deref().unwrap_or(usual);
        let url = match search.engine {
            SearchEngine::Brave => {
                net::with_query(server(BRAVE.0), BRAVE.1, &[("q", query), ("count", &count)])
            }
            SearchEngine::Searxng => {
                net::with_query(server(""), SEARXNG, &[("q", query), ("format", "json")])
            }
            SearchEngine::Duckduckgo | SearchEngine::None => {
                net::with_query(server(DUCKDUCKGO.0), DUCKDUCKGO.1, &[("q", query)])
            }
        };
        let url = url.map_err(|error| {
            ToolOutput::error(format!("[tools.web] search_url in agent.toml: {error}"))
        })?;
        // Where the owner wrote an address, it may be in their own network.
        let origins: Vec<Origin> = search
            .url
            .as_deref()
            .and_then(Origin::of)
            .into_iter()
            .collect();
        let is_page = search.engine == SearchEngine::Duckduckgo;
        let key = search
            .key
            .as_ref()
            .filter(|_| search.engine == SearchEngine::Brave);
        let request = Request {
            url: &url,
            accept: if is_page {
                "text/html"
            } else {
                "application/json"
            },
            key: key.map(|key| ("x-subscription-token", key)),
            origins: &origins,
        };
        let answer = self.0.guard.get(request).await;
        let answer = answer.map_err(|error| network_error("the search failed: ", &url, &error))?;
        refused(search.engine, &answer).map_err(ToolOutput::error)?;
        if !is_page {
            return hits(search.engine, &answer.body).map_err(ToolOutput::error);
        }
        let task = Task {
            url: answer.url.clone(),
            charset: ContentType::of(answer.content_type.as_deref()).charset,
            hits: true,
        };
        let hits: Vec<Hit> = readable::read(&task, &answer.body, &context.cancel)
            .await
            .map_err(ToolOutput::error)?;
        let wants_a_person = answer.body.windows(7).any(|window| window == b"anomaly");
        if hits.is_empty() && wants_a_person {
            Err(ToolOutput::error(TOO_MANY))
        } else {
            Ok(hits)
        }
    }
}

const TOO_MANY: &str = "DuckDuckGo wants to see a person, after too many searches from here: try again later; the owner can \
    choose another search with [tools.web] search = \"brave\" or \"searxng\" in agent.toml";

/// Says what an error status means for the owner.
fn refused(engine: SearchEngine, answer: &Answer) -> Result<(), String> {
    let hint = match (engine, answer.status) {
        (SearchEngine::Duckduckgo, 202) => return Err(TOO_MANY.to_owned()),
        (_, 200..=299) => return Ok(()),
        (SearchEngine::Brave, 401 | 403 | 422) => "; the owner should check the key of Brave",
        (_, 429) => "; too many searches, try again later",
        (SearchEngine::Searxng, 403) => {
            "; the owner should add json to search.formats in its settings.yml"
        }
        _ => "",
    };
    Err(format!(
        "the search failed: its server answered {}{hint}",
        answer.status
    ))
}

/// Reads Brave's `web.results` and SearXNG's `results`.
fn hits(engine: SearchEngine, body: &[u8]) -> Result<Vec<Hit>, String> {
    let document: Value = json::parse(body).map_err(|_| match engine {
        SearchEngine::Searxng => {
            "the search failed: what its server answers is no JSON; the owner should add json to \
            search.formats in its settings.yml"
                .to_owned()
        }
        _ => "the search failed: what its server answers is no JSON".to_owned(),
    })?;
    let (results, snippet) = match engine {
        SearchEngine::Brave => (&document["web"]["results"], "description"),
        _ => (&document["results"], "content"),
    };
    let words = |value: &Value| text::one_line(&unmarked(value.as_str().unwrap_or_default()));
    let hit = |result: &Value| {
        let url = net::join(result["url"].as_str()?, "")?;
        Some(Hit {
            title: words(&result["title"]),
            url,
            snippet: words(&result[snippet]),
        })
    };
    Ok(results
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(hit)
        .collect())
}

/// Takes out the marks and escapes that Brave puts into words.
fn unmarked(words: &str) -> String {
    let plain = words
        .replace("<strong>", "")
        .replace("</strong>", "")
        .replace("<b>", "")
        .replace("</b>", "");
    plain
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#x27;", "'")
        .replace("&amp;", "&")
}

fn listed(hits: &[Hit], count: usize) -> String {
    let lines = (1..).zip(hits.iter().take(count)).map(|(number, hit)| {
        let mut entry = format!(
            "[{number}] {}\n{}",
            text::shorten(&hit.title, TITLE),
            hit.url
        );
        if !hit.snippet.is_empty() {
            entry.push('\n');
            entry.push_str(&text::shorten(&hit.snippet, SNIPPET));
        }
        entry
    });
    lines.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hit(title: &str, url: &str, snippet: &str) -> Hit {
        Hit {
            title: title.into(),
            url: url.into(),
            snippet: snippet.into(),
        }
    }

    #[test]
    fn each_engines_answer_becomes_the_same_hits() {
        let brave = json!({"web": {"results": [
            {"title": "One &amp; <strong>two</strong>", "url": "https://a.example/", "description": "x\ny"},
            {"title": "bad", "url": "javascript:x"}, {"url": "https://b.example/c"}
        ]}});
        let expected = [
            hit("One & two", "https://a.example/", "x y"),
            hit("", "https://b.example/c", ""),
        ];
        assert_eq!(
            hits(SearchEngine::Brave, brave.to_string().as_bytes()).as_deref(),
            Ok(&expected[..])
        );
        let searxng =
            json!({"results": [{"title": "One", "url": "https://a.example/", "content": "x"}]});
        let expected = [hit("One", "https://a.example/", "x")];
        assert_eq!(
            hits(SearchEngine::Searxng, searxng.to_string().as_bytes()).as_deref(),
            Ok(&expected[..])
        );
        assert_eq!(hits(SearchEngine::Brave, b"{}").as_deref(), Ok(&[][..]));
        assert!(
            hits(SearchEngine::Searxng, b"<html>")
                .expect_err("HTML")
                .contains("search.formats")
        );
    }

    #[test]
    fn an_answer_that_is_nested_too_deep_is_none() {
        let deep = |levels: usize| {
            let (open, close) = ("[".repeat(levels), "]".repeat(levels));
            format!(r#"{{"results": [], "more": {open}{close}}}"#)
        };
        assert!(hits(SearchEngine::Searxng, deep(31).as_bytes()).is_ok());
        assert!(hits(SearchEngine::Searxng, deep(32).as_bytes()).is_err());
    }

    #[test]
    fn a_refusal_names_what_the_owner_can_do() {
        let check = |engine, status, expected: &str| {
            let answer = Answer {
                url: String::new(),
                status,
                content_type: None,
                body: Vec::new(),
            };
            let said = refused(engine, &answer).err().unwrap_or_default();
            assert!(
                said.contains(expected) && said.is_empty() == expected.is_empty(),
                "{said}"
            );
        };
        check(SearchEngine::Duckduckgo, 200, "");
        check(SearchEngine::Duckduckgo, 202, "wants to see a person");
        check(SearchEngine::Brave, 401, "check the key of Brave");
        check(SearchEngine::Searxng, 403, "add json to search.formats");
        check(SearchEngine::Brave, 429, "try again later");
        check(SearchEngine::Brave, 500, "answered 500");
    }
}
