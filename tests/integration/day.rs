//! A day in the life: a briefing out of calendar and mail by a job at eight, an invoice filed, a form filled in a browser, a
//! skill learned. The servers are real ones on this machine, and every host is one that the owner allowed.
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]
#![allow(clippy::disallowed_methods, reason = "a test writes plainly")]

use std::{fs, path::Path, process::Command, time::Duration};

use serde_json::{Value, json};

use crate::browser;
use crate::mcp::trust;
use crate::shipped_skills::{Server, block, dav, free_port, python_servers};
use crate::support::{
    Clock, FakeModel, FakeTelegram, House, Reply, Sandbox, Sent, Site, pdf, site, wait_for,
};

const SOON: Duration = Duration::from_secs(60);
const OWNER: i64 = 1001;

/// Returns an IMAP server with some mail of `ada`, whose password is `secret`.
fn imap(servers: &Path, port: u16) -> Server {
    let mut command = Command::new("python3");
    command
        .env("PYTHONPATH", servers)
        .args(["-c", "from pymap.main import main; main()"])
        .args([
            "--host",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--no-tls",
        ])
        .args(["--no-service", "managesieve", "--no-service", "admin"])
        .args([
            "dict",
            "--demo-data",
            "--demo-user",
            "ada",
            "--demo-password",
            "secret",
        ]);
    Server::start(&mut command, port)
}

/// Puts an event of the 26th into the calendar.
fn put_event(place: &Path) {
    let event = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//a//EN\r\nBEGIN:VEVENT\r\nUID:e1\r\nDTSTAMP:20261124T080000Z\r\n\
                 DTSTART:20261126T140000Z\r\nDTEND:20261126T150000Z\r\nSUMMARY:Dentist\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
    fs::write(place.join("collection-root/ada/cal/e1.ics"), event).expect("write");
}

struct Day {
    house: House,
    clock: Clock,
    next: std::cell::Cell<i64>,
}

impl Day {
    fn model(&self) -> &FakeModel {
        &self.house.model
    }

    /// Says something, or sends a file with words, in a conversation that begins with it.
    fn say(&self, message: &Value) -> String {
        let number = self.next.get() + 1;
        self.next.set(number);
        let mut message = message.clone();
        message["message_id"] = json!(number);
        message["date"] = json!(1_795_000_000);
        message["chat"] = json!({"id": OWNER, "type": "private", "first_name": "Ada"});
        message["from"] = json!({"id": OWNER, "is_bot": false, "first_name": "Ada"});
        self.house.telegram.inject(json!({"message": message}));
        let answers = |sent: &Sent| sent.reply_to == Some(number);
        self.house.telegram.wait_sent(answers, SOON).text
    }

    fn begin_again(&self) {
        self.house.telegram.say(OWNER, OWNER, "/new");
    }

    fn newest(&self) -> String {
        self.model()
            .requests()
            .pop()
            .expect("a request")
            .to_string()
    }
}

#[test]
fn a_day_in_the_life() {
    let Some(servers) = python_servers("radicale").and(python_servers("pymap")) else {
        return;
    };
    let (place, dav_port, imap_port) =
        (tempfile::tempdir().expect("dir"), free_port(), free_port());
    let _calendar = dav(place.path(), dav_port, &servers);
    put_event(place.path());
    let _mail = imap(&servers, imap_port);
    let (site, with_browser) = (Site::start(), browser::installed());
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model);
    let secrets = sandbox.home().with_file_name("browser.env");
    fs::write(&secrets, format!("TABLE_PASSWORD=\"{}\"\n", site::PASSWORD)).expect("write");
    let allowed = [
        format!("127.0.0.1:{dav_port}"),
        format!("127.0.0.1:{imap_port}"),
    ];
    let mut settings = format!("[tools.exec.network]\nallow = {allowed:?}\n");
    if let Some((node, dir)) = &with_browser {
        let secrets = secrets.display().to_string();
        settings.push_str(&browser::settings(node, dir, &secrets, &[site.host()]));
    }
    let (sandbox, clock) = sandbox.config(&settings).with_clock();
    sandbox.put(
        "workspace/.netrc",
        b"machine 127.0.0.1 login ada password secret\n",
    );
    let house = House::of(sandbox, telegram, model);
    let mut day = Day {
        house,
        clock,
        next: std::cell::Cell::new(9_000),
    };

    briefing_at_eight(&mut day, (dav_port, imap_port));
    invoice_filed(&day);
    if with_browser.is_some() {
        trust(&day.house.sandbox, "web");
        form_filled(&day, &site);
    }
    skill_learned(&day);
}

fn briefing_at_eight(day: &mut Day, (dav_port, imap_port): (u16, u16)) {
    let added = day.house.sandbox.send(&[
        "--json",
        "--job",
        "add",
        "Tell me about my day: calendar and unread mail.",
        "--name",
        "briefing",
        "--cron",
        "0 8 * * *",
        "--deliver",
    ]);
    assert_eq!(added.code, 0, "{added:?}");
    let job: Value = serde_json::from_str(&added.stdout).expect("a document");
    let at = job["next_at"].clone();
    assert!(at.as_str().is_some_and(|at| at.contains("T08:00")), "{job}");
    let calendar = format!("\"http://127.0.0.1:{dav_port}/ada/cal/\"");
    let look = block(
        "calendar",
        "calendar-query",
        &[
            ("\"CAL\"", &calendar),
            ("20261124T", "20261126T"),
            ("20261125T", "20261127T"),
        ],
    );
    let imap = format!("\"imap://127.0.0.1:{imap_port}");
    let mail = block("mail", "uids=", &[("\"IMAP", &imap)]);
    let command = json!({"command": format!("{look}\n{mail}")});
    day.model().push(Reply::Tool("exec".to_owned(), command));
    day.model().push(Reply::Text(
        "Good morning. Dentist at three, two new mails.".to_owned(),
    ));
    // Nobody starts it: its time comes, whatever time it is here.
    day.clock.sleep_until(&at);
    let is_it = |sent: &Sent| sent.chat == OWNER && sent.text.contains("Dentist at three");
    day.house.telegram.wait_sent(is_it, SOON);
    let read = day.newest();
    for words in [
        "SUMMARY:Dentist",
        "UID 103",
        "UID 104",
        "Subject: Hello, World!",
    ] {
        assert!(read.contains(words), "{words}: {read}");
    }
}

fn invoice_filed(day: &Day) {
    let file = day
        .house
        .telegram
        .offer_file(&pdf("Stadtwerke 4711 Total 119.00 EUR"));
    let document = json!({"file_id": file, "file_unique_id": "u", "file_name": "bill.pdf", "mime_type": "application/pdf"});
    let table = "date,due,sender,number,net,tax,total,currency,iban,file,paid\n2026-11-20,,Stadtwerke,4711,,,119.00,EUR,,bill.pdf,\n";
    let input = json!({"path": "invoices/invoices.csv", "content": table});
    day.model().push(Reply::Tool("write".to_owned(), input));
    day.model().push(Reply::Text("Filed.".to_owned()));
    assert_eq!(
        day.say(&json!({"document": document, "caption": "file this invoice"})),
        "Filed."
    );
    assert!(
        day.newest().contains("Total 119.00 EUR"),
        "its words are read"
    );
    let kept = day.house.sandbox.read("workspace/invoices/invoices.csv");
    assert_eq!(kept.as_deref(), Some(table));
    day.begin_again();
}

fn form_filled(day: &Day, site: &Site) {
    let model = day.model();
    browser::calls(
        model,
        "navigate",
        json!({"url": format!("{}/", site.url())}),
    );
    browser::fill(
        model,
        &[("user", site::USER), ("password", "TABLE_PASSWORD")],
    );
    browser::fill(model, &[("name", "Ada"), ("day", "Friday")]);
    model.push(Reply::Text("The table is booked.".to_owned()));
    assert_eq!(
        day.say(&json!({"text": "book a table for Friday"})),
        "The table is booked."
    );
    assert_eq!(
        site.orders(),
        [("Ada".to_owned(), "Friday".to_owned())],
        "{}",
        day.newest()
    );
    day.begin_again();
}

fn skill_learned(day: &Day) {
    let input = json!({"name": "briefing", "description": "Tell the owner about the day.", "text": "1. Calendar.\n2. Unread mail."});
    let call = json!({"name": "skill_propose", "input": input});
    day.model().push(Reply::Tool("more_tools".to_owned(), call));
    day.model().push(Reply::Text("From now on so.".to_owned()));
    assert_eq!(
        day.say(&json!({"text": "mail last, and keep how you do it"})),
        "From now on so."
    );
    let telegram = &day.house.telegram;
    let asked = telegram.wait_sent(|sent| sent.text.contains("learn the skill briefing"), SOON);
    let buttons = wait_for("its buttons", SOON, || {
        let buttons = telegram.buttons(OWNER, asked.message_id);
        (!buttons.is_empty()).then_some(buttons)
    });
    let yes = buttons
        .iter()
        .find(|(label, _)| label.contains("Yes"))
        .expect("a yes");
    telegram.press(OWNER, OWNER, asked.message_id, &yes.1);
    wait_for("the skill", SOON, || {
        let list = day.house.sandbox.send(&["--skill", "list"]).stdout;
        list.contains("on   briefing").then_some(())
    });
}
