//! Device verification from the shell: people compare the emoji that both sides show. Messages in rooms are neither read nor
//! lost meanwhile: the sync position does not change.

use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use agent_channel::Spool;
use matrix_sdk::Client;
use matrix_sdk::config::SyncSettings;
use matrix_sdk::encryption::verification::{SasVerification, Verification, VerificationRequest};
use matrix_sdk::ruma::events::key::verification::VerificationMethod;
use matrix_sdk::ruma::{OwnedUserId, UserId};
use matrix_sdk::sync::SyncResponse;
use serde_json::Value;

use crate::error::Error;
use crate::settings::Settings;
use crate::{receive, session};

/// A verification is over after ten minutes (Matrix specification, key verification framework).
const PATIENCE: Duration = Duration::from_secs(600);
/// So long the homeserver waits for something to say.
const WAIT: Duration = Duration::from_secs(2);

/// A verification that is on its way.
struct Flow {
    who: OwnedUserId,
    id: String,
    request: Option<VerificationRequest>,
    sas: Option<SasVerification>,
    is_answered: bool,
}

/// Verifies `user`, or whoever asks first.
///
/// # Errors
/// When it does not come to an end, or the emoji are not the same.
pub async fn run(settings: &Settings, spool: &Spool, user: Option<&str>) -> Result<(), Error> {
    let client = session::restore(settings, spool).await?;
    look(&client, Duration::ZERO).await?;
    let mut flow = match user {
        Some(user) => Some(ask(&client, user).await?),
        None => {
            say("Waiting. In your client, open the agent's profile and choose to verify it.")?;
            None
        }
    };
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let response = look(&client, WAIT).await?;
        if flow.is_none() {
            flow = begun(&client, &response).await?;
        }
        if let Some(flow) = &mut flow
            && step(&client, flow).await?
        {
            // The signature goes out.
            look(&client, Duration::ZERO).await?;
            return say(&format!("{} is verified.", flow.who));
        }
    }
    Err(Error::Refused(
        "nobody responded within ten minutes".to_owned(),
    ))
}

/// Looks at what is new since the library last looked; the channel, which goes on where it was, sees it all once more.
async fn look(client: &Client, wait: Duration) -> Result<SyncResponse, Error> {
    let settings = SyncSettings::new().timeout(wait).filter(receive::filter());
    let response = client.sync_once(settings).await;
    response.map_err(Error::of("what is new"))
}

/// Asks somebody to be verified.
async fn ask(client: &Client, user: &str) -> Result<Flow, Error> {
    let who = UserId::parse(user).map_err(|error| Error::Refused(format!("{user}: {error}")))?;
    let failed = Error::of("asking for a verification");
    let identity = client
        .encryption()
        .request_user_identity(&who)
        .await
        .map_err(&failed)?;
    let identity = identity.ok_or_else(|| {
        Error::Refused(format!(
            "{who} has no identity to verify: they set up secure messaging first"
        ))
    })?;
    let request = identity
        .request_verification_with_methods(vec![VerificationMethod::SasV1])
        .await;
    let request =
        request.map_err(|error| Error::Refused(format!("asking for a verification: {error}")))?;
    say(&format!("Asked {who}; accept it in your client."))?;
    Ok(Flow {
        who,
        id: request.flow_id().to_owned(),
        request: Some(request),
        sas: None,
        is_answered: false,
    })
}

/// Returns the verification that somebody began.
async fn begun(client: &Client, response: &SyncResponse) -> Result<Option<Flow>, Error> {
    let to_device = response.to_device.iter().filter_map(|event| {
        let json: Value = serde_json::from_str(event.as_raw().json().get()).ok()?;
        let is_begin = json["type"] == "m.key.verification.request"
            || json["type"] == "m.key.verification.start";
        let id = json["content"]["transaction_id"]
            .as_str()
            .filter(|_| is_begin)?;
        Some((UserId::parse(json["sender"].as_str()?).ok()?, id.to_owned()))
    });
    let timelines = response
        .rooms
        .joined
        .values()
        .flat_map(|room| &room.timeline.events);
    let in_rooms = timelines.filter_map(|event| {
        let json = receive::json(event)?;
        let is_request = json["content"]["msgtype"] == "m.key.verification.request";
        let id = json["event_id"].as_str().filter(|_| is_request)?;
        Some((UserId::parse(json["sender"].as_str()?).ok()?, id.to_owned()))
    });
    for (who, id) in to_device.chain(in_rooms) {
        let request = client
            .encryption()
            .get_verification_request(&who, &id)
            .await;
        let request = request.filter(|request| !request.we_started() && !request.is_cancelled());
        if let Some(request) = &request {
            say(&format!("{who} asks to be verified."))?;
            let accepted = request
                .accept_with_methods(vec![VerificationMethod::SasV1])
                .await;
            accepted.map_err(Error::of("accepting a verification"))?;
        }
        let is_there = client
            .encryption()
            .get_verification(&who, &id)
            .await
            .is_some();
        if request.is_some() || is_there {
            let (sas, is_answered) = (None, false);
            return Ok(Some(Flow {
                who,
                id,
                request,
                sas,
                is_answered,
            }));
        }
    }
    Ok(None)
}

/// Goes on as far as it can be gone; true when it is done.
async fn step(client: &Client, flow: &mut Flow) -> Result<bool, Error> {
    let failed = Error::of("the verification");
    if let Some(request) = flow
        .request
        .as_ref()
        .filter(|request| request.is_cancelled())
    {
        return Err(cancelled(
            request.cancel_info().map(|info| info.reason().to_owned()),
        ));
    }
    if flow.sas.is_none() {
        let found = client
            .encryption()
            .get_verification(&flow.who, &flow.id)
            .await;
        flow.sas = match (found, &flow.request) {
            (Some(Verification::SasV1(sas)), _) => {
                if !sas.we_started() {
                    sas.accept().await.map_err(&failed)?;
                }
                Some(sas)
            }
            // Who asked begins.
            (None, Some(request)) if request.is_ready() && request.we_started() => {
                request.start_sas().await.map_err(&failed)?
            }
            _ => None,
        };
    }
    let Some(sas) = &flow.sas else {
        return Ok(false);
    };
    if sas.is_cancelled() {
        return Err(cancelled(
            sas.cancel_info().map(|info| info.reason().to_owned()),
        ));
    }
    if sas.is_done() {
        return Ok(true);
    }
    if sas.can_be_presented() && !flow.is_answered {
        flow.is_answered = true;
        if compare(sas)? {
            sas.confirm().await.map_err(&failed)?;
        } else {
            sas.mismatch().await.map_err(&failed)?;
            return Err(Error::Refused(format!(
                "{} is not verified: what they see is something else",
                flow.who
            )));
        }
    }
    Ok(sas.is_done())
}

fn cancelled(why: Option<String>) -> Error {
    let why = why.unwrap_or_else(|| "the other side ended it".to_owned());
    Error::Refused(format!("the verification was ended: {why}"))
}

/// Shows what is to be compared, and returns true when the person says that it is the same.
fn compare(sas: &SasVerification) -> Result<bool, Error> {
    let device = sas.other_device();
    say(&format!(
        "{} on the device {} sees:",
        sas.other_user_id(),
        device.device_id()
    ))?;
    if let Some(emoji) = sas.emoji() {
        let shown: Vec<String> = emoji
            .iter()
            .map(|one| format!("{} {}", one.symbol, one.description))
            .collect();
        say(&format!("  {}", shown.join("   ")))?;
    }
    if let Some((one, two, three)) = sas.decimals() {
        say(&format!("  or the numbers {one} {two} {three}"))?;
    }
    write(b"Is it the same? [y/N] ")?;
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Error::Store(format!("the answer: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Says something to the person.
///
/// # Errors
/// When nobody hears it.
pub fn say(line: &str) -> Result<(), Error> {
    write(format!("{line}\n").as_bytes())
}

fn write(bytes: &[u8]) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    written.map_err(|error| Error::Store(format!("standard output: {error}")))
}
