//! Pictures in words, for a model that sees none: by hand, from the cache, by the model of `[routing] vision`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{FakeModel, FakeTelegram, House, Reply, Sandbox, wait_for};

const SOON: Duration = Duration::from_secs(20);
const OWNER: i64 = 1001;
/// A picture of one pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xf8\xff\xff?\0\x05\xfe\x02\xfe\xa75\x81\x84\0\0\0\0IEND\xaeB`\x82";

/// A house whose model is blind, and has one beside it that sees.
fn house() -> House {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .provider_config(
            "mock",
            "[models.eyes]\nmodel = \"eyes\"\nvision = true\ncost_per_mtok = [1.0, 1.0, 1.0]",
        )
        .config("[agent]\nconfig_path = [\"own\"]\n[routing]\nvision = \"eyes\"");
    let daemon = sandbox.ready();
    House {
        daemon,
        telegram,
        model,
        sandbox,
    }
}

fn message(id: i64, fields: &Value) -> Value {
    let mut message = json!({
        "message_id": id, "date": 1_700_000_000,
        "from": {"id": OWNER, "is_bot": false, "first_name": "Ada"},
        "chat": {"id": OWNER, "type": "private", "first_name": "Ada"},
    });
    for (name, value) in fields.as_object().expect("fields") {
        message[name.as_str()] = value.clone();
    }
    json!({"message": message})
}

impl House {
    fn send_media(&self, id: i64, fields: &Value) {
        self.telegram.inject(message(id, fields));
        self.telegram
            .wait_sent(|sent| sent.reply_to == Some(id), SOON);
    }

    /// The requests to the model that sees, and the newest to the other.
    fn asked(&self) -> (usize, String) {
        let (eyes, others): (Vec<Value>, Vec<Value>) = self
            .model
            .requests()
            .into_iter()
            .partition(|request| request["model"] == "eyes");
        (
            eyes.len(),
            others.last().map(Value::to_string).unwrap_or_default(),
        )
    }
}

fn photo(file: &str, unique_id: &str) -> Value {
    json!({"photo": [{"file_id": file, "file_unique_id": unique_id, "width": 9, "height": 9, "file_size": PNG.len()}]})
}

#[test]
fn a_picture_is_described_once_and_what_is_written_by_hand_wins() {
    let house = house();
    let file = house.telegram.offer_file(PNG);
    house.model.push(Reply::Text("A red dot.".into()));
    house.send_media(1, &photo(&file, "AgAD1"));
    let (eyes, told) = house.asked();
    assert!(
        eyes == 1 && told.contains("appears as: A red dot."),
        "{told}"
    );
    let kept = house
        .sandbox
        .read_json("state/media/AgAD1.json")
        .expect("a record");
    assert_eq!(
        (&kept["status"], &kept["mime_type"]),
        (&json!("generated"), &json!("image/png"))
    );
    let picture = kept["picture"].as_str().expect("where the picture is");
    let picture = std::fs::read(house.sandbox.path("state/downloads").join(picture));
    assert_eq!(picture.expect("the picture"), PNG);
    house.send_media(2, &photo(&file, "AgAD1"));
    assert_eq!(house.asked().0, 1, "what is known costs nothing");
    house.sandbox.put(
        "own/media/AgAD1.json",
        br#"{"description": "Grandmother's ruby."}"#,
    );
    house.send_media(3, &photo(&file, "AgAD1"));
    let (eyes, told) = house.asked();
    assert!(eyes == 1 && told.contains("Grandmother's ruby."), "{told}");
    // One that moves is known by its small picture.
    house.model.push(Reply::Text("A crying cat.".into()));
    let moving = house.telegram.offer_file(b"\x1f\x8b a program");
    let sticker = json!({"sticker": {
        "file_id": moving, "file_unique_id": "AgAD2", "is_animated": true, "emoji": "😿", "set_name": "Cats",
        "thumbnail": {"file_id": file, "file_unique_id": "t", "width": 9, "height": 9},
    }});
    house.send_media(4, &sticker);
    let (eyes, told) = house.asked();
    assert!(
        eyes == 2 && told.contains("appears as: A crying cat."),
        "{told}"
    );
    let kept = house
        .sandbox
        .read_json("state/media/AgAD2.json")
        .expect("a record");
    assert_eq!(
        (&kept["sticker_set_name"], &kept["sticker_name"]),
        (&json!("Cats"), &json!("😿"))
    );
}

#[test]
fn a_message_has_eight_looks_and_the_rest_comes_next_time() {
    let house = house();
    let file = house.telegram.offer_file(PNG);
    for number in 1..=10 {
        let mut picture = photo(&file, &format!("AgAD{number}"));
        picture["media_group_id"] = json!("album");
        house.telegram.inject(message(number, &picture));
    }
    house
        .telegram
        .wait_sent(|sent| sent.reply_to == Some(1), SOON);
    let (eyes, told) = house.asked();
    assert_eq!(eyes, 8);
    assert_eq!(told.matches("not described yet").count(), 2, "{told}");
    house.send_media(11, &photo(&file, "AgAD10"));
    assert_eq!(house.asked().0, 9);
}

/// Returns the system text of the newest request to the model that answers.
fn told_first(house: &House) -> String {
    let mut others = house.model.requests().into_iter();
    let newest = others.rfind(|request| request["model"] != "eyes");
    newest.expect("a request")["system"].to_string()
}

#[test]
fn a_persona_is_told_what_its_stickers_appear_as() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let emojis = [
        "😀", "😁", "😂", "😃", "😄", "😅", "😆", "😇", "😈", "😉", "😊",
    ];
    telegram.offer_stickers("Cats", &emojis);
    telegram.offer_stickers("Dogs", &["🐶", "🐕"]);
    (2..=11).for_each(|number| telegram.offer_sticker_file("Cats", number, PNG));
    telegram.offer_sticker_file("Dogs", 1, PNG);
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .provider_config(
            "mock",
            "[models.eyes]\nmodel = \"eyes\"\nvision = true\ncost_per_mtok = [1.0, 1.0, 1.0]",
        )
        .config(
            "[agent]\nmode = \"plan\"\nconfig_path = [\"own\"]\n[routing]\nvision = \"eyes\"\n\
             [agent.stickers]\nsets = [\"Cats\"]\nstickers = [\"Dogs :: 🐶\"]",
        );
    sandbox.put(
        "own/media/u-Cats-1.json",
        br#"{"description": "A cat that smiles. ]"}"#,
    );
    let house = House::of(sandbox, telegram, model);
    // Eight looks a message; what is written by hand costs none.
    for (message, looks) in [(1, 8), (2, 11), (3, 11)] {
        house.telegram.say(OWNER, OWNER, &format!("hi {message}"));
        house.model.wait_requests(looks + message, SOON);
        wait_for("the answer", SOON, || {
            (house.telegram.calls_of("sendMessage").len() == message).then_some(())
        });
        assert_eq!(house.asked().0, looks);
    }
    let told = told_first(&house);
    assert!(
        told.contains("Cats :: 😀 (appears as: A cat that smiles. ])"),
        "{told}"
    );
    assert_eq!(told.matches(" (appears as: ").count(), 12, "{told}");
    assert!(told.contains("Dogs :: 🐶 (appears as: ") && !told.contains("🐕"));
    let kept = house
        .sandbox
        .read_json("state/media/u-Dogs-1.json")
        .expect("a record");
    assert_eq!(
        (
            &kept["kind"],
            &kept["sticker_set_name"],
            &kept["sticker_name"]
        ),
        (&json!("sticker"), &json!("Dogs"), &json!("🐶"))
    );
}

#[test]
fn a_film_without_a_small_picture_is_known_by_its_first_one() {
    let film = std::process::Command::new("ffmpeg")
        .args([
            "-v",
            "error",
            "-f",
            "lavfi",
            "-i",
            "color=red:size=64x64:duration=1:rate=5",
        ])
        .args(["-c:v", "libvpx", "-f", "webm", "-"])
        .output();
    let Some(film) = film.ok().filter(|film| film.status.success()) else {
        return eprintln!("skipped: ffmpeg with libvpx is not installed");
    };
    let house = house();
    let webm = house.telegram.offer_file(&film.stdout);
    let sticker = |id: &str, more: &Value| {
        let mut sticker =
            json!({"file_id": webm, "file_unique_id": id, "emoji": "😿", "set_name": "Cats"});
        for (name, value) in more.as_object().expect("fields") {
            sticker[name.as_str()] = value.clone();
        }
        json!({"sticker": sticker})
    };
    house.model.push(Reply::Text("A red square.".into()));
    house.send_media(1, &sticker("AgAD1", &json!({"is_video": true})));
    let (eyes, told) = house.asked();
    assert!(
        eyes == 1 && told.contains("appears as: A red square."),
        "{told}"
    );
    let looked = house.model.requests();
    let looked = looked.iter().find(|request| request["model"] == "eyes");
    assert!(looked.expect("a look").to_string().contains("image/png"));
    // A drawing that moves is no film, and damage is no picture: neither is looked at, now or later.
    house.send_media(2, &sticker("AgAD2", &json!({"is_animated": true})));
    let damaged = house.telegram.offer_file(b"\x1a\x45\xdf\xa3 no film");
    let broken =
        json!({"sticker": {"file_id": damaged, "file_unique_id": "AgAD3", "is_video": true}});
    house.send_media(3, &broken);
    assert_eq!(house.asked().0, 1);
    for id in ["AgAD2", "AgAD3"] {
        let kept = house.sandbox.read_json(&format!("state/media/{id}.json"));
        assert_eq!(kept.expect("a record")["status"], "unsupported", "{id}");
    }
    let left = std::fs::read_dir(house.sandbox.home().join("state/downloads")).expect("downloads");
    let left: Vec<String> = left
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| name.starts_with("frame-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_failure_that_may_pass_costs_no_message() {
    let house = house();
    let file = house.telegram.offer_file(b"GIF89a and no picture at all");
    house.send_media(
        1,
        &json!({"sticker": {"file_id": file, "file_unique_id": "AgAD1", "emoji": "😿"}}),
    );
    let (eyes, told) = house.asked();
    assert!(eyes <= 1 && told.contains("⟦sticker"), "{told}");
    house.send_media(2, &photo("gone", "AgAD2"));
    let (_, told) = house.asked();
    assert!(told.contains("could not be fetched"), "{told}");
    assert!(
        house.sandbox.read("state/media/AgAD2.json").is_none(),
        "it is described when it comes"
    );
}
