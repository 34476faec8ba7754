//! The last exchanges of a conversation, shortened, before the first prompt.

use crate::app::cli;
use crate::app::color::{Color, Paint};
use crate::app::documents;
use crate::app::documents::history::Exchange;
use crate::app::render::Context;
use crate::control::Id;
use crate::control::replies::STOPPED;
use crate::{clock, text};

/// Exchanges that are shown.
const SHOWN: usize = 3;
/// Lines and characters of each message.
const LINES: usize = 6;
const LONGEST: usize = 600;

/// Shows the last exchanges of the conversation `target`. Returns the message that is still being answered, if one is.
pub(super) fn show(context: &Context<'_>, target: &str) -> Option<Id> {
    // Nothing of it is needed for what comes.
    let history = documents::history(context.home, context.env, target, false).ok()?;
    let exchanges = history.exchanges(SHOWN).ok()?;
    let newest = exchanges.last()?;
    let open = is_open(context, newest);
    if !context.quiet {
        let paint = Paint::new(Color::Auto, context.env);
        let at = clock::parse_rfc3339(&newest.at).map_or_else(String::new, |at| {
            format!(", the last of {}", clock::local_stamp(at, context.zone()))
        });
        cli::err(&paint.dim(&format!("earlier here{at}:")));
        for line in exchanges.iter().flat_map(lines) {
            cli::err(&paint.dim(&line));
        }
    }
    open
}

/// Returns the id of a message that has no answer yet and will get one.
fn is_open(context: &Context<'_>, exchange: &Exchange) -> Option<Id> {
    let id = Id::parse(&exchange.inbox_id)?;
    let reply = documents::reply(context.home, &id).ok()??;
    (!reply.is_final()).then_some(id)
}

fn lines(exchange: &Exchange) -> Vec<String> {
    let mut lines = short(&exchange.words);
    for (number, line) in lines.iter_mut().enumerate() {
        *line = format!("{} {line}", if number == 0 { ">" } else { " " });
    }
    lines.extend(short(&exchange.answer));
    match &exchange.error {
        Some(error) if error == STOPPED => lines.push("(stopped)".to_owned()),
        Some(error) => lines.push(format!("({})", text::visible(error))),
        None => {}
    }
    lines
}

fn short(words: &str) -> Vec<String> {
    let whole = words.trim();
    let head = text::shorten(whole, LONGEST);
    let mut lines: Vec<String> = head.lines().map(text::visible).collect();
    if lines.len() > LINES {
        lines.truncate(LINES);
        lines.push("…".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_is_shown_shortened_and_commands_no_terminal() {
        let exchange = Exchange {
            words: "one\ntwo".to_owned(),
            answer: "1\n2\n3\n4\n5\n6\u{1b}[2J\n7".to_owned(),
            error: Some(STOPPED.to_owned()),
            ..Exchange::default()
        };
        let shown = lines(&exchange);
        let expected = [
            "> one",
            "  two",
            "1",
            "2",
            "3",
            "4",
            "5",
            "6\\u{1b}[2J",
            "…",
            "(stopped)",
        ];
        assert_eq!(shown, expected);
        let long = Exchange {
            answer: "x".repeat(5000),
            ..Exchange::default()
        };
        assert!(
            lines(&long)
                .iter()
                .all(|line| line.chars().count() <= LONGEST + 1)
        );
    }
}
