//! HTML as readable text: the article of a page as Markdown, or the hits of a result page.
//!
//! A page is a stranger's input to a large parser, so a process that can do nothing else parses it
//! ([`crate::sandbox::compute`]). That process reads one line of JSON ([`Task`]) and then the page, and answers with one
//! JSON document.

use std::process::ExitCode;
use std::time::Duration;

use dom_query::Document;
use dom_smoothie::{Config, Readability, TextMode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::content_type::decode;
use crate::net;
use crate::sandbox;
use crate::sandbox::{Limits, Status};
use crate::text;

/// The hidden first argument with which a program of ours must call [`html_main`] before it does anything
/// else.
pub const HTML_ARG: &str = "__html";

const LIMITS: Limits = Limits {
    memory: 512 << 20,
    cpu: Duration::from_secs(10),
    wall: Duration::from_secs(15),
    max_output: 8 << 20,
};
/// So many are read at one time.
static AT_ONCE: Semaphore = Semaphore::const_new(2);

/// The exit code for a page that nothing can be made of.
const DAMAGED: u8 = 4;

/// Pages with more elements are shown whole: looking for their article would take too long.
const MAX_ELEMENTS: usize = 50_000;
/// An article of fewer characters is probably not what the page is about.
const SHORT: usize = 500;
/// What is never read.
const UNSEEN: &str = "script, style, template, noscript, iframe, object, embed, svg, canvas, audio, video, dialog:not([open]), \
    [hidden], [aria-hidden='true' i], input, select, textarea";

/// What is to be done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Task {
    /// Where the page came from.
    pub(super) url: String,
    /// What its server says of its encoding.
    pub(super) charset: Option<String>,
    /// Whether it is DuckDuckGo's page of results, and the hits are wanted.
    pub(super) hits: bool,
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Page {
    /// One line; may be empty.
    pub(super) title: String,
    /// Markdown.
    pub(super) text: String,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hit {
    pub(super) title: String,
    pub(super) url: String,
    pub(super) snippet: String,
}

/// Does `task` on a page, in a separate process; `T` is [`Page`], or with `hits` a list of [`Hit`].
///
/// # Errors
/// Why nothing came of it, in a person's words.
pub(super) async fn read<T: DeserializeOwned>(
    task: &Task,
    page: &[u8],
    cancel: &CancellationToken,
) -> Result<T, String> {
    let Ok(_turn) = AT_ONCE.acquire().await else {
        return Err("the page cannot be read now".to_owned());
    };
    let mut input = serde_json::to_vec(task).map_err(|error| error.to_string())?;
    input.push(b'\n');
    input.extend_from_slice(page);
    let safely = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "a page could not be read");
        format!("the page cannot be read safely on this machine: {error}")
    };
    let file = sandbox::in_memory(&input).map_err(|error| safely(&error))?;
    let (output, status) = sandbox::compute(HTML_ARG, file, LIMITS, cancel)
        .await
        .map_err(|error| safely(&error))?;
    match status {
        Status::Exited(0) => serde_json::from_slice(&output)
            .map_err(|error| format!("the page cannot be read: {error}")),
        Status::Cancelled => Err("reading the page was stopped".to_owned()),
        Status::TimedOut
        | Status::DiskFull
        | Status::OutOfMemory
        | Status::Signaled(libc::SIGXCPU | libc::SIGKILL) => {
            Err("the page cannot be read: taking it apart takes too long".to_owned())
        }
        Status::Signaled(libc::SIGPIPE) => {
            Err("the page cannot be read: it is too long".to_owned())
        }
        Status::Exited(_) | Status::Signaled(_) => Err(
            "the page cannot be read: it is nested too deep, or needs more memory than it may have"
                .to_owned(),
        ),
    }
}

/// Becomes the reader of the page on standard input.
pub fn html_main() -> ExitCode {
    sandbox::compute_main(LIMITS, |input, output| {
        let mut done = || {
            let end = input.iter().position(|byte| *byte == b'\n')?;
            let (line, page) = input.split_at_checked(end)?;
            let task: Task = serde_json::from_slice(line).ok()?;
            let html = decode(page.get(1..)?, task.charset.as_deref(), true);
            let answer = if task.hits {
                serde_json::to_vec(&hits(&html))
            } else {
                serde_json::to_vec(&page_of(&html, &task.url))
            };
            output.write_all(&answer.ok()?).ok()
        };
        done().map_or(ExitCode::from(DAMAGED), |()| ExitCode::SUCCESS)
    })
}

/// Returns the article of a page, or all of the page when it has none.
fn page_of(html: &str, url: &str) -> Page {
    let document = Document::from(html);
    without_the_unseen(&document);
    // Only now: pictures have titles, too.
    let title = text::one_line(&document.select_single("title").text());
    with_whole_links(&document, url);
    let whole = document.clone();
    let config = Config {
        text_mode: TextMode::Markdown,
        disable_json_ld: true,
        max_elements_to_parse: MAX_ELEMENTS,
        ..Config::default()
    };
    let article = Readability::with_document(document, None, Some(config))
        .and_then(|mut page| page.parse())
        .ok();
    let whole = || {
        whole
            .select_single("body")
            .nodes()
            .first()
            .map(|body| body.md(None).trim().to_owned())
            .unwrap_or_default()
    };
    let text = match &article {
        Some(article) if article.length >= SHORT => article.text_content.trim().to_owned(),
        // A page of links, or with little on it.
        _ => whole(),
    };
    let better = article
        .map(|article| text::one_line(&article.title))
        .filter(|title| !title.is_empty());
    Page {
        title: better.unwrap_or(title),
        text,
    }
}

/// Takes out what a person looking at the page does not see.
fn without_the_unseen(document: &Document) {
    document.select(UNSEEN).remove();
    for node in document.select("[style]").nodes() {
        let style: String = node
            .attr_or("style", "")
            .to_lowercase()
            .chars()
            .filter(|c| !c.is_whitespace())
            .collect();
        if HIDING.iter().any(|hides| {
            style
                .split(';')
                .any(|rule| rule.trim_end_matches("!important") == *hides)
        }) {
            node.remove_from_parent();
        }
    }
    let comments: Vec<_> = document
        .root()
        .descendants_it()
        .filter(|node| node.is_comment())
        .collect();
    comments
        .iter()
        .for_each(|comment| comment.remove_from_parent());
}

/// Rules that make an element invisible.
const HIDING: [&str; 8] = [
    "display:none",
    "visibility:hidden",
    "visibility:collapse",
    "opacity:0",
    "font-size:0",
    "font-size:0px",
    "content-visibility:hidden",
    "clip-path:inset(100%)",
];

/// Makes links fit to be fetched, and takes out those that are none.
fn with_whole_links(document: &Document, url: &str) {
    let base = document
        .base_uri()
        .and_then(|base| net::join(url, &base))
        .unwrap_or_else(|| url.to_owned());
    for (selector, name) in [("a[href]", "href"), ("img[src]", "src")] {
        for node in document.select(selector).nodes() {
            match net::join(&base, &node.attr_or(name, "")) {
                Some(whole) => node.set_attr(name, &whole),
                None if name == "src" => node.remove_from_parent(),
                None => node.remove_attr(name),
            }
        }
    }
}

/// Returns the hits of DuckDuckGo's page without scripts; advertisements are none.
fn hits(html: &str) -> Vec<Hit> {
    let document = Document::from(html);
    let results = document.select(".result:not(.result--ad)");
    let hit = |result: dom_query::Selection| {
        let link = result.select_single("a.result__a");
        let url = unwrapped(&link.attr("href")?)?;
        let snippet = text::one_line(&result.select_single(".result__snippet").text());
        Some(Hit {
            title: text::one_line(&link.text()),
            url,
            snippet,
        })
    };
    results.iter().filter_map(hit).collect()
}

/// Returns where a link of a page of results leads: `//duckduckgo.com/l/?uddg=https%3A%2F%2F…`.
fn unwrapped(link: &str) -> Option<String> {
    let url = net::join("https://duckduckgo.com/", link)?;
    let Some((_, query)) = url
        .strip_prefix("https://duckduckgo.com/l/")
        .and_then(|rest| rest.split_once('?'))
    else {
        return Some(url);
    };
    net::parameter(query, "uddg").and_then(|to| net::join(&to, ""))
}

/// Reads bytes as a page, and as one of results.
#[cfg(any(test, fuzzing))]
pub(crate) fn check_page(bytes: &[u8]) {
    let html = decode(bytes, None, true);
    let page = page_of(&html, "https://example.com/a/b");
    assert!(!page.title.contains('\n'));
    let _ = hits(&html);
}

#[cfg(test)]
mod tests;
