//! The program as it is called: what it says of itself, and of settings that do not fit.

use std::path::Path;
use std::process::{Command, Output};

fn run(home: &Path, arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_agent-channel-mail");
    let mut command = Command::new(program);
    command.env_clear().env("AGENT_HOME", home).args(arguments);
    command.output().expect("it runs")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_is_missing_is_said_with_the_file_and_an_exit_code_that_means_it() {
    let home = tempfile::tempdir().expect("dir");
    let none = run(home.path(), &[]);
    assert_eq!(none.status.code(), Some(78));
    assert!(
        told(&none).contains("channels/mail.toml"),
        "{}",
        told(&none)
    );
    std::fs::create_dir(home.path().join("channels")).expect("dir");
    let settings = "address = \"agent@example.org\"\nimap = \"imaps://127.0.0.1:1\"\nsmtp = \"smtps://127.0.0.1:1\"\n";
    let file = home.path().join("channels/mail.toml");
    #[expect(clippy::disallowed_methods, reason = "a test writes plainly")]
    std::fs::write(&file, settings).expect("written");
    let closed = run(home.path(), &[]);
    assert_eq!(closed.status.code(), Some(75));
    assert!(
        told(&closed).contains("[channels.mail]"),
        "{}",
        told(&closed)
    );
    let away = run(home.path(), &["--check"]);
    assert_eq!(away.status.code(), Some(75));
    assert!(told(&away).contains("IMAP at 127.0.0.1"), "{}", told(&away));
    let unknown = run(home.path(), &["--config", "/nowhere.toml"]);
    assert!(told(&unknown).contains("/nowhere.toml") && unknown.status.code() == Some(78));
    let version = run(home.path(), &["--version"]);
    assert_eq!(version.status.code(), Some(0));
}
