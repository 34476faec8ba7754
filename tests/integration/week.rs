//! A week of two personas by a clock that jumps: what partners write and what the models plan is in `week/script.txt`,
//! and what was really sent is the story of `docs/week.md`. With `WEEK=write` the test writes the story down.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::time::{Duration, Instant};

use chrono::{DateTime, Datelike, NaiveTime, TimeDelta, Utc};
use rusqlite::types::Value as SqlValue;
use serde_json::{Value, json};

use crate::support::{Clock, Daemon, FakeModel, FakeTelegram, Reply, Sandbox, wait_for};

const SCRIPT: &str = include_str!("week/script.txt");
const STORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/week.md");
const SOON: Duration = Duration::from_secs(60);
const GROUP: i64 = -100_500;
/// Who writes; Cleo is let in nowhere.
const PEOPLE: [(&str, i64); 3] = [("Ana", 1002), ("Ben", 1003), ("Cleo", STRANGER)];
const STRANGER: i64 = 1004;
/// How late a task may be on a busy machine, seconds of the clock that jumps.
const LATE: i64 = 90;
/// A picture of one pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xf8\xff\xff?\0\x05\xfe\x02\xfe\xa75\x81\x84\0\0\0\0IEND\xaeB`\x82";

/// A line of the script, at a time.
#[derive(Debug)]
enum Line {
    Says {
        who: &'static str,
        place: &'static str,
        words: &'static str,
    },
    Plans {
        who: &'static str,
        plan: &'static str,
    },
    Dies(&'static str),
}

/// Returns the lines of the script, each with its day of the week and its time.
fn script() -> Vec<(i64, NaiveTime, Line)> {
    let (mut day, mut time) = (-1, NaiveTime::MIN);
    let mut lines = Vec::new();
    for text in SCRIPT.lines().filter(|line| !line.is_empty()) {
        if text.starts_with("# ") {
            day += 1;
            continue;
        }
        if let Some((who, plan)) = text
            .strip_prefix("= ")
            .and_then(|rest| rest.split_once(' '))
        {
            lines.push((day, time, Line::Plans { who, plan }));
            continue;
        }
        let (at, rest) = text.split_at(9);
        if !at.trim().is_empty() {
            time = at.trim().parse().expect("a time");
        }
        let line = match rest.strip_prefix("! ") {
            Some(who) => Line::Dies(who),
            None => {
                let (who, rest) = rest.split_once(" > ").expect("who writes");
                let (place, words) = rest.split_once("  ").expect("what");
                Line::Says { who, place, words }
            }
        };
        lines.push((day, time, line));
    }
    lines
}

/// What a plan does in a chat, and when.
#[derive(Debug, Clone)]
struct Act {
    chat: i64,
    shown: String,
    at: DateTime<Utc>,
}

/// A persona with its bot and its model.
struct Persona {
    name: &'static str,
    daemon: Option<Daemon>,
    telegram: FakeTelegram,
    model: FakeModel,
    sandbox: Sandbox,
    clock: Clock,
    /// Requests to Telegram that were looked at.
    seen: usize,
    /// What it is about to do.
    open: VecDeque<Act>,
    /// Plans that were made, and pictures that were looked at.
    plans: usize,
    looks: Vec<&'static str>,
}

impl Persona {
    fn new(name: &'static str) -> Self {
        let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
        telegram.offer_stickers("Cats", &["😾", "😻"]);
        let personas = concat!(env!("CARGO_MANIFEST_DIR"), "/share/personas");
        let (sandbox, clock) = Sandbox::new()
            .with_telegram(&telegram)
            .with_anthropic(&model)
            .provider_config(
                "mock",
                "[models.eyes]\nmodel = \"eyes\"\nvision = true\ncost_per_mtok = [3.0, 15.0, 0.3, 3.75]",
            )
            .config(&format!(
                r#"
                [agent]
                name = "{name}"
                mode = "plan"
                plan_pause_ms = 200
                config_path = ["{personas}"]
                roles = ["Chat", "Remember"]
                [agent.stickers]
                sets = ["Cats"]
                [routing]
                vision = "eyes"
                [telegram]
                allow_from = [1002, 1003]
                [telegram.groups."{GROUP}"]
                allow_from = [1002, 1003]
                "#
            ))
            .with_clock();
        Self {
            name,
            daemon: None,
            telegram,
            model,
            sandbox,
            clock,
            seen: 0,
            open: VecDeque::new(),
            plans: 0,
            looks: Vec::new(),
        }
    }

    fn now(&self) -> DateTime<Utc> {
        Utc::now() + self.clock.ahead()
    }

    /// Sets the clock to a time, unless it is over.
    fn set(&mut self, time: DateTime<Utc>) {
        if let Ok(ahead) = (time - self.now()).to_std() {
            self.clock.later(ahead + Duration::from_secs(1));
        }
    }

    /// Waits until nothing is to be done at this time.
    fn rest(&self) {
        // The clock that jumps wakes nobody; somebody who is not let in does, and is not heard.
        self.telegram.say(9, 9, "knock");
        wait_for("a persona at rest", SOON, || {
            // What is due at once may be due a moment after it was looked for; what follows it is not known before.
            let soon = self.now().timestamp_millis() + 500;
            let open = format!(
                "SELECT 1 FROM inbox WHERE state IN ('pending', 'running')
                 UNION ALL SELECT 1 FROM outbox WHERE state IN ('pending', 'sending', 'unknown')
                 UNION ALL SELECT 1 FROM tasks WHERE state = 'ready' AND due_at <= {soon}"
            );
            let is_over = self.telegram.pending_updates() == 0
                && self.sandbox.query("queue", &open).is_empty();
            is_over.then_some(())
        });
    }

    /// Returns when its next task is due, once "typing" is shown.
    fn due(&self) -> Option<DateTime<Utc>> {
        let next = "SELECT due_at, kind IN ('send', 'sticker') FROM tasks WHERE state = 'ready' ORDER BY due_at LIMIT 1";
        let next = self.sandbox.query("queue", next).pop()?;
        let [SqlValue::Integer(at), SqlValue::Integer(is_typed)] = next.as_slice() else {
            panic!("{next:?}");
        };
        // On a machine that stalls for seconds a message may be due before "typing" is shown.
        let patience = Instant::now() + Duration::from_secs(3);
        while *is_typed == 1
            && self.telegram.calls_of("sendChatAction").len() <= self.telegram.sent().len()
            && Instant::now() < patience
        {
            std::thread::sleep(Duration::from_millis(3));
        }
        DateTime::from_timestamp_millis(*at)
    }

    /// Notes what a plan is about to do: a send takes 2 s and 1/60 s a sign, a sticker 4 s.
    fn expect(&mut self, chat: i64, plan: &str, mut at: DateTime<Utc>) {
        let tasks: Vec<Value> = serde_json::from_str(plan).expect("a plan");
        for task in &tasks {
            let word = |name: &str| task[name].as_str().unwrap_or_default();
            let (millis, shown) = match word("kind") {
                "wait" => (task["delay"].as_i64().expect("seconds") * 1000, None),
                "send" => {
                    let signs = i64::try_from(word("text").chars().count()).expect("few");
                    (2000 + signs * 1000 / 60, Some(word("text").to_owned()))
                }
                "sticker" => (4000, Some(format!("[sticker {}]", word("name")))),
                "react" => (0, Some(format!("[puts {} on it]", word("emoji")))),
                _ => continue,
            };
            at += TimeDelta::milliseconds(millis);
            self.open.extend(shown.map(|shown| Act { chat, shown, at }));
        }
    }

    /// Has the model answer what comes now; one that looks at a photo first does so once.
    fn teach(&mut self, words: &'static str, plan: &str) {
        if let Some(photo) = description(words).filter(|photo| !self.looks.contains(photo)) {
            self.looks.push(photo);
            self.model.push(Reply::Text(photo.to_owned()));
        }
        self.model.push(Reply::Text(plan.to_owned()));
    }
}

/// Returns what is in a photo of the script.
fn description(words: &'static str) -> Option<&'static str> {
    words.strip_prefix("[photo: ")?.strip_suffix(']')
}

/// Returns what a request shows to a chat, and where.
fn shown(method: &str, params: &Value) -> Option<(i64, String)> {
    let number = |value: &Value| value.as_i64().or_else(|| value.as_str()?.parse().ok());
    let chat = number(&params["chat_id"]).unwrap_or_default();
    let what = match method {
        "sendMessage" => params["text"]
            .as_str()?
            .replace("&#x27;", "'")
            .replace("&#39;", "'"),
        "sendSticker" => {
            let number = params["sticker"].as_str()?.strip_prefix("Cats-")?;
            format!("[sticker {}]", if number == "1" { "😾" } else { "😻" })
        }
        "setMessageReaction" => {
            let reaction = &params["reaction"];
            let text = reaction.as_str().map(str::to_owned);
            let text = text.unwrap_or_else(|| reaction.to_string());
            let list: Value = serde_json::from_str(&text).expect("reactions");
            format!("[puts {} on it]", list[0]["emoji"].as_str()?)
        }
        _ => return None,
    };
    Some((chat, what))
}

/// The week.
struct Week {
    begin: DateTime<Utc>,
    personas: [Persona; 2],
    /// The story of each day: time and line.
    story: BTreeMap<i64, Vec<(DateTime<Utc>, String)>>,
}

impl Week {
    fn persona(&mut self, name: &str) -> &mut Persona {
        let mut all = self.personas.iter_mut();
        all.find(|persona| persona.name == name).expect("a persona")
    }

    fn tell(&mut self, at: DateTime<Utc>, line: String) {
        let day = (at - self.begin).num_days();
        self.story.entry(day).or_default().push((at, line));
    }

    /// Lets time pass: what is due is done.
    fn until(&mut self, time: DateTime<Utc>) {
        loop {
            for at in 0..self.personas.len() {
                self.personas[at].rest();
                self.look(at);
            }
            let due = self.personas.iter().filter_map(Persona::due).min();
            let next = due.filter(|due| *due <= time);
            for persona in &mut self.personas {
                persona.set(next.unwrap_or(time));
            }
            if next.is_none() {
                return;
            }
        }
    }

    /// Takes what a persona has sent into the story.
    fn look(&mut self, at: usize) {
        let persona = &mut self.personas[at];
        let calls = persona.telegram.calls();
        let new: Vec<(i64, String)> = calls[persona.seen..]
            .iter()
            .filter_map(|call| shown(&call.method, &call.params))
            .collect();
        persona.seen = calls.len();
        let now = persona.now();
        for (chat, what) in new {
            let act = persona.open.pop_front();
            let act = act.unwrap_or_else(|| panic!("{} said unasked: {what}", persona.name));
            assert_eq!((act.chat, &act.shown), (chat, &what), "{}", persona.name);
            let late = (now - act.at).num_seconds();
            assert!((-1..LATE).contains(&late), "{late} s late: {what}");
            let line = told(persona.name, chat, &what);
            let day = (act.at - self.begin).num_days();
            self.story.entry(day).or_default().push((act.at, line));
        }
    }

    fn says(&mut self, at: DateTime<Utc>, (who, place, words): (&'static str, &str, &'static str)) {
        let id = PEOPLE
            .iter()
            .find(|(name, _)| *name == who)
            .expect("a person")
            .1;
        let chat = if place == "club" { GROUP } else { id };
        let line = told_by(who, place, words);
        self.tell(at, line);
        if id == STRANGER {
            self.tell(at, format!("{place} does not know {who}"));
        }
        for persona in &mut self.personas {
            if place != "club" && place != persona.name {
                continue;
            }
            let called = format!("@{}", persona.name);
            let calls = place == persona.name || words.contains(&called);
            if calls && id != STRANGER {
                // What it has not said is not said any more.
                let (gone, kept) = persona.open.drain(..).partition(|act| act.chat == chat);
                persona.open = kept;
                let gone: VecDeque<Act> = gone;
                for act in gone {
                    let line = told(
                        persona.name,
                        act.chat,
                        &format!("(not said: {})", act.shown),
                    );
                    self.story
                        .entry((at - self.begin).num_days())
                        .or_default()
                        .push((at, line));
                }
            }
            let from = json!({"id": id, "is_bot": false, "first_name": who});
            let chat = match place {
                "club" => json!({"id": chat, "type": "supergroup", "title": "Film club"}),
                _ => json!({"id": chat, "type": "private", "first_name": who}),
            };
            let mut message = json!({
                "message_id": persona.telegram.next_id(chat["id"].as_i64().expect("a number")),
                "date": at.timestamp(), "from": from, "chat": chat,
            });
            if let Some(photo) = description(words) {
                let file = persona.telegram.offer_file(PNG);
                let unique = format!("AgAD{}", photo.len());
                message["photo"] =
                    json!([{"file_id": file, "file_unique_id": unique, "width": 9, "height": 9}]);
            } else {
                let username = format!("@{}", persona.telegram.username());
                let text = words.replace(&called, &username);
                if text != *words {
                    message["entities"] =
                        json!([{"type": "mention", "offset": 0, "length": username.len()}]);
                }
                message["text"] = json!(text);
            }
            persona.telegram.inject(json!({"message": message}));
        }
    }

    fn plans(&mut self, at: DateTime<Utc>, chat: i64, who: &'static str, plan: &str) {
        let persona = self.persona(who);
        persona.plans += 1;
        persona.expect(chat, plan, at);
        if plan == "[]" {
            self.tell(at, format!("{who} stays silent"));
        }
    }
}

fn told_by(who: &str, place: &str, words: &str) -> String {
    let place = if place == "club" { "the club" } else { place };
    format!("{:<22}{words}", format!("{who} → {place}"))
}

fn told(persona: &str, chat: i64, what: &str) -> String {
    let partner = PEOPLE.iter().find(|(_, id)| *id == chat);
    let place = partner.map_or("the club", |(name, _)| name);
    told_by(persona, place, what)
}

/// Returns the Monday after the next day.
fn monday() -> DateTime<Utc> {
    let day = Utc::now().date_naive() + TimeDelta::days(2);
    let ahead = 7 - i64::from(day.weekday().num_days_from_monday());
    (day + TimeDelta::days(ahead))
        .and_time(NaiveTime::MIN)
        .and_utc()
}

#[test]
fn a_week_of_two_personas_is_a_story() {
    let begin = monday();
    let mut week = Week {
        begin,
        personas: ["mira", "tom"].map(Persona::new),
        story: BTreeMap::new(),
    };
    for persona in &mut week.personas {
        persona.set(begin);
        persona.daemon = Some(persona.sandbox.ready());
    }
    let mut chat = GROUP;
    let lines = script();
    for (number, (day, time, line)) in lines.iter().enumerate() {
        let at = begin + TimeDelta::days(*day) + time.signed_duration_since(NaiveTime::MIN);
        match *line {
            Line::Says { who, place, words } => {
                let id = PEOPLE
                    .iter()
                    .find(|(name, _)| *name == who)
                    .expect("a person")
                    .1;
                chat = if place == "club" { GROUP } else { id };
                if week.personas[0].now() < at {
                    week.until(at);
                }
                // Of several messages in a row the first may be enough to be asked.
                let before = number.checked_sub(1).and_then(|before| lines.get(before));
                let is_first =
                    !matches!(before, Some((d, t, Line::Says { .. })) if (d, t) == (day, time));
                if let Some((who, plan)) = plan_after(&lines, number).filter(|_| is_first) {
                    week.persona(who).teach(words, plan);
                }
                week.says(at, (who, place, words));
            }
            Line::Plans { who, plan } => week.plans(at, chat, who, plan),
            Line::Dies(who) => {
                week.until(at);
                let persona = week
                    .personas
                    .iter_mut()
                    .find(|persona| persona.name == who)
                    .expect("one");
                persona.daemon.take().expect("it runs").kill9();
                persona.daemon = Some(persona.sandbox.ready());
                week.tell(
                    at,
                    format!("the machine of {who} loses its power, and comes back"),
                );
            }
        }
    }
    week.until(begin + TimeDelta::days(7));
    for persona in &week.personas {
        check(persona);
    }
    privacy(&week.personas[0]);
    story(&week);
}

/// Returns the plan that answers a line of the script.
fn plan_after(
    lines: &[(i64, NaiveTime, Line)],
    number: usize,
) -> Option<(&'static str, &'static str)> {
    let (day, time, _) = &lines[number];
    let later = lines[number..].iter().skip(1);
    later
        .take_while(|(d, t, _)| (d, t) == (day, time))
        .find_map(|(_, _, line)| match line {
            Line::Plans { who, plan } => Some((*who, *plan)),
            _ => None,
        })
}

/// Every message was answered or deliberately not, with one call each; the ledger has what the model charged; nothing
/// was typed faster than a person types.
fn check(persona: &Persona) {
    let name = persona.name;
    assert!(persona.open.is_empty(), "{name}: {:?}", persona.open);
    let requests = persona.model.requests();
    assert_eq!(
        requests.len(),
        persona.plans + persona.looks.len(),
        "{name}"
    );
    assert_eq!(persona.model.forget(), 0, "{name}");
    let charged: i64 = persona
        .model
        .bill()
        .iter()
        .map(|charge| {
            let tokens = charge.usage.input * 3_000 + charge.usage.output * 15_000;
            i64::try_from(tokens).expect("little")
        })
        .sum();
    let paid = "SELECT sum(cost_nano_usd) FROM costs";
    assert_eq!(
        persona.sandbox.query("cost", paid),
        [[SqlValue::Integer(charged)]],
        "{name}"
    );
    assert!(charged > 0);
    let hasty = "SELECT id, task FROM tasks t WHERE state = 'done' AND kind IN ('send', 'sticker')
        AND finished_at - max(created_at, coalesce((SELECT max(b.finished_at) FROM json_each(t.depends_on) d
          JOIN tasks b ON b.run_id = t.run_id AND b.id = d.value), 0))
          < CASE kind WHEN 'sticker' THEN 4000 ELSE 2000 + length(task ->> '$.text') * 1000 / 60 END";
    assert_eq!(persona.sandbox.query("queue", hasty), [[]; 0], "{name}");
    let typed = "SELECT 1 FROM tasks WHERE state = 'done' AND kind IN ('send', 'sticker')";
    let typing = persona.telegram.calls_of("sendChatAction").len();
    assert!(
        typing * 5 >= persona.sandbox.query("queue", typed).len() * 4,
        "{name}: {typing}"
    );
    let dead = "SELECT 1 FROM inbox WHERE state = 'dead' UNION ALL SELECT 1 FROM outbox WHERE state = 'dead'";
    assert_eq!(persona.sandbox.query("queue", dead), [[]; 0], "{name}");
}

/// What Ana told in private is known in her chat, once, and not in the club.
fn privacy(mira: &Persona) {
    let about = "new job at the library";
    for request in mira
        .model
        .requests()
        .iter()
        .skip(1)
        .filter(|request| request["model"] != "eyes")
    {
        let text = request.to_string();
        let in_club = text.contains("A group chat");
        let times = text.matches(about).count();
        assert_eq!(times, usize::from(!in_club), "{text}");
    }
    let notes = mira
        .sandbox
        .read("workspace/memory/people/1002.episodes.md");
    let notes = notes.expect("notes");
    assert!(notes.contains(about) && notes.contains("grey"), "{notes}");
}

/// Compares the story with that of the documentation, day by day.
fn story(week: &Week) {
    let told: Vec<String> = week
        .story
        .values()
        .map(|day| {
            let mut day = day.clone();
            day.sort_by_key(|(at, _)| *at);
            let line = |(at, line): &(DateTime<Utc>, String)| {
                format!("{}  {line}\n", at.format("%H:%M:%S"))
            };
            day.iter().map(line).collect()
        })
        .collect();
    let document = std::fs::read_to_string(STORY).expect("the story");
    let mut parts: Vec<String> = document.split("```text\n").map(str::to_owned).collect();
    assert_eq!(parts.len(), told.len() + 1, "a block a day");
    if std::env::var_os("WEEK").is_some_and(|word| word == "write") {
        for (part, day) in parts.iter_mut().skip(1).zip(&told) {
            let after = part
                .split_once("```")
                .expect("the end of a block")
                .1
                .to_owned();
            *part = format!("{day}```{after}");
        }
        let document = parts.join("```text\n");
        let file = std::fs::File::options()
            .write(true)
            .truncate(true)
            .open(STORY);
        return file
            .and_then(|mut file| file.write_all(document.as_bytes()))
            .expect("the story is written");
    }
    let words: Vec<&str> = document.split_whitespace().collect();
    let [mira, tom] = &week.personas;
    let counted = format!(
        "Mira's model was asked {} times in the week and looked at {} picture, Tom's was asked {} times.",
        mira.plans,
        mira.looks.len(),
        tom.plans
    );
    assert!(words.join(" ").contains(&counted), "{counted}");
    for (part, day) in parts.iter().skip(1).zip(&told) {
        let known = part.split_once("```").expect("the end of a block").0;
        assert_eq!(known, day, "WEEK=write rewrites it");
    }
}
