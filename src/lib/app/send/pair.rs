//! `--pair`: who may talk in Telegram. Works without a daemon, under the lock of people.json; a
//! running daemon reads the file again.

use serde_json::{Value, json};

use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::render::Context;
use crate::clock;
use crate::config;
use crate::jobs::{self, Job};
use crate::logging;
use crate::message::Address;
use crate::people::{Person, Store};
use crate::text;

const NO_OWNER: &str = "\nnobody is an owner now: the agent obeys nobody in chats; make an owner: agent-send --pair owner";

pub(super) fn pair(context: &Context<'_>, words: &[String]) -> Result<Exit, Failure> {
    let home = context.home;
    if words.first().is_some_and(|verb| verb != "list") {
        cli::may_write(home)?;
    }
    if !home.state().is_dir() {
        home.create()?;
    }
    // That the file is damaged must be seen.
    let _guard = logging::init(&logging::Options::stderr_only(false));
    let store = Store::new(&home.people());
    let now = clock::now_ms();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | ["list"] => list(context, &store),
        ["approve", code] => match store.change(|people| people.approve(code, now))? {
            Some(person) => Ok(context.done(
                &json!({"approved": person.id, "name": person.name}),
                &format!("{} ({}) may talk now", person.name, person.id),
            )),
            None => Err(Failure::failed(format!("no request {code:?}"))
                .hint("agent-send --pair lists the requests; a code is valid for one hour")),
        },
        [verb @ ("block" | "unblock" | "mute" | "unmute"), id] => {
            let address = person(&store, id)?;
            let (on, block) = (!verb.starts_with("un"), verb.ends_with("block"));
            if on && store.read()?.is_owner(&settings(context), &address) {
                return Err(Failure::failed(format!("{address} is an owner, and owners are always heard and answered; nothing was changed"))
                    .hint(match settings(context).is_owner(&address) {
                        true => in_settings(context, &address),
                        false => format!("take the ownership back first: agent-send --pair revoke {address}"),
                    }));
            }
            let changed = store.change(|people| if block { people.block(&address, on) } else { people.mute(&address, on) })?;
            let state = match (block, on) {
                (true, true) if !changed => "is blocked",
                (true, false) if !changed => "is unblocked",
                (false, true) if !changed => "is muted",
                (false, false) if !changed => "is unmuted",
                (true, true) => "is refused from now on",
                (true, false) => "is not refused any more",
                (false, true) => "is heard in groups and not answered from now on",
                (false, false) => "is answered again",
            };
            let told = if on && block { still_told(context, &address) } else { String::new() };
            let text = if changed { format!("{address} {state}{told}") } else { format!("nothing changed: {address} {state} already") };
            Ok(context.done(&json!({(*verb): address, "changed": changed}), &text))
        }
        ["revoke", id] => {
            let address = person(&store, id)?;
            let was_owner = store.read()?.is_owner(&settings(context), &address);
            if store.change(|people| people.revoke(&address))? {
                let (people, config) = (store.read()?, settings(context));
                let words = if people.is_owner(&config, &address) || people.is_let_in(&config, &address) {
                    format!("{address} is not let in by pairing any more, and may still talk: agent.toml names them; {}", in_settings(context, &address))
                } else {
                    format!("{address} may not talk any more{}", still_told(context, &address))
                };
                let words = words + if was_owner && people.first_owner(&config).is_none() { NO_OWNER } else { "" };
                return Ok(context.done(&json!({"revoked": address}), &words));
            }
            Err(not_paired(context, &address))
        }
        ["owner"] => {
            let code = store.change(|people| people.new_owner_code(now))?;
            context.done(&json!({"owner_code": code}), &code);
            cli::err("send this code to your bot within 10 minutes, as a message: it makes you its owner");
            if config::load_config(home, context.env).is_ok_and(|config| !config.telegram.enabled) {
                cli::err("warning: the bot does not run: set `enabled = true` in [telegram] of agent.toml, its token in .env, and restart the daemon");
            }
            Ok(Exit::Ok)
        }
        _ => Err(Failure::usage("--pair takes list, approve CODE, revoke ID, owner, block ID, unblock ID, mute ID or unmute ID",
        )
        .hint("agent-send --pair --help")),
    }
}

/// Returns why somebody cannot be taken back.
fn not_paired(context: &Context<'_>, address: &Address) -> Failure {
    let config = settings(context);
    let what = format!("{address} was not let in by pairing");
    match config.is_owner(address) || config.is_allowed(address) {
        true => Failure::failed(format!(
            "{what}: agent.toml names them, and they may still talk"
        ))
        .hint(in_settings(context, address)),
        false => Failure::failed(what).hint("agent-send --pair list shows who was"),
    }
}

/// Returns how somebody is kept out whom the settings name.
fn in_settings(context: &Context<'_>, address: &Address) -> String {
    let fifo = context.home.fifo();
    format!(
        "take {address} out of `owner` and `allow_from` in {}, then: echo '{{\"cmd\":\"reload\"}}' > {}",
        context.home.config_file().display(),
        fifo.display()
    )
}

/// Returns which jobs go to somebody who may not talk any more all the same: those that they did not ask for themselves.
fn still_told(context: &Context<'_>, address: &Address) -> String {
    let Ok(known) = jobs::read(&context.home.jobs()) else {
        return String::new();
    };
    let of_theirs = |id: &String| Address::parse(id).as_ref() == Some(address);
    let is_told = |job: &&Job| {
        job.enabled
            && job.to.as_ref().is_some_and(of_theirs)
            && !job.by.as_ref().is_some_and(of_theirs)
    };
    let line = |job: &Job| {
        format!(
            "\nThis job still goes to them: {} ({}); agent-send --job remove {}",
            job.name,
            job.schedule_text(),
            job.id
        )
    };
    known.iter().filter(is_told).map(line).collect()
}

/// Returns the settings; broken ones name nobody, as for a daemon that they keep from starting.
fn settings(context: &Context<'_>) -> config::Config {
    config::load_config(context.home, context.env).unwrap_or_default()
}

/// Returns whom an address, an @username or a name means.
fn person(store: &Store, who: &str) -> Result<Address, Failure> {
    if let Some(id) = Address::parse(who) {
        return Ok(id);
    }
    match store.read()?.find(who).as_slice() {
        [one] => Ok(one.id.clone()),
        [] => {
            let what = format!("no person {:?}", text::visible(who));
            Err(Failure::failed(what).hint("agent-send --pair lists them"))
        }
        several => {
            let ids: Vec<String> = several.iter().map(|one| one.id.to_string()).collect();
            let what = format!("{:?} may be several people", text::visible(who));
            Err(Failure::usage(what).hint(format!("use an id: {}", ids.join(", "))))
        }
    }
}

fn list(context: &Context<'_>, store: &Store) -> Result<Exit, Failure> {
    let people = store.read()?;
    let config = settings(context);
    let (owners, allowed) = (config.owners(), config.allowed());
    if context.json {
        let mut document = serde_json::to_value(&*people).unwrap_or_default();
        if let Some(fields) = document.as_object_mut() {
            // A code is for who asked for it.
            fields.remove("owner_code");
            fields.remove("link_codes");
            for (list, time) in [
                ("owners", "since"),
                ("allowed", "since"),
                ("linked", "since"),
                ("pending", "at"),
            ] {
                with_dates(fields.get_mut(list), time);
            }
            fields.insert(
                "settings".to_owned(),
                json!({"owners": owners, "allowed": allowed}),
            );
        }
        cli::json(&document);
        return Ok(Exit::Ok);
    }
    let mut lines: Vec<String> = Vec::new();
    for (state, persons) in [("owner", &people.owners), ("allowed", &people.allowed)] {
        let line = |one: &Person| format!("{state:<7}  {}  {}", one.id, one.name);
        lines.extend(persons.iter().map(line));
    }
    let name = |id: &Address| {
        people
            .contacts
            .iter()
            .find(|contact| contact.id == *id)
            .map_or("", |contact| contact.name.as_str())
    };
    for (state, ids) in [("owner", &owners), ("allowed", &allowed)] {
        let is_first = |id: &&Address| state == "owner" || !owners.contains(id);
        for id in ids.iter().filter(is_first) {
            let line = format!("{state:<7}  {id}  {}", name(id));
            lines.push(format!("{}  (in agent.toml)", line.trim_end()));
        }
    }
    for one in &people.linked {
        let (id, name, first) = (&one.id, &one.name, &one.first);
        lines.push(format!("linked   {id}  {name}  with {first}"));
    }
    for (state, ids) in [("blocked", &people.blocked), ("muted", &people.muted)] {
        for id in ids {
            let line = format!("{state:<7}  {id}  {}", name(id));
            lines.push(line.trim_end().to_owned());
        }
    }
    for pending in &people.pending {
        lines.push(format!(
            "asks     {}  {}  code {}  since {}",
            pending.id,
            pending.name,
            pending.code,
            clock::rfc3339(pending.at)
        ));
    }
    if lines.is_empty() {
        cli::err("agent-send: nobody is paired, and there are no requests");
    }
    lines.iter().for_each(|line| cli::out(line));
    Ok(Exit::Ok)
}

/// Makes the milliseconds of the field `time` of each entry a date, as all documents have it.
fn with_dates(list: Option<&mut Value>, time: &str) {
    for entry in list.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(ms) = entry[time].as_i64() {
            entry[time] = clock::rfc3339(ms).into();
        }
    }
}
