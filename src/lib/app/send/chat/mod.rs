//! `--chat`: a prompt. Ctrl-C stops the answer that is being written, Ctrl-D ends. Text that is typed or pasted meanwhile
//! appears at the next prompt: the editor keeps what it has read ahead (its feature `buffer-redux`).

mod mentions;
mod prompt;
mod recent_exchanges;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};

use super::arguments::MessageFlags;
use super::message::{attach, check_names, words};
use super::submit;
use super::submit::Posted;
use super::type_ahead::TypeAhead;
use super::wait;
use super::wait::{Ended, News, Show};
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::render::Context;
use crate::control::{Command, Id};
use crate::{queue, text};
use prompt::Prompt;

/// Talks until end of file. Returns 1 when standard input is not a terminal and a line was not
/// answered.
pub(super) fn chat(context: &Context<'_>, flags: &MessageFlags) -> Result<Exit, Failure> {
    check_names(context, flags)?;
    if !submit::is_running(context.home)? {
        return Err(submit::no_daemon(context.home));
    }
    let person = std::io::stdin().is_terminal();
    let mut prompt = Prompt::new(context, person)?;
    let (tell, news) = mpsc::channel();
    let mut chat = Chat {
        context,
        flags,
        person,
        tell,
        news,
        begun: String::new(),
    };
    if person {
        hear_interrupts(chat.tell.clone());
        if !context.quiet {
            cli::err(
                "/help lists the commands, Tab completes them and @files; Ctrl-C stops an answer, exit or Ctrl-D ends",
            );
        }
        chat.resume();
    }
    let mut exit = Exit::Ok;
    while let Some(text) = prompt.message(&std::mem::take(&mut chat.begun))? {
        if text.trim().is_empty() {
            continue;
        }
        match chat.say(&mut prompt, text) {
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

struct Chat<'a> {
    context: &'a Context<'a>,
    flags: &'a MessageFlags,
    /// Somebody sits there.
    person: bool,
    tell: Sender<News>,
    news: Receiver<News>,
    /// What the next prompt begins with: typed before a question came.
    begun: String,
}

impl Chat<'_> {
    /// Shows where the conversation was, and waits for an answer that is still being written.
    fn resume(&mut self) {
        // It may be one that was taken up here.
        let place = match self.target() {
            key if key.contains(':') => key,
            name => format!("cli:{name}"),
        };
        let target = queue::conversation_of(&self.context.home.queue_db(), &place)
            .ok()
            .filter(|other| *other != place)
            .unwrap_or_else(|| self.target());
        let Some(id) = recent_exchanges::show(self.context, &target) else {
            return;
        };
        cli::err("agent-send: your last message is still being answered");
        let typed = TypeAhead::begin();
        if let Err(failure) = self.wait(&id, typed.as_ref()) {
            cli::complain("agent-send", &failure);
        }
        self.begun = typed.map_or_else(String::new, |typed| typed.set_aside());
    }

    fn target(&self) -> String {
        let session = self.flags.session.clone();
        session.unwrap_or_else(|| format!("cli:{}", self.flags.from))
    }

    /// Sends a message and shows its answer.
    fn say(&mut self, prompt: &mut Prompt, text: String) -> Result<(), Failure> {
        let files = self.files(prompt, &text);
        let typed = self.person.then(TypeAhead::begin).flatten();
        if self.person {
            prompt.remember(&text);
        }
        let answered = self
            .send(text, &files)
            .and_then(|id| self.wait(&id, typed.as_ref()));
        self.begun = typed.map_or_else(String::new, |typed| typed.set_aside());
        answered
    }

    /// Returns the files that go with the words: a person names them. In a text of several lines, which may be pasted
    /// and somebody else's, each is asked about.
    fn files(&self, prompt: &mut Prompt, text: &str) -> Vec<PathBuf> {
        if !self.person || text.starts_with('/') && !text.contains(char::is_whitespace) {
            return Vec::new();
        }
        let home = self.context.env.get("HOME").map(PathBuf::from);
        let mut files = mentions::files(text, home.as_deref());
        if text.contains('\n') {
            files.retain(|file| prompt.confirms(&format!("attach {}?", shown(file))));
        }
        files
    }

    fn send(&self, text: String, files: &[PathBuf]) -> Result<Id, Failure> {
        let (home, id) = (self.context.home, Id::new());
        let command = Command::User {
            words: words(self.flags, text),
            sender: self.flags.from.clone(),
            session: self.flags.session.clone(),
            stream: true,
            attachments: attach(home, files, &id)?,
        };
        let posted = submit::post(home, &id, &command, true)?;
        for file in files {
            cli::err(&format!("attached: {}", shown(file)));
        }
        match posted {
            Posted::Taken => Ok(id),
            Posted::Queued => {
                let what = format!("the daemon has stopped; message {id} is queued");
                Err(Failure::try_again(what).hint(cli::command("agent-daemon", "run")))
            }
        }
    }

    fn wait(&self, id: &Id, typed: Option<&TypeAhead>) -> Result<(), Failure> {
        let home = self.context.home;
        let show = Show {
            stream: true,
            quiet: self.context.quiet,
            person: self.person,
            steps: self.person && !self.context.quiet,
            typed,
        };
        // Interrupts of before this line mean nothing any more.
        while self.news.try_recv().is_ok() {}
        match wait::wait(home, id, None, show, &self.tell, &self.news)? {
            Ended::Answered(_, true) => Ok(()),
            Ended::Answered(reply, false) => wait::print(&reply, false).map(drop),
            Ended::TimedOut | Ended::Interrupted if !submit::is_running(home)? => {
                let what = format!("no daemon is running; message {id} waits for one");
                let later = format!("--result {id} --wait has its answer later");
                Err(Failure::try_again(what).hint(cli::command("agent-send", &later)))
            }
            Ended::TimedOut | Ended::Interrupted => {
                cli::words("\n");
                submit::stop(home, Some(self.target()), false).map(drop)
            }
        }
    }
}

fn shown(file: &std::path::Path) -> String {
    text::visible(&file.to_string_lossy())
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
            // The one who waits for it is still there.
            let _ = ready.send(());
            while interrupts.recv().await.is_some() && tell.send(News::Interrupt).is_ok() {}
        });
    });
    // A thread that could not listen has gone; then Ctrl-C ends the program, as everywhere.
    let _ = heard.recv();
}
