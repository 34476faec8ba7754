//! Erasing while a daemon runs. The command waits in the spool; the daemon ends its turns and restarts, and erases at its
//! start, before it opens anything. After a kill at any moment the command is still there.

use super::{Erasure, Error, Locks, Named, meant, read_rest, vacuum};
use crate::config::{Environment, Home};
use crate::control;
use crate::control::Command;
use crate::control::replies;
use crate::control::replies::{Reply, Status};
use crate::control::spool;
use crate::control::spool::Entry;
use crate::sys;

/// An order to erase that waits in the spool.
pub struct EraseOrder {
    entry: Entry,
    words: String,
}

/// Returns the orders that wait, in the order of their ids.
///
/// # Errors
/// When the spool cannot be read.
pub fn waiting(home: &Home) -> Result<Vec<EraseOrder>, Error> {
    let mut orders = Vec::new();
    for entry in spool::scan(&home.spool_new())? {
        // What cannot be read, or is not a command, is reported where the spool is emptied.
        let Ok(Some(bytes)) = spool::read(&entry) else {
            continue;
        };
        let Ok(order) = control::decode(&bytes) else {
            continue;
        };
        if let Command::Forget { target, hard: true } = order.command
            && order.id == entry.id
        {
            let words = target;
            orders.push(EraseOrder { entry, words });
        }
    }
    Ok(orders)
}

impl EraseOrder {
    /// Erases what is ordered, as the daemon, which has its lock, and replies to the caller that ordered it. Returns the reply.
    ///
    /// # Errors
    /// When the order cannot be taken out of the spool: it would be carried out forever.
    pub fn carry_out(self, home: &Home, env: &Environment) -> Result<String, Error> {
        let id = self.entry.id.as_str();
        let (reply, mut told) = match self.erase(home, env) {
            Ok(told) => {
                let reply = Some(told.clone());
                (
                    Reply {
                        reply,
                        ..Reply::new(id, Status::Done)
                    },
                    told,
                )
            }
            Err(error) => {
                let hint = error.hint();
                let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
                let why = format!("{error}{hint}");
                (Reply::error(id, &why), why)
            }
        };
        // On a full disk the daemon starts nevertheless; who ordered it hears nothing, and looks.
        if let Err(error) = replies::write(&home.replies(), &reply) {
            told.push_str(&format!("; the reply could not be written: {error}"));
        }
        match std::fs::remove_file(&self.entry.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(sys::Error::at("remove", &self.entry.path)(error).into())
            }
            _ => Ok(told),
        }
    }

    fn erase(&self, home: &Home, env: &Environment) -> Result<String, Error> {
        read_rest(home, env)?;
        let named = meant(home, env, &self.words)?;
        // It was known when the order was taken: a run was killed when all except this was done.
        if named == Named::Nothing {
            vacuum(home)?;
            return Ok("nothing is known under this name any more".to_owned());
        }
        let target = named.one(&self.words).map_err(Error::Unclear)?;
        let locks = Locks::as_daemon(home)?;
        let erasure = Erasure {
            order: Some(self.entry.path.clone()),
            ..Erasure::of(home, env, &target)?
        };
        erasure.erase(&locks)?.proved()
    }
}
