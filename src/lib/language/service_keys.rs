//! Keys of well-known services.

/// How they begin.
const KEYS: [&str; 11] = [
    "sk-",
    "pk-",
    "ghp_",
    "gho_",
    "github_pat",
    "AKIA",
    "xoxb",
    "xoxp",
    "eyJ",
    "glpat",
    "AIza",
];

/// Returns true when `word` begins as a key of a well-known service does.
pub(crate) fn looks_like_key(word: &str) -> bool {
    KEYS.iter().any(|start| word.starts_with(start))
}
