//! Links and images: what Telegram can open is a link, any other target is spelled out behind the text.

use super::source::{clean_char, unmask};
use super::{Link, Writer, is_blank, units};

use std::ops::Range;

/// A link or image that is being written.
pub(super) struct OpenLink {
    url: String,
    /// What a browser shows over it.
    title: String,
    /// Index into the flow's links, when Telegram can open it.
    pub(super) index: Option<usize>,
    /// Where its text begins.
    start: usize,
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
            nested,
        });
    }

    pub(super) fn close_link(&mut self, range: &Range<usize>) {
        let Some(link) = self.links.last() else {
            return;
        };
        let (url, title, index, nested) = (
            link.url.clone(),
            link.title.clone(),
            link.index,
            link.nested,
        );
        let text = self.shown().get(link.start..).unwrap_or("").trim();
        let told = is_blank(&title) || text.contains(title.as_str());
        let named = text == url || url.strip_prefix("mailto:") == Some(text);
        if is_blank(text) {
            self.put(&url, None, range.end);
        } else if let Some(link) = index.and_then(|index| self.flow.links.get_mut(index)) {
            link.spelled = !named;
        } else if !named && !nested && !is_blank(&url) {
            self.put(&format!(" ({url})"), None, range.end);
        }
        self.links.pop();
        if !told {
            self.put(&format!(" ({title})"), None, range.end);
        }
    }
}

/// Returns whether Telegram makes a link of `url`. It drops http links to a host without a dot, such as
/// `localhost` (`check_link_impl` in tdlib's LinkManager.cpp), and then the target would be lost.
fn opens_in_telegram(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once(':') else {
        return false;
    };
    let host = rest
        .trim_start_matches('/')
        .split(['/', '?', '#'])
        .next()
        .unwrap_or("");
    let known = match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" => rest.starts_with("//") && host.contains(['.', '[']),
        "tg" | "mailto" => !rest.is_empty(),
        _ => false,
    };
    known && !url.contains(char::is_whitespace)
}
