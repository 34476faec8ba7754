//! A channel of a machine that is not the agent's any more.

use super::*;

#[test]
fn while_the_agent_runs_elsewhere_nothing_comes_in_and_nothing_goes_out() {
    let root = std::env::temp_dir().join(format!("agent-channel-{}", std::process::id()));
    for dir in ["spool/new", "spool/tmp", "out", "sending"] {
        std::fs::create_dir_all(root.join(dir)).expect("writable");
    }
    let spool = Spool::open(root.clone(), "mail").expect("here");
    let offer = |key: &str| {
        let message = json!({"key": key, "chat": "c", "text": "hi"}).to_string();
        let path = root.join(format!("out/{key}.json"));
        fill(&path, message.as_bytes()).expect("writable");
    };
    let user = json!({"cmd": "user", "chat": "c"});
    offer("1");
    assert!(spool.claim("1").expect("claimed").is_some());
    spool.put("a", user.clone(), &[]).expect("taken");
    fill(&root.join(ELSEWHERE), b"").expect("writable");
    offer("2");
    let refused = [
        spool.claim("2").map(drop),
        spool.put("b", user, &[]),
        Spool::open(root.clone(), "mail").map(drop),
    ];
    for refused in refused {
        assert_eq!(refused.map_err(|error| error.code()), Err(78));
    }
    // What went out is told.
    let outcome = Outcome::Taken("m1".to_owned());
    spool.tell("1", &outcome).expect("told");
    assert_eq!(spool.waiting(), 2);
    std::fs::remove_dir_all(root).expect("ours");
}
