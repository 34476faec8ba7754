//! The identity of a mail: its verified sender, its recipients, and its key.

use chrono::{DateTime, Utc};
use mail_parser::Message;

use super::{Raw, addresses, header};
use crate::head::{self, Head};
use crate::settings::Settings;
use crate::threads::{ids, short_hash};
use crate::verified;

/// How old the Date of a mail may be that counts as its sender's. Servers give up after five days (RFC 5321 §4.5.4.1); the
/// daemon knows a mail again for 14 days, also when it takes it in some days after it was read here.
const MAX_AGE: chrono::Duration = chrono::Duration::days(7);
/// How far a clock may be ahead.
const MAX_AHEAD: chrono::Duration = chrono::Duration::days(1);
/// Before the address of a sender for whom nobody vouches.
pub const UNVERIFIED: &str = "unverified:";

/// Who wrote which mail.
#[derive(Debug)]
pub(super) struct Identity {
    /// The address in From.
    pub(super) from: String,
    /// Who that is for the daemon.
    pub(super) sender: String,
    /// What the daemon knows the mail by: each copy has the same.
    pub(super) name: String,
    /// Its Message-ID, or what stands for it.
    pub(super) id: String,
    /// Why its sender is a stranger whatever From says.
    pub(super) unverified: Option<String>,
    /// Whether nothing but its Date speaks against its sender.
    pub(super) is_untimely: bool,
    /// What is said in place of the words of a mail that waited here until it was too old.
    pub(super) waited: Option<String>,
}

impl Identity {
    /// Returns who wrote a mail with these headers; `None` when it names nobody. Without `head` nobody is vouched for.
    pub(super) fn of(
        mail: &Message<'_>,
        raw: Raw<'_>,
        head: Option<&Head<'_>>,
        headers: &[(&str, &str)],
        settings: &Settings,
    ) -> Option<Self> {
        let parsed = addresses(mail.from(), usize::MAX);
        let from = parsed.first()?.clone();
        let written = head
            .ok_or_else(|| "its head can be read in more than one way".to_owned())
            .and_then(|_| vouched(headers, &parsed, settings))
            .and_then(|()| addressed(mail, settings))
            .and_then(|()| written(mail, headers));
        let untimely = written.as_ref().ok();
        let untimely = untimely.and_then(|written| untimely_at(*written, raw.read_at));
        let is_untimely = untimely.is_some();
        let waited = written.as_ref().ok().filter(|_| is_untimely);
        let waited = waited.and_then(|written| waited_since(*written, raw));
        let unverified = written.err().or(untimely);
        let unverified = unverified.filter(|_| waited.is_none());
        let name = head::name(headers, head::body(raw.bytes, mail, head));
        let own = header(headers, "message-id").map(ids).unwrap_or_default();
        let own = own.into_iter().next();
        let id = own.unwrap_or_else(|| format!("{}-{}@uid", raw.validity, raw.uid));
        let sender = match &unverified {
            None => from.clone(),
            // Another one each time: letting one of them in lets nobody in who writes the same From.
            Some(_) => {
                let mark = short_hash(format!("{id}\n{name}"), 12);
                format!("{UNVERIFIED}{mark}:{}", super::head(&from, 150))
            }
        };
        Some(Self {
            from,
            sender,
            name,
            id,
            unverified,
            is_untimely,
            waited,
        })
    }
}

/// Returns whether the receiving server vouches for the one address in From; otherwise why not.
fn vouched(headers: &[(&str, &str)], parsed: &[String], settings: &Settings) -> Result<(), String> {
    let author = verified::author(headers, parsed)
        .ok_or_else(|| "From is not one plain address".to_owned())?;
    let server = settings.authserv_id.as_ref();
    let server = server.ok_or_else(|| "authserv_id is not set in mail.toml".to_owned())?;
    verified::vouched(headers, &author, server)
}

/// Returns an error when the mail is not addressed to the agent: a signature holds for a mail that its writer sent to somebody
/// else, and that somebody hands on as it is.
fn addressed(mail: &Message<'_>, settings: &Settings) -> Result<(), String> {
    let mut to = addresses(mail.to(), usize::MAX);
    to.extend(addresses(mail.cc(), usize::MAX));
    let is_named = to.iter().any(|address| match address.rsplit_once('@') {
        // agent+something@example.org is the same mailbox.
        Some((local, domain)) => {
            let name = local.split('+').next().unwrap_or(local);
            settings.is_own(address) || settings.is_own(&format!("{name}@{domain}"))
        }
        None => false,
    });
    if is_named {
        Ok(())
    } else {
        Err("neither To nor Cc names the agent: it was written to somebody else".to_owned())
    }
}

/// Returns when the mail was written.
fn written(mail: &Message<'_>, headers: &[(&str, &str)]) -> Result<DateTime<Utc>, String> {
    let dates = headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("date"));
    let date = mail.date().filter(|date| date.is_valid());
    date.filter(|_| dates.count() == 1)
        .and_then(|date| DateTime::from_timestamp(date.to_timestamp(), 0))
        .ok_or_else(|| "it has no Date that can be read".to_owned())
}

/// Returns why the mail was not written lately: its signature holds for ever, and whoever has a copy may hand it in again when
/// the daemon does not know it any more.
fn untimely_at(written: DateTime<Utc>, now: DateTime<Utc>) -> Option<String> {
    let age = now - written;
    if age > MAX_AGE {
        return Some(format!(
            "its Date is {} days ago: it may have been handed in again",
            age.num_days()
        ));
    }
    (age < -MAX_AHEAD).then(|| "its Date is in the future".to_owned())
}

/// Returns what to say of a mail that came in time and is too old now: its sender may know nothing of that. The words are not
/// handed on: the daemon may have had them, and does not know them any more.
fn waited_since(written: DateTime<Utc>, raw: Raw<'_>) -> Option<String> {
    let came = raw.came_at?.with_timezone(&Utc);
    let time = match (raw.read_at - came).num_days() {
        ..=1 => "a day".to_owned(),
        days => format!("{days} days"),
    };
    let on_the_way = came - written;
    let is_in_time = (-MAX_AHEAD..=MAX_AGE).contains(&on_the_way) && came <= raw.read_at;
    is_in_time.then(|| {
        let day = written.format("%-d %B");
        format!(
            "a mail of {day} that waited here for {time} and was not read for that: tell them to send it again if it still matters"
        )
    })
}
