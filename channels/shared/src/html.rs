//! Markdown as HTML.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd};

/// Returns Markdown as HTML that loads nothing: a picture from elsewhere would tell its server that it was seen, and
/// whatever words were put into its address. What is written as HTML is shown as it is written. A link to what `is_barred`
/// (an address in small letters) leads nowhere; `change` has the last word of each event.
pub fn html(
    markdown: &str,
    is_barred: impl Fn(&str) -> bool,
    change: impl Fn(Event<'_>) -> Event<'_>,
) -> String {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let safe = |url: CowStr<'_>| {
        let small = url.to_lowercase();
        let is_known = ["http://", "https://", "mailto:"]
            .iter()
            .any(|scheme| small.starts_with(scheme));
        is_known && !is_barred(&small)
    };
    let events = Parser::new_ext(markdown, options).map(|event| match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        Event::End(TagEnd::Image) => Event::End(TagEnd::Link),
        Event::Start(
            Tag::Image {
                dest_url,
                title,
                id,
                link_type,
            }
            | Tag::Link {
                dest_url,
                title,
                id,
                link_type,
            },
        ) => Event::Start(Tag::Link {
            dest_url: if safe(dest_url.clone()) {
                dest_url
            } else {
                "#".into()
            },
            title,
            id,
            link_type,
        }),
        Event::SoftBreak => Event::HardBreak,
        event => change(event),
    });
    let mut body = String::new();
    pulldown_cmark::html::push_html(&mut body, events);
    body
}
