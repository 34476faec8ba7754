//! The web: `web_fetch` reads a page, `web_search` searches. All requests go through the SSRF guard ([`crate::net::Guard`]),
//! and HTML is parsed in a process that can do nothing else.

mod cache;
mod content_type;
mod fetch;
mod readable;
mod search;

#[cfg(any(test, fuzzing))]
pub(crate) use readable::check_page;
pub use readable::{HTML_ARG, html_main};

pub(super) use fetch::WebFetch;
pub(super) use search::WebSearch;

use tokio::sync::Semaphore;

use crate::config;
use crate::net::{Guard, Rules};
use crate::secret::Secret;
use crate::text::HostPort;
use crate::trust::Provenance;

/// So many pages are fetched and read at one time: each may be large.
const PAGES: usize = 4;

/// What the tools of the web work with.
pub struct Web {
    guard: Guard,
    cache: cache::Cache,
    pages: Semaphore,
    /// Who searches; `None` when nobody does.
    search: Option<Search>,
    /// Hosts whose words count as the owner's.
    trusted_hosts: Vec<String>,
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
            trusted_hosts: Vec::new(),
        }
    }

    /// Takes the words of these hosts, `HOST` or `*.SUFFIX`, as the owner's.
    #[must_use]
    pub fn trusting(self, hosts: &[String]) -> Self {
        Self {
            trusted_hosts: hosts.to_vec(),
            ..self
        }
    }

    /// Returns where the words at an address come from; `None` for a host that the owner trusts.
    fn provenance(&self, url: &str) -> Option<Provenance> {
        let provenance = Provenance::of_url(url);
        let is_trusted = match &provenance {
            Provenance::Host(host) => {
                config::names_host(&self.trusted_hosts, HostPort::host_of(host))
            }
            _ => false,
        };
        (!is_trusted).then_some(provenance)
    }

    /// Returns whether somebody searches.
    pub fn searches(&self) -> bool {
        self.search.is_some()
    }
}
