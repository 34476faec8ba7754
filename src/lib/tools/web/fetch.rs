//! `web_fetch`: a page as text, 10,000 characters a call.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use super::Web;
use super::content_type;
use super::content_type::{ContentType, Kind};
use super::readable;
use super::readable::{Page, Task, one_line};
use crate::agent::{Context, Reach, Rights, Tool, ToolOutput};
use crate::net;
use crate::net::{Answer, Request};
use crate::provider::{BoxFuture, ToolSpec};
use crate::{media, sandbox, text};

/// Characters that one call shows (specification §14).
const SHOWN: usize = 10_000;
/// Characters of an error's page.
const FIRST_WORDS: usize = 300;
/// The longest JSON that is set out in lines, bytes: as values it takes a hundred times its length.
const SET_OUT: usize = 200_000;
/// What we can read.
const ACCEPT: &str = "text/html, application/xhtml+xml, text/markdown, text/plain, application/json, application/pdf, */*;q=0.5";

pub(in crate::tools) struct WebFetch(pub Arc<Web>);

impl Tool for WebFetch {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "web_fetch".into(),
            description: "Read a web page, PDF or JSON document as text, 10,000 characters a call."
                .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "url": {"type": "string"},
                    "offset": {"type": "integer", "minimum": 0, "description": "the character to go on at"}
                },
                "required": ["url"]
            }),
        }
    }

    fn read_only(&self) -> bool {
        true
    }

    /// What the owner allows of their own network is not for everybody who may talk here.
    fn rights(&self) -> Rights {
        Rights::Owner
    }

    fn brings_pages(&self) -> bool {
        true
    }

    fn reach(&self, input: &Value, _context: &Context) -> Reach {
        Reach::Carries(crate::tools::text(input, "url").to_owned())
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let offset = crate::tools::number(input, "offset")
            .and_then(|offset| usize::try_from(offset).ok())
            .unwrap_or(0);
        Box::pin(async move {
            let url = crate::tools::text(input, "url").trim();
            let text = tokio::select! {
                biased;
                () = context.cancel.cancelled() => Err(ToolOutput::error("it was stopped")),
                text = self.page(url, offset > 0, context) => text,
            };
            match text {
                Ok(text) => ToolOutput {
                    untrusted: true,
                    ..part(&text, offset)
                },
                Err(error) => error,
            }
        })
    }
}

impl WebFetch {
    /// Returns the whole text of a page. Going on in it asks nobody again, if it was read lately.
    async fn page(
        &self,
        url: &str,
        goes_on: bool,
        context: &Context,
    ) -> Result<Arc<str>, ToolOutput> {
        if let Some(text) = self.0.cache.get(url, Instant::now()).filter(|_| goes_on) {
            return Ok(text);
        }
        let Ok(_one) = self.0.pages.acquire().await else {
            return Err(ToolOutput::error("it was stopped"));
        };
        let request = Request {
            url,
            accept: ACCEPT,
            ..Request::default()
        };
        let others = |words: String| ToolOutput {
            untrusted: true,
            ..ToolOutput::error(words)
        };
        // The host of a redirect may be made up of words.
        let failed = |error: net::Error| ToolOutput {
            untrusted: error.repeats_others(),
            ..ToolOutput::error(error.to_string())
        };
        let answer = self.0.guard.get(request).await.map_err(failed)?;
        let said = ContentType::of(answer.content_type.as_deref());
        let read = readable(&answer, &said, context).await;
        if !(200..300).contains(&answer.status) {
            let words = read
                .map(|page| one_line(&format!("{} {}", page.title, page.text)))
                .unwrap_or_default();
            let status = format!("the server answered {}", status(answer.status));
            let words = text::shorten(words.trim(), FIRST_WORDS);
            return Err(others(if words.is_empty() {
                status
            } else {
                format!("{status}: {words}")
            }));
        }
        let page = read.map_err(|why| others(format!("{}: {why}", answer.url)))?;
        let text: Arc<str> = composed(&page, &answer.url).into();
        self.0
            .cache
            .put(url, &answer.url, text.clone(), Instant::now());
        Ok(text)
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
            let value = serde_json::from_str::<Value>(&text)
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
            let rest = pdf
                .broken_off
                .map(|why| format!("\n\n[… the rest could not be read: {why} …]"))
                .unwrap_or_default();
            Ok(plain(pdf.text + &rest))
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

    #[test]
    fn the_title_goes_first() {
        let page = |title: &str, text: &str| Page {
            title: title.into(),
            text: text.into(),
        };
        assert_eq!(
            composed(&page("T", "x"), "https://a.example/"),
            "# T\nhttps://a.example/\n\nx"
        );
        assert_eq!(
            composed(&page("", ""), "https://a.example/"),
            "https://a.example/\n\n[the page has no text]"
        );
    }
}
