//! Links and images: what Telegram can open is a link, any other target is spelled out behind the text.

use super::source::{clean_char, unmask};
use super::{Link, Writer, is_blank, units};

use std::ops::Range;

/// A link or image that is being written.
#[derive(Clone)]
pub(super) struct OpenLink {
    url: String,
    /// What a browser shows over it.
    title: String,
    /// Index into the flow's links, when Telegram can open it.
    pub(super) index: Option<usize>,
    /// Where its text begins, or the marker of a list that is due before it.
    start: usize,
    marker: String,
    /// It is inside another, which wins.
    nested: bool,
}

impl Writer<'_> {
    pub(super) fn open_link(&mut self, url: &str, title: &str) {
        let url: String = url.chars().map(unmask).filter_map(clean_char).collect();
        let nested = !self.links.is_empty();
        let linked = !nested
            && self.table.is_none()
            && opens_in_telegram(&url)
            && units(&url) <= self.max_url;
        let index = linked.then_some(self.flow.links.len());
        if linked {
            self.flow.links.push(Link {
                url: url.clone(),
                spelled: true,
            });
        }
        self.links.push(OpenLink {
            url,
            title: title.to_owned(),
            index,
            start: self.shown().len(),
            marker: self.marker.trim_start().to_owned(),
            nested,
        });
    }

    pub(super) fn close_link(&mut self, range: &Range<usize>) {
        let Some(link) = self.links.last().cloned() else {
            return;
        };
        let text = self.shown().get(link.start..).unwrap_or("").trim();
        let text = text.strip_prefix(&link.marker).unwrap_or(text);
        // As the address is cleaned, so that both compare.
        let text: String = text.chars().filter_map(clean_char).collect();
        let titled = !is_blank(&link.title) && !text.contains(&link.title);
        let named = text == link.url || link.url.strip_prefix("mailto:") == Some(text.as_str());
        if is_blank(&text) {
            self.put(&link.url, None, range.end);
        } else if let Some(linked) = link.index.and_then(|at| self.flow.links.get_mut(at)) {
            linked.spelled = !named;
        } else if !named && !link.nested && !is_blank(&link.url) {
            self.put(&format!(" ({})", link.url), None, range.end);
        }
        self.links.pop();
        if titled {
            self.put(&format!(" ({})", link.title), None, range.end);
        }
    }
}

/// Returns whether Telegram makes a link of `url`. It drops http links to a host without a dot, such as
/// `localhost` (`check_link_impl` in tdlib's LinkManager.cpp), and then the target would be lost.
fn opens_in_telegram(url: &str) -> bool {
    let (scheme, rest) = url.split_once(':').unwrap_or_default();
    let mut host = rest.trim_start_matches('/').split(['/', '?', '#']);
    let has_dot = |host: &str| host.contains(['.', '[']);
    let known = match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" => rest.starts_with("//") && host.next().is_some_and(has_dot),
        "tg" | "mailto" => !rest.is_empty(),
        _ => false,
    };
    known && !url.contains(char::is_whitespace)
}
