use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::config::{Environment, Loaded, load};
use crate::message::{Sender, SessionKey};
use crate::prompt::{About, survey};
use crate::sys::atomic;
use crate::sys::atomic::Durability;

/// A home with files, whose settings are `toml`.
struct Place {
    dir: tempfile::TempDir,
    home: Home,
    sources: Sources,
}

impl Place {
    fn new(toml: &str, files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(dir.path());
        home.create().expect("directories");
        let sources = Sources::new(&home, Arc::new(Skills::new(&home, None)));
        let place = Self { dir, home, sources };
        place.put("agent.toml", toml);
        files.iter().for_each(|(path, text)| place.put(path, text));
        place
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("below")).expect("dir");
        atomic::write(&path, text.as_bytes(), Durability::Rename).expect("write");
    }

    fn loaded(&self) -> Loaded {
        load(&self.home, &Environment::default(), &[]).expect("good settings")
    }

    /// The system text for the only model there is, a line a block, without what is always there.
    fn system(&self, tier: Option<&str>, owners_alone: bool) -> Vec<String> {
        let loaded = self.loaded();
        let envelope = envelope(Source::Cli, tier);
        let blocks = self.sources.system(
            &loaded.config,
            &loaded.models,
            "primary",
            &envelope,
            owners_alone,
        );
        let base = blocks[0]
            .text
            .split("\n\n")
            .next()
            .expect("a sentence")
            .to_owned();
        let tier = |tier: Tier| {
            if tier == Tier::Stable {
                "stable"
            } else {
                "semi"
            }
        };
        blocks
            .iter()
            .map(|block| {
                format!(
                    "{}: {}",
                    tier(block.tier),
                    block.text.replace(&base, "").trim()
                )
            })
            .collect()
    }

    fn remarks(&self) -> Vec<(About, String)> {
        survey(&self.sources, &self.loaded())
            .into_iter()
            .map(|remark| (remark.about, remark.words))
            .collect()
    }
}

fn envelope(source: Source, tier: Option<&str>) -> Envelope {
    let sender = Sender {
        id: "x".into(),
        name: "x".into(),
        username: None,
    };
    let envelope = Envelope::new(
        "1".into(),
        source,
        sender,
        SessionKey("cli:x".into()),
        "hi".into(),
        0,
    );
    Envelope {
        tier: tier.map(str::to_owned),
        ..envelope
    }
}

const FILES: [(&str, &str); 9] = [
    ("workspace/SOUL.md", "soul"),
    ("workspace/AGENTS.md", "agents"),
    ("workspace/USER.md", "user"),
    ("workspace/MEMORY.md", "memory"),
    ("workspace/HEARTBEAT.md", "- item"),
    ("workspace/prompts/Memory.md", "keep"),
    ("workspace/notes/ops.md", "ops"),
    (
        "workspace/skills/b/SKILL.md",
        "---\nname: b\ndescription: Use for </skill> & \"b\".\n---\nDo b.",
    ),
    (
        "workspace/skills/a/SKILL.md",
        "---\nname: a\ndescription: x\nalways_on: true\n---\nAlways a.",
    ),
];

#[test]
fn a_brief_skill_is_listed_by_its_name() {
    let brief = |name: &str| format!("---\nname: {name}\ndescription: x\nbrief: true\n---\nDo it.");
    let place = Place::new(
        "",
        &[
            ("workspace/skills/mail/SKILL.md", &brief("mail")),
            ("workspace/skills/git/SKILL.md", &brief("git")),
        ],
    );
    let expected = "semi: # Skills\n\nBefore you do what one of these is for, read it with load_skill.\n\
                    <available_skills>\n<names>git mail</names>\n</available_skills>";
    assert_eq!(
        place.system(None, true).last().map(String::as_str),
        Some(expected)
    );
}

#[test]
fn the_system_text_has_its_pieces_in_a_fixed_order_and_the_owners_only_for_them() {
    let place = Place::new("", &FILES);
    let list = "# Skills\n\nBefore you do what one of these is for, read it with load_skill.\n<available_skills>\n<skill><name>b</name>\
                <description>Use for &lt;/skill&gt; &amp; \"b\".</description><location>skills/b/SKILL.md</location></skill>\n\
                </available_skills>";
    assert_eq!(
        place.system(None, true),
        [
            "stable: # SOUL.md\n\nsoul\n\n# AGENTS.md\n\nagents\n\n# USER.md\n\nuser".to_owned(),
            format!(
                "semi: # prompts/Memory.md\n\nkeep\n\n# Skill a\n\nAlways a.\n\n{list}\n\n# MEMORY.md\n\nmemory"
            ),
        ]
    );
    let for_others = [
        "stable: # SOUL.md\n\nsoul\n\n# AGENTS.md\n\nagents",
        "semi: # prompts/Memory.md\n\nkeep",
    ];
    assert_eq!(place.system(None, false), for_others);
    assert_eq!(place.system(None, true), place.system(Some("full"), true));
}

#[test]
fn a_tier_has_what_it_names_and_an_unknown_one_nothing() {
    let toml = "[context.tiers.ops]\nfiles = [\"notes/ops.md\", \"MEMORY.md\", \"SOUL.md\", \"none.md\"]\n[context.tiers.none]\n";
    let place = Place::new(toml, &FILES);
    let expected = [
        "stable: # notes/ops.md\n\nops\n\n# SOUL.md\n\nsoul",
        "semi: # MEMORY.md\n\nmemory",
    ];
    assert_eq!(place.system(Some("ops"), true), expected);
    assert_eq!(place.system(Some("ops"), false), expected[..1]);
    assert_eq!(place.system(Some("none"), true), ["stable: "]);
    assert_eq!(place.system(Some("unheard-of"), true), ["stable: "]);
    assert_eq!(
        place.system(Some("operational"), true),
        ["stable: # SOUL.md\n\nsoul\n\n# AGENTS.md\n\nagents\n\n# HEARTBEAT.md\n\n- item"]
    );
    place.put(
        "agent.toml",
        "[context.tiers.operational]\nfiles = [\"notes/ops.md\"]",
    );
    let Loaded { config, models, .. } = place.loaded();
    let of_event = place.sources.system(
        &config,
        &models,
        "primary",
        &envelope(Source::System, None),
        true,
    );
    assert!(
        of_event[0].text.ends_with("# notes/ops.md\n\nops"),
        "{of_event:?}"
    );
}

#[test]
fn the_memory_and_the_files_of_an_own_tier_are_the_owners_alone_but_for_what_every_home_has() {
    let toml = "[context.tiers.ops]\nfiles = [\"notes/ops.md\", \"USER.md\", \"SOUL.md\"]\n";
    let place = Place::new(toml, &FILES);
    let user = format!("{}\nAda takes insulin.\n", template("USER.md"));
    place.put("workspace/USER.md", &user);
    let Loaded { config, models, .. } = place.loaded();
    let own = |tier: &str| {
        let envelope = envelope(Source::Cli, Some(tier));
        let (sources, model) = (&place.sources, "primary");
        let (_, sections) = sources.sections(&config, &models, model, &envelope, true);
        let own = sections.into_iter().filter(|one| !one.own_words.is_empty());
        own.map(|one| (one.name, one.own_words.trim().to_owned()))
            .collect::<Vec<(String, String)>>()
    };
    let pair = |name: &str, words: &str| (name.to_owned(), words.to_owned());
    let user = pair("USER.md", "Ada takes insulin.");
    assert_eq!(own("full"), [user.clone(), pair("MEMORY.md", "memory")]);
    assert_eq!(own("ops"), [pair("notes/ops.md", "ops"), user]);
    assert_eq!(own("operational"), []);
}

#[test]
fn the_files_of_every_message_can_be_others() {
    let toml = "[agent]\nroles = [\"Memory\"]\n[context.tiers.full]\nfiles = [\"HEARTBEAT.md\", \"MEMORY.md\", \"USER.md\"]";
    let files = ["HEARTBEAT.md", "MEMORY.md", "SOUL.md"].map(|name| format!("workspace/{name}"));
    let texts = ["- item", "memory", "soul"];
    let files: Vec<(&str, &str)> = files.iter().map(String::as_str).zip(texts).collect();
    let place = Place::new(toml, &files);
    place.put("workspace/prompts/Memory.md", "what to keep");
    let user = |text: &str| place.put("workspace/USER.md", text);
    user(crate::workspace::template("USER.md"));
    let expected = [
        "stable: # HEARTBEAT.md\n\n- item",
        "semi: # prompts/Memory.md\n\nwhat to keep\n\n# MEMORY.md\n\nmemory",
    ];
    assert_eq!(
        place.system(None, true),
        expected,
        "nobody filled USER.md in"
    );
    user("Ada");
    assert!(place.system(None, true)[0].ends_with("# USER.md\n\nAda"));
    let others = place.system(None, false).join("\n");
    assert!(
        !others.contains("Ada") && !others.contains("# MEMORY.md"),
        "{others}"
    );
}

#[test]
fn prompts_come_for_the_model_then_for_the_roles_then_for_the_agent() {
    let toml = "[agent]\nname = \"ada\"\nroles = [\"Tone\", \"Memory\", \"None\"]\nconfig_path = [\"personas\"]";
    let place = Place::new(toml, &[]);
    for (path, text) in [
        ("personas/prompts/offline.md", "model"),
        ("workspace/prompts/Memory.md", "memory"),
        ("personas/prompts/Memory.md", "memory of all"),
        ("personas/agents/ada/prompts/Tone.md", "tone of ada"),
        ("personas/prompts/Tone.md", "tone of all"),
        ("personas/prompts/ada.md", "ada"),
    ] {
        place.put(path, text);
    }
    let semi = "semi: # prompts/offline.md\n\nmodel\n\n# prompts/Tone.md\n\ntone of ada\n\n# prompts/Memory.md\n\nmemory of all\n\n\
                # prompts/ada.md\n\nada";
    assert_eq!(place.system(None, true), ["stable: ", semi]);
    assert_eq!(place.system(None, false), ["stable: ", semi]);
    place.put("personas/agents/ada/prompts/Tone.md", "another");
    assert!(
        place.system(None, true)[1].contains("another"),
        "a change is seen"
    );
    assert_eq!(
        place.remarks(),
        [(
            About::Prompt,
            "agent.roles names None, but there is no prompts/None.md with text in it".to_owned()
        )]
    );
}

#[test]
fn more_than_a_quarter_of_the_window_is_cut_the_same_way_every_time_and_said() {
    let provider = "type = \"openai\"\nbase_url = \"http://127.0.0.1:9\"\n[models.primary]\nmodel = \"m\"\nmax_tokens = 1000\ncontext_window = 8000\n";
    let place = Place::new("[providers]\nload = [\"small\"]", &FILES);
    place.put("providers.d/small.toml", provider);
    assert_eq!(place.remarks(), []);
    place.put("workspace/SOUL.md", &"s".repeat(6_000));
    place.put("workspace/MEMORY.md", &"m".repeat(19_000));
    let blocks = place.system(None, true);
    let chars: usize = blocks.iter().map(|block| block.chars().count()).sum();
    assert!(
        (5_800..6_700).contains(&chars),
        "{chars} characters of 6,666"
    );
    assert!(
        blocks[0].contains("sss\n[… ")
            && blocks[1].contains("mmm\n[… ")
            && blocks[0].contains("# AGENTS.md\n\nagents")
    );
    assert_eq!(blocks, place.system(None, true));
    let words = "the prompt files have about 7577 tokens, and a quarter of the window of primary is 2000: SOUL.md, MEMORY.md are cut in \
                 every prompt";
    assert_eq!(place.remarks(), [(About::Cut, words.to_owned())]);

    // A model that answers in its place is sent the same.
    place.put("workspace/MEMORY.md", "memory");
    assert_eq!(place.remarks(), []);
    let other = "fallbacks = [\"other\"]\n[models.other]\nmodel = \"o\"\nmax_tokens = 100\ncontext_window = 4000\n";
    place.put("providers.d/small.toml", &format!("{provider}{other}"));
    assert!(
        place.remarks()[0]
            .1
            .contains("a quarter of the window of primary is 1000"),
        "{:?}",
        place.remarks()
    );
}

#[test]
fn what_is_wrong_with_the_files_is_said() {
    let toml = "[agent]\nconfig_path = [\"workspace/notes\", \"absent\"]\n[context.tiers.ops]\nfiles = [\"none.md\", \"notes\"]";
    let place = Place::new(toml, &FILES);
    place.put("workspace/AGENTS.md", "one\ntw\u{200b}o\u{200b}");
    place.put("workspace/skills/c/SKILL.md", "no head");
    let head = "---\nname: d\ndescription: x\nneed: y\n---\nDo it.";
    place.put("workspace/skills/d/SKILL.md", head);
    let remarks: Vec<String> = place
        .remarks()
        .into_iter()
        .map(|(about, words)| format!("{about:?} {words}"))
        .collect();
    let workspace = place.home.workspace().display().to_string();
    assert_eq!(
        remarks,
        [
            "Hidden AGENTS.md has an invisible character that the model reads: 2:3 U+200B, which has no width (and 1 more)"
                .to_owned(),
            format!("Prompt agent.config_path: {workspace}/notes is in the workspace, where the agent itself may write"),
            format!("Prompt agent.config_path: {} is not there", place.home.config_dir().join("absent").display()),
            "Tier context.tiers.ops names none.md, which is not there, or empty".to_owned(),
            "Tier context.tiers.ops names notes, which cannot be used: notes is a directory".to_owned(),
            "Skill the skill c is off: it does not begin with a head between two lines `---`".to_owned(),
            "Skill the skill d is not read as it is meant: it has the unknown key `need`".to_owned(),
        ]
    );
    assert!(
        place.system(None, true)[0].contains("tw\u{200b}o"),
        "the owner's files are not touched"
    );
}

#[test]
fn of_many_skills_the_first_hundred_are_listed() {
    let place = Place::new("", &[]);
    for number in 0..130 {
        let name = format!("s{number:03}");
        place.put(
            &format!("workspace/skills/{name}/SKILL.md"),
            &format!("---\nname: {name}\ndescription: x\n---\nb"),
        );
    }
    let system = place.system(None, true);
    assert_eq!(system[1].matches("<skill>").count(), 100);
    assert!(
        system[1].ends_with("[… 30 more are not listed …]\n</available_skills>"),
        "{}",
        system[1]
    );
    assert_eq!(
        place.remarks(),
        [(
            About::Skill,
            "there are 130 skills, and the prompt lists 100 of them".to_owned()
        )]
    );
}

#[test]
fn a_directory_that_is_no_home_has_no_system_text_but_a_name() {
    let home = Home::at(Path::new("/nowhere"));
    let sources = Sources::new(&home, Arc::new(Skills::new(&home, None)));
    let Loaded { models, .. } = Place::new("", &[]).loaded();
    let envelope = envelope(Source::Cli, None);
    assert_eq!(
        sources
            .system(&Config::default(), &models, "none", &envelope, true)
            .len(),
        1
    );
}

#[test]
fn a_model_has_the_prompt_of_its_name_its_family_or_its_provider() {
    let toml = "[providers]\nload = [\"cloud\"]\n";
    let provider = "type = \"openai\"\nbase_url = \"http://127.0.0.1:9\"\n\
                    [models.primary]\nmodel = \"google/gemini-2.5-pro\"\n";
    let place = Place::new(toml, &[("providers.d/cloud.toml", provider)]);
    assert_eq!(place.system(None, true), ["stable: "]);
    // Each later one is closer to the model.
    for name in ["OpenAI", "Cloud", "Gemini", "primary"] {
        place.put(&format!("workspace/prompts/{name}.md"), name);
        let semi = format!("semi: # prompts/{name}.md\n\n{name}");
        assert_eq!(place.system(None, true), ["stable: ".to_owned(), semi]);
    }
}

#[test]
fn a_persona_replaces_who_the_agent_is_and_not_what_the_marks_mean() {
    let place = Place::new("", &[("workspace/SOUL.md", "soul")]);
    let base = |tier: Option<&str>| {
        let loaded = place.loaded();
        let envelope = envelope(Source::Cli, tier);
        let (config, models) = (&loaded.config, &loaded.models);
        let blocks = place
            .sources
            .system(config, models, "primary", &envelope, true);
        blocks[0].text.clone()
    };
    assert!(base(None).starts_with("You are agent, a personal assistant"));
    place.put("workspace/prompts/Persona.md", "You are Ada, a pirate.\n");
    for tier in [None, Some("operational"), Some("none")] {
        let text = base(tier);
        assert!(
            text.starts_with("You are Ada, a pirate.\nText in ⟦ ⟧"),
            "{text}"
        );
        assert!(!text.contains("personal assistant"), "{text}");
    }
}
