//! Waits for an answer: quietly, with a spinner on a terminal, or streaming it.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::approvals::Asks;
use super::progress::Progress;
use super::steps;
use super::steps::Steps;
use super::stream::Tail;
use super::submit;
use super::type_ahead;
use super::type_ahead::TypeAhead;
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::documents;
use crate::app::render::Context;
use crate::config::Home;
use crate::control::Id;
use crate::control::replies;
use crate::control::replies::{Reply, Status};
use crate::message::Command;
use crate::queue::Trace;
use crate::{queue, sys, text};

const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// A command that is not known after this is none.
const UNKNOWN: Duration = Duration::from_secs(10);
const SHOW: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Default)]
pub(super) struct Show<'a> {
    pub stream: bool,
    pub quiet: bool,
    /// A person is present who may answer a question.
    pub person: bool,
    /// A line for each step.
    pub steps: bool,
    /// What keeps the keys that are typed meanwhile.
    pub typed: Option<&'a TypeAhead>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    Written,
    Interrupt,
}

#[derive(Debug)]
pub(super) enum Ended {
    Answered(Box<Reply>, bool),
    TimedOut,
    Interrupted,
}

pub(super) fn result(
    context: &Context<'_>,
    id: &Id,
    wait: Option<Duration>,
) -> Result<Exit, Failure> {
    let (home, json) = (context.home, context.json);
    let spooled = home.spool_new().join(format!("{id}.json"));
    if let Some(limit) = wait {
        // A line that was just written to the FIFO is known in a moment; a slip of the pen never is.
        let until = Instant::now() + limit.min(UNKNOWN);
        // In this order: what leaves the spool is in the queue already.
        let known = || -> Result<bool, Failure> {
            Ok(spooled.exists()
                || documents::reply(home, id)?.is_some()
                || queue::knows(&home.queue_db(), id.as_str())?)
        };
        let mut is_known = known()?;
        while !is_known && Instant::now() < until {
            std::thread::sleep(SHOW);
            is_known = known()?;
        }
        if is_known {
            return Waiting::begin(limit).and_print(context, id, false);
        }
    }
    match documents::reply(home, id)? {
        Some(reply) if reply.is_final() => match delivered(home, reply, None) {
            Ended::Answered(reply, _) => print(&reply, json),
            Ended::TimedOut | Ended::Interrupted => {
                Err(Failure::try_again(format!("{id} is not delivered yet")).hint(ask_again(id)))
            }
        },
        Some(reply) => {
            if json {
                cli::json(&reply);
                return Ok(Exit::TryAgain);
            }
            Asks::default().tell(&reply, false);
            Err(Failure::try_again(format!("{id} is not answered yet")).hint(ask_again(id)))
        }
        None if spooled.exists() => Err(Failure::try_again(format!(
            "{id} waits in the spool for the daemon"
        ))
        .hint(cli::command("agent-daemon", "run"))),
        None => Err(Failure::failed(format!("no message \"{id}\""))
            .hint("replies and ids are kept for 14 days")),
    }
}

/// Somebody waits for an answer. Ctrl-C is news from here on and no end, so this begins before the command is posted: who
/// presses it right behind that is told the id, too.
pub(super) struct Waiting {
    limit: Duration,
    tell: Sender<News>,
    news: Receiver<News>,
    _interrupts: Option<Interrupts>,
}

impl Waiting {
    pub(super) fn begin(limit: Duration) -> Self {
        let (tell, news) = mpsc::channel();
        let interrupts = Interrupts::hear(&tell);
        Self {
            limit,
            tell,
            news,
            _interrupts: interrupts,
        }
    }

    /// Waits for the answer and prints it.
    pub(super) fn and_print(
        self,
        context: &Context<'_>,
        id: &Id,
        stream: bool,
    ) -> Result<Exit, Failure> {
        let (json, limit) = (context.json, self.limit);
        let until = Instant::now().checked_add(limit);
        let show = Show {
            stream,
            quiet: context.quiet,
            // Somebody who sits there may answer a question in place.
            person: !json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
            ..Show::default()
        };
        let mut ended = wait(context.home, id, Some(limit), show, &self.tell, &self.news)?;
        let mut lacks = "no reply";
        if let Ended::Answered(reply, false) = ended {
            lacks = "not delivered";
            ended = delivered(context.home, *reply, until.map(|until| (until, &self.news)));
        }
        drop(self);
        match ended {
            Ended::Answered(reply, false) => print(&reply, json),
            Ended::Answered(_, true) => Ok(Exit::Ok),
            Ended::Interrupted => {
                tell_that_it_goes_on(context, id);
                // The process that started us sees what ended us.
                let _ = nix::sys::signal::raise(Signal::SIGINT);
                Ok(Exit::TryAgain)
            }
            Ended::TimedOut => Ok(timed_out(context, id, lacks, limit)),
        }
    }
}

/// Returns the command that waits for the answer.
fn ask_again(id: &Id) -> String {
    cli::command("agent-send", &format!("--result {id} --wait"))
}

/// Says that it takes longer than `limit`.
fn timed_out(context: &Context<'_>, id: &Id, lacks: &str, limit: Duration) -> Exit {
    let again = ask_again(id);
    let what = format!("{lacks} within {} s", limit.as_secs());
    if context.json {
        let error = cli::error(&Failure::try_again(what).hint(again));
        cli::json(&serde_json::json!({
            "v": 1, "id": id.as_str(), "status": "running", "error": error,
        }));
    } else {
        cli::out(id.as_str());
        cli::err(&format!("agent-send: {what}; ask again: {again}"));
    }
    Exit::TryAgain
}

/// Returns whether it is words, or a sticker, that go out as they are.
fn is_raw(trace: &Trace) -> bool {
    let command = trace.inputs.first().map(|input| &input.envelope.command);
    matches!(
        command,
        Some(Some(Command::Deliver { .. } | Command::Sticker { .. }))
    )
}

/// Waits until words that no run wrote (`--raw`) have arrived: their answer is final as soon as they are stored. Its error says
/// that they were given up. `wait` is until when, and what tells of Ctrl-C; without it this looks once.
fn delivered(home: &Home, reply: Reply, wait: Option<(Instant, &Receiver<News>)>) -> Ended {
    let answered = |reply: Reply| Ended::Answered(Box::new(reply), false);
    if reply.run_id.is_some() || reply.status != Status::Done {
        return answered(reply);
    }
    loop {
        // Who may not read the queue is told what the answer says.
        let trace = queue::trace(&home.queue_db(), &reply.id).ok().flatten();
        let trace = trace.filter(is_raw);
        let parts = trace.map_or_else(Vec::new, |trace| trace.deliveries);
        if let Some(dead) = parts.iter().find(|part| part.state == "dead") {
            let why = dead.reason.as_deref().unwrap_or("it was given up");
            let reason = format!("the message is a dead letter: {why}");
            return answered(Reply::error(&reply.id, reason));
        }
        if parts.iter().all(|part| part.state == "sent") {
            return answered(reply);
        }
        let Some((_, news)) = wait.filter(|(until, _)| Instant::now() < *until) else {
            return Ended::TimedOut;
        };
        if news.recv_timeout(SHOW) == Ok(News::Interrupt) {
            return Ended::Interrupted;
        }
    }
}

/// Stopping the wait does not stop the message.
fn tell_that_it_goes_on(context: &Context<'_>, id: &Id) {
    if context.quiet {
        return;
    }
    if std::io::stderr().is_terminal() {
        // Behind `^C`.
        cli::err("");
    }
    let known = documents::reply(context.home, id).ok().flatten();
    let stop = match known.and_then(|reply| reply.session_id) {
        Some(session) => cli::command("agent-send", &format!("--stop {session}")),
        None => format!("{} (all that runs)", cli::command("agent-send", "--stop")),
    };
    let result = ask_again(id);
    cli::err(&format!(
        "agent-send: the agent continues; to get the answer: {result}; to stop it: {stop}"
    ));
}

/// Makes Ctrl-C news instead of the end, until this is dropped.
struct Interrupts {
    before: SigSet,
}

impl Interrupts {
    /// Begins it; `None` where it cannot, or where who started us wants none to be heard: then it is as everywhere.
    fn hear(tell: &Sender<News>) -> Option<Self> {
        let ignored = std::fs::read_to_string("/proc/self/status").ok()?;
        let ignored = ignored
            .lines()
            .find_map(|line| line.strip_prefix("SigIgn:"))?;
        let ignored = u64::from_str_radix(ignored.trim(), 16).ok()?;
        if ignored >> (Signal::SIGINT as u32 - 1) & 1 == 1 {
            return None;
        }
        let before = SigSet::thread_get_mask().ok()?;
        let mut interrupt = SigSet::empty();
        interrupt.add(Signal::SIGINT);
        let heard = SignalFd::with_flags(&interrupt, SfdFlags::SFD_CLOEXEC).ok()?;
        // Before another thread is there, which has the same mask.
        interrupt.thread_block().ok()?;
        let tell = tell.clone();
        std::thread::spawn(move || {
            while matches!(heard.read_signal(), Ok(Some(_))) && tell.send(News::Interrupt).is_ok() {
            }
        });
        Some(Self { before })
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        let _ = self.before.thread_set_mask();
    }
}

/// Waits for the reply to a command; `None` when the time is over.
pub(super) fn reply(
    home: &Home,
    id: &Id,
    limit: Duration,
    quiet: bool,
) -> Result<Option<Reply>, Failure> {
    let show = Show {
        quiet,
        ..Show::default()
    };
    let (tell, news) = mpsc::channel();
    match wait(home, id, Some(limit), show, &tell, &news)? {
        Ended::Answered(reply, _) => Ok(Some(*reply)),
        Ended::TimedOut | Ended::Interrupted => Ok(None),
    }
}

/// Waits until the answer is final; `tell` and `news` are the two ends of one channel.
pub(super) fn wait(
    home: &Home,
    id: &Id,
    limit: Option<Duration>,
    show: Show<'_>,
    tell: &Sender<News>,
    news: &Receiver<News>,
) -> Result<Ended, Failure> {
    // Longer than any clock goes is forever.
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    // Without a watcher (no inotify left) looking from time to time does too.
    let watcher = watch(&home.replies(), id, tell.clone());
    let mut screen = Screen::of(home, id, show);
    let mut looked = Instant::now();
    let mut answer = known(home, id)?;
    loop {
        if let Some(reply) = answer.take_if(|reply| reply.is_final()) {
            screen.read_last(home, &reply);
            let shown = screen.finish(&reply);
            return Ok(Ended::Answered(Box::new(reply), shown));
        }
        let left = deadline.map_or(POLL_INTERVAL, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        if left.is_zero() {
            screen.abort();
            return Ok(Ended::TimedOut);
        }
        screen.tell(answer.as_ref());
        let listens = show.person && screen.asks.are_open();
        let pace = if listens || screen.moves() || watcher.is_err() {
            SHOW
        } else {
            POLL_INTERVAL
        };
        let heard = news.recv_timeout(left.min(pace)).ok();
        if heard == Some(News::Interrupt) {
            return Ok(Ended::Interrupted);
        }
        if show.person && type_ahead::has_hung_up() {
            return Err(Failure::io("the terminal is gone").hint(cli::command(
                "agent-send",
                &format!("--result {id} --wait has the answer"),
            )));
        }
        screen.read(home, answer.as_ref());
        if listens {
            screen.asks.read_typed(home);
        }
        screen.progress.show(home, answer.as_ref());
        if heard == Some(News::Written) {
            answer = replies::read(&home.replies(), id)?;
        } else if looked.elapsed() >= POLL_INTERVAL {
            looked = Instant::now();
            screen.tell_if_nobody_runs(home, id)?;
            answer = known(home, id)?;
        }
    }
}

/// Returns what is known of the command. Who cannot read it is told how to ask for it later.
fn known(home: &Home, id: &Id) -> Result<Option<Reply>, Failure> {
    let later = cli::command(
        "agent-send",
        &format!("--result {id} --wait has the answer"),
    );
    documents::reply(home, id).map_err(|failure| failure.hint(later))
}

/// What the person who waits sees, and what they were told already.
struct Screen<'a> {
    show: Show<'a>,
    progress: Progress,
    tail: Option<Tail>,
    steps: Option<Steps>,
    asks: Asks,
    /// What the message waits for, as last told.
    waits_for: Option<String>,
    told_that_nobody_runs: bool,
}

impl<'a> Screen<'a> {
    fn of(home: &Home, id: &Id, show: Show<'a>) -> Self {
        Self {
            show,
            progress: Progress::begin(show.quiet),
            tail: show.stream.then(|| Tail::of(home, id)),
            steps: show.steps.then(Steps::default),
            asks: Asks::default(),
            waits_for: None,
            told_that_nobody_runs: false,
        }
    }

    /// Whether it changes by itself.
    fn moves(&self) -> bool {
        self.tail.is_some() || self.progress.is_shown()
    }

    /// Tells of questions that are new or over, and of what the message waits for.
    fn tell(&mut self, reply: Option<&Reply>) {
        let Some(reply) = reply else { return };
        let were_open = self.asks.are_open();
        if self.asks.has_news(reply) {
            // What is typed, and a line that is redrawn all the time, do not go together.
            if self.show.person {
                self.progress.end();
                // What was typed before the question is no answer to it.
                self.show
                    .typed
                    .map_or_else(type_ahead::forget, TypeAhead::listen);
            }
            self.end_line();
            let (asks, person) = (&mut self.asks, self.show.person);
            self.progress.beside(|| asks.tell(reply, person));
        }
        if were_open && !self.asks.are_open() && self.show.person {
            self.asks.tell_that_it_is_over();
            self.progress = Progress::begin(self.show.quiet);
        }
        if let Some(typed) = self.show.typed
            && !self.asks.are_open()
        {
            typed.hush();
        }
        let Some(text) = &reply.waits_for else { return };
        if self.waits_for.as_ref() != Some(text) {
            if !self.show.quiet {
                self.end_line();
                self.progress
                    .beside(|| cli::err(&format!("agent-send: {}", text::visible(text))));
            }
            self.waits_for = Some(text.clone());
        }
    }

    /// Ends the line of the answer, where talk is between its lines.
    fn end_line(&mut self) {
        if std::io::stdout().is_terminal() {
            self.tail.iter_mut().for_each(Tail::end_line);
        }
    }

    fn tell_if_nobody_runs(&mut self, home: &Home, id: &Id) -> Result<(), Failure> {
        if self.told_that_nobody_runs || self.show.quiet || submit::is_running(home)? {
            return Ok(());
        }
        self.told_that_nobody_runs = true;
        self.end_line();
        self.progress.beside(|| {
            cli::err(&format!(
                "agent-send: the daemon is not running; waiting for it to come back (id {id})"
            ))
        });
        Ok(())
    }

    /// Prints what is new of the answer, and of what the agent does for it.
    fn read(&mut self, home: &Home, answer: Option<&Reply>) {
        let new = match (&mut self.steps, answer) {
            (Some(steps), Some(answer)) => steps.new_of(home, answer),
            _ => steps::New::default(),
        };
        self.tell_steps(&new.ended);
        let keeps_keys = self.show.typed.is_some_and(TypeAhead::has_some);
        self.progress.keeps_keys(keeps_keys);
        let progress = &mut self.progress;
        if let Some(tail) = &mut self.tail {
            tail.read(|| progress.end());
        }
        self.tell_steps(&new.begun);
    }

    /// Tells what was not told of what the agent did: all of it came before the last words.
    fn read_last(&mut self, home: &Home, reply: &Reply) {
        if let Some(steps) = &mut self.steps {
            let new = steps.new_of(home, reply);
            self.tell_steps(&new.ended);
            self.tell_steps(&new.begun);
        }
    }

    fn tell_steps(&mut self, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        self.end_line();
        self.progress
            .beside(|| lines.iter().for_each(|line| cli::err(line)));
        if !self.progress.is_shown() && !self.asks.are_open() {
            self.progress = Progress::begin(self.show.quiet);
        }
    }

    /// Whether the answer is on the screen already.
    fn finish(mut self, reply: &Reply) -> bool {
        self.progress.end();
        self.tail.is_some_and(|tail| tail.finish(reply))
    }

    fn abort(mut self) {
        self.progress.end();
        self.tail.into_iter().for_each(Tail::abort);
    }
}

fn watch(dir: &Path, id: &Id, tell: Sender<News>) -> notify::Result<notify::RecommendedWatcher> {
    let prefix = format!("{id}.");
    let ours = move |path: &Path| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(&prefix))
    };
    sys::watch_changes(&[dir], ours, move || {
        // The receiver is gone when the answer came: nothing to tell.
        let _ = tell.send(News::Written);
    })
}

/// Prints an answer: the words of it, or with `json` the reply with a failure as `{"code","message","hint"}`.
pub(super) fn print(reply: &Reply, json: bool) -> Result<Exit, Failure> {
    let failure = reply.error.as_ref().map(|error| {
        let asked = match &reply.run_id {
            Some(_) => format!("--explain {}", reply.id),
            None => "--log".to_owned(),
        };
        Failure::failed(error.clone()).hint(cli::command("agent-send", &asked))
    });
    if json {
        let mut document = serde_json::to_value(reply).unwrap_or_default();
        if let Some(failure) = &failure {
            document["error"] = cli::error(failure);
        }
        cli::json(&document);
        return Ok(match failure.is_some() || reply.status == Status::Error {
            true => Exit::Failed,
            false => Exit::Ok,
        });
    }
    match failure {
        Some(failure) if reply.run_id.is_none() => Err(Failure {
            hint: None,
            ..failure
        }),
        Some(failure) => Err(failure),
        None => {
            if let Some(text) = reply.reply.as_deref().filter(|text| !text.is_empty()) {
                cli::speech(text);
            }
            Ok(Exit::Ok)
        }
    }
}
