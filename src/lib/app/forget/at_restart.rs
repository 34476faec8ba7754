//! Erasing while a daemon runs. The order waits in the spool; the daemon ends its turns and begins anew, and at its
//! start, before it opens anything, what is ordered is erased. A kill at any moment finds the order still there.

use super::{Alone, Erasing, meant, read_the_rest, wring_out};
use crate::app::cli::{Exit, Failure};
use crate::config::{Environment, Home};
use crate::control;
use crate::control::Command;
use crate::control::replies;
use crate::control::replies::{Reply, Status};
use crate::control::spool;
use crate::control::spool::Entry;
use crate::memory::consolidate::Named;
use crate::sys;

/// An order that waits in the spool.
pub(crate) struct Ordered {
    entry: Entry,
    words: String,
}

/// Returns the orders that wait, in the order of their ids.
///
/// # Errors
/// When the spool cannot be read.
pub(crate) fn waiting(home: &Home) -> Result<Vec<Ordered>, Failure> {
    let mut orders = Vec::new();
    for entry in spool::scan(&home.spool_new())? {
        // What cannot be read, or is no command, is told of where the spool is emptied.
        let Ok(Some(bytes)) = spool::read(&entry) else {
            continue;
        };
        let Ok(order) = control::decode(&bytes) else {
            continue;
        };
        if let (Command::Forget { target, hard: true }, true) =
            (order.command, order.id == entry.id)
        {
            orders.push(Ordered {
                entry,
                words: target,
            });
        }
    }
    Ok(orders)
}

impl Ordered {
    /// Erases what is ordered, as the daemon, which has its lock, and tells whoever ordered it. Returns what was told.
    ///
    /// # Errors
    /// When the order cannot be taken out of the spool: it would be carried out for ever.
    pub(crate) fn carry_out(self, home: &Home, env: &Environment) -> Result<String, Failure> {
        let id = self.entry.id.as_str();
        let (reply, mut told) = match self.erase(home, env) {
            Ok(told) => (
                Reply {
                    reply: Some(told.clone()),
                    ..Reply::new(id, Status::Done)
                },
                told,
            ),
            Err(failure) => {
                let why = failure.hint.map_or(failure.message.clone(), |hint| {
                    format!("{} ({hint})", failure.message)
                });
                (Reply::error(id, &why), why)
            }
        };
        // On a full disk the daemon starts all the same; who ordered it hears nothing, and looks.
        if let Err(error) = replies::write(&home.replies(), &reply) {
            told.push_str(&format!("; whoever ordered it could not be told: {error}"));
        }
        match std::fs::remove_file(&self.entry.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(sys::Error::at("remove", &self.entry.path)(error).into())
            }
            _ => Ok(told),
        }
    }

    fn erase(&self, home: &Home, env: &Environment) -> Result<String, Failure> {
        read_the_rest(home, env)?;
        let target = match meant(home, env, &self.words)? {
            // It was known when the order was taken: a run was killed when all but this was done.
            Named::Nothing => {
                wring_out(home)?;
                return Ok("nothing is known by that any more".to_owned());
            }
            named => named
                .one(&self.words)
                .map_err(|why| Failure::new(Exit::Usage, why))?,
        };
        let alone = Alone::as_daemon(home)?;
        let erasing = Erasing {
            order: Some(self.entry.path.clone()),
            ..Erasing::of(home, env, &target)?
        };
        erasing.erase(&alone)?.proved()
    }
}
