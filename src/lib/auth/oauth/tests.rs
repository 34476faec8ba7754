use super::*;
use crate::config::ProviderType;

fn provider(name: &str, base_url: &str, oauth: Option<OAuth>) -> Provider {
    let (name, base_url) = (name.to_owned(), base_url.to_owned());
    Provider {
        name,
        kind: ProviderType::Openai,
        base_url,
        api_key_env: None,
        oauth,
        scripts_dir: None,
        file: None,
    }
}

fn house() -> OAuth {
    OAuth {
        authorize_url: "https://id.example/authorize?access_type=offline".to_owned(),
        token_url: "https://id.example/token".to_owned(),
        client_id: "me & mine".to_owned(),
        scope: Some("a b".to_owned()),
        redirect_port: None,
    }
}

/// The address without what is random in it.
fn address(flow: &Flow) -> String {
    let mut url = Url::parse(&flow.url().expect("an address")).expect("an address");
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let shown = |(key, value): (String, String)| match key.as_str() {
        "state" | "code_challenge" => format!("{key}:{}", value.len()),
        _ => format!("{key}={value}"),
    };
    url.set_query(None);
    format!(
        "{url} {}",
        pairs.into_iter().map(shown).collect::<Vec<_>>().join(" ")
    )
}

#[test]
fn the_challenge_is_the_one_of_rfc_7636() {
    // Appendix B.
    let mut flow = Flow::new(&provider("house", "", Some(house())), 1).expect("a sign-in");
    flow.verifier = Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    assert!(flow.url().expect("an address").contains(
        "code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256"
    ));
}

#[test]
fn an_issuer_is_sent_everything_and_its_own_query_stays() {
    let flow =
        Flow::new(&provider("house", "https://m.example", Some(house())), 4711).expect("a sign-in");
    let expected = "https://id.example/authorize access_type=offline response_type=code client_id=me & mine \
                    redirect_uri=http://127.0.0.1:4711/callback state:43 scope=a b code_challenge:43 code_challenge_method=S256";
    assert_eq!(
        (address(&flow).as_str(), flow.path()),
        (expected, "callback")
    );
}

#[test]
fn openrouter_gets_a_path_that_nobody_can_guess() {
    for (name, base) in [
        ("or", "https://openrouter.ai/api/v1"),
        ("openrouter", "http://127.0.0.1:9/api/v1"),
    ] {
        let flow = Flow::new(&provider(name, base, None), 4711).expect("a sign-in");
        let (front, _) = base.split_once("/api").expect("a path");
        let secret = flow
            .path()
            .strip_prefix("callback/")
            .expect("a path")
            .to_owned();
        assert_eq!((secret.len(), flow.state()), (43, None));
        let expected = format!(
            "{front}/auth callback_url=http://localhost:4711/callback/{secret} code_challenge:43 code_challenge_method=S256"
        );
        assert_eq!(address(&flow), expected);
    }
    assert!(
        Flow::new(&provider("anthropic", "https://api.anthropic.com", None), 1).is_none(),
        "nobody is imitated"
    );
}

#[test]
fn two_sign_ins_share_nothing() {
    let flow = || Flow::new(&provider("house", "", Some(house())), 1).expect("a sign-in");
    let (one, two) = (flow(), flow());
    assert!(one.verifier != two.verifier && one.state != two.state && one.verifier != one.state);
    assert!(!format!("{one:?}").contains(one.verifier.expose()));
}

#[test]
fn an_answer_is_read_as_it_is_written_and_missing_things_stay() {
    let old = Tokens {
        refresh: Some(Secret::new("old-refresh")),
        scope: Some("a".to_owned()),
        ..Tokens::default()
    };
    let read = |answer: Value| taken(old.clone(), &answer, 1_000_000);
    let secret = |text: &str| Some(Secret::new(text));
    let base = Tokens {
        access: secret("access-1"),
        obtained_at: Some(1_000_000),
        ..old.clone()
    };
    let cases = [
        (
            json!({"access_token": "access-1", "token_type": "bearer"}),
            Some(base.clone()),
        ),
        (
            json!({"access_token": "access-1", "expires_in": 60}),
            Some(Tokens {
                expires_at: Some(1_060_000),
                ..base.clone()
            }),
        ),
        (
            json!({"access_token": "access-1", "expires_in": "60"}),
            Some(Tokens {
                expires_at: Some(1_060_000),
                ..base.clone()
            }),
        ),
        (
            json!({"access_token": "access-1", "expires_in": -1}),
            Some(base.clone()),
        ),
        (
            json!({"access_token": "access-1", "expires_in": 0}),
            Some(base.clone()),
        ),
        (
            json!({"access_token": "access-1", "expires_in": 3_153_600_001_i64}),
            Some(base.clone()),
        ),
        (
            json!({"access_token": "access-1", "expires_in": i64::MAX}),
            Some(base.clone()),
        ),
        (
            json!({"access_token": "access-1", "expires_in": 3_153_600_000_i64}),
            Some(Tokens {
                expires_at: Some(3_153_601_000_000),
                ..base.clone()
            }),
        ),
        (
            json!({"access_token": "access-1", "refresh_token": "new-refresh", "scope": "b"}),
            Some(Tokens {
                refresh: secret("new-refresh"),
                scope: Some("b".to_owned()),
                ..base
            }),
        ),
        (
            json!({"access_token": "access-1", "token_type": "mac"}),
            None,
        ),
        (json!({"access_token": ""}), None),
        (json!({}), None),
    ];
    for (answer, expected) in cases {
        assert_eq!(read(answer.clone()), expected, "{answer}");
    }
}

#[test]
fn complaints_are_short_and_without_secrets() {
    let _known = Secret::new("sk-canary-complaint");
    let cases = [
        (
            json!({"error": "invalid_grant", "error_description": "sk-canary-complaint\nexpired"}),
            ("invalid_grant", "invalid_grant: [redacted] expired"),
        ),
        (
            json!({"error": {"message": "Invalid code"}}),
            ("", "Invalid code"),
        ),
        (json!(null), ("", "")),
    ];
    for (answer, (code, words)) in cases {
        assert_eq!(complaint(&answer), (code.to_owned(), words.to_owned()));
    }
    assert!(
        complaint(&json!({"error": "x".repeat(5000)}))
            .1
            .chars()
            .count()
            < 310
    );
}
