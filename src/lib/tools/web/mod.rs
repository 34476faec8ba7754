//! The web: `web_fetch` reads a page, `web_search` finds some. Every byte goes through one guarded way out
//! ([`crate::net::Guard`]), and HTML is taken apart in a process that can do nothing else.

mod cache;
mod content_type;
mod fetch;
mod readable;
mod search;

pub use readable::{HTML_ARG, html_main};

pub(super) use fetch::WebFetch;
pub(super) use search::WebSearch;

use tokio::sync::Semaphore;

use crate::config;
use crate::net::{Guard, Rules};
use crate::secret::Secret;

/// So many pages are fetched and read at one time: each may be large.
const PAGES: usize = 4;

/// What the tools of the web work with.
pub struct Web {
    guard: Guard,
    cache: cache::Cache,
    pages: Semaphore,
    /// Who searches; `None` when nobody does.
    search: Option<Search>,
}

/// Who searches.
#[derive(Debug, Clone)]
struct Search {
    engine: config::SearchEngine,
    /// The address of its server, when the owner wrote one.
    url: Option<String>,
    key: Option<Secret>,
}

impl Web {
    /// Returns the web as `settings` want it; `key` is the secret that they name. Without a key that is
    /// needed nobody searches.
    pub fn new(settings: &config::Web, key: Option<Secret>) -> Self {
        let url = Some(settings.search_url.clone()).filter(|url| !url.is_empty());
        let works = match settings.search {
            config::SearchEngine::None => false,
            config::SearchEngine::Brave => key.is_some(),
            config::SearchEngine::Searxng => url.is_some(),
            config::SearchEngine::Duckduckgo => true,
        };
        Self {
            guard: Guard::new(Rules::new(&settings.ports, &settings.allow)),
            cache: cache::Cache::default(),
            pages: Semaphore::new(PAGES),
            search: works.then_some(Search {
                engine: settings.search,
                url,
                key,
            }),
        }
    }

    /// Returns whether somebody searches.
    pub fn searches(&self) -> bool {
        self.search.is_some()
    }
}
