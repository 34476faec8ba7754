//! `agent-consolidate forget`.

use std::io::IsTerminal;
use std::time::Duration;

use serde_json::json;

use super::commitments::commitment;
use super::run::{change_document, line};
use super::{Context, ForgetArguments, PROGRAM, joined, whose, why};
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::forget;
use crate::app::forget::{Alone, Erasing, Survey};
use crate::app::send::submit;
use crate::app::table;
use crate::app::table::Column;
use crate::control::Command;
use crate::memory::consolidate;
use crate::memory::consolidate::Named;
use crate::memory::facts::{Forgot, Target};
use crate::text;

/// Characters of a line that is shown.
const MAX_LINE: usize = 200;

/// So long a daemon may take to end its turns, erase and make the index anew.
const BY_DAEMON: Duration = Duration::from_secs(300);

pub(super) fn run(context: &Context<'_>, wanted: &ForgetArguments) -> Result<Exit, Failure> {
    let words = joined(Some(&wanted.what), &wanted.more).unwrap_or_default();
    if wanted.hard && !wanted.dry_run {
        forget::read_the_rest(&context.home, &context.env)?;
    }
    let target = target(context, &words, wanted.hard && !wanted.dry_run)?;
    if wanted.hard {
        return hard(context, wanted, &words, &target);
    }
    let forgot = match consolidate::forget(&context.home, &target, wanted.dry_run)? {
        Ok(forgot) => forgot,
        Err(pid) => return Err(forget::busy(pid)),
    };
    show_forgot(context, wanted, &forgot);
    if !wanted.dry_run {
        super::run::remind(context)?;
    }
    Ok(Exit::Ok)
}

fn show_forgot(context: &Context<'_>, wanted: &ForgetArguments, forgot: &Forgot) {
    if context.json {
        cli::json(&json!({
            "dry_run": wanted.dry_run, "changes": forgot.changes.iter().map(change_document).collect::<Vec<_>>(),
            "commitments": forgot.commitments.iter().map(commitment).collect::<Vec<_>>(), "episodes": forgot.episodes.len(),
        }));
        return;
    }
    forgot
        .changes
        .iter()
        .for_each(|change| cli::out(&line(change)));
    forgot.commitments.iter().for_each(|one| {
        cli::out(&text::visible(&format!(
            "- {} promised: {}",
            one.who, one.what
        )))
    });
    forgot
        .episodes
        .iter()
        .for_each(|one| cli::out(&text::visible(&format!("- {}  {}", one.date, one.summary))));
    context.note(match (forgot.is_empty(), wanted.dry_run) {
        (true, _) => "nothing of it counts now; what was said of it before stays forgotten",
        (false, true) => "this would be forgotten",
        (false, false) => {
            "forgotten, until it is stated anew; the lines that state it stand where they stood"
        }
    });
}

fn hard(
    context: &Context<'_>,
    wanted: &ForgetArguments,
    words: &str,
    target: &Target,
) -> Result<Exit, Failure> {
    let is_asked = !wanted.yes && !wanted.dry_run;
    if is_asked && (context.json || !std::io::stdin().is_terminal()) {
        return Err(Failure::new(
            Exit::Usage,
            "what is erased is gone for good, and nobody is here to be asked",
        )
        .hint("look with --dry-run, then say --yes"));
    }
    let home = &context.home;
    let erasing = Erasing::of(home, &context.env, target)?;
    let before = erasing.survey()?;
    if !context.json {
        let what = match target {
            Target::Fact(fact) => format!(
                "{}{} {}: {}",
                whose(fact),
                fact.entity,
                fact.attribute,
                fact.value
            ),
            Target::Person(person) => person
                .names
                .iter()
                .chain(&person.ids)
                .cloned()
                .collect::<Vec<_>>()
                .join(", "),
        };
        cli::out(&text::visible(&format!(
            "erased {}: {what}",
            if wanted.dry_run { "would be" } else { "is" }
        )));
        show(&before);
    }
    if wanted.dry_run {
        report(context, true, &before);
        return Ok(Exit::Ok);
    }
    if is_asked && !confirmed()? {
        context.note("nothing was erased");
        return Ok(Exit::Failed);
    }
    let told = match Alone::without_daemon(home)? {
        Some(alone) => erasing.erase(&alone)?.proved()?,
        None => by_daemon(context, words)?,
    };
    report(context, false, &before);
    context.note(&told);
    super::run::remind(context)?;
    Ok(Exit::Ok)
}

/// Has the daemon do it, which runs, and returns what it says.
fn by_daemon(context: &Context<'_>, words: &str) -> Result<String, Failure> {
    context
        .note("the daemon ends its turns and begins anew, to forget; that may take half a minute");
    let order = Command::Forget {
        target: words.to_owned(),
        hard: true,
    };
    let reply = submit::call(
        &context.home,
        &order,
        "it may still be erased: look with --dry-run",
        BY_DAEMON,
        true,
    )?;
    match reply.error {
        Some(why) => {
            Err(Failure::new(Exit::Failed, why).hint("agent-send --status shows the last trouble"))
        }
        None => Ok(reply.reply.unwrap_or_default()),
    }
}

fn show(survey: &Survey) {
    let rows: Vec<Vec<String>> = survey
        .counts
        .iter()
        .map(|(store, count)| vec![count.to_string(), store.clone()])
        .collect();
    table::lines(
        &[Column::right("COUNT"), Column::left("STORE")],
        &rows,
        table::room(),
    )
    .iter()
    .for_each(|line| cli::out(line));
    survey.notes.iter().for_each(|line| {
        cli::out(&format!(
            "- {}",
            text::visible(&text::shorten(line, MAX_LINE))
        ))
    });
    survey.left.iter().for_each(|(path, why)| {
        cli::out(&text::visible(&format!("left as it is: {path} ({why})")))
    });
}

fn report(context: &Context<'_>, dry_run: bool, before: &Survey) {
    if context.json {
        let left: Vec<_> = before
            .left
            .iter()
            .map(|(path, why)| json!({"path": path, "why": why}))
            .collect();
        cli::json(&json!({
            "dry_run": dry_run, "hard": true, "erased": before.counts, "notes": before.notes, "left": left, "searched": before.searched,
        }));
    }
}

/// Asks on the terminal.
fn confirmed() -> Result<bool, Failure> {
    cli::err("Erase this for good? [y/N]");
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .map_err(|error| Failure::new(Exit::Io, format!("cannot read your answer: {error}")))?;
    Ok(["y", "yes"].contains(&line.trim().to_lowercase().as_str()))
}

/// Returns whom or what `words` mean.
fn target(context: &Context<'_>, words: &str, hard: bool) -> Result<Target, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, text::visible(&message));
    match forget::meant(&context.home, &context.env, words)? {
        Named::One(target) => Ok(target),
        Named::Several(many) => Err(why::several("forget", words, &many)),
        Named::People(several) => {
            Err(usage(format!("`{words}` may be several people")).hint(several.join(", ")))
        }
        Named::Both(fact) => Err(
            usage(format!("`{words}` is a person and a fact")).hint(format!(
                "{PROGRAM} forget person:{words} or {PROGRAM} forget '#{}'",
                fact.id
            )),
        ),
        Named::Owner => Err(
            usage("that is you: the agent cannot forget its owner".to_owned())
                .hint(format!("{PROGRAM} facts")),
        ),
        Named::Nothing => {
            // What a run was killed at when all but this was done.
            if hard {
                forget::wring_out(&context.home)?;
            }
            Err(Failure::new(Exit::Failed, text::visible(&format!("there is no fact and no person `{words}`"))).hint(format!(
                "{PROGRAM} facts shows them all; person:NAME is whoever is called so, also where no fact is known"
            )))
        }
    }
}
