use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use super::*;
use crate::config::error::Kind;
use crate::config::home::HomeFlags;

struct Place(tempfile::TempDir);

impl Place {
    fn new(env_file: &str, mode: u32) -> Self {
        let place = Self(tempfile::tempdir().expect("dir"));
        place.put(".env", env_file, mode);
        place
    }

    fn put(&self, name: &str, text: &str, mode: u32) {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("dir");
        let file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path);
        file.expect("create")
            .write_all(text.as_bytes())
            .expect("write");
        // The umask may have taken bits away.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("chmod");
    }

    fn secrets(&self, env: &[(&str, &str)]) -> Result<Secrets, Error> {
        let flags = HomeFlags {
            home: Some(self.0.path().to_owned()),
            ..HomeFlags::default()
        };
        let credentials = self.0.path().join("credentials");
        let home = Home::resolve(flags, &|name| {
            (name == "CREDENTIALS_DIRECTORY").then(|| credentials.clone().into())
        })
        .expect("home");
        Secrets::open(&home, &Environment::of(env))
    }
}

#[test]
fn credential_wins_over_environment_over_env_file() {
    let place = Place::new("A=file-a\nB=file-b\nC=file-c\n", 0o600);
    place.put("credentials/A", "credential-a\n", 0o400);
    let secrets = place
        .secrets(&[("A", "variable-a"), ("B", "variable-b")])
        .expect("open");
    let found = |name: &str| {
        secrets
            .find(name)
            .expect("find")
            .map(|(secret, origin)| (secret.expose().to_owned(), origin))
    };
    assert_eq!(
        found("A"),
        Some(("credential-a".to_owned(), SecretOrigin::Credential))
    );
    assert_eq!(
        found("B"),
        Some(("variable-b".to_owned(), SecretOrigin::Environment))
    );
    assert_eq!(
        found("C"),
        Some(("file-c".to_owned(), SecretOrigin::EnvFile))
    );
    assert_eq!(found("D"), None);
}

#[test]
fn an_empty_value_is_unset() {
    let place = Place::new("A=\nB=file\n", 0o600);
    place.put("credentials/B", "\n", 0o400);
    let secrets = place.secrets(&[("B", "")]).expect("open");
    assert_eq!(secrets.get("A").expect("get"), None);
    assert_eq!(
        secrets.find("B").expect("find").map(|(_, origin)| origin),
        Some(SecretOrigin::EnvFile)
    );
    // A program is given it as it is.
    let secrets = place.secrets(&[("C", "")]).expect("open");
    let given = ["A", "B", "C", "D"].map(|name| secrets.variable(name).expect("get"));
    let given = given.each_ref().map(Option::as_deref);
    assert_eq!(given, [Some(""), Some("file"), Some(""), None]);
}

#[test]
fn an_env_file_that_others_can_read_is_refused_with_the_command() {
    for mode in [0o640, 0o604, 0o644] {
        let place = Place::new("A=x\n", mode);
        let error = place.secrets(&[]).expect_err("open to others");
        let path = place.0.path().join(".env");
        assert_eq!(
            error.to_string(),
            format!(
                "{}: its mode {mode:04o} lets group or others read it",
                path.display()
            )
        );
        assert_eq!(
            (error.hint(), error.kind()),
            (format!("chmod 600 {}", path.display()), Kind::Config)
        );
    }
}

#[test]
fn a_missing_env_file_is_fine_and_an_unreadable_one_is_not() {
    let place = Place(tempfile::tempdir().expect("dir"));
    assert_eq!(
        place.secrets(&[]).expect("open").get("A").expect("get"),
        None
    );
    std::fs::create_dir(place.0.path().join(".env")).expect("a directory in its place");
    std::fs::set_permissions(
        place.0.path().join(".env"),
        std::fs::Permissions::from_mode(0o700),
    )
    .expect("chmod");
    assert!(matches!(place.secrets(&[]), Err(Error::Io { .. })));
}

#[test]
fn a_bad_line_is_named_by_number_and_never_shown() {
    let error = Place::new("A=1\n\nsk-canary-0815\n", 0o600)
        .secrets(&[])
        .expect_err("bad line");
    assert!(
        error.to_string().ends_with(".env:3: there is no `=`"),
        "{error}"
    );
    assert!(!format!("{error:?} {}", error.hint()).contains("canary"));
}

#[test]
fn a_name_that_is_none_is_refused_and_not_shown() {
    let secrets = Place::new("", 0o600).secrets(&[]).expect("open");
    for name in ["../agent.toml", "123456:canary-token", ""] {
        let error = secrets.get(name).expect_err(name);
        assert!(
            !format!("{error:?} {error} {}", error.hint()).contains("canary"),
            "{error}"
        );
    }
}

#[test]
fn secrets_are_redacted_from_the_moment_they_are_read() {
    let secrets = Place::new("A='canary\"with\\quotes'\n", 0o600)
        .secrets(&[])
        .expect("open");
    let line = serde_json::json!({ "url": format!("x{}y", secrets.get("A").expect("get").expect("A").expose()) }).to_string();
    assert_eq!(crate::secret::redact(&line), "{\"url\":\"x[redacted]y\"}");
    assert!(!format!("{secrets:?}").contains("canary"));
}

#[test]
fn a_setting_in_the_env_file_is_pointed_out() {
    let warnings = Place::new("AGENT_LOG__LEVEL=debug\nAGENT_HTTP_TOKEN=x\n", 0o600)
        .secrets(&[])
        .expect("open")
        .misplaced_settings();
    assert_eq!(
        warnings
            .iter()
            .map(|warning| warning.key.as_str())
            .collect::<Vec<_>>(),
        ["AGENT_LOG__LEVEL"]
    );
}

#[test]
fn an_entry_that_nothing_reads_and_that_looks_like_a_missing_one_is_pointed_out() {
    let names = [
        "TELEGRAM_BOT_TOKEN",
        "MAIL_KEY",
        "SET",
        "ALPHA_API_KEY",
        "BETA_API_KEY",
    ];
    let names = names.map(str::to_owned);
    let text = "TELEGRAM_BOT_TOKNE=x\nmail_key=x\nMAIL_KEY_OF_ANOTHER=x\nSET=x\nSETS=x\n\
                TELEGRAM_TOKEN=x\nBOT_TOKEN=x\nTOKEN=x\nAPI_KEY=x\n";
    let secrets = Place::new(text, 0o600).secrets(&[]).expect("open");
    let told: Vec<(String, String)> = secrets
        .misspelt(&names)
        .into_iter()
        .map(|warning| (warning.key, warning.message))
        .collect();
    let meant =
        |name: &str| format!("is read by nothing; did you mean `{name}`, which is not set?");
    assert_eq!(
        told,
        [
            ("BOT_TOKEN".to_owned(), meant("TELEGRAM_BOT_TOKEN")),
            ("TELEGRAM_BOT_TOKNE".to_owned(), meant("TELEGRAM_BOT_TOKEN")),
            ("TELEGRAM_TOKEN".to_owned(), meant("TELEGRAM_BOT_TOKEN")),
            ("mail_key".to_owned(), meant("MAIL_KEY")),
        ]
    );
    let set = [
        ("TELEGRAM_BOT_TOKEN", "x"),
        ("MAIL_KEY", "x"),
        ("ALPHA_API_KEY", "x"),
        ("BETA_API_KEY", "x"),
    ];
    let secrets = Place::new(text, 0o600).secrets(&set).expect("open");
    assert_eq!(
        secrets.misspelt(&names).len(),
        0,
        "what is set is not missed"
    );
}
