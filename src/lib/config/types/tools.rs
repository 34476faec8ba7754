//! `[tools]`: what the agent may do. `[media]`: received files and speech programs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Network;

/// `[tools]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Tools {
    /// The tools on offer, by name; default: all that work here.
    pub enabled: Option<Vec<String>>,
    /// The most characters of a tool's result that reach the model, at least 1,000; default 30,000.
    pub max_output: usize,
    /// Directories in addition to the workspace that `read`, `write` and `edit` may use, absolute paths; default none.
    pub allowed_paths: Vec<PathBuf>,
    /// Whether a tool runs, by its name, a pattern of names (`"every_*"`), its tool server, or, for pages, the host
    /// (`"example.org"`, `"*.example.org"`), as `tools.exec.policy` says it of commands; default `sandboxed` for
    /// each.
    pub policies: BTreeMap<String, Policy>,
    /// Hosts whose content is trusted when a command or `web_fetch` reads it, `HOST` or `*.SUFFIX`, such as that of your
    /// own code; default none.
    pub trusted_hosts: Vec<String>,
    /// Commands.
    pub exec: Exec,
    /// Pages and searches.
    pub web: Web,
}

/// The most characters of a tool's result that reach the model when the settings say nothing (specification §7).
const MAX_OUTPUT: usize = 30_000;

impl Default for Tools {
    fn default() -> Self {
        Self {
            enabled: None,
            max_output: MAX_OUTPUT,
            allowed_paths: Vec::new(),
            policies: BTreeMap::new(),
            trusted_hosts: Vec::new(),
            exec: Exec::default(),
            web: Web::default(),
        }
    }
}

/// `[tools.web]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Web {
    /// Hosts whose pages may be read at any address, `HOST` or `HOST:PORT`, such as those of your own
    /// network; default none.
    pub allow: Vec<String>,
    /// The ports that pages are read from, 1 to 65535; default 80, 443, 8080, 8443.
    pub ports: Vec<u16>,
    /// Who searches; default `duckduckgo`.
    pub search: SearchEngine,
    /// The address of your SearXNG, or of a server that replaces another engine; default none.
    pub search_url: String,
    /// The name of the secret with the key for Brave; default `BRAVE_API_KEY`.
    pub search_key_env: String,
}

impl Default for Web {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            ports: vec![80, 443, 8080, 8443],
            search: SearchEngine::Duckduckgo,
            search_url: String::new(),
            search_key_env: "BRAVE_API_KEY".to_owned(),
        }
    }
}

/// Who searches the web.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchEngine {
    /// DuckDuckGo's page without scripts; needs no key.
    #[default]
    Duckduckgo,
    /// Brave's API; needs a key.
    Brave,
    /// A SearXNG at `search_url`.
    Searxng,
    /// Nobody.
    None,
}

/// `[tools.exec]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Exec {
    /// Whether commands run; default `sandboxed`.
    pub policy: Policy,
    /// What goes before `policy` for commands that look like one of these, the first that does; default
    /// none.
    pub patterns: Vec<Pattern>,
    /// The wall around a command; default `auto`.
    pub sandbox: Sandbox,
    /// Where a command may connect to; default `{ allow = [] }`, so to no host.
    pub network: Network,
    /// Seconds a command may take when the model names no limit, at least 1; default 120.
    pub timeout_secs: u64,
    /// The longest limit the model may name, seconds; default 600.
    pub max_timeout_secs: u64,
    /// The variables of our environment that a command sees; secrets are never among them;
    /// default `PATH LANG LC_ALL TZ TERM USER LOGNAME`.
    pub env: Vec<String>,
}

impl Default for Exec {
    fn default() -> Self {
        Self {
            policy: Policy::Sandboxed,
            patterns: Vec::new(),
            sandbox: Sandbox::Auto,
            network: Network::Hosts(Vec::new()),
            timeout_secs: 120,
            max_timeout_secs: 600,
            env: ["PATH", "LANG", "LC_ALL", "TZ", "TERM", "USER", "LOGNAME"]
                .map(str::to_owned)
                .to_vec(),
        }
    }
}

/// An entry of `tools.exec.patterns`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table such as { argv = [\"wc\", \"-l\", \"*\"], policy = \"allow\" }"
)]
pub struct Pattern {
    /// The program and its arguments; `*` stands for one argument, a last `**` for all that follow.
    pub argv: Vec<String>,
    /// Whether such a command runs.
    pub policy: Policy,
}

/// Whether a tool runs. The sandbox applies in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Yes; what untrusted text may have caused needs the owner's yes.
    #[default]
    Sandboxed,
    /// Each time after the owner's yes.
    Ask,
    /// Yes, whatever untrusted text is in the conversation.
    Allow,
    /// No; also written `deny`.
    #[serde(alias = "deny")]
    Off,
}

/// The wall around a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sandbox {
    /// The strongest this machine has; none at all means that commands are refused.
    #[default]
    Auto,
    /// bubblewrap.
    Bubblewrap,
    /// None: a command may do what you may do.
    Off,
}

/// `[media]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Media {
    /// The program that transcribes recordings, and its arguments: `{file}` is the recording, standard output the
    /// transcription. It takes precedence over `routing.speech_to_text`; default none.
    pub transcribe: Vec<String>,
    /// Files and directories in addition to the system's that this program may read, absolute paths; default
    /// none.
    pub transcribe_reads: Vec<PathBuf>,
    /// The program that synthesizes speech, and its arguments: `{text}` is a file with the text, `{out}` the file to
    /// write (OGG with Opus, MP3 or M4A). It takes precedence over `routing.text_to_speech`; default none.
    pub speak: Vec<String>,
    /// Files and directories in addition to the system's that this program may read, absolute paths; default
    /// none.
    pub speak_reads: Vec<PathBuf>,
    /// Days that received files are kept in `workspace/inbox`, at least 1; default 14.
    pub inbox_days: u64,
    /// The most megabytes of received files of one person who is not an owner; default 200.
    pub inbox_person_mb: u64,
    /// The same for one chat; default 500.
    pub inbox_chat_mb: u64,
    /// The same for all together; default 2,000.
    pub inbox_mb: u64,
    /// Megabytes of the disk that stay free for everything else, whatever comes or a command writes; default 512.
    pub reserve_mb: u64,
}

impl Default for Media {
    fn default() -> Self {
        Self {
            transcribe: Vec::new(),
            transcribe_reads: Vec::new(),
            speak: Vec::new(),
            speak_reads: Vec::new(),
            inbox_days: 14,
            inbox_person_mb: 200,
            inbox_chat_mb: 500,
            inbox_mb: 2_000,
            reserve_mb: 512,
        }
    }
}
