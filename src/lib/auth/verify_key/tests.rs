use serde_json::json;

use super::*;

fn provider(name: &str, kind: ProviderType, base_url: &str) -> Provider {
    let (name, base_url) = (name.to_owned(), base_url.to_owned());
    Provider {
        name,
        kind,
        base_url,
        api_key_env: None,
        oauth: None,
        scripts_dir: None,
        file: None,
    }
}

#[test]
fn each_vendor_is_asked_in_its_own_way() {
    use ProviderType::{Anthropic, Gemini, Openai};
    let cases = [
        (
            "a",
            Anthropic,
            "https://api.anthropic.com",
            "https://api.anthropic.com/v1/models",
            "x-api-key",
            "",
        ),
        (
            "a",
            Anthropic,
            "http://localhost:1/proxy/v1/",
            "http://localhost:1/proxy/v1/models",
            "x-api-key",
            "",
        ),
        (
            "o",
            Openai,
            "https://api.openai.com/v1",
            "https://api.openai.com/v1/models",
            "authorization",
            "Bearer ",
        ),
        (
            "o",
            Openai,
            "http://127.0.0.1:11434",
            "http://127.0.0.1:11434/v1/models",
            "authorization",
            "Bearer ",
        ),
        (
            "r",
            Openai,
            "https://openrouter.ai/api/v1",
            "https://openrouter.ai/api/v1/key",
            "authorization",
            "Bearer ",
        ),
        (
            "g",
            Gemini,
            "https://g.example",
            "https://g.example/v1beta/models",
            "x-goog-api-key",
            "",
        ),
        (
            "g",
            Gemini,
            "https://g.example/v1",
            "https://g.example/v1/models",
            "x-goog-api-key",
            "",
        ),
    ];
    for (name, kind, base, url, header, prefix) in cases {
        let (asked, found, before) =
            question(&provider(name, kind, base), false).expect("a question");
        assert_eq!((asked.as_str(), found, before), (url, header, prefix));
    }
    assert!(question(&provider("offline", ProviderType::Offline, ""), false).is_none());
}

#[test]
fn only_a_server_that_says_no_makes_a_key_wrong() {
    let say = |kind, status, answer: serde_json::Value| {
        verdict(&provider("x", kind, ""), "h", status, &answer)
    };
    let (anthropic, gemini) = (ProviderType::Anthropic, ProviderType::Gemini);
    let words = json!({"error": {"message": "no such key"}});
    let good = |words: &str| Verdict::Good(words.to_owned());
    assert_eq!(
        say(anthropic, 200, json!({"data": [1, 2], "has_more": true})),
        good("2 models or more")
    );
    assert_eq!(say(anthropic, 200, json!({"models": [1]})), good("1 model"));
    assert_eq!(
        say(anthropic, 200, json!({"data": {"limit_remaining": 1.5}})),
        good("1.50 US dollars left")
    );
    assert_eq!(
        say(
            anthropic,
            200,
            json!({"data": {"limit_remaining": null, "usage": 2}})
        ),
        good("2.00 US dollars used, no limit")
    );
    assert_eq!(
        say(anthropic, 401, words.clone()),
        Verdict::Refused("h: no such key".to_owned())
    );
    assert_eq!(
        say(gemini, 400, words.clone()),
        Verdict::Refused("h: no such key".to_owned())
    );
    let unknown = |words: &str| Verdict::Unknown(format!("h does not say ({words})"));
    assert_eq!(say(anthropic, 400, words.clone()), unknown("no such key"));
    assert_eq!(
        say(anthropic, 404, serde_json::Value::Null),
        unknown("status 404")
    );
    assert_eq!(say(anthropic, 529, words), unknown("no such key"));
    assert_eq!(
        say(anthropic, 200, json!("<html>")),
        unknown("status 200"),
        "a page is no list of models"
    );
}
