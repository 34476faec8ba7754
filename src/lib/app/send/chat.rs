//! `--chat`: a prompt. Lines are edited and remembered as in a shell; a line that ends with `\` goes
//! on in the next. Ctrl-C stops the answer that is being written, Ctrl-D ends. What is typed or pasted meanwhile
//! is kept: the editor holds what it read ahead of the line (its feature `buffer-redux`).

use std::io::IsTerminal;
use std::sync::mpsc::{self, Receiver, Sender};

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};

use super::arguments::MessageFlags;
use super::message::{check_names, words};
use super::submit;
use super::submit::Posted;
use super::wait;
use super::wait::{Ended, News, Show};
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::render::Context;
use crate::control::{Command, Id};

const HISTORY: usize = 1000;

/// Talks until end of file. Returns 1 when standard input is no terminal and a line was not
/// answered.
pub(super) fn chat(context: &Context<'_>, flags: &MessageFlags) -> Result<Exit, Failure> {
    let (home, quiet) = (context.home, context.quiet);
    check_names(context, flags)?;
    if !submit::is_running(home)? {
        return Err(submit::no_daemon(home));
    }
    let person = std::io::stdin().is_terminal();
    let history = home.state().join("chat_history");
    let mut editor = editor(&history)?;
    let (tell, news) = mpsc::channel();
    if person {
        hear_interrupts(tell.clone());
        if !quiet {
            cli::err(
                "/help lists the commands, /new starts a new session; Ctrl-C stops an answer, exit or Ctrl-D ends",
            );
        }
    }
    let mut exit = Exit::Ok;
    while let Some(text) = line(&mut editor, person)? {
        if matches!(text.trim(), "/quit" | "/exit" | "quit" | "exit") {
            break;
        }
        if text.trim().is_empty() {
            continue;
        }
        if person {
            remember(&mut editor, &history, &text);
        }
        match answer(context, flags, text, &tell, &news) {
            Ok(()) => {}
            Err(failure) if person || failure.exit == Exit::Failed => {
                exit = if person { Exit::Ok } else { Exit::Failed };
                cli::complain("agent-send", &failure);
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(exit)
}

fn editor(history: &std::path::Path) -> Result<Editor<(), FileHistory>, Failure> {
    let wrong =
        |error: ReadlineError| Failure::new(Exit::Io, format!("no prompt can be shown: {error}"));
    let config = Config::builder()
        .max_history_size(HISTORY)
        .and_then(|builder| builder.history_ignore_dups(true));
    let mut editor = Editor::with_config(config.map_err(wrong)?.build()).map_err(wrong)?;
    // There is none at first.
    let _ = editor.load_history(history);
    Ok(editor)
}

fn remember(editor: &mut Editor<(), FileHistory>, history: &std::path::Path, text: &str) {
    let added = editor
        .add_history_entry(text)
        .and_then(|_| editor.append_history(history));
    if let Err(error) = added {
        cli::err(&format!(
            "agent-send: the line is not kept in the history: {error}"
        ));
    }
}

/// Reads one message; `None` at end of file.
fn line(editor: &mut Editor<(), FileHistory>, person: bool) -> Result<Option<String>, Failure> {
    let mut text = String::new();
    loop {
        let prompt = match (person, text.is_empty()) {
            (false, _) => "",
            (true, true) => "> ",
            (true, false) => "… ",
        };
        match editor.readline(prompt) {
            Ok(line) => match line.strip_suffix('\\') {
                Some(begun) => {
                    text.push_str(begun);
                    text.push('\n');
                }
                None => return Ok(Some(text + &line)),
            },
            Err(ReadlineError::Eof) if text.is_empty() => return Ok(None),
            Err(ReadlineError::Eof) => return Ok(Some(text)),
            Err(ReadlineError::Interrupted) => text.clear(),
            Err(ReadlineError::Io(error)) if error.kind() == std::io::ErrorKind::InvalidData => {
                return Err(
                    Failure::new(Exit::Data, "standard input is not valid UTF-8")
                        .hint("convert it first: … | iconv -f LATIN1 -t UTF-8 | agent-send --chat"),
                );
            }
            Err(error) => {
                return Err(Failure::new(
                    Exit::Io,
                    format!("standard input cannot be read: {error}"),
                )
                .hint("agent-send - < FILE sends a file as one message"));
            }
        }
    }
}

fn answer(
    context: &Context<'_>,
    flags: &MessageFlags,
    text: String,
    tell: &Sender<News>,
    news: &Receiver<News>,
) -> Result<(), Failure> {
    let (home, id) = (context.home, Id::new());
    let command = Command::User {
        words: words(flags, text),
        sender: flags.from.clone(),
        session: flags.session.clone(),
        stream: true,
        attachments: Vec::new(),
    };
    if submit::post(home, &id, &command, true)? == Posted::Queued {
        let what = format!("the daemon has stopped; message {id} is queued");
        return Err(Failure::new(Exit::TryAgain, what).hint("agent-daemon run"));
    }
    let show = Show {
        stream: true,
        quiet: context.quiet,
        person: std::io::stdin().is_terminal(),
    };
    // Interrupts of before this line mean nothing any more.
    while news.try_recv().is_ok() {}
    match wait::wait(home, &id, None, show, tell, news)? {
        Ended::Answered(_, true) => Ok(()),
        Ended::Answered(reply, false) => wait::print(&reply, false).map(drop),
        Ended::TimedOut | Ended::Interrupted => {
            let session = flags.session.clone();
            let session = session.unwrap_or_else(|| format!("cli:{}", flags.from));
            cli::words("\n");
            submit::stop(home, Some(session), false).map(drop)
        }
    }
}

/// Makes Ctrl-C news instead of the end. At the prompt the terminal is in raw mode and it is a key.
///
/// Returns when that is so: the line editor puts back, after each line, whatever stood before it.
fn hear_interrupts(tell: Sender<News>) {
    let (ready, heard) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            let Ok(mut interrupts) =
                tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
            else {
                return;
            };
            // Whoever waits for it is still there.
            let _ = ready.send(());
            while interrupts.recv().await.is_some() && tell.send(News::Interrupt).is_ok() {}
        });
    });
    // A thread that could not listen has gone; then Ctrl-C ends the program, as everywhere.
    let _ = heard.recv();
}
