//! A cache of recently read pages, so that continuing in a page needs no new request.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a page is kept.
const KEPT: Duration = Duration::from_secs(15 * 60);
/// How many are.
const MAX_PAGES: usize = 32;
/// Bytes of all of them.
const MAX_BYTES: usize = 16 << 20;

struct Page {
    /// Where it came from, and what was asked for: a redirect leads from one to the other.
    urls: [String; 2],
    text: Arc<str>,
    at: Instant,
}

/// The pages, oldest first.
#[derive(Default)]
pub(super) struct Cache(Mutex<VecDeque<Page>>);

impl Cache {
    /// Returns the text of the page that this address last led to, not long before `now`, and where it is.
    pub(super) fn get(&self, url: &str, now: Instant) -> Option<(Arc<str>, String)> {
        let pages = self.0.lock();
        let fresh = pages.iter().rev().find(|page| {
            page.urls.iter().any(|known| known == url) && now.duration_since(page.at) < KEPT
        });
        fresh.map(|page| (page.text.clone(), page.urls[0].clone()))
    }

    /// Keeps a page instead of what was kept of it before.
    pub(super) fn put(&self, asked: &str, url: &str, text: Arc<str>, now: Instant) {
        let urls = [url.to_owned(), asked.to_owned()];
        let mut pages = self.0.lock();
        pages.retain(|page| {
            page.urls[0] != url && page.urls[1] != asked && now.duration_since(page.at) < KEPT
        });
        pages.push_back(Page {
            urls,
            text,
            at: now,
        });
        let mut bytes: usize = pages.iter().map(|page| page.text.len()).sum();
        while pages.len() > MAX_PAGES || bytes > MAX_BYTES {
            let Some(oldest) = pages.pop_front() else {
                break;
            };
            bytes -= oldest.text.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_by_both_its_addresses_until_it_is_old_or_pushed_out() {
        let (cache, now) = (Cache::default(), Instant::now());
        let text = |cache: &Cache, url: &str, at: Instant| {
            cache.get(url, at).map(|(text, _)| text.to_string())
        };
        cache.put("a", "b", "one".into(), now);
        assert_eq!(
            (text(&cache, "a", now), text(&cache, "b", now)),
            (Some("one".into()), Some("one".into()))
        );
        assert_eq!(text(&cache, "a", now + KEPT), None);
        cache.put("a", "c", "two".into(), now);
        assert_eq!(
            (text(&cache, "a", now), text(&cache, "b", now)),
            (Some("two".into()), None)
        );
        cache.put("d", "a", "three".into(), now);
        assert_eq!(
            (text(&cache, "a", now), text(&cache, "c", now)),
            (Some("three".into()), Some("two".into()))
        );
        for number in 0..MAX_PAGES {
            cache.put(&number.to_string(), &number.to_string(), "x".into(), now);
        }
        assert_eq!(
            (text(&cache, "a", now), text(&cache, "0", now)),
            (None, Some("x".into()))
        );
        cache.put("big", "big", "y".repeat(MAX_BYTES - 3).into(), now);
        let kept: Vec<bool> = [30, 29, 28]
            .iter()
            .map(|n: &i32| cache.get(&n.to_string(), now).is_some())
            .collect();
        assert_eq!(kept, [true, true, false]);
    }
}
