use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::provider::http::Answer;
use crate::provider::test_server::{
    call, client, message, request, result, said, user, with_wrong_node, wrong_value,
};
use crate::secret::Secret;

#[test]
fn the_address_may_end_in_a_version_or_a_slash_and_never_has_the_key() {
    for (base, model, expected) in [
        (
            "https://generativelanguage.googleapis.com",
            "gemini-x",
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-x",
        ),
        (
            " http://127.0.0.1:1/v1beta/\n",
            "models/gemini-x",
            "http://127.0.0.1:1/v1beta/models/gemini-x",
        ),
        (
            "http://127.0.0.1:1/gemini",
            "a/../b?c",
            "http://127.0.0.1:1/gemini/v1beta/models/a%2F..%2Fb%3Fc",
        ),
    ] {
        let provider = Gemini::new(client(), base, Some(Secret::new("key-0123456789")));
        let asked = Request {
            model: model.to_owned(),
            ..request(vec![user("hi")])
        };
        assert_eq!(
            provider.endpoint(&asked.model).url(),
            format!("{expected}:streamGenerateContent?alt=sse"),
            "{base}"
        );
    }
}

#[test]
fn a_name_tells_the_generation() {
    let old = [
        "gemini-1.5-pro",
        "gemini-2.5-flash-lite",
        "gemini-2.0-flash-001",
        "gemma-3-27b-it",
    ];
    let new = [
        "gemini-3-pro-preview",
        "gemini-3.8-flash",
        "gemini-4-pro",
        "gemini-flash-latest",
    ];
    assert!(old.iter().all(|model| is_old(model)) && !new.iter().any(|model| is_old(model)));
}

#[test]
fn words_beside_results_come_after_them_and_a_gif_is_named() {
    let gif = Block::Image {
        file: "f".into(),
        content_type: "image/gif".into(),
        data: Some("R0lG".into()),
    };
    let asked = request(vec![
        user("go"),
        message(Role::Assistant, [call("f.1", "exec", json!("raw"))]),
        message(Role::User, [said("and?"), gif, result("f.1", " ", false)]),
    ]);
    let contents = &body(&asked).to_value()["contents"];
    assert_eq!(
        contents[1]["parts"],
        json!([{"functionCall": {"name": "exec", "args": {"_raw": "raw"}, "id": "f_x2e_1"}}])
    );
    let response = json!({"functionResponse": {"name": "exec", "response": {"result": "(no output)"}, "id": "f_x2e_1"}});
    assert_eq!(
        contents[2]["parts"],
        json!([response, {"text": "and?"}, {"text": wire::NO_PICTURE}])
    );
}

proptest! {
    #[test]
    fn a_wrong_value_anywhere_is_survived(at in 0usize..60, wrong in wrong_value()) {
        const EVENTS: &str = r#"data: {"candidates":[{"content":{"role":"model","parts":[{"text":"hm","thought":true},{"text":"I "}]},"index":0}],"usageMetadata":{"promptTokenCount":9}}
data: {"candidates":[{"content":{"parts":[{"text":"look.","thoughtSignature":"a"},{"functionCall":{"name":"exec","args":{"command":"ls"},"id":"f"},"thoughtSignature":"b"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3,"thoughtsTokenCount":2,"cachedContentTokenCount":1}}
data: {"promptFeedback":{"blockReason":"SAFETY"},"error":null}"#;
        let asked = request(vec![user("hi")]);
        let mut answer = Candidate::default();
        for data in with_wrong_node(EVENTS, at, &wrong) {
            // Whether it is taken or refused, it must not panic.
            let _ = answer.event(&data, &|_: &str| {});
        }
        prop_assert!(answer.into_received().finish(Candidate::PROTOCOL, &asked, &body(&asked).to_bytes()).usage.total() > 0);
    }
}
