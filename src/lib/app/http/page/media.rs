//! The page at `/media`: the descriptions of pictures, stickers and films next to their pictures, for correction by hand. A
//! form writes a file below `[agent] config_path`, or clears an entry of the cache; pages of other sites cannot send it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, LOCATION, ORIGIN};
use serde::Deserialize;

use super::html::Html;
use super::{Look, MAX_QUESTION, begin, document, end, policy, stamp};
use crate::app::documents;
use crate::app::http::body::Fields;
use crate::app::http::error::ApiError;
use crate::app::http::{Api, body};
use crate::media;
use crate::media::descriptions::{Descriptions, Record, Status};
use crate::sandbox::Root;

/// Where it is.
pub(in crate::app::http) const PATH: &str = "/media";
/// Where the pictures are, each by the id of its description.
pub(in crate::app::http) const PICTURE: &str = "/media/picture";
/// Descriptions that are shown at once.
const SHOWN: usize = 60;
/// The largest picture, bytes; a model is shown no larger one.
const MAX_PICTURE: u64 = 4 << 20;
/// Of a picture nothing is loaded and nothing in it runs.
const PICTURE_POLICY: &str = "default-src 'none'; sandbox; frame-ancestors 'none'";

/// What is looked for.
#[derive(Debug, Deserialize)]
pub(in crate::app::http) struct Asked {
    q: Option<String>,
}

/// What a form says.
#[derive(Debug, Deserialize)]
#[serde(expecting = "the form of /media")]
struct Change {
    unique_id: String,
    #[serde(default)]
    description: String,
    #[serde(rename = "do")]
    deed: Deed,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Deed {
    /// Written for this agent.
    Agent,
    /// Written for all agents.
    All,
    /// The entry of the cache is removed: the file is described again when it comes.
    Clear,
}

/// Whose picture is asked for.
#[derive(Debug, Deserialize)]
pub(in crate::app::http) struct AskedPicture {
    id: String,
}

/// Sends the picture that was looked at for a description, while it is kept.
pub(in crate::app::http) async fn picture(
    State(api): State<Arc<Api>>,
    Fields(AskedPicture { id }): Fields<AskedPicture>,
) -> Result<Response, ApiError> {
    let (known, downloads) = (api.pipeline.descriptions(), api.home.downloads());
    let read = move || picture_of(&known, &downloads, &id);
    let (bytes, content_type) = crate::sys::blocking(read)
        .await
        .ok_or_else(|| ApiError::not_found("no picture of it is kept"))?;
    let headers = [
        (CONTENT_TYPE, content_type),
        (CONTENT_SECURITY_POLICY, PICTURE_POLICY),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    Ok((headers, bytes).into_response())
}

/// Returns a picture and its type. The record is a file that others may have changed: only pictures below the downloads
/// are read.
fn picture_of(known: &Descriptions, downloads: &Path, id: &str) -> Option<(Vec<u8>, &'static str)> {
    let record = known.known(id)?;
    let root = Root::open(downloads).ok()?;
    let bytes = root.read(Path::new(&record.picture?), MAX_PICTURE).ok()?;
    match media::sniff(&bytes) {
        Some(media::Kind::Picture(content_type)) => Some((bytes, content_type)),
        _ => None,
    }
}

/// Shows the page.
pub(in crate::app::http) async fn show(
    State(api): State<Arc<Api>>,
    Fields(Asked { q }): Fields<Asked>,
) -> Result<Response, ApiError> {
    let question = crate::text::shorten(q.unwrap_or_default().trim(), MAX_QUESTION);
    let (home, env, known) = (
        api.home.clone(),
        api.env.clone(),
        api.pipeline.descriptions(),
    );
    let downloads = api.home.downloads();
    let draw = move || {
        let (zone, _) = documents::zone(&home, &env);
        let mut page = begin("agent: pictures in words");
        page.raw("<header><h1>Pictures in words</h1><p><a href=\"/\">the agent</a></p></header>");
        page.raw("<section><form method=\"get\" action=\"/media\"><input type=\"search\" name=\"q\" maxlength=\"400\" ");
        page.raw("aria-label=\"Search the descriptions\" placeholder=\"Search the descriptions\" value=\"")
            .text(&question);
        page.raw("\"> <button>Search</button></form>");
        let (found, more) = found(&known, &question);
        if found.is_empty() {
            page.paragraph("quiet", "Nothing is described.");
        }
        if known.curated.is_empty() {
            page.paragraph(
                "trouble",
                "Set [agent] config_path in agent.toml: what you write is kept in its first directory.",
            );
        }
        for record in &found {
            let is_kept = |path: &String| downloads.join(path).is_file();
            let kept = record.picture.as_ref().is_some_and(is_kept);
            article(
                &mut page,
                (record, kept),
                &stamp(&record.ts, zone),
                !known.curated.is_empty(),
            );
        }
        if more > 0 {
            page.paragraph("quiet", &format!("and {more} more"));
        }
        page.raw("</section>");
        end(page, zone)
    };
    let text = crate::sys::blocking(draw).await;
    // A form that a page without a referrer sends has no Origin either.
    let look = Look {
        referrer: "same-origin",
        policy: format!("{}; img-src 'self'", policy()),
    };
    Ok(document(text, look))
}

/// Returns the newest records in which all words of the question stand, and how many more there are.
fn found(known: &Descriptions, question: &str) -> (Vec<Record>, usize) {
    let words: Vec<String> = question
        .to_lowercase()
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let is_asked_for = |record: &Record| {
        let set = record.sticker_set_name.as_deref().unwrap_or_default();
        let name = record.sticker_name.as_deref().unwrap_or_default();
        let what = record.description.as_deref().unwrap_or_default();
        let all = format!("{} {} {set} {name} {what}", record.unique_id, record.kind);
        let all = all.to_lowercase();
        words.iter().all(|word| all.contains(word))
    };
    let mut found = known.all();
    found.retain(is_asked_for);
    found.sort_by(|one, other| other.ts.cmp(&one.ts));
    let more = found.len().saturating_sub(SHOWN);
    found.truncate(SHOWN);
    (found, more)
}

fn article(page: &mut Html, (record, kept): (&Record, bool), at: &str, may_write: bool) {
    page.raw("<article class=\"picture\">");
    if kept {
        page.raw("<img loading=\"lazy\" alt=\"\" src=\"");
        page.text(&format!("{PICTURE}?id={}", record.unique_id))
            .raw("\">");
    } else {
        page.paragraph("quiet", "no picture is kept");
    }
    page.raw("<div><h3>").text(&record.kind);
    if let Some((set, name)) = record
        .sticker_set_name
        .as_ref()
        .zip(record.sticker_name.as_ref())
    {
        page.text(&format!(" {set} :: {name}"));
    }
    let state = match record.status {
        Status::Curated => "by hand",
        Status::Generated => "by a model",
        Status::Unsupported => "nobody can look at it",
        Status::TemporaryFailure => "failed, is tried again",
        Status::PermanentFailure => "failed",
    };
    page.raw(" <span>");
    page.text(&format!("{} · {state} · {at}", record.unique_id));
    page.raw("</span></h3>");
    if let Some(why) = &record.failure_reason {
        page.paragraph("trouble", why);
    }
    page.raw("<form method=\"post\" action=\"/media\"><input type=\"hidden\" name=\"unique_id\" value=\"");
    page.text(&record.unique_id);
    page.raw("\"><input name=\"description\" maxlength=\"1000\" aria-label=\"What it appears as\" value=\"");
    page.text(record.description.as_deref().unwrap_or_default());
    page.raw("\">");
    if may_write {
        page.raw("<button name=\"do\" value=\"agent\">For this agent</button>");
        page.raw("<button name=\"do\" value=\"all\">For all</button>");
    }
    if record.status != Status::Curated {
        page.raw("<button name=\"do\" value=\"clear\">Describe again</button>");
    }
    page.raw("</form></div></article>");
}

/// Carries out what a form says, and shows the page again.
pub(in crate::app::http) async fn change(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, ApiError> {
    // A browser names the page that sends a form, and adds a password by itself wherever the form comes from.
    if !request.headers().contains_key(ORIGIN) {
        return Err(ApiError::forbidden("a form is sent with the header Origin"));
    }
    let change: Change = body::form(request).await?;
    let (known, dirs) = (api.pipeline.descriptions(), api.pipeline.config_path());
    let name = api.pipeline.live().config.agent.name.clone();
    let work = move || carry_out(&known, &dirs, &name, change);
    let done = crate::sys::blocking(work).await;
    done.map_err(ApiError::bad)?;
    Ok((StatusCode::SEE_OTHER, [(LOCATION, PATH)]).into_response())
}

fn carry_out(
    known: &Descriptions,
    dirs: &[PathBuf],
    agent: &str,
    change: Change,
) -> Result<(), String> {
    let id = change.unique_id;
    let first = || {
        dirs.first()
            .ok_or("[agent] config_path in agent.toml names no directory")
    };
    let dir = match change.deed {
        Deed::Clear => return known.clear(&id),
        Deed::Agent => first()?.join("agents").join(agent).join("media"),
        Deed::All => first()?.join("media"),
    };
    let words = crate::text::one_line(&change.description);
    if words.is_empty() {
        return Err("the description is empty".to_owned());
    }
    let record = known.known(&id).unwrap_or_default();
    known.curate(
        &dir,
        Record {
            unique_id: id,
            description: Some(words),
            ..record
        },
    )
}
