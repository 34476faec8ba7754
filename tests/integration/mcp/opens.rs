//! What a tool of a server that only reads may be given to open: an address tells its host all that stands in it.

use super::*;
use crate::support::Reply;

#[test]
fn a_server_opens_no_address_unasked_that_stands_in_nothing_that_was_read() {
    let (model, sandbox) = Sandbox::with_model();
    let dir = sandbox.home().with_file_name("servers");
    fs::create_dir_all(&dir).expect("the sandbox is writable");
    let server = section("t", &dir, include_str!("server.py"), &["pages"], "");
    let sandbox = sandbox.config(&server);
    let _daemon = sandbox.ready();
    trust(&sandbox, "t");
    let open = |url: &str| {
        model.push(Reply::Tool("t_open".to_owned(), json!({"url": url})));
    };
    let send = |session: &str, words: &str| {
        let told = sandbox.send(&["--wait=60", "--untrusted", "--session", session, words]);
        assert_eq!(told.code, 0, "{told:?}");
    };
    // The address that was passed on, and one that stands on the page.
    open("https://a.example/start");
    open("https://a.example/next");
    send("one", "look at https://a.example/start");
    open("https://a.example/?q=the-code-is-7731");
    let asking = sandbox.sending(&["--wait=60", "--untrusted", "--session", "one", "go on"]);
    let asked = sandbox.wait_asked();
    assert_eq!(sandbox.send(&["--deny", &asked]).code, 0);
    assert_eq!(asking.end().code, 0);
    // The owner's own words name no address: then nobody else does.
    open("https://a.example/?q=tides");
    let told = sandbox.send(&["--wait=60", "--session", "two", "what of the tides?"]);
    assert_eq!(told.code, 0, "{told:?}");
}
