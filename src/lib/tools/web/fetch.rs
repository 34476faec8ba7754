//! `web_fetch`: a page as text, 10,000 characters a call.

use std::sync::Arc;
use std::time::Instant;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::Web;
use super::content_type;
use super::content_type::{ContentType, Kind};
use super::readable;
use super::readable::{Page, Task};
use crate::agent::{Context, Question, Reach, Rule, ToolOutput};
use crate::net;
use crate::net::{Answer, Request};
use crate::text::json;
use crate::tools::typed::{About, Property, TypedTool};
use crate::trust::Provenance;
use crate::{media, sandbox, text};

/// Characters that one call shows (specification §14).
const SHOWN: usize = 10_000;
/// Characters of an error's page.
const FIRST_WORDS: usize = 300;
/// The longest JSON that is set out in lines, bytes: as values it takes a hundred times its length.
const SET_OUT: usize = 200_000;
/// What we can read.
const ACCEPT: &str = "text/html, application/xhtml+xml, text/markdown, text/plain, application/json, application/pdf, */*;q=0.5";

/// What the model reads when the run is cancelled.
pub(super) const STOPPED: &str = "it was stopped";

/// Only the owner's: what they allow of their own network is not for everybody who may talk here.
pub(in crate::tools) struct WebFetch(pub(in crate::tools) Arc<Web>);

#[derive(Deserialize, JsonSchema)]
pub(in crate::tools) struct Args {
    url: String,
    /// character
    #[serde(default)]
    offset: usize,
}

impl TypedTool for WebFetch {
    type Args = Args;

    const ABOUT: About = About {
        name: "web_fetch",
        description: "Read a web page, PDF or JSON as text, 10,000 characters a call.",
        properties: &[Property::ReadOnly, Property::BringsPages],
    };

    fn reach(&self, args: &Args, _context: &Context) -> Reach {
        let url = args.url.clone();
        if self.0.guard.is_allowed_by_name(url.trim()) {
            Reach::CarriesInside(url)
        } else {
            Reach::Carries(url)
        }
    }

    fn question(&self, args: &Args, input: &Value) -> Question {
        let rule = net::host_of(&args.url).map(|host| Rule::of("web_fetch", Some(("from", &host))));
        let question = Question::of("web_fetch", input);
        let text = format!("{}{}", question.text, host_in_ascii(args.url.trim()));
        Question {
            text,
            rule,
            ..question
        }
    }

    async fn run(&self, args: Args, context: &Context) -> ToolOutput {
        let Args { url, offset } = args;
        let text = tokio::select! {
            biased;
            () = context.cancel.cancelled() => Err(ToolOutput::error(STOPPED)),
            text = self.page(url.trim(), offset > 0, context) => text,
        };
        match text {
            Ok((text, from)) => part(&text, offset).marked(self.0.provenance(&from)),
            Err(error) => error,
        }
    }
}

/// Returns why a request failed. The error is untrusted where it repeats a server: the host of a redirect may
/// be made up of words.
pub(super) fn network_error(what: &str, url: &str, error: &net::Error) -> ToolOutput {
    let from = error.is_untrusted().then(|| Provenance::of_url(url));
    ToolOutput::error(format!("{what}{error}")).marked(from)
}

/// Returns how the host of an address is called in ASCII, for a question, where letters are not of it: one may look like another.
fn host_in_ascii(url: &str) -> String {
    let name = net::host_name(url).filter(|name| !url.contains(name.as_str()) && !url.is_ascii());
    name.map_or_else(String::new, |name| format!("\n(its host is {name})"))
}

impl WebFetch {
    /// Returns the whole text of a page, and where it is. Going on in it asks nobody again, if it was read lately.
    async fn page(
        &self,
        url: &str,
        goes_on: bool,
        context: &Context,
    ) -> Result<(Arc<str>, String), ToolOutput> {
        if let Some(known) = self.0.cache.get(url, Instant::now()).filter(|_| goes_on) {
            return Ok(known);
        }
        let Ok(_one) = self.0.pages.acquire().await else {
            return Err(ToolOutput::error(STOPPED));
        };
        let request = Request {
            url,
            accept: ACCEPT,
            ..Request::default()
        };
        let answer = self.0.guard.get(request).await;
        let answer = answer.map_err(|error| network_error("", url, &error))?;
        let content_type = ContentType::of(answer.content_type.as_deref());
        let read = readable(&answer, &content_type, context).await;
        if !(200..300).contains(&answer.status) {
            let words = read.map(|page| text::one_line(&format!("{} {}", page.title, page.text)));
            let words = text::shorten(words.unwrap_or_default().trim(), FIRST_WORDS);
            let colon = if words.is_empty() { "" } else { ": " };
            let status = status(answer.status);
            let why = format!("the server answered {status}{colon}{words}");
            return Err(ToolOutput::error(why).marked(Some(Provenance::of_url(&answer.url))));
        }
        let page = read.map_err(|why| {
            ToolOutput::error(format!("{}: {why}", answer.url))
                .marked(Some(Provenance::of_url(&answer.url)))
        })?;
        let text: Arc<str> = composed(&page, &answer.url).into();
        let cache = &self.0.cache;
        cache.put(url, &answer.url, text.clone(), Instant::now());
        Ok((text, answer.url))
    }
}

/// Returns what an answer says.
async fn readable(answer: &Answer, said: &ContentType, context: &Context) -> Result<Page, String> {
    let charset = said.charset.clone();
    let decoded = || content_type::decode(&answer.body, charset.as_deref(), false);
    let plain = |text: String| Page {
        title: String::new(),
        text: text.trim_end().to_owned(),
    };
    match content_type::kind(&answer.body, said)? {
        Kind::Text => Ok(plain(decoded())),
        Kind::Json => {
            let text = decoded();
            if text.len() > SET_OUT {
                return Ok(plain(text));
            }
            let value = json::parse::<Value>(text.as_bytes())
                .and_then(|value| serde_json::to_string_pretty(&value));
            Ok(plain(value.unwrap_or(text)))
        }
        Kind::Html => {
            let task = Task {
                url: answer.url.clone(),
                charset,
                hits: false,
            };
            readable::read(&task, &answer.body, &context.cancel).await
        }
        Kind::Pdf => {
            let file = sandbox::in_memory(&answer.body).map_err(|error| error.to_string())?;
            let pdf = media::pdf(file, &context.cancel).await?;
            Ok(plain(pdf.told()))
        }
    }
}

/// The title first, then where it came from.
fn composed(page: &Page, url: &str) -> String {
    let words = if page.text.is_empty() {
        "[the page has no text]"
    } else {
        &page.text
    };
    match page.title.as_str() {
        "" => format!("{url}\n\n{words}"),
        title => format!("# {}\n{url}\n\n{words}", text::shorten(title, 300)),
    }
}

/// Returns the part of a text that begins at the character `offset`.
fn part(text: &str, offset: usize) -> ToolOutput {
    let all = text.chars().count();
    if offset > 0 && offset >= all {
        return ToolOutput::error(format!("it has only {all} characters"));
    }
    let rest = text
        .char_indices()
        .nth(offset)
        .map_or("", |(at, _)| text.get(at..).unwrap_or_default());
    let shown = text::head(rest, SHOWN);
    match offset + shown.chars().count() {
        next if next < all => ToolOutput::ok(format!(
            "{shown}\n[{all} characters; go on with offset {next}]"
        )),
        _ => ToolOutput::ok(shown),
    }
}

/// Returns a status with the usual words for those that are met often.
fn status(status: u16) -> String {
    let words = match status {
        401 => " Unauthorized",
        403 => " Forbidden",
        404 => " Not Found",
        410 => " Gone",
        429 => " Too Many Requests",
        500 => " Internal Server Error",
        502 => " Bad Gateway",
        503 => " Service Unavailable",
        504 => " Gateway Timeout",
        _ => "",
    };
    format!("{status}{words}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_part_says_how_to_go_on_and_the_last_one_does_not() {
        let text = "ä".repeat(SHOWN) + "rest";
        assert_eq!(
            part(&text, 0),
            ToolOutput::ok("ä".repeat(SHOWN) + "\n[10004 characters; go on with offset 10000]")
        );
        assert_eq!(part(&text, SHOWN), ToolOutput::ok("rest"));
        assert_eq!(
            part(&text, SHOWN + 4),
            ToolOutput::error("it has only 10004 characters")
        );
        assert_eq!(
            (part("", 0), part("x", 1)),
            (
                ToolOutput::ok(""),
                ToolOutput::error("it has only 1 characters")
            )
        );
    }

    #[test]
    fn a_host_that_only_looks_like_another_is_told_in_ascii() {
        let cyrillic = "https://p\u{430}ypal.com/login";
        assert_eq!(host_in_ascii(cyrillic), "\n(its host is xn--pypal-4ve.com)");
        for url in [
            "https://paypal.com/login",
            "HTTPS://PayPal.com/",
            "https://en.wikipedia.org/wiki/Z\u{fc}rich",
            "https://127.0.0.1/\u{fc}",
        ] {
            assert_eq!(host_in_ascii(url), "", "{url}");
        }
    }

    proptest! {
        #[test]
        fn the_parts_of_a_text_are_the_text(count in 1_usize..200) {
            let text = "👨‍👩‍👧é x".repeat(count * 30);
            let (mut whole, mut offset) = (String::new(), 0);
            loop {
                let shown = part(&text, offset).text;
                match shown.rsplit_once("\n[") {
                    None => { whole.push_str(&shown); break; }
                    Some((shown, more)) => {
                        whole.push_str(shown);
                        offset = more.trim_end_matches(']').rsplit_once(' ').and_then(|(_, next)| next.parse().ok()).expect("an offset");
                    }
                }
            }
            prop_assert_eq!(whole, text);
        }
    }
}
