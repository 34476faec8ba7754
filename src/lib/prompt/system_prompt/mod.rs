//! The files on disk that the system text is made of, and the system text.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::window_share;
use super::window_share::{Body, Cut, Piece};
use crate::config::{Config, Home, Model, Models};
use crate::message::{Envelope, Source};
use crate::prompt::prompt_files::load::MAX_CHARS;
use crate::prompt::prompt_files::{Files, PromptFile, prompt_dirs};
use crate::provider::{SystemBlock, Tier};
use crate::skills::{Skill, SkillCatalog, Skills};
use crate::text;
use crate::workspace::{Marks, is_memory, template, without_template};

/// Skills that are listed: the names of more fill a prompt and help nobody.
pub(super) const MAX_LISTED: usize = 100;

/// What the words are called that are before all files.
const BASE: &str = "instructions";

/// The list of skills.
const SKILLS: &str = "Skills";

/// The prompt that replaces them.
const PERSONA: &str = "Persona";

/// What is said of the marks, no matter who the agent is.
const MARKS: &str = "Text in ⟦ ⟧ before a message is written by the system, not by the person.";

/// A part of the system text, for `--explain`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The file, `Skills`, or what it is.
    pub name: String,
    /// How long it stays the same.
    pub tier: Tier,
    /// Its estimated tokens.
    pub tokens: u64,
    /// Whether there was no room for all of it.
    pub cut: bool,
    /// What of it is the owner's alone, so that a search does not say it: the memory and files of a tier of one's own, but
    /// for what every new home has in them.
    pub own_words: String,
}

/// Everything on disk that the system text is made of; each file is read again when it changed.
#[derive(Debug)]
pub struct Sources {
    files: Files,
    skills: Arc<Skills>,
    workspace: PathBuf,
    config_dir: PathBuf,
    /// What was said in the log about cuts.
    told: Mutex<HashSet<String>>,
}

impl Sources {
    /// Returns those of `home`.
    pub fn new(home: &Home, skills: Arc<Skills>) -> Self {
        Self {
            files: Files::new(home.workspace()).without(Marks::new(&home.untrusted())),
            skills,
            workspace: home.workspace().to_owned(),
            config_dir: home.config_dir().to_owned(),
            told: Mutex::default(),
        }
    }

    /// Returns the system text for a turn, most stable first. What is the owner's alone (MEMORY.md,
    /// USER.md, skills) is only in a turn whose answer is read by nobody else (`owners_alone`).
    ///
    /// How much it is depends on the input's tier: `full` (everything), `operational` (SOUL, AGENTS,
    /// HEARTBEAT; the default of system events), one of the settings (which may also say what `full` and `operational` have), and nothing but who it is
    /// in any other. All together is at most a quarter of what the model called `model` reads, or the smallest of
    /// those that answer in its place.
    pub fn system(
        &self,
        config: &Config,
        models: &Models,
        model: &str,
        envelope: &Envelope,
        owners_alone: bool,
    ) -> Vec<SystemBlock> {
        self.sections(config, models, model, envelope, owners_alone)
            .0
    }

    /// Returns the system text, and what it is made of.
    pub fn sections(
        &self,
        config: &Config,
        models: &Models,
        model: &str,
        envelope: &Envelope,
        owners_alone: bool,
    ) -> (Vec<SystemBlock>, Vec<Section>) {
        let is_light = matches!(
            envelope.source,
            Source::System | Source::Heartbeat | Source::Subagent
        );
        let by_source = if is_light { "operational" } else { "full" };
        let tier = envelope.tier.as_deref().unwrap_or(by_source);
        let model = models.get(model, "a turn").ok();
        let mut pieces = self.pieces(config, model.as_deref(), tier, owners_alone);
        if envelope.source == Source::Subagent && tier == "operational" && owners_alone {
            pieces.extend(of_skills(&self.skills.catalog()));
        }
        let mut cut = Vec::new();
        if let Some(model) = model
            && let Some(found) = window_share::fit(&mut pieces, window(models, &model))
        {
            self.tell(&model, &found);
            cut = found.names;
        }
        let base = self.base(config);
        let is_own_tier = config.context.tiers.contains_key(tier);
        let is_own =
            |name: &str| is_memory(Path::new(name)) || is_own_tier && is_of_the_owner_alone(name);
        let section = |piece: &Piece| Section {
            name: piece.name.clone(),
            tier: piece.tier,
            tokens: text::estimate_tokens(&section(piece)),
            cut: cut.contains(&piece.name),
            own_words: match is_own(&piece.name) {
                true => without_template(&piece.name, &piece.body.text()).into_owned(),
                false => String::new(),
            },
        };
        let first = Section {
            name: BASE.to_owned(),
            tier: Tier::Stable,
            tokens: text::estimate_tokens(&base),
            cut: false,
            own_words: String::new(),
        };
        let mut sections: Vec<Section> = std::iter::once(first)
            .chain(pieces.iter().map(section))
            .collect();
        sections.sort_by_key(|section| section.tier);
        (blocks(base, &pieces), sections)
    }

    /// Returns what is cut of the most that a turn for `model` can have.
    pub(super) fn cut(&self, config: &Config, models: &Models, model: &Model) -> Option<Cut> {
        window_share::fit(
            &mut self.pieces(config, Some(model), "full", true),
            window(models, model),
        )
    }

    /// Returns the prompts for a model and for the roles of the settings, in order, by name; `None`
    /// where there is none.
    pub(super) fn prompts(
        &self,
        config: &Config,
        model: Option<&Model>,
    ) -> Vec<(String, Option<PromptFile>)> {
        let agent = &config.agent;
        let dirs = self.prompt_dirs(config);
        let of_model = model.and_then(|model| self.files.prompt_like(&dirs, &names_of(model)));
        let mut found: Vec<(String, Option<PromptFile>)> = of_model
            .map(|prompt| (stem(&prompt), Some(prompt)))
            .into_iter()
            .collect();
        for name in agent.roles.iter().chain([&agent.name]) {
            if !found.iter().any(|(known, _)| known == name) {
                found.push((name.clone(), self.files.prompt(&dirs, name)));
            }
        }
        found
    }

    /// Returns the prompt that says who the agent is, in place of our own words.
    pub(super) fn persona(&self, config: &Config) -> Option<PromptFile> {
        self.files.prompt(&self.prompt_dirs(config), PERSONA)
    }

    fn prompt_dirs(&self, config: &Config) -> Vec<PathBuf> {
        prompt_dirs(
            &self.workspace,
            &self.config_path(config),
            &config.agent.name,
        )
    }

    /// Returns the words before all files: the persona's, else ours; what the marks mean is always said.
    fn base(&self, config: &Config) -> String {
        match self.persona(config) {
            Some(persona) => format!("{}\n{MARKS}", persona.text),
            None => format!(
                "You are {}, a personal assistant that runs on its owner's machine. {MARKS} \
                 Answer in the person's language. Say what you did, not what you might have done.",
                config.agent.name
            ),
        }
    }

    /// Returns where descriptions of files are that somebody wrote, the first place first: for this agent, then for all.
    pub fn media_dirs(&self, config: &Config) -> Vec<PathBuf> {
        let dirs = self.config_path(config);
        let own = dirs
            .iter()
            .map(|dir| dir.join("agents").join(&config.agent.name).join("media"));
        own.chain(dirs.iter().map(|dir| dir.join("media")))
            .collect()
    }

    /// Returns the directories of `agent.config_path`, whole.
    pub fn config_path(&self, config: &Config) -> Vec<PathBuf> {
        config
            .agent
            .config_path
            .iter()
            .map(|dir| self.config_dir.join(dir))
            .collect()
    }

    /// Returns the skills.
    pub fn skills(&self) -> &Arc<Skills> {
        &self.skills
    }

    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    pub(super) fn workspace(&self) -> &Path {
        &self.workspace
    }

    pub(super) fn catalog(&self) -> Arc<SkillCatalog> {
        self.skills.catalog()
    }

    fn pieces(
        &self,
        config: &Config,
        model: Option<&Model>,
        tier: &str,
        owners_alone: bool,
    ) -> Vec<Piece> {
        let may_see = |file: &PromptFile| owners_alone || !file.is_the_owners();
        let of = |tier: Tier, files: Vec<PromptFile>| {
            files
                .into_iter()
                .filter(may_see)
                .map(move |file| piece(tier, file))
        };
        let own = config.context.tiers.get(tier).map(|own| {
            let files = self.files.at(&own.files).into_iter();
            files.partition(|file| file.name == "MEMORY.md")
        });
        match (tier, own) {
            ("full", own) => {
                let (memory, rest) =
                    own.unwrap_or_else(|| (self.files.semi_stable(), self.files.stable()));
                let prompts = self
                    .prompts(config, model)
                    .into_iter()
                    .filter_map(|(_, prompt)| prompt)
                    .collect();
                let mut pieces: Vec<Piece> = of(Tier::Stable, rest).collect();
                pieces.extend(of(Tier::SemiStable, prompts));
                if owners_alone {
                    pieces.extend(of_skills(&self.skills.catalog()));
                }
                // The agent itself changes it: what it goes before would be read again each time.
                pieces.extend(of(Tier::SemiStable, memory));
                pieces
            }
            (_, Some((memory, rest))) => of(Tier::Stable, rest)
                .chain(of(Tier::SemiStable, memory))
                .collect(),
            ("operational", None) => of(Tier::Stable, self.files.operational()).collect(),
            _ => Vec::new(),
        }
    }

    /// Says in the log what is cut, once.
    fn tell(&self, model: &Model, cut: &Cut) {
        let names = cut.names.join(", ");
        if self.told.lock().insert(format!("{} {names}", model.name)) {
            tracing::warn!(
                model = model.name,
                tokens = cut.tokens,
                budget = cut.budget,
                "cut in the prompt, because together they exceed a quarter of the model's context window: {names}"
            );
        }
    }
}

/// Returns how much the model reads, tokens, and those that are sent the same text when it fails.
fn window(models: &Models, model: &Model) -> u64 {
    let others = model
        .fallbacks
        .iter()
        .filter_map(|name| models.get(name, "a fallback").ok());
    others
        .map(|other| other.context_window)
        .fold(model.context_window, u64::min)
}

fn piece(tier: Tier, file: PromptFile) -> Piece {
    Piece {
        name: file.name,
        tier,
        body: Body::Text(file.text),
    }
}

/// Returns the texts of the skills that are always on, then the list of the others.
fn of_skills(catalog: &SkillCatalog) -> Vec<Piece> {
    let (on, listed): (Vec<&Skill>, Vec<&Skill>) =
        catalog.skills.iter().partition(|skill| skill.always_on);
    let whole = |skill: &Skill| Piece {
        name: format!("Skill {}", skill.name),
        tier: Tier::SemiStable,
        body: Body::Text(text::head_and_tail(&skill.body, MAX_CHARS, 70).into()),
    };
    let mut pieces: Vec<Piece> = on.into_iter().map(whole).collect();
    if !listed.is_empty() {
        pieces.push(Piece {
            name: SKILLS.to_owned(),
            tier: Tier::SemiStable,
            body: list(&listed),
        });
    }
    pieces
}

/// Returns the list of skills as models know it: XML, whatever a description says.
fn list(skills: &[&Skill]) -> Body {
    let entry = |skill: &&Skill| {
        let [name, words, location] =
            [&skill.name, &skill.description, &skill.location].map(|text| xml(text));
        format!(
            "<skill><name>{name}</name><description>{words}</description><location>{location}</location></skill>\n"
        )
    };
    let (brief, skills): (Vec<&Skill>, Vec<&Skill>) = skills.iter().partition(|skill| skill.brief);
    let names: Vec<&str> = brief.iter().map(|skill| skill.name.as_str()).collect();
    let names = match names.is_empty() {
        true => String::new(),
        false => format!("<names>{}</names>\n", names.join(" ")),
    };
    let more = skills.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 {
        format!("[… {more} more are not listed …]\n")
    } else {
        String::new()
    };
    Body::List {
        head: format!(
            "Before you do what one of these is for, read it with load_skill.\n<available_skills>\n{names}"
        ),
        entries: skills.iter().take(MAX_LISTED).map(entry).collect(),
        tail: format!("{more}</available_skills>"),
    }
}

fn xml(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Returns what a prompt for a model may be called, the closest first: the name the user gave it, its family
/// (`gemini` of `google/gemini-2.5-pro`), its provider, the provider's protocol.
fn names_of(model: &Model) -> Vec<String> {
    let id = model.model.rsplit('/').next().unwrap_or_default();
    let family: String = id.chars().take_while(|c| c.is_alphabetic()).collect();
    let provider = &model.provider;
    let names = [&model.name, &family, &provider.name, provider.kind.as_str()];
    names
        .into_iter()
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns the name of a prompt: `Memory` of `prompts/Memory.md`.
fn stem(prompt: &PromptFile) -> String {
    let file = prompt.name.trim_start_matches("prompts/");
    file.trim_end_matches(".md").to_owned()
}

/// Returns true for a piece that is neither instructions nor one of the files that every home has.
fn is_of_the_owner_alone(name: &str) -> bool {
    let is_skill = name == SKILLS || name.starts_with("Skill ");
    !is_skill && !name.starts_with("prompts/") && template(name).is_empty()
}

fn section(piece: &Piece) -> String {
    format!("# {}\n\n{}", piece.name, piece.body.text())
}

fn blocks(base: String, pieces: &[Piece]) -> Vec<SystemBlock> {
    let of = |tier: Tier| {
        pieces
            .iter()
            .filter(move |piece| piece.tier == tier)
            .map(section)
    };
    let stable: Vec<String> = std::iter::once(base).chain(of(Tier::Stable)).collect();
    let semi_stable: Vec<String> = of(Tier::SemiStable).collect();
    let block = |(tier, sections): (Tier, Vec<String>)| SystemBlock {
        tier,
        text: sections.join("\n\n"),
    };
    [(Tier::Stable, stable), (Tier::SemiStable, semi_stable)]
        .into_iter()
        .filter(|(_, sections)| !sections.is_empty())
        .map(block)
        .collect()
}

#[cfg(test)]
mod tests;
