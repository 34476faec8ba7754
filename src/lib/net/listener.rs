//! Listeners for requests: an address and a port, or a socket in the file system.

use std::net::IpAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};

use crate::config::Listen;

/// A bound address. A socket's file goes when this is dropped.
#[derive(Debug)]
pub struct Listener(Bound);

#[derive(Debug)]
enum Bound {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Listener {
    /// Listens at an address; a socket in the file system gets this `mode`. One that nobody listens on any
    /// more is replaced, which only who holds the lock of the daemon may do.
    ///
    /// # Errors
    /// When the address does not belong to this machine, in use, or not ours to use.
    pub async fn bind(listen: &Listen, mode: u32) -> std::io::Result<Self> {
        match listen {
            Listen::Tcp(address) => TcpListener::bind(address)
                .await
                .map(|listener| Self(Bound::Tcp(listener))),
            Listen::Unix(path) => {
                remove_abandoned(path).await?;
                let listener = UnixListener::bind(path)?;
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
                Ok(Self(Bound::Unix(listener, path.clone())))
            }
        }
    }

    /// Returns the next connection, and the address of who made it; none on a socket in the file system.
    ///
    /// # Errors
    /// When there is none to be had, as when file descriptors run out.
    pub async fn accept(&self) -> std::io::Result<(Box<dyn Stream>, Option<IpAddr>)> {
        match &self.0 {
            Bound::Tcp(listener) => {
                let (stream, client) = listener.accept().await?;
                // Answers are short, and the next one does not wait for the last one's receipt.
                stream.set_nodelay(true)?;
                Ok((Box::new(stream), Some(client.ip())))
            }
            Bound::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok((Box::new(stream), None))
            }
        }
    }

    /// Returns the address as a client may write it; a port that was left to the system is known now.
    pub fn address(&self) -> String {
        match &self.0 {
            Bound::Tcp(listener) => listener
                .local_addr()
                .map(|address| address.to_string())
                .unwrap_or_default(),
            Bound::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Bound::Unix(_, path) = &self.0 {
            // The next one replaces one that stays.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Returns whether the address could be listened at now. Of a socket in the file system only its directory is
/// looked at.
///
/// # Errors
/// Why it could not.
pub fn probe(listen: &Listen) -> std::io::Result<()> {
    match listen {
        Listen::Tcp(address) => std::net::TcpListener::bind(address).map(drop),
        Listen::Unix(path) => std::fs::metadata(path.parent().unwrap_or(path)).map(drop),
    }
}

/// A socket that nobody listens on any more is in the way; one that somebody does, another user's or another
/// file is not ours to remove.
async fn remove_abandoned(path: &Path) -> std::io::Result<()> {
    let own = nix::unistd::geteuid().as_raw();
    let is_socket = std::fs::symlink_metadata(path)
        .is_ok_and(|meta| meta.file_type().is_socket() && meta.uid() == own);
    if is_socket
        && UnixStream::connect(path)
            .await
            .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    {
        std::fs::remove_file(path)?;
    }
    Ok(())
}
