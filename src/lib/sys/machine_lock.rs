//! A name on this machine that one process holds: a socket in the abstract namespace (unix(7)).
//!
//! It is for work to be done once on a machine, not once in a home. A lock file would need one place that
//! a shell, cron and hardened units of one user all see and may write, and there is none: `/tmp` is private
//! to a unit, `$XDG_RUNTIME_DIR` is absent in cron, home and state differ from unit to unit. The kernel
//! takes the name back when the process ends, however it ends, and nothing stays behind.
//!
//! Every user can take a name, so a name held by another user (except root) is reported and ignored: nobody can lock our user
//! out.

use std::io;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

/// A name that is held until this is dropped.
#[derive(Debug)]
pub struct Claim {
    _answering: JoinSet<()>,
}

/// Who has the name.
#[derive(Debug)]
pub enum Held {
    /// We, now.
    ByUs(Claim),
    /// Another process of our user or of root.
    ByOther {
        /// Its process id; `None` when it cannot be seen from here (another container).
        pid: Option<i32>,
    },
    /// A process of another user, whose word does not count.
    ByStranger,
}

/// Takes `name`, or says who has it. Needs the event loop, which answers those who ask us.
///
/// # Errors
/// When there are no such sockets here.
pub async fn take(name: &str) -> io::Result<Held> {
    let name = format!("\0{name}");
    match UnixListener::bind(&name) {
        Ok(listener) => {
            let mut answering = JoinSet::new();
            answering.spawn(async move {
                loop {
                    // To be connected is the answer: the kernel tells who we are.
                    if listener.accept().await.is_err() {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                }
            });
            Ok(Held::ByUs(Claim {
                _answering: answering,
            }))
        }
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            // It cannot be asked when it was stopped for long, or has just gone.
            let Ok(holder) = UnixStream::connect(&name)
                .await
                .and_then(|stream| stream.peer_cred())
            else {
                return Ok(Held::ByOther { pid: None });
            };
            let obeyed = [nix::unistd::geteuid().as_raw(), 0].contains(&holder.uid());
            Ok(if obeyed {
                Held::ByOther {
                    pid: holder.pid().filter(|pid| *pid > 0),
                }
            } else {
                Held::ByStranger
            })
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_holds_a_name_until_it_lets_go_and_others_learn_who() {
        let name = format!("agent-toolkit/test/{}", uuid::Uuid::new_v4());
        let Held::ByUs(first) = take(&name).await.expect("sockets") else {
            panic!("it was free")
        };
        for _ in 0..200 {
            let Held::ByOther { pid } = take(&name).await.expect("sockets") else {
                panic!("it is taken")
            };
            assert_eq!(pid, i32::try_from(std::process::id()).ok());
        }
        drop(first);
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while !matches!(take(&name).await.expect("sockets"), Held::ByUs(_)) {
            assert!(std::time::Instant::now() < until, "it is free again");
            tokio::task::yield_now().await;
        }
    }
}
