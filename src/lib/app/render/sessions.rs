//! The conversations as a table, the last used first.

use super::{Context, print};
use crate::app::cli::Exit;
use crate::app::documents::sessions::{Session, Sessions};
use crate::app::table::{Column, Table};
use crate::{clock, text};

const COLUMNS: [Column; 6] = [
    Column::left("SESSION").cut_to(20),
    Column::left("CONTACT").cut_to(8),
    Column::left("LAST USED"),
    Column::right("MSGS"),
    Column::right("CONTEXT"),
    Column::right("COST"),
];

pub(crate) fn sessions(context: &Context<'_>, sessions: &Sessions) -> Exit {
    let exit = context.answer(sessions, |sessions| {
        if !sessions.sessions.is_empty() {
            print(&table(&sessions.sessions, clock::now_ms()));
        }
    });
    if sessions.sessions.is_empty() {
        context.note_nothing("no sessions yet");
    }
    if let Some(why) = &sessions.unknown_windows {
        context.note(&format!("the size of the contexts is unknown: {why}"));
    }
    exit
}

/// Returns the conversations as a table.
pub(in crate::app) fn table(sessions: &[Session], now: i64) -> Table {
    Table {
        columns: COLUMNS.to_vec(),
        rows: sessions.iter().map(|session| row(session, now)).collect(),
    }
}

fn row(session: &Session, now: i64) -> Vec<String> {
    let context = match session.context_pct {
        Some(percent) => format!("{percent:.0} %"),
        None if session.context_tokens > 0 => text::count(session.context_tokens),
        None => "-".to_owned(),
    };
    vec![
        session.key.clone(),
        text::shorten(&session.contact, 40),
        clock::parse_rfc3339(&session.updated_at)
            .map_or_else(|| "?".to_owned(), |at| ago(now - at)),
        session.message_count.to_string(),
        context,
        format!("${:.4}", session.cost_usd),
    ]
}

fn ago(millis: i64) -> String {
    match millis / 60_000 {
        ..1 => "just now".to_owned(),
        minutes @ 1..120 => format!("{minutes} min ago"),
        minutes @ 120..2880 => format!("{} h ago", minutes / 60),
        minutes => format!("{} d ago", minutes / 1440),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(key: &str, contact: &str, context_pct: Option<f64>) -> Session {
        Session {
            session_id: "019aa9f2-6d4e-7c1b-9d0e-3f1a2b3c4d5e".to_owned(),
            key: key.to_owned(),
            contact: contact.to_owned(),
            created_at: "2025-11-20T22:56:01.120Z".to_owned(),
            updated_at: "2025-11-21T22:56:01.120Z".to_owned(),
            model: Some("primary".to_owned()),
            message_count: 12,
            compaction_count: 0,
            context_tokens: 12_345,
            context_pct,
            cost_usd: 0.01234,
            log_files: 1,
            log_bytes: 999,
        }
    }

    #[test]
    fn the_table_fits_on_a_terminal_of_eighty_columns() {
        let sessions = [
            session(
                "agent:agent:telegram:dm:1234567890",
                "Ada, Countess of Lovelace",
                Some(6.2),
            ),
            session("cli:cli", "c\u{1b}i", None),
        ];
        let now = clock::parse_rfc3339("2025-11-22T00:26:02.000Z").expect("time");
        assert_eq!(
            table(&sessions, now).lines(80),
            [
                "SESSION                             CONTACT   LAST USED   MSGS  CONTEXT     COST",
                "agent:agent:telegram:dm:1234567890  Ada, Co…  90 min ago    12      6 %  $0.0123",
                "cli:cli                             c\\u{1b}i  90 min ago    12    12.3k  $0.0123",
            ]
        );
    }
}
