//! The skills of one agent, looked at again only when something below their directories changed.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::find::Tree;
use super::trust::{Candidate, candidates, read};
use super::{Learned, Needs, Off, Skill, SkillCatalog, Why, front_matter, hash};
use crate::config::Home;
use crate::sys::Version;
use crate::text;
use crate::trust::approved_hashes::{Approved, ApprovedHashes, Subject};

/// Skills that are off and named in the log each time they are looked at.
const MAX_LOGGED: usize = 10;

/// What comes with the programs changes only when they are installed again: it is compared once a minute, not with
/// every message.
const BUNDLED_EVERY: Duration = Duration::from_secs(60);

/// The skills of one agent.
#[derive(Debug)]
pub struct Skills {
    workspace: PathBuf,
    bundled: Option<PathBuf>,
    approved: ApprovedHashes,
    learned: Learned,
    seen: Mutex<Option<Seen>>,
}

#[derive(Debug)]
struct Seen {
    versions: Vec<(PathBuf, Option<Version>)>,
    /// Those of the skills that come with the programs, and when they were compared last.
    bundled: Vec<(PathBuf, Option<Version>)>,
    compared_at: Instant,
    /// Who may write to the workspace; what else is in it is no matter of skills.
    workspace: Option<(u32, u32)>,
    catalog: Arc<SkillCatalog>,
}

/// A skill as its owner is shown it, on or off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillStatus {
    /// Its name.
    pub name: String,
    /// Its SKILL.md.
    pub path: PathBuf,
    /// What it is for; empty when it is off.
    pub description: String,
    /// What it needs; nothing when it is off.
    pub needs: Needs,
    /// What its head says and is not read, a phrase each; nothing when it is off.
    pub mistakes: Vec<String>,
    /// Why it is off; `None` = it is on.
    pub off: Option<Why>,
    /// The hash over all its files, or why it has none.
    pub sha256: Result<String, String>,
    /// The names of the files that the hash is over, fit for a terminal.
    pub files: Vec<String>,
    /// The hash that is trusted.
    pub trusted: Option<String>,
    /// Whether somebody else could have written it: then only a hash makes it good.
    pub is_untrusted: bool,
}

/// A candidate and what its SKILL.md says, when it may be used.
type Judged<'a> = (Candidate<'a>, Result<front_matter::Contents, Why>);

impl Skills {
    /// Returns the skills of `home` and those in the files that come with the programs (`share`).
    pub fn new(home: &Home, share: Option<&Path>) -> Self {
        Self {
            workspace: home.workspace().to_owned(),
            bundled: share.map(|share| share.join("skills")),
            approved: ApprovedHashes::new(&home.trusted_skills(), Subject::Skills),
            learned: Learned::new(home),
            seen: Mutex::default(),
        }
    }

    /// Returns what the owner says about skills.
    pub(crate) fn approved(&self) -> &ApprovedHashes {
        &self.approved
    }

    /// Returns what is proposed, and what is counted.
    pub fn learned(&self) -> &Learned {
        &self.learned
    }

    /// Returns the skills that are there now. While nothing below the directories has changed that costs an
    /// lstat(2) for each file of the workspace's skills. Blocks. What is off is logged once.
    pub fn catalog(&self) -> Arc<SkillCatalog> {
        let mut seen = self.seen.lock();
        // Before the files are read: what changes from here on is another version.
        let workspace = self
            .workspace
            .metadata()
            .ok()
            .map(|metadata| (metadata.uid(), metadata.mode()));
        let now = Instant::now();
        let all_same = |versions: &[(PathBuf, Option<Version>)]| {
            versions
                .iter()
                .all(|(path, version)| version_of(path) == *version)
        };
        if let Some(seen) = seen.as_mut()
            && seen.workspace == workspace
            && all_same(&seen.versions)
        {
            let is_due = now.duration_since(seen.compared_at) >= BUNDLED_EVERY;
            if !is_due || all_same(&seen.bundled) {
                if is_due {
                    seen.compared_at = now;
                }
                return seen.catalog.clone();
            }
        }
        let with_version = |path: PathBuf| (path.clone(), version_of(&path));
        let roots = [self.own_dir(), self.approved.path().to_owned()].into_iter();
        let mut versions: Vec<(PathBuf, Option<Version>)> = roots.map(with_version).collect();
        let mut of_bundled: Vec<(PathBuf, Option<Version>)> =
            self.bundled.clone().into_iter().map(with_version).collect();
        let (own, bundled) = self.trees();
        versions.extend(own.versions());
        of_bundled.extend(bundled.versions());
        let catalog = Arc::new(self.fill(&own, &bundled));
        let told = seen.as_ref().map_or(&[][..], |seen| &seen.catalog.off);
        let news: Vec<&Off> = catalog
            .off
            .iter()
            .filter(|off| !told.contains(off))
            .collect();
        for off in news.iter().take(MAX_LOGGED) {
            let path = text::visible(&off.path.to_string_lossy());
            tracing::warn!(skill = text::visible(&off.name), path, why = %off.why, "a skill is disabled");
        }
        if news.len() > MAX_LOGGED {
            tracing::warn!(
                count = news.len(),
                "more skills are off: agent-send --skill list"
            );
        }
        *seen = Some(Seen {
            versions,
            bundled: of_bundled,
            compared_at: now,
            workspace,
            catalog: catalog.clone(),
        });
        catalog
    }

    /// Returns every skill, on or off, by name, with its hash. Blocks.
    pub fn statuses(&self) -> Vec<SkillStatus> {
        let (own, bundled) = self.trees();
        let trusted = self.approved.read();
        let words = trusted.as_ref();
        let status = |(candidate, contents): Judged<'_>| {
            let sum = read(candidate.entry)
                .map_err(|why| why.to_string())
                .and_then(|bytes| hash::of(candidate.tree, &candidate.dir, &bytes));
            let (sha256, files) = match sum {
                Ok((sha256, files)) => (Ok(sha256), files),
                Err(why) => (Err(why), Vec::new()),
            };
            let (description, needs, mistakes, off) = match contents {
                Ok(contents) => {
                    let front_matter::Contents {
                        description,
                        needs,
                        mistakes,
                        ..
                    } = contents;
                    (description, needs, mistakes, None)
                }
                Err(why) => (String::new(), Needs::default(), Vec::new(), Some(why)),
            };
            SkillStatus {
                is_untrusted: !candidate.bundled && candidate.untrusted(&self.workspace).is_some(),
                trusted: words
                    .ok()
                    .and_then(|words| words.get(&candidate.name)?.sha256.clone()),
                name: candidate.name,
                path: candidate.entry.path.clone(),
                description,
                needs,
                mistakes,
                off,
                sha256,
                files,
            }
        };
        let mut statuses: Vec<SkillStatus> = self
            .judged(&own, &bundled, &trusted)
            .into_iter()
            .map(status)
            .collect();
        statuses.extend(misspelt(&own).map(|off| SkillStatus {
            name: off.name,
            path: off.path,
            description: String::new(),
            needs: Needs::default(),
            mistakes: Vec::new(),
            off: Some(off.why),
            sha256: Err("it is not read".to_owned()),
            files: Vec::new(),
            trusted: None,
            is_untrusted: false,
        }));
        statuses.sort_by(|a, b| a.name.cmp(&b.name));
        statuses
    }

    /// Returns whether a skill of this name comes with the programs, hidden or not. Blocks.
    pub(super) fn bundled_has(&self, name: &str) -> bool {
        let (_, bundled) = self.trees();
        let mut files = bundled.skill_files().into_iter();
        files.any(|entry| entry.path.parent().and_then(Path::file_name) == Some(OsStr::new(name)))
    }

    fn own_dir(&self) -> PathBuf {
        self.workspace.join("skills")
    }

    fn trees(&self) -> (Tree, Tree) {
        (
            Tree::of(&self.own_dir()),
            self.bundled.as_deref().map(Tree::of).unwrap_or_default(),
        )
    }

    fn fill(&self, own: &Tree, bundled: &Tree) -> SkillCatalog {
        let mut skills: Vec<Skill> = Vec::new();
        let mut off: Vec<Off> = Vec::new();
        for (candidate, contents) in self.judged(own, bundled, &self.approved.read()) {
            let location = self.location(&candidate);
            let name = candidate.name;
            match contents {
                Ok(contents) => skills.push(Skill {
                    name,
                    description: contents.description,
                    always_on: contents.always_on,
                    brief: contents.brief,
                    needs: contents.needs,
                    examples: contents.examples,
                    mistakes: contents.mistakes,
                    ships: candidate.bundled,
                    location,
                    body: contents.body.into(),
                }),
                // That one of ours goes before a bundled one is no news.
                Err(Why::Taken(_)) if candidate.bundled => {}
                Err(why) => off.push(Off {
                    name,
                    path: candidate.entry.path.clone(),
                    why,
                }),
            }
        }
        let trouble = own
            .trouble
            .iter()
            .chain(&bundled.trouble)
            .map(|(path, why)| Off {
                name: path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
                path: path.clone(),
                why: Why::Wrong(why.clone()),
            });
        off.extend(trouble);
        off.extend(misspelt(own));
        skills.sort_by(|a, b| a.name.cmp(&b.name));
        SkillCatalog { skills, off }
    }

    /// Judges every SKILL.md, in the order in which they win.
    fn judged<'a>(
        &self,
        own: &'a Tree,
        bundled: &'a Tree,
        trusted: &Result<Approved, String>,
    ) -> Vec<Judged<'a>> {
        let mut wins: HashMap<String, String> = HashMap::new();
        let judge = |candidate: Candidate<'a>| {
            let contents = match wins.get(&candidate.name) {
                Some(winner) => Err(Why::Taken(winner.clone())),
                None => candidate.judge(&self.workspace, trusted),
            };
            // One that the owner keeps off hides a bundled one, too; one that is broken does not.
            let has_won = contents.as_ref().map_or_else(Why::is_about_trust, |_| true);
            if has_won {
                wins.insert(candidate.name.clone(), self.location(&candidate));
            }
            (candidate, contents)
        };
        candidates(own, bundled).into_iter().map(judge).collect()
    }

    fn location(&self, candidate: &Candidate<'_>) -> String {
        let path = &candidate.entry.path;
        let bundled = self
            .bundled
            .as_ref()
            .and_then(|dir| path.strip_prefix(dir).ok())
            .filter(|_| candidate.bundled);
        match (bundled, path.strip_prefix(&self.workspace)) {
            (Some(below), _) => format!("share/skills/{}", below.display()),
            (None, Ok(below)) => below.display().to_string(),
            (None, Err(_)) => path.display().to_string(),
        }
    }
}

/// Returns the skills that are off because nobody reads a file of that name.
fn misspelt(own: &Tree) -> impl Iterator<Item = Off> {
    own.misspelt_skill_files().map(|entry| {
        let file = entry.path.file_name().unwrap_or_default();
        let dir = entry.path.parent().and_then(Path::file_name);
        Off {
            name: dir.unwrap_or_default().to_string_lossy().into_owned(),
            path: entry.path.clone(),
            why: Why::Wrong(format!(
                "its file is called {}: rename it to SKILL.md",
                file.to_string_lossy()
            )),
        }
    })
}

fn version_of(path: &Path) -> Option<Version> {
    path.symlink_metadata()
        .ok()
        .map(|metadata| Version::of(&metadata))
}
