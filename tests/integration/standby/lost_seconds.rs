//! What became of the seconds between the last copy and the end of the primary: what is read again, what is marked.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use rusqlite::{Connection, OptionalExtension};
use serde_json::{Value, json};

use super::{Pair, SOON};
use crate::crash::RESENT;
use crate::support::wait_for;

/// What the other machine may have answered after its last push: until the next one, and as long more.
const MAY_HAVE_ANSWERED: i64 = 120_000;

/// Returns until when the other machine may have answered, as the queue of the standby has it.
fn doubt(pair: &Pair) -> i64 {
    let queue = Connection::open(pair.path("home/state/queue.db")).expect("a queue");
    queue
        .query_row("SELECT at FROM seen WHERE key = 'doubt'", [], |row| {
            row.get(0)
        })
        .expect("something is in doubt")
}

/// Returns when the last push came in.
fn arrived_at(pair: &Pair) -> i64 {
    let meta = fs::metadata(pair.path("replica/push/whole.json")).expect("a push");
    meta.ctime() * 1000 + meta.ctime_nsec() / 1_000_000
}

/// A pair whose clock is ours, with one push in the replica.
fn pushed_once() -> Option<(Pair, crate::support::Clock)> {
    let pair = Pair::new()?;
    let (sandbox, clock) = pair.sandbox.with_clock();
    let pair = Pair { sandbox, ..pair };
    let daemon = pair.sandbox.ready();
    assert!(!pair.ask("hello").is_empty());
    assert_eq!(daemon.term(), 0);
    let pushed = pair.push_once();
    assert_eq!(pushed.code, 0, "{pushed:?}");
    Some((pair, clock))
}

#[test]
fn a_late_promotion_marks_what_the_primary_may_have_answered_and_no_more() {
    let Some((pair, mut clock)) = pushed_once() else {
        return;
    };
    let arrived_at = arrived_at(&pair);
    clock.later(Duration::from_secs(3600));
    let promoted = pair.there(&["standby", &pair.text("replica"), "--promote"]);
    assert_eq!(promoted.code, 0, "{promoted:?}");
    assert_eq!(doubt(&pair), arrived_at + MAY_HAVE_ANSWERED);
}

#[test]
fn an_older_copy_marks_what_was_answered_until_the_newest_push() {
    let Some((pair, mut clock)) = pushed_once() else {
        return;
    };
    let replica = pair.text("replica");
    let proved = pair.there(&["standby", &replica, "--once"]);
    assert_eq!(proved.code, 0, "{proved:?}");
    let proven_at = arrived_at(&pair);
    let pushed = pair.push_once();
    assert_eq!(pushed.code, 0, "{pushed:?}");
    let newest = arrived_at(&pair);
    assert!(newest > proven_at);
    clock.later(Duration::from_secs(3600));
    let promoted = pair.there(&["standby", "--promote", "--last-proven"]);
    assert_eq!(promoted.code, 0, "{promoted:?}");
    assert_eq!(doubt(&pair), newest + MAY_HAVE_ANSWERED);
}

#[test]
fn a_copy_of_an_older_program_is_brought_up_when_it_is_proved() {
    let Some((pair, _clock)) = pushed_once() else {
        return;
    };
    let replica = pair.text("replica");
    let schema = |path: &str| -> i64 {
        let database = Connection::open(pair.path(path)).expect("a database");
        let asked = database.query_row("PRAGMA user_version", [], |row| row.get(0));
        asked.expect("a number")
    };
    let newest = schema("replica/push/queue.db");
    let migrations = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib/queue/migrations");
    let replace_by = |sql: &str| {
        fs::remove_file(pair.path("replica/push/queue.db")).expect("own file");
        let old = Connection::open(pair.path("replica/push/queue.db")).expect("a database");
        old.execute_batch(sql).expect("it worked then");
        old.pragma_update(None, "user_version", 1)
            .expect("a number");
    };
    // One that cannot be brought up is no copy to take over with: that is told, and not found out then.
    replace_by("CREATE TABLE something(else_ INTEGER)");
    let told = pair.there(&["standby", &replica, "--once"]);
    assert_eq!(told.code, 1, "{told:?}");
    let first = fs::read_to_string(migrations.join("0001_path.sql")).expect("a migration");
    replace_by(&first);
    let proved = pair.there(&["standby", "--once"]);
    assert_eq!(proved.code, 0, "{proved:?}");
    assert_eq!(schema("home/state/standby/proven/state/queue.db"), newest);
    let promoted = pair.there(&["standby", "--promote"]);
    assert_eq!(promoted.code, 0, "{promoted:?}");
    let mut agent = pair.daemon_there(&["run"]);
    agent.wait_ready();
    assert!(!pair.ask("still there?").is_empty());
    assert_eq!(agent.term(), 0);
}

/// Ends what goes on beside a test, however that ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Mails come in all the time; each is in the queue before the mailbox is noted as read that far.
#[test]
fn no_copy_knows_a_mail_as_read_that_its_queue_does_not_know() {
    let Some((mut pair, _clock)) = pushed_once() else {
        return;
    };
    // An rsync that fails at its so manieth call, as if the machine had died there.
    let (bin, left) = (pair.path("bin"), pair.path("left"));
    fs::create_dir(&bin).expect("own directory");
    let real = pair.sandbox.bash("command -v rsync").stdout;
    let script = format!(
        "#!/bin/sh\nn=$(cat '{0}'); echo $((n - 1)) >'{0}'; [ \"$n\" = 1 ] && exit 1\nexec {1} \"$@\"\n",
        left.display(),
        real.trim()
    );
    fs::write(bin.join("rsync"), script).expect("own file");
    fs::set_permissions(bin.join("rsync"), fs::Permissions::from_mode(0o755)).expect("own file");
    let path = std::env::var("PATH").unwrap_or_default();
    pair.sandbox = pair
        .sandbox
        .env("PATH", &format!("{}:{path}", bin.display()));
    let number = |queue: &Path| -> Option<u32> {
        let sql = "SELECT max(CAST(substr(key, 6) AS INTEGER)) FROM seen WHERE key LIKE 'mail:%'";
        let queue = Connection::open(queue).expect("a queue");
        let newest = queue.query_row(sql, [], |row| row.get(0)).optional();
        newest.expect("a number").flatten()
    };
    let read_until = |place: &Path| -> Option<u32> {
        let text = fs::read_to_string(place.join("mail/mailbox.json")).ok()?;
        Some(text.parse().expect("a whole file"))
    };
    let place = pair.sandbox.path("state/channels/mail");
    fs::create_dir_all(&place).expect("own directory");
    let queue = pair.sandbox.path("state/queue.db");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let queue = Connection::open(&queue).expect("a queue");
            queue.busy_timeout(SOON).expect("a time");
            for mail in 1_u32.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let sql = "INSERT INTO seen(key, at) VALUES ('mail:' || ?1, 1)";
                queue.execute(sql, [mail]).expect("taken in");
                let draft = place.join(".mailbox.tmp-1");
                fs::write(&draft, mail.to_string()).expect("own file");
                fs::rename(&draft, place.join("mailbox.json")).expect("own file");
            }
        });
        let _over = Over(&is_over);
        // The last ones come through.
        for call in (1..=9).chain([0, 0]) {
            fs::write(&left, call.to_string()).expect("own file");
            let pushed = pair.push_once();
            assert!(call > 0 || pushed.code == 0, "{pushed:?}");
            let read = read_until(&pair.path("replica/places"));
            let read = read.max(read_until(&pair.path("replica/state/channels")));
            let known = number(&pair.path("replica/push/queue.db"));
            assert!(read <= known, "dead at {call}: {read:?}, {known:?}");
        }
    });
    let proved = pair.there(&["standby", &pair.text("replica"), "--once"]);
    assert_eq!(proved.code, 0, "{proved:?}");
    let proven = pair.path("home/state/standby/proven/state");
    let read = read_until(&proven.join("channels"));
    let known = number(&proven.join("queue.db"));
    assert!(read.is_some() && read <= known, "{read:?}, {known:?}");
}

/// What came by another door than Telegram.
#[test]
fn mails_and_jobs_of_the_lost_seconds_are_marked() {
    let Some(mut pair) = Pair::new() else { return };
    pair.sandbox.reconfigure(
        "[channels.post]\nenabled = true\nowner = [\"ada\"]\n[heartbeat]\nactive_start = \"00:00\"\nactive_end = \"23:59\"\n",
    );
    let daemon = pair.sandbox.ready();
    assert_eq!(daemon.term(), 0);
    let now = Utc::now();
    let shown = |time: DateTime<Utc>| time.to_rfc3339_opts(SecondsFormat::Millis, true);
    let due = now - TimeDelta::seconds(5);
    let job = json!({"id": "plants", "schedule": {"every": "1h"}, "text": "water the plants", "missed": "all", "to": "1001",
        "created_at": shown(due - TimeDelta::hours(1)), "next_at": shown(due)});
    let jobs = json!({"v": 1, "jobs": [job]}).to_string();
    pair.sandbox.put("state/cron/jobs.json", jobs.as_bytes());
    let pushed = pair.push_once();
    assert_eq!(pushed.code, 0, "{pushed:?}");

    let mail = |home: &Path, id: &str, sent_at: DateTime<Utc>| {
        let line = json!({"v": 1, "id": id, "cmd": "user", "channel": "post", "chat": format!("dm-{id}"),
            "message_id": id, "text": format!("[[say answer to {id}]]"), "sent_at": shown(sent_at),
            "sender": {"id": "ada", "name": "Ada"}});
        let spool = home.join("state/channels/post/spool");
        let draft = spool.join(format!("tmp/{id}.json"));
        fs::write(&draft, line.to_string()).expect("own file");
        fs::rename(draft, spool.join(format!("new/{id}.json"))).expect("own file");
    };
    let answer = |home: &Path, id: &str| -> Value {
        wait_for("an answer", SOON, || {
            let out = fs::read_dir(home.join("state/channels/post/out")).ok()?;
            let read = |path| serde_json::from_slice(&fs::read(path).ok()?).ok();
            let mut messages = out.flatten().filter_map(|entry| read(entry.path()));
            messages.find(|message: &Value| message["chat"] == format!("dm-{id}"))
        })
    };
    let daemon = pair.sandbox.ready();
    mail(&pair.sandbox.home(), "early", now);
    let first = answer(&pair.sandbox.home(), "early");
    assert_eq!(first["resent"], json!(false));
    let watered = pair
        .telegram
        .wait_sent(|sent| sent.text.contains("water the plants"), SOON);
    assert!(!watered.text.starts_with(RESENT), "{watered:?}");
    daemon.kill9();

    let promoted = pair.there(&["standby", &pair.text("replica"), "--promote"]);
    assert_eq!(promoted.code, 0, "{promoted:?}");
    let mut agent = pair.daemon_there(&["run"]);
    agent.wait_ready();
    // The mailbox is read again from where it was in the copy.
    let home = pair.path("home");
    mail(&home, "early", now);
    mail(&home, "later", now + TimeDelta::hours(1));
    let again = answer(&home, "early");
    let text = again["text"].as_str().expect("words");
    assert!(
        again["resent"] == json!(true) && text.starts_with(RESENT),
        "{again}"
    );
    assert_eq!(answer(&home, "later")["resent"], json!(false));
    pair.telegram.wait_sent(
        |sent| sent.text.starts_with(RESENT) && sent.text.contains("water the plants"),
        SOON,
    );
    assert_eq!(agent.term(), 0);
}
