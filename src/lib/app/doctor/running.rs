//! Checks whether the daemon is running and responding, whether its channels work, and whether anything waits too long.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::context::{DoctorContext, age, quote};
use super::files::more;
use super::{Finding, service};
use crate::app::systemd_unit;
use crate::control::spool;
use crate::monitor_state::{ProviderState, STALE_MS};
use crate::queue;
use crate::queue::Listing;
use crate::{clock, standby, text};

/// A spooled command is accepted within 5 s.
const SPOOL_MS: i64 = 60_000;
/// A channel may take so long to connect, and a poll so long to come back: two of the longest
/// (specification §6).
const SILENT_MS: i64 = 120_000;
/// An answer leaves at once; when it has not for so long, somebody should look.
const UNSENT_MS: i64 = 15 * 60_000;
/// Beyond what a turn may take.
const TURN_GRACE_MS: i64 = 5 * 60_000;
/// Troubles older than this are history.
const RECENT_MS: i64 = 3_600_000;

pub(super) fn check(context: &DoctorContext) -> Vec<Finding> {
    let mut findings = Vec::new();
    match &context.daemon {
        Err(error) => {
            let command = format!("ls -ld {}", quote(context.home.lock()));
            findings.push(Finding::error(
                "lock-unusable",
                format!("{error}: cannot tell whether a daemon is running"),
                command,
            ));
        }
        Ok(None) => findings.extend(absent(context)),
        Ok(Some(pid)) => {
            let stale = stale(context, *pid);
            let moves = stale.is_none();
            findings.extend(stale);
            findings.extend(outdated(context, *pid));
            findings.extend(unread_settings(context, *pid));
            if moves {
                findings.extend(channels(context));
                findings.extend(providers(context));
                findings.extend(trouble(context));
            }
            findings.extend(stuck_spool(context, *pid));
            findings.extend(stuck_queue(context));
        }
    }
    findings.extend(strangers(context));
    findings.extend(dead(context));
    findings
}

/// A queue that cannot be read is told with the databases.
fn listing(context: &DoctorContext) -> Listing {
    queue::listing(&context.home.queue_db()).unwrap_or_default()
}

/// The commands in the spool, with the time since they were written.
fn spooled(context: &DoctorContext) -> Vec<(PathBuf, i64)> {
    let entries = spool::scan(&context.home.spool_new()).unwrap_or_default();
    let since = |path: PathBuf| {
        let written = std::fs::symlink_metadata(&path).ok()?.mtime() * 1000;
        Some((path, context.now - written))
    };
    entries
        .into_iter()
        .filter_map(|entry| since(entry.path))
        .collect()
}

/// No daemon runs. That is wrong when something waits for it, and worth a word when one ran before. That none may run is told
/// with the standby.
fn absent(context: &DoctorContext) -> Option<Finding> {
    standby::may_run(&context.home).ok()?;
    let (spooled, open) = (spooled(context), listing(context));
    let waits = [
        (spooled.len(), "command", "in the spool"),
        (open.inbox.len(), "message", "unanswered"),
        (open.outbox.len(), "answer", "unsent"),
    ];
    let waits: Vec<String> = waits
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, what, how)| format!("{} {how}", text::counted(*count, what)))
        .collect();
    let last = context
        .monitor
        .as_ref()
        .and_then(|state| clock::parse_rfc3339(&state.updated_at));
    let seen = last.map_or_else(String::new, |last| {
        format!(", the last one was seen {} ago", age(context.now - last))
    });
    if !waits.is_empty() {
        let evidence = format!(
            "no daemon is running{seen}; waiting for it: {}",
            waits.join(", ")
        );
        return Some(Finding::error(
            "daemon-not-running",
            evidence,
            service::start(context),
        ));
    }
    let expected =
        context.monitor.is_some() || systemd_unit::is_enabled(&context.env, &context.home);
    expected.then(|| {
        Finding::warning(
            "daemon-not-running",
            format!("no daemon is running{seen}"),
            service::start(context),
        )
    })
}

/// The lock is held, and nothing was written for too long.
fn stale(context: &DoctorContext, pid: i32) -> Option<Finding> {
    let locked =
        std::fs::metadata(context.home.lock()).map_or(context.now, |meta| meta.mtime() * 1000);
    // What an earlier daemon wrote says nothing about this one, which may be starting.
    let last = context
        .live()
        .and_then(|state| clock::parse_rfc3339(&state.updated_at))
        .unwrap_or(locked);
    let since = context.now - last;
    let shows = format!(
        "the daemon (pid {pid}) holds the lock and has written nothing for {}",
        age(since)
    );
    if is_stopped(pid) {
        let evidence =
            format!("{shows}: it was stopped by a signal (SIGSTOP, or Ctrl-Z in its terminal)");
        return Some(Finding::error(
            "daemon-stale",
            evidence,
            format!("{}kill -CONT {pid}", context.sudo()),
        ));
    }
    if since <= STALE_MS {
        return None;
    }
    Some(Finding::error(
        "daemon-stale",
        format!("{shows}: it hangs"),
        service::replace(context, pid),
    ))
}

/// Returns whether the process is a daemon of ours that SIGSTOP halted (proc_pid_stat(5)). The number
/// may mean another process where the daemon runs in a container.
fn is_stopped(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.contains("(agent-daemon) T "))
}

/// What was edited is not in force yet. Settings that are no settings are told with them.
fn unread_settings(context: &DoctorContext, pid: i32) -> Option<Finding> {
    context.settings.as_ref().ok()?;
    let evidence = context.live()?.unread_settings(&context.home)?;
    let command = format!("{}kill -HUP {pid}", context.sudo());
    Some(Finding::warning("settings-unread", evidence, command))
}

/// The programs were replaced under a running daemon.
fn outdated(context: &DoctorContext, pid: i32) -> Option<Finding> {
    let ours = env!("CARGO_PKG_VERSION");
    let theirs = context
        .live()
        .map(|state| state.version.as_str())
        .filter(|version| !version.is_empty());
    let replaced = std::fs::read_link(format!("/proc/{pid}/exe"))
        .is_ok_and(|exe| exe.to_string_lossy().ends_with(" (deleted)"));
    let evidence = match theirs {
        Some(theirs) if theirs != ours => {
            format!("the daemon (pid {pid}) is version {theirs}, this program is {ours}")
        }
        _ if replaced => format!(
            "the daemon (pid {pid}) still runs from a program file that was replaced or removed"
        ),
        _ => return None,
    };
    Some(Finding::warning(
        "daemon-outdated",
        evidence,
        service::restart(context, pid),
    ))
}

fn channels(context: &DoctorContext) -> Vec<Finding> {
    let Some(state) = context.live() else {
        return Vec::new();
    };
    let up =
        clock::parse_rfc3339(&state.started_at).map_or(i64::MAX, |started| context.now - started);
    let silent = |last: &Option<String>| {
        last.as_deref()
            .and_then(clock::parse_rfc3339)
            .is_some_and(|at| context.now - at > SILENT_MS)
    };
    let mut findings = Vec::new();
    for channel in &state.channels {
        let last = match channel.last_ok_at.as_deref().and_then(clock::parse_rfc3339) {
            Some(at) => format!("its last success was {} ago", age(context.now - at)),
            None => "it never succeeded".to_owned(),
        };
        let fine = match channel.state.as_str() {
            "ok" => !silent(&channel.last_ok_at),
            "connecting" => up < SILENT_MS,
            _ => false,
        };
        if !fine {
            let evidence = format!("{}: {}; {last}", channel.name, channel.state);
            findings.push(Finding::error(
                "channel-trouble",
                evidence,
                remedy(context, &channel.name, &channel.state),
            ));
        }
    }
    findings
}

fn providers(context: &DoctorContext) -> Vec<Finding> {
    let Some(state) = context.live() else {
        return Vec::new();
    };
    let down = state
        .providers
        .iter()
        .filter(|provider| provider.state != "ok");
    let finding = |provider: &ProviderState| {
        let since = provider.since.as_deref().and_then(clock::parse_rfc3339);
        let ago = since.map_or_else(String::new, |at| format!(" for {}", age(context.now - at)));
        let evidence = format!(
            "{}: {}{ago}; {}",
            provider.name,
            provider.state,
            provider.last_error.as_deref().unwrap_or_default()
        );
        Finding::warning(
            "provider-down",
            evidence,
            context.program("agent-monitor", ""),
        )
    };
    down.map(finding).collect()
}

fn remedy(context: &DoctorContext, channel: &str, state: &str) -> String {
    let telegram = context
        .settings
        .as_ref()
        .map(|loaded| loaded.config.telegram.clone())
        .unwrap_or_default();
    let reach = |url: &str| {
        format!(
            "curl -sS -m 10 -o /dev/null -w '%{{http_code}}\\n' {}",
            quote(url)
        )
    };
    let begins = |words: &str| state.starts_with(words);
    if begins("its process")
        || begins("not running")
        || begins("channel.json")
        || begins("its directory")
    {
        format!("ls -lR {}", quote(context.home.channels().join(channel)))
    } else if begins("unauthorized") {
        context.edit(&context.home.env_file(), None)
    } else if begins("conflict: a webhook") || begins("webhook: cannot listen") {
        context.edit(context.home.config_file(), None)
    } else if begins("conflict") {
        "pgrep -af agent-daemon".to_owned()
    } else if begins("webhook: Telegram cannot") {
        reach(&telegram.webhook)
    } else if begins("no answer") || begins("Telegram cannot be reached") {
        reach(&telegram.api_url)
    } else {
        context.program("agent-monitor", "")
    }
}

/// The newest trouble that the daemon noted, when it is new.
fn trouble(context: &DoctorContext) -> Option<Finding> {
    let last = context.live()?.last_error.as_deref()?;
    let (at, words) = last.lines().next()?.split_once(' ')?;
    let since = context.now - clock::parse_rfc3339(at)?;
    (since < RECENT_MS).then(|| {
        let evidence = format!("{} ago: {}", age(since), text::shorten(words, 500));
        Finding::warning("daemon-trouble", evidence, context.show_log())
    })
}

fn stuck_spool(context: &DoctorContext, pid: i32) -> Option<Finding> {
    let old: Vec<(PathBuf, i64)> = spooled(context)
        .into_iter()
        .filter(|(_, since)| *since > SPOOL_MS)
        .collect();
    let (path, since) = old.iter().max_by_key(|(_, since)| *since)?;
    let evidence = format!(
        "a daemon is running, but {} in state/spool/new not accepted; the oldest, {}, has waited for {}",
        if old.len() == 1 {
            "1 command is".to_owned()
        } else {
            format!("{} commands are", old.len())
        },
        text::visible(&path.file_name().unwrap_or_default().to_string_lossy()),
        age(*since)
    );
    Some(Finding::error(
        "spool-stuck",
        evidence,
        service::restart(context, pid),
    ))
}

fn stuck_queue(context: &DoctorContext) -> Option<Finding> {
    let turn = context
        .settings
        .as_ref()
        .map_or(1800, |loaded| loaded.config.agent.run_timeout_secs);
    let turn = i64::try_from(turn).unwrap_or(i64::MAX / 2000) * 1000 + TURN_GRACE_MS;
    let open = listing(context);
    let inbox = open.inbox.iter().map(|row| (row, "unanswered", turn));
    let outbox = open.outbox.iter().map(|row| (row, "unsent", UNSENT_MS));
    let old: Vec<_> = inbox
        .chain(outbox)
        .filter(|(row, _, most)| context.now - row.created_at > *most)
        .collect();
    let (row, how, _) = old.iter().min_by_key(|(row, ..)| row.created_at)?;
    let evidence = format!(
        "{} ({}) is {how} for {}, tried {}{}",
        text::visible(&row.id),
        text::shorten(&text::visible(&row.place), 60),
        age(context.now - row.created_at),
        if row.attempts == 1 {
            "once".to_owned()
        } else {
            format!("{} times", row.attempts)
        },
        more(old.len())
    );
    Some(Finding::warning(
        "queue-stuck",
        evidence,
        context.program("agent-send", "--queue"),
    ))
}

/// Files in the spool that no daemon will ever take: their name is no id.
fn strangers(context: &DoctorContext) -> Option<Finding> {
    let new = context.home.spool_new();
    let taken: BTreeSet<PathBuf> = spool::scan(&new)
        .ok()?
        .into_iter()
        .map(|entry| entry.path)
        .collect();
    let ours = |path: &PathBuf| {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        // Attachments of a command, and a file that is being written.
        taken.contains(path) || name.ends_with(".d") || name.starts_with('.')
    };
    let others: Vec<PathBuf> = std::fs::read_dir(&new)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| !ours(path))
        .collect();
    let first = others.first()?;
    let evidence = format!(
        "{} is no command and stays for ever: a command is called ID.json, the ID of A-Z a-z 0-9 _ - and at most 64 letters",
        text::visible(&context.shown(first))
    );
    Some(Finding::warning(
        "spool-ignored",
        evidence,
        format!("{}ls -l {}", context.sudo(), quote(&new)),
    ))
}

/// Dead letters as young as what the queue keeps of the rest.
fn dead(context: &DoctorContext) -> Option<Finding> {
    let keep = i64::try_from(queue::KEEP.as_millis()).unwrap_or(i64::MAX);
    let mut dead = listing(context).dead;
    dead.retain(|letter| context.now - letter.created_at < keep);
    let newest = dead.last()?;
    let evidence = format!(
        "{} of the last two weeks; the newest, {} ago: {}",
        text::counted(dead.len(), "dead letter"),
        age(context.now - newest.created_at),
        text::shorten(&newest.reason, 300)
    );
    Some(Finding::warning(
        "dead-letters",
        evidence,
        context.program("agent-send", "--queue"),
    ))
}
