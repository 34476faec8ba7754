//! Clients that send the whole chat each time: which conversation each chat continues.

use super::Store;
use crate::db;
use crate::db::Statements;

/// What was said in a conversation, and the answer to it, if there was one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exchange {
    /// What was said.
    pub said: String,
    /// What was answered.
    pub reply: Option<String>,
}

impl Exchange {
    /// Returns true when `chat` ends with all of `known`. To what was not answered the chat may know an answer: a
    /// part of one that was broken off; and where that is said once more as `now`, it need not be in the chat. An
    /// answer that was streamed has what was said on the way before it.
    fn all_end(chat: &[Self], known: &[Self], now: &str) -> bool {
        let is_again = |one: &Self| one.reply.is_none() && one.said.trim() == now.trim();
        if let [earlier @ .., last] = known
            && is_again(last)
            && Self::all_end(chat, earlier, now)
        {
            return true;
        }
        let Some(start) = chat.len().checked_sub(known.len()) else {
            return false;
        };
        chat[start..].iter().zip(known).all(|(told, known)| {
            let (read, reply) = (told.reply.as_deref(), known.reply.as_deref());
            told.said.trim() == known.said.trim()
                && reply.is_none_or(|reply| {
                    read.is_some_and(|read| read.trim_end().ends_with(reply.trim()))
                })
        })
    }
}

impl Store {
    /// Returns the newest conversation whose key begins with `prefix` and of which all that was said and answered is
    /// what `chat` ends with: one that others continued with, or that knows more than the chat, is not its own. `now` is
    /// what the chat says next.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn conversation(
        &self,
        prefix: &str,
        chat: Vec<Exchange>,
        now: &str,
    ) -> Result<Option<String>, db::Error> {
        let (prefix, now) = (prefix.to_owned(), now.to_owned());
        self.writer
            .read(move |connection| {
                let Some(reply) = chat.iter().rev().find_map(|one| one.reply.as_deref()) else {
                    return Ok(None);
                };
                let sql = "SELECT session_key FROM inbox WHERE session_key >= ?1 AND session_key < ?1 || x'7f'
                       AND json_valid(result) AND trim(result ->> '$.reply', char(9, 10, 13, 32)) != ''
                       AND instr(?2, trim(result ->> '$.reply', char(9, 10, 13, 32))) > 0
                     GROUP BY session_key ORDER BY max(seq) DESC";
                let candidates: Vec<String> = connection.all(
                    sql,
                    (&prefix, reply),
                    |row| row.get(0),
                )?;
                let exchanges = "SELECT envelope ->> '$.text', CASE WHEN json_valid(result) THEN result ->> '$.reply' END FROM inbox
                     WHERE session_key = ?1 AND CASE WHEN json_valid(envelope) THEN envelope ->> '$.command' IS NULL
                       AND envelope ->> '$.source' != 'report' AND coalesce(envelope ->> '$.text', '') NOT LIKE '/%' END
                     ORDER BY seq";
                for key in candidates {
                    let known: Vec<Exchange> = connection.all(exchanges, [&key], |row| {
                            let said: Option<String> = row.get(0)?;
                            Ok(Exchange { said: said.unwrap_or_default(), reply: row.get(1)? })
                        })?;
                    if Exchange::all_end(&chat, &known, &now) {
                        return Ok(Some(key));
                    }
                }
                Ok(None)
            })
            .await
    }
}
