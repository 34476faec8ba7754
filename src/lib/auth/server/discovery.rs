//! Discovery of the authorization server of a tool server: the tool server names it (RFC 9728), it describes itself
//! (RFC 8414), and we register there as a public client (RFC 7591). Others choose these addresses, so they must be on the
//! public internet, or written by the owner.

use reqwest::header::WWW_AUTHENTICATE;
use reqwest::{Method, StatusCode, Url};
use serde_json::{Value, json};

use super::Place;
use crate::auth::oauth::exchange;
use crate::auth::oauth::{ClientSecret, Stands};
use crate::auth::{Error, oauth};
use crate::net;
use crate::secret::Secret;

/// The largest answer to a registration, bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// How clients say who they are, in the metadata.
const METHODS: &str = "token_endpoint_auth_methods_supported";

/// Where one signs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// How it calls itself.
    pub issuer: String,
    pub authorize_url: String,
    pub token_url: String,
    /// For what the tokens are (RFC 8707).
    pub resource: String,
    /// The requested scope, words separated by spaces.
    pub scope: Option<String>,
    registration: Option<String>,
    /// It gives tokens to clients without a secret.
    takes_public: bool,
    /// Where it takes the secret of a client; `None` when it wants another proof than a secret.
    pub secret_stands: Option<Stands>,
    /// It says in the callback who it is (RFC 9207).
    pub names_itself: bool,
}

impl Issuer {
    /// Returns the host to which codes and secrets go, unless it is that of `server`.
    pub fn foreign_token_host(&self, server: &str) -> Option<String> {
        let host = |url: &str| Url::parse(url).ok()?.host_str().map(str::to_owned);
        let to = host(&self.token_url).unwrap_or_default();
        (host(server).as_ref() != Some(&to)).then_some(to)
    }
}

/// Who we are at an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    pub id: String,
    pub secret: Option<ClientSecret>,
}

/// What a server says of its sign-in.
#[derive(Debug, Default)]
struct Wanted {
    metadata: Option<String>,
    scope: Option<String>,
}

/// Finds where one signs in for the server at `place`; `issuer` is what the owner wrote, or empty.
///
/// # Errors
/// Why not; [`Error::Trouble`].
pub async fn discover(place: &Place, issuer: &str) -> Result<Issuer, Error> {
    let server = parse(&place.url)?;
    let wanted = asked(place, &server).await?;
    let described = described(place, &server, wanted.metadata.as_deref()).await?;
    let resource = described["resource"].as_str().unwrap_or(&place.url);
    if !covers(resource, &server) {
        return Err(trouble(
            &server,
            format!(
                "it says that tokens are for {}, which is another server",
                net::server_text(resource)
            ),
        ));
    }
    let scopes = || {
        let all = described["scopes_supported"].as_array()?.iter();
        let all: Vec<&str> = all.filter_map(Value::as_str).collect();
        Some(all.join(" ")).filter(|all| !all.is_empty())
    };
    let named = described["authorization_servers"][0].as_str();
    let at = match (issuer, named) {
        ("", Some(named)) => named.to_owned(),
        // Servers of before RFC 9728 are their own issuers.
        ("", None) => server.origin().ascii_serialization(),
        (issuer, _) => issuer.to_owned(),
    };
    let metadata = metadata(place, &at).await?;
    read(&metadata, (&at, resource), wanted.scope.or_else(scopes))
}

/// Asks the server without a token, and reads what it wants instead (RFC 9728 §5.1).
async fn asked(place: &Place, server: &Url) -> Result<Wanted, Error> {
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "agent-toolkit", "version": env!("CARGO_PKG_VERSION")}}});
    let request = place
        .request(Method::POST, server.as_str())
        .await?
        .header("accept", "application/json, text/event-stream")
        .json(&hello);
    let response = tokio::time::timeout(oauth::TIMEOUT, request.send())
        .await
        .map_err(|_| trouble(server, "it does not answer".to_owned()))?
        .map_err(|error| trouble(server, net::innermost(&error.without_url())))?;
    if response.status() != StatusCode::UNAUTHORIZED {
        let status = response.status().as_u16();
        let what = format!("it asks for no sign-in (HTTP {status})");
        return Err(trouble(server, what));
    }
    let mut wanted = Wanted::default();
    for header in response.headers().get_all(WWW_AUTHENTICATE) {
        let header = header.to_str().unwrap_or_default();
        wanted.metadata = wanted.metadata.or(parameter(header, "resource_metadata"));
        wanted.scope = wanted.scope.or(parameter(header, "scope"));
    }
    Ok(wanted)
}

/// Returns what the server says of itself as a resource; null when it says nothing.
async fn described(place: &Place, server: &Url, named: Option<&str>) -> Result<Value, Error> {
    let origin = server.origin().ascii_serialization();
    let known = format!("{origin}/.well-known/oauth-protected-resource");
    let path = server.path().trim_end_matches('/');
    let places = match named {
        Some(named) => vec![named.to_owned()],
        None => vec![format!("{known}{path}"), known],
    };
    for url in places {
        if let Some(found) = place.json(&url).await? {
            return Ok(found);
        }
    }
    Ok(Value::Null)
}

/// Returns how an issuer describes itself.
async fn metadata(place: &Place, issuer: &str) -> Result<Value, Error> {
    let at = parse(issuer)?;
    let (origin, path) = (
        at.origin().ascii_serialization(),
        at.path().trim_end_matches('/'),
    );
    let mut places = vec![
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{origin}{path}/.well-known/openid-configuration"));
    }
    for url in places {
        if let Some(found) = place.json(&url).await? {
            return Ok(found);
        }
    }
    let what = "it names no authorization server (no oauth-authorization-server metadata)";
    Err(trouble(&at, what.to_owned()))
}

/// Reads the metadata of the issuer `at`.
fn read(
    metadata: &Value,
    (at, resource): (&str, &str),
    scope: Option<String>,
) -> Result<Issuer, Error> {
    let url = parse(at)?;
    let word = |key: &str| metadata[key].as_str();
    let has = |key: &str, wanted: &str| {
        metadata[key]
            .as_array()
            .map(|all| all.iter().any(|one| one == wanted))
    };
    let wrong = |what: &str| Err(trouble(&url, what.to_owned()));
    // RFC 8414 §3.3: else a server could send us to an issuer that is not the one it names.
    let issuer = word("issuer").unwrap_or_default();
    if issuer.trim_end_matches('/') != at.trim_end_matches('/') {
        return wrong("it calls itself by another name than the one it is reached by");
    }
    if has("code_challenge_methods_supported", "S256") != Some(true) {
        return wrong("it offers no PKCE with S256, so a sign-in there is not safe");
    }
    let (Some(authorize), Some(token)) = (word("authorization_endpoint"), word("token_endpoint"))
    else {
        return wrong("its metadata has no authorization_endpoint or no token_endpoint");
    };
    for endpoint in [authorize, token] {
        let is_web =
            Url::parse(endpoint).is_ok_and(|url| ["https", "http"].contains(&url.scheme()));
        if !is_web {
            return wrong("its endpoints are not http or https URLs");
        }
    }
    Ok(Issuer {
        issuer: issuer.to_owned(),
        authorize_url: authorize.to_owned(),
        token_url: token.to_owned(),
        resource: resource.to_owned(),
        scope,
        registration: word("registration_endpoint").map(str::to_owned),
        takes_public: has(METHODS, "none") != Some(false),
        secret_stands: secret_stands(&metadata[METHODS]),
        names_itself: metadata["authorization_response_iss_parameter_supported"] == true,
    })
}

/// Returns where an issuer with these methods expects the client secret. An issuer that lists none expects it in the
/// header (RFC 8414 §2). Where there is a choice the form is used: its escapes are read the same way everywhere.
fn secret_stands(methods: &Value) -> Option<Stands> {
    let Some(methods) = methods.as_array() else {
        return Some(Stands::InHeader);
    };
    [Stands::InForm, Stands::InHeader]
        .into_iter()
        .find(|stands| methods.iter().any(|method| method == stands.name()))
}

/// Registers us at an issuer, with the address that the browser comes back to.
///
/// # Errors
/// [`Error::Trouble`] when it has no dynamic registration, [`Error::Refused`] when it refuses ours.
pub async fn register(place: &Place, issuer: &Issuer, redirect: &str) -> Result<Client, Error> {
    let at = parse(&issuer.issuer)?;
    let Some(registration) = &issuer.registration else {
        let what = "it does not support dynamic client registration: create a client there and set client_id";
        return Err(trouble(&at, what.to_owned()));
    };
    let method = match (issuer.takes_public, issuer.secret_stands) {
        (true, _) => "none",
        (false, Some(stands)) => stands.name(),
        (false, None) => {
            let what = "it wants a proof of who we are that is no secret, which we have not";
            return Err(trouble(&at, what.to_owned()));
        }
    };
    let mut about = json!({
        "client_name": "agent-toolkit",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
    });
    if let Some(scope) = &issuer.scope {
        about["scope"] = scope.as_str().into();
    }
    let request = place
        .request(Method::POST, registration)
        .await?
        .json(&about);
    let (status, answer) = exchange(request, oauth::TIMEOUT, MAX_ANSWER)
        .await
        .map_err(|reason| trouble(&at, reason))?;
    let word = |key: &str| answer[key].as_str().filter(|word| !word.is_empty());
    match word("client_id").filter(|_| status.is_success()) {
        Some(id) => Ok(Client {
            id: id.to_owned(),
            // It may have decided otherwise than it was asked (RFC 7591 §3.2.1).
            secret: word("client_secret").map(|secret| ClientSecret {
                secret: Secret::new(secret),
                stands: word("token_endpoint_auth_method")
                    .and_then(Stands::named)
                    .or(issuer.secret_stands)
                    .unwrap_or(Stands::InHeader),
            }),
        }),
        None => {
            let code = word("error").unwrap_or_default().to_owned();
            let words = word("error_description").unwrap_or(&code);
            let reason = format!(
                "it refused the registration (HTTP {}) {words}",
                status.as_u16()
            );
            Err(Error::Refused {
                host: oauth::host(&at),
                code,
                reason: net::server_text(&reason),
            })
        }
    }
}

/// Returns true when tokens for `resource` are for this server: its address, or one above it.
fn covers(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else {
        return false;
    };
    let (above, path) = (resource.path().trim_end_matches('/'), server.path());
    let rest = path.strip_prefix(above);
    resource.origin() == server.origin()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns a parameter of a challenge (RFC 9110 §11.6.1).
fn parameter(header: &str, name: &str) -> Option<String> {
    let lower = header.to_ascii_lowercase();
    let begins = format!("{name}=");
    let is_alone = |at: &usize| {
        let before = lower
            .get(..*at)
            .and_then(|before| before.chars().next_back());
        before.is_none_or(|c| c == ' ' || c == ',')
    };
    let (at, _) = lower.match_indices(&begins).find(|(at, _)| is_alone(at))?;
    let value = header.get(at + begins.len()..)?;
    let value = match value.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?.0,
        None => value.split([',', ' ']).next().unwrap_or_default(),
    };
    Some(value.to_owned()).filter(|value| !value.is_empty())
}

fn parse(url: &str) -> Result<Url, Error> {
    Url::parse(url)
        .map_err(|error| Error::trouble(net::server_text(url), format!("no address: {error}")))
}

fn trouble(url: &Url, reason: String) -> Error {
    Error::trouble(oauth::host(url), reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_says_where_to_look() {
        let header = "Bearer realm=\"a, resource_metadata=x\", error=\"invalid_token\", resource_metadata=\"https://a.example/m\", scope=\"read write\"";
        assert_eq!(parameter(header, "scope").as_deref(), Some("read write"));
        assert_eq!(
            parameter(
                "Bearer resource_metadata=https://a.example/m, x=y",
                "resource_metadata"
            )
            .as_deref(),
            Some("https://a.example/m")
        );
        assert_eq!(parameter("Bearer xscope=\"a\"", "scope"), None);
        assert_eq!(parameter("Bearer scope=\"a", "scope"), None);
        assert_eq!(parameter("Basic", "scope"), None);
    }

    #[test]
    fn tokens_are_for_this_server_or_what_is_above_it() {
        let server = Url::parse("https://a.example/team/mcp").expect("an address");
        for (resource, expected) in [
            ("https://a.example/team/mcp", true),
            ("https://a.example/team/mcp/", true),
            ("https://a.example/team", true),
            ("https://a.example", true),
            ("https://a.example/te", false),
            ("https://b.example/team/mcp", false),
            ("http://a.example/team/mcp", false),
            ("https://a.example:8443/team/mcp", false),
            ("a.example", false),
        ] {
            assert_eq!(covers(resource, &server), expected, "{resource}");
        }
    }

    #[test]
    fn secrets_for_another_host_are_noticed() {
        let check = |server: &str, token_url: &str, expected: Option<&str>| {
            let issuer = Issuer {
                issuer: token_url.to_owned(),
                authorize_url: server.to_owned(),
                token_url: token_url.to_owned(),
                resource: server.to_owned(),
                scope: None,
                registration: None,
                takes_public: true,
                secret_stands: None,
                names_itself: false,
            };
            let found = issuer.foreign_token_host(server);
            assert_eq!(found.as_deref(), expected, "{server} {token_url}");
        };
        check(
            "https://a.example/mcp",
            "https://a.example:8443/token",
            None,
        );
        check(
            "https://a.example/mcp",
            "https://evil.example/token",
            Some("evil.example"),
        );
    }

    #[test]
    fn an_issuer_is_who_it_says_it_is_and_takes_s256() {
        let good = json!({
            "issuer": "https://id.example/a", "authorization_endpoint": "https://id.example/authorize",
            "token_endpoint": "https://id.example/token", "code_challenge_methods_supported": ["plain", "S256"],
            "registration_endpoint": "https://id.example/register", "token_endpoint_auth_methods_supported": ["client_secret_post"]
        });
        let read = |metadata: &Value| read(metadata, ("https://id.example/a/", "r"), None);
        let issuer = read(&good).expect("an issuer");
        assert_eq!((issuer.takes_public, issuer.names_itself), (false, false));
        assert_eq!(issuer.secret_stands, Some(Stands::InForm));
        for (methods, expected) in [
            (Value::Null, Some(Stands::InHeader)),
            (
                json!(["client_secret_basic", "none"]),
                Some(Stands::InHeader),
            ),
            (
                json!(["client_secret_basic", "client_secret_post"]),
                Some(Stands::InForm),
            ),
            (json!(["private_key_jwt"]), None),
            (json!([]), None),
        ] {
            assert_eq!(secret_stands(&methods), expected, "{methods}");
        }
        for (key, value) in [
            ("issuer", json!("https://evil.example")),
            ("issuer", Value::Null),
            ("code_challenge_methods_supported", json!(["plain"])),
            ("code_challenge_methods_supported", Value::Null),
            ("authorization_endpoint", json!("javascript:alert(1)")),
            ("authorization_endpoint", json!("file:///etc/passwd")),
            ("token_endpoint", Value::Null),
        ] {
            let mut bad = good.clone();
            bad[key] = value;
            assert!(read(&bad).is_err(), "{bad}");
        }
    }
}
