use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::auth::store::Tokens;
use crate::config::{HomeFlags, OAuth, ProviderType};
use crate::sys::atomic;

fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("parent")).expect("dir");
    atomic::write(path, text.as_bytes(), atomic::Durability::Rename).expect("write");
}

fn provider() -> Provider {
    Provider {
        name: "house".to_owned(),
        kind: ProviderType::Openai,
        base_url: "https://models.example/v1".to_owned(),
        api_key_env: Some("HOUSE_KEY".to_owned()),
        oauth: None,
        scripts_dir: None,
        file: None,
    }
}

/// Keys of a home in `dir` with what each of the five places says.
fn keys(
    dir: &Path,
    credential: bool,
    tokens: Option<&Tokens>,
    key: bool,
    variable: bool,
    file: bool,
) -> Keys {
    let credentials = dir.join("credentials");
    if credential {
        put(&credentials.join("HOUSE_KEY"), "credential-key\n");
    }
    if file {
        put(&dir.join(".env"), "HOUSE_KEY=file-key-00000\n");
    }
    let flags = HomeFlags {
        home: Some(dir.to_owned()),
        ..HomeFlags::default()
    };
    let home = Home::resolve(flags, &|name| {
        (name == "CREDENTIALS_DIRECTORY").then(|| credentials.clone().into())
    })
    .expect("home");
    home.create().expect("directories");
    let variables: &[(&str, &str)] = if variable {
        &[("HOUSE_KEY", "variable-key-0")]
    } else {
        &[]
    };
    let keys = Keys::open(&home, &Environment::of(variables)).expect("open");
    if key {
        keys.store()
            .put_key("house", &Secret::new("stored-key-000"))
            .expect("store");
    }
    if let Some(tokens) = tokens {
        keys.store().put_tokens("house", tokens).expect("store");
    }
    keys
}

fn tokens() -> Tokens {
    Tokens {
        access: Some(Secret::new("access-token-0")),
        ..Tokens::default()
    }
}

fn found(keys: &Keys) -> Vec<(Origin, String)> {
    let shown = |source: Source| {
        (
            source.origin,
            source
                .secret
                .map_or_else(String::new, |key| key.expose().to_owned()),
        )
    };
    keys.sources(&provider())
        .expect("sources")
        .into_iter()
        .map(shown)
        .collect()
}

#[test]
fn a_credential_goes_before_a_sign_in_before_a_stored_key_before_a_variable_before_the_file() {
    let all = [
        (Origin::Credential, "credential-key".to_owned()),
        (Origin::SignIn, "access-token-0".to_owned()),
        (Origin::Stored, "stored-key-000".to_owned()),
        (Origin::Environment, "variable-key-0".to_owned()),
        (Origin::EnvFile, "file-key-00000".to_owned()),
    ];
    for absent in 0..=5 {
        let dir = tempfile::tempdir().expect("dir");
        let is = |place: usize| place != absent;
        let keys = keys(
            dir.path(),
            is(0),
            is(1).then(tokens).as_ref(),
            is(2),
            is(3),
            is(4),
        );
        let expected: Vec<_> = all
            .iter()
            .enumerate()
            .filter(|(place, _)| is(*place))
            .map(|(_, found)| found.clone())
            .collect();
        assert_eq!(found(&keys), expected);
    }
}

#[test]
fn a_sign_in_that_has_ended_is_none() {
    let dir = tempfile::tempdir().expect("dir");
    let ended = Tokens {
        signed_out: Some("taken back".to_owned()),
        ..tokens()
    };
    let keys = keys(dir.path(), false, Some(&ended), false, false, false);
    assert_eq!(found(&keys), []);
    assert!(
        matches!(keys.check(&provider()), Err(Error::SignedOut { reason, .. }) if reason == "taken back")
    );
    keys.store().remove(None).expect("remove");
    assert!(
        matches!(keys.check(&provider()), Err(Error::Absent { provider }) if provider == "house")
    );
}

#[test]
fn a_sign_in_that_ran_out_and_cannot_be_renewed_hides_no_other_key() {
    let dir = tempfile::tempdir().expect("dir");
    let over = Tokens {
        expires_at: Some(1000),
        obtained_at: Some(0),
        ..tokens()
    };
    let own = keys(dir.path(), false, Some(&over), false, true, false);
    assert_eq!(
        found(&own),
        [(Origin::Environment, "variable-key-0".to_owned())]
    );
    let dir = tempfile::tempdir().expect("dir");
    let own = keys(dir.path(), false, Some(&over), false, false, false);
    assert!(matches!(
        own.check(&provider()),
        Err(Error::SignedOut { .. })
    ));
    let dir = tempfile::tempdir().expect("dir");
    let renewable = Tokens {
        refresh: Some(Secret::new("refresh-token-0")),
        ..over
    };
    let own = keys(dir.path(), false, Some(&renewable), false, true, false);
    assert_eq!(found(&own).len(), 2);
}

#[test]
fn a_server_that_names_no_key_has_one_when_it_is_stored_and_needs_none() {
    let dir = tempfile::tempdir().expect("dir");
    let keys = keys(dir.path(), true, None, false, true, true);
    let own = Provider {
        api_key_env: None,
        ..provider()
    };
    assert_eq!(
        (
            keys.sources(&own).expect("sources"),
            keys.check(&own).is_ok()
        ),
        (Vec::new(), true)
    );
    keys.store()
        .put_key("house", &Secret::new("stored-key-000"))
        .expect("store");
    assert_eq!(
        keys.sources(&own)
            .expect("sources")
            .first()
            .map(|source| source.origin),
        Some(Origin::Stored)
    );
    let table = OAuth {
        authorize_url: String::new(),
        token_url: String::new(),
        client_id: String::new(),
        scope: None,
        redirect_port: None,
    };
    keys.store().remove(None).expect("remove");
    let house = Provider {
        oauth: Some(table),
        ..own
    };
    assert!(
        matches!(keys.check(&house), Err(Error::Absent { .. })),
        "a sign-in is on offer and nobody is signed in"
    );
}

#[tokio::test]
async fn a_file_that_others_can_read_is_no_reason_to_take_another_key() {
    let dir = tempfile::tempdir().expect("dir");
    let keys = Arc::new(keys(dir.path(), false, None, true, true, false));
    let key = ProviderKey::new(
        keys.clone(),
        Arc::new(provider()),
        crate::net::client().expect("TLS"),
    );
    let given = key.key().await.expect("a key").expect("a key");
    assert_eq!(
        (given.secret.expose(), given.is_token),
        ("stored-key-000", false)
    );
    assert_eq!(
        key.renew(&given)
            .await
            .expect("the same")
            .map(|other| other == given),
        Some(true)
    );
    // A machine that has no descriptor left says nothing about the key.
    let full = std::io::Error::from_raw_os_error(nix::libc::EMFILE);
    let error = key.provider_error(crate::sys::Error::at("read", keys.store().path())(full).into());
    assert!(error.retryable(), "{error}");
    std::fs::set_permissions(keys.store().path(), std::fs::Permissions::from_mode(0o644))
        .expect("chmod");
    let error = key.key().await.expect_err("it is open").to_string();
    let path = keys.store().path().display();
    assert_eq!(
        error,
        format!(
            "models.example refused the key (401): {path}: its mode 0644 lets group or others read it; run: chmod 600 {path}"
        )
    );
}
