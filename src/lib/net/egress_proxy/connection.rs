//! One connection of a program: what it asks for, the decision, and the bytes.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::relay::{Ended, relay};
use super::request::{
    Asked, SOCKS_GRANTED, SOCKS_REFUSED, SOCKS_UNREACHABLE, Way, answer_socks, read, reject,
};
use super::rules::{Destination, Refusal};
use super::{Answer, Shared};

/// How long one address may take to answer.
const CONNECT: Duration = Duration::from_secs(10);

/// Serves a connection until it ends.
pub(super) async fn serve(shared: &Shared, mut client: TcpStream) {
    let Some(Asked {
        destination,
        way,
        rest,
    }) = read(&mut client).await
    else {
        return;
    };
    let server = match open(shared, &destination).await {
        Ok(server) => server,
        Err(why) => {
            shared.refuse(&destination, &why);
            return refuse(&mut client, &way, &why).await;
        }
    };
    let bytes = shared.bytes(&destination);
    let (initial, granted) = match way {
        Way::Tunnel => {
            let answer = b"HTTP/1.1 200 Connection established\r\n\r\n";
            let sent = tokio::io::AsyncWriteExt::write_all(&mut client, answer).await;
            (rest, sent.is_ok())
        }
        Way::Socks => {
            answer_socks(&mut client, SOCKS_GRANTED).await;
            (rest, true)
        }
        Way::Forward(head) => ([head, rest].concat(), true),
    };
    if !granted {
        return;
    }
    let mut server = server;
    let name = shared.rules.name_in_tls(&destination);
    let ended = relay(&mut client, &mut server, initial, name, &bytes).await;
    if let Err(Ended::OtherName(other)) = ended {
        shared.refuse(
            &destination,
            &Refusal::OtherName(destination.clone(), crate::net::server_text(&other)),
        );
    }
}

/// Connects to a destination that may be connected to.
async fn open(shared: &Shared, destination: &Destination) -> Result<TcpStream, Refusal> {
    if let Err(why) = shared.rules.check(destination) {
        match &shared.ask {
            Some(ask) if shared.rules.may_be_asked(destination, &why) => {
                // Until there is an answer this stands: a program may end before.
                shared.refuse(destination, &Refusal::Unanswered(destination.clone()));
                match ask(destination.clone()).await {
                    Answer::Yes => shared.allow(destination),
                    Answer::No(said) => return Err(Refusal::Denied(destination.clone(), said)),
                    Answer::Nobody => return Err(why),
                }
            }
            _ => return Err(why),
        }
    }
    let mut last = "it has no address".to_owned();
    for address in shared.rules.addresses(destination).await? {
        match timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(server)) => {
                let _ = server.set_nodelay(true);
                return Ok(server);
            }
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => last = "it does not answer".to_owned(),
        }
    }
    Err(Refusal::Unreachable(destination.clone(), last))
}

async fn refuse(client: &mut TcpStream, way: &Way, why: &Refusal) {
    match way {
        Way::Socks if why.is_by_rule() => answer_socks(client, SOCKS_REFUSED).await,
        Way::Socks => answer_socks(client, SOCKS_UNREACHABLE).await,
        Way::Tunnel | Way::Forward(_) => {
            let status = if why.is_by_rule() { "403" } else { "502" };
            reject(client, status, &why.to_string()).await;
        }
    }
}
