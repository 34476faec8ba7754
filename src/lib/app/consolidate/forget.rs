//! `agent-consolidate forget`.

use std::io::IsTerminal;
use std::time::Duration;

use serde_json::json;

use super::{Context, ForgetArguments, PROGRAM, choices, documents, joined, run as runs};
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::send::submit;
use crate::app::table;
use crate::app::table::Column;
use crate::control::Command;
use crate::forget;
use crate::forget::{Erasure, Locks, Named, Survey};
use crate::memory::consolidate;
use crate::memory::facts::{Forgot, Target};
use crate::text;

/// Characters of a line that is shown.
const MAX_LINE: usize = 200;

/// So long a daemon may take to end its turns, erase and make the index again.
const DAEMON_TIMEOUT: Duration = Duration::from_secs(300);

pub(super) fn run(context: &Context<'_>, wanted: &ForgetArguments) -> Result<(), Failure> {
    let words = joined(&wanted.what, &wanted.more);
    let erases = wanted.hard && !wanted.dry_run;
    if !wanted.dry_run {
        forget::read_rest(context.home, context.env)?;
    }
    let target = target(context, &words, erases)?;
    if wanted.hard {
        return hard(context, wanted, &words, &target);
    }
    let forgot = consolidate::forget(context.home, &target, wanted.dry_run)?;
    show_forgot(context, wanted, &forgot.map_err(forget::busy)?);
    if wanted.dry_run {
        return Ok(());
    }
    runs::remind(context);
    Ok(())
}

/// Returns whom or what `words` mean.
fn target(context: &Context<'_>, words: &str, erases: bool) -> Result<Target, Failure> {
    let fail = |exit, message: &str| Failure::new(exit, text::visible(message));
    match forget::meant(context.home, context.env, words)? {
        Named::One(target) => Ok(target),
        Named::Unclear(message, named) if named.is_empty() => {
            Err(fail(Exit::Usage, &message).hint(format!("{PROGRAM} facts")))
        }
        Named::Unclear(message, named) => {
            Err(fail(Exit::Usage, &message).hint(choices("forget", &named)))
        }
        Named::Nothing => {
            // What a run was killed at when all except this was done.
            if erases {
                forget::vacuum(context.home)?;
            }
            let hint = format!("{PROGRAM} facts shows them all");
            Err(fail(Exit::Failed, &forget::nothing(words)).hint(hint))
        }
    }
}

fn show_forgot(context: &Context<'_>, wanted: &ForgetArguments, forgot: &Forgot) {
    let out = |line: String| cli::out(&text::visible(&line));
    if context.json {
        cli::json(&json!({
            "dry_run": wanted.dry_run, "changes": documents::list(&forgot.changes, documents::change),
            "commitments": documents::list(&forgot.commitments, documents::commitment), "episodes": forgot.episodes.len(),
        }));
        return;
    }
    forgot
        .changes
        .iter()
        .map(documents::change_line)
        .for_each(out);
    for one in &forgot.commitments {
        out(format!("- {} promised: {}", one.who, one.what));
    }
    for one in &forgot.episodes {
        out(format!("- {}  {}", one.date, one.summary));
    }
    context.note(match (forgot.is_empty(), wanted.dry_run) {
        (true, _) => "it is not used now; earlier statements about it stay forgotten",
        (false, true) => "this would be forgotten",
        (false, false) => {
            "forgotten, until it is stated again; the lines that state it are unchanged"
        }
    });
}

fn hard(
    context: &Context<'_>,
    wanted: &ForgetArguments,
    words: &str,
    target: &Target,
) -> Result<(), Failure> {
    let asks = !wanted.yes && !wanted.dry_run;
    if asks && (context.json || !std::io::stdin().is_terminal()) {
        let message =
            "erased data cannot be restored, and there is no terminal to ask for confirmation";
        return Err(Failure::usage(message).hint("check with --dry-run, then add --yes"));
    }
    let home = context.home;
    let erasure = Erasure::of(home, context.env, target)?;
    let before = erasure.survey()?;
    if !context.json {
        let what = match target {
            Target::Fact(fact) => documents::fact_line(fact),
            Target::Person(person) => [person.names.as_slice(), &person.ids].concat().join(", "),
        };
        let verb = if wanted.dry_run { "would be" } else { "is" };
        cli::out(&text::visible(&format!("erased {verb}: {what}")));
        show(&before);
    }
    if wanted.dry_run {
        report(context, true, &before);
        return Ok(());
    }
    if asks && !cli::confirms("Erase this for good?")? {
        return Err(Failure::failed("nothing was erased"));
    }
    let told = match Locks::without_daemon(home)? {
        Some(locks) => erasure.erase(&locks)?.proved()?,
        None => by_daemon(context, words)?,
    };
    report(context, false, &before);
    context.note(&told);
    runs::remind(context);
    Ok(())
}

/// Has the daemon do it, which runs, and returns what it says.
fn by_daemon(context: &Context<'_>, words: &str) -> Result<String, Failure> {
    context.note("the daemon ends its turns and restarts, to forget; that may take half a minute");
    let order = Command::Forget {
        target: words.to_owned(),
        hard: true,
    };
    let late = "it may still be erased: look with --dry-run";
    let reply = submit::call(context.home, &order, late, DAEMON_TIMEOUT, true)?;
    match reply.error {
        Some(why) => Err(Failure::failed(why).hint("agent-send --status shows the last problem")),
        None => Ok(reply.reply.unwrap_or_default()),
    }
}

fn show(survey: &Survey) {
    let columns = [Column::right("COUNT"), Column::left("STORE")];
    let counts = survey.counts.iter();
    let rows: Vec<Vec<String>> = counts
        .map(|(store, count)| vec![count.to_string(), store.clone()])
        .collect();
    let lines = table::lines(&columns, &rows, table::room());
    lines.iter().for_each(|line| cli::out(line));
    for note in &survey.notes {
        let line = text::visible(&text::shorten(note, MAX_LINE));
        cli::out(&format!("- {line}"));
    }
    for (path, why) in &survey.left {
        cli::out(&text::visible(&format!("not changed: {path} ({why})")));
    }
}

fn report(context: &Context<'_>, dry_run: bool, before: &Survey) {
    if context.json {
        let left = before.left.iter();
        let left: Vec<_> = left
            .map(|(path, why)| json!({"path": path, "why": why}))
            .collect();
        cli::json(&json!({
            "dry_run": dry_run, "hard": true, "erased": before.counts, "notes": before.notes, "left": left,
            "searched": before.searched,
        }));
    }
}
