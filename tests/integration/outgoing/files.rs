//! Files, out and in.

use std::{io::Read as _, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use agent_toolkit::{
    channel::{Channel as _, FetchError, Outgoing, SendError},
    message::{Media, MediaKind, OutFile},
};
use serde_json::{Value, json};

use super::{Line, chat, telegram, words};
use crate::support::{Fault, FaultKind, Upload};

const KINDS: [(MediaKind, &str, &str); 8] = [
    (MediaKind::Photo, "sendPhoto", "photo"),
    (MediaKind::Voice, "sendVoice", "voice"),
    (MediaKind::Audio, "sendAudio", "audio"),
    (MediaKind::Video, "sendVideo", "video"),
    (MediaKind::VideoNote, "sendVideoNote", "video_note"),
    (MediaKind::Animation, "sendAnimation", "animation"),
    (MediaKind::Sticker, "sendSticker", "sticker"),
    (MediaKind::Document, "sendDocument", "document"),
];

fn never(reason: &str) -> Result<String, SendError> {
    Err(SendError::Never {
        reason: reason.to_owned(),
        chat_is_there: true,
    })
}

#[tokio::test]
async fn every_kind_of_file_goes_by_its_own_method_and_arrives_whole() {
    let line = Line::new();
    let to = chat("7", None);
    let bytes: Vec<u8> = (0..200_000_u32)
        .map(|n| u8::try_from(n % 251).unwrap())
        .collect();
    for (kind, method, field) in KINDS {
        let file = [line.file(kind, "Grüße \"1\".bin", &bytes)];
        let id = line
            .telegram
            .send(Outgoing {
                files: &file,
                ..words(&to, "")
            })
            .await
            .unwrap();
        let sent = line.fake.sent().pop().unwrap();
        assert_eq!(
            (
                sent.method.as_str(),
                sent.message_id.to_string(),
                sent.text.as_str()
            ),
            (method, id, "")
        );
        assert_eq!(
            sent.files,
            [Upload {
                filename: "Grüße \"1\".bin".to_owned(),
                bytes: bytes.clone()
            }]
        );
        let params = line.fake.calls().pop().unwrap().params;
        let mut expected = json!({"chat_id": "7", field: format!("attach://{field}")});
        if kind == MediaKind::Video {
            expected["supports_streaming"] = json!("true");
        }
        assert_eq!(params, expected);
    }
}

#[tokio::test]
async fn a_file_has_its_words_below_it_and_its_place_in_the_chat() {
    let line = Line::new();
    let (_, question) = line.fake.say(-5, 1, "show me");
    let to = chat("-5", Some("9"));
    let file = [line.file(MediaKind::Photo, "a.png", b"png")];
    let reply_to = question.to_string();
    let message = Outgoing {
        files: &file,
        markup: Some("<b>a</b>"),
        reply_to: Some(&reply_to),
        resent: true,
        ..words(&to, "**a**")
    };
    line.telegram.send(message).await.unwrap();
    let sent = line.fake.sent().pop().unwrap();
    assert_eq!(
        (sent.text.as_str(), sent.html.as_str(), sent.reply_to),
        ("(resent)\na", "(resent)\n<b>a</b>", Some(question))
    );
    assert_eq!(
        line.fake.calls().pop().unwrap().params["message_thread_id"],
        "9"
    );
    // Without words the mark is the caption; where it does not fit, or nothing may stand, it is left out.
    let general = chat("-5", Some("1"));
    line.telegram
        .send(Outgoing {
            files: &file,
            resent: true,
            ..words(&general, "")
        })
        .await
        .unwrap();
    assert_eq!(line.fake.sent().pop().unwrap().text, "(resent)");
    assert_eq!(
        line.fake.calls().pop().unwrap().params["message_thread_id"],
        Value::Null
    );
    let long = "x".repeat(1024);
    line.telegram
        .send(Outgoing {
            files: &file,
            resent: true,
            ..words(&general, &long)
        })
        .await
        .unwrap();
    assert_eq!(line.fake.sent().pop().unwrap().text, long);
    let sticker = [line.file(MediaKind::Sticker, "a.webp", b"webp")];
    line.telegram
        .send(Outgoing {
            files: &sticker,
            resent: true,
            ..words(&general, "")
        })
        .await
        .unwrap();
    assert_eq!(
        line.telegram
            .send(Outgoing {
                files: &sticker,
                ..words(&to, "hi")
            })
            .await,
        never("a sticker takes no words")
    );
}

#[tokio::test]
async fn an_album_is_one_call_and_its_first_message_is_the_answer() {
    let line = Line::new();
    let to = chat("7", None);
    let files = [
        line.file(MediaKind::Photo, "a.jpg", b"a"),
        line.file(MediaKind::Video, "b.mp4", b"b"),
    ];
    let id = line
        .telegram
        .send(Outgoing {
            files: &files,
            markup: Some("<i>two</i>"),
            ..words(&to, "two")
        })
        .await
        .unwrap();
    let sent = line.fake.sent();
    let shown: Vec<_> = sent
        .iter()
        .map(|sent| (sent.text.as_str(), sent.files[0].filename.as_str()))
        .collect();
    assert_eq!(shown, [("two", "a.jpg"), ("", "b.mp4")]);
    assert_eq!(id, sent[0].message_id.to_string());
    let media: Value =
        serde_json::from_str(line.fake.calls()[0].params["media"].as_str().unwrap()).unwrap();
    let first = json!({"type": "photo", "media": "attach://file0", "caption": "<i>two</i>", "parse_mode": "HTML"});
    assert_eq!(
        media,
        json!([first, {"type": "video", "media": "attach://file1"}])
    );
    for kind in [MediaKind::Audio, MediaKind::Document] {
        let files = [line.file(kind, "c", b"c"), line.file(kind, "d", b"d")];
        line.telegram
            .send(Outgoing {
                files: &files,
                ..words(&to, "")
            })
            .await
            .unwrap();
    }
    assert_eq!(line.methods(), ["sendMediaGroup"; 3]);
}

#[tokio::test]
async fn what_no_album_can_hold_is_not_even_tried() {
    let line = Line::new();
    let to = chat("7", None);
    let mixed = "in an album are pictures and videos, or music, or other files, at most 10";
    for kinds in [
        [MediaKind::Photo, MediaKind::Document],
        [MediaKind::Voice, MediaKind::Voice],
        [MediaKind::Audio, MediaKind::Video],
    ] {
        let files = kinds.map(|kind| line.file(kind, kind.as_str(), b"x"));
        assert_eq!(
            line.telegram
                .send(Outgoing {
                    files: &files,
                    ..words(&to, "")
                })
                .await,
            never(mixed)
        );
    }
    let many: Vec<_> = (0..11)
        .map(|_| line.file(MediaKind::Photo, "a", b"x"))
        .collect();
    assert_eq!(
        line.telegram
            .send(Outgoing {
                files: &many,
                ..words(&to, "")
            })
            .await,
        never(mixed)
    );
    assert!(line.methods().is_empty());
}

#[tokio::test]
async fn a_picture_that_cannot_be_shown_goes_out_as_a_file() {
    let line = Line::new();
    let to = chat("7", None);
    let large = line.large(MediaKind::Photo, "large.png", (10 << 20) + 1);
    let small = line.file(MediaKind::Photo, "small.png", b"x");
    line.telegram
        .send(Outgoing {
            files: std::slice::from_ref(&large),
            ..words(&to, "look")
        })
        .await
        .unwrap();
    assert_eq!(line.methods(), ["sendDocument"]);
    line.telegram
        .send(Outgoing {
            files: &[small.clone(), large],
            ..words(&to, "look")
        })
        .await
        .unwrap();
    for words in ["PHOTO_INVALID_DIMENSIONS", "IMAGE_PROCESS_FAILED"] {
        line.fake.fault(Fault {
            method: "sendPhoto",
            kind: FaultKind::Says(400, words),
            count: 1,
        });
        line.telegram
            .send(Outgoing {
                files: std::slice::from_ref(&small),
                ..super::words(&to, "look")
            })
            .await
            .unwrap();
    }
    assert_eq!(
        line.methods(),
        [
            "sendDocument",
            "sendMediaGroup",
            "sendPhoto",
            "sendDocument",
            "sendPhoto",
            "sendDocument"
        ]
    );
    let sent = line.fake.sent();
    assert_eq!(
        sent.iter()
            .map(|sent| sent.text.as_str())
            .collect::<Vec<_>>(),
        ["look", "look", "", "look", "look"]
    );
    assert_eq!(sent[4].files[0].bytes, b"x");
}

#[tokio::test]
async fn a_file_that_can_never_be_sent_is_said_so_before_anything_is() {
    let line = Line::new();
    let to = chat("7", None);
    let missing = OutFile {
        kind: MediaKind::Document,
        path: "gone".to_owned(),
        filename: "gone.txt".to_owned(),
        handle: None,
    };
    let cases = [
        (
            (missing, line.dir.path().join("gone.txt")),
            "gone.txt cannot be read: No such file or directory (os error 2)",
        ),
        (
            line.file(MediaKind::Document, "empty.txt", b""),
            "empty.txt is empty",
        ),
        (
            line.large(MediaKind::Document, "big.iso", (50 << 20) + 1),
            "big.iso is larger than 50 MB",
        ),
    ];
    for (file, reason) in cases {
        assert_eq!(
            line.telegram
                .send(Outgoing {
                    files: &[file],
                    ..words(&to, "")
                })
                .await,
            never(reason)
        );
    }
    let mut directory = line.file(MediaKind::Document, "dir", b"x");
    directory.1 = line.dir.path().to_owned();
    assert_eq!(
        line.telegram
            .send(Outgoing {
                files: &[directory],
                ..words(&to, "")
            })
            .await,
        never("dir is no file")
    );
    assert!(line.methods().is_empty());
}

#[tokio::test]
async fn an_upload_is_unknown_only_when_all_of_it_may_have_arrived() {
    let line = Line::new();
    let to = chat("7", None);
    let file = [line.file(MediaKind::Document, "a.txt", b"words")];
    let message = Outgoing {
        files: &file,
        ..words(&to, "")
    };
    line.fake.fault(Fault {
        method: "sendDocument",
        kind: FaultKind::DropAfter,
        count: 1,
    });
    assert!(matches!(
        line.telegram.send(message).await,
        Err(SendError::Unknown(_))
    ));
    line.fake.fault(Fault {
        method: "sendDocument",
        kind: FaultKind::Status(413),
        count: 1,
    });
    assert!(matches!(
        line.telegram.send(message).await,
        Err(SendError::Never {
            chat_is_there: true,
            ..
        })
    ));
    line.fake.fault(Fault {
        method: "sendDocument",
        kind: FaultKind::Says(400, "Bad Request: message caption is too long"),
        count: 1,
    });
    let marked_up = Outgoing {
        markup: Some("x"),
        ..message
    };
    assert!(matches!(
        line.telegram.send(marked_up).await,
        Err(SendError::Never {
            chat_is_there: true,
            ..
        })
    ));

    // A server that hangs up in the middle of 40 MB.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 100_000]).unwrap();
    });
    let large = [line.large(MediaKind::Document, "large.bin", 40 << 20)];
    let message = Outgoing {
        files: &large,
        ..words(&to, "")
    };
    let sent = telegram(&url, line.fake.token()).send(message).await;
    assert!(matches!(sent, Err(SendError::NotSent { .. })), "{sent:?}");
    server.join().unwrap();
}

async fn fetch(line: &Line, id: &str, to: &Path, max: u64) -> Result<(), FetchError> {
    let media = Media {
        kind: MediaKind::Document,
        handle: id.to_owned(),
        filename: None,
        content_type: None,
        bytes: Some(1),
        seconds: None,
        identity: None,
    };
    line.telegram.fetch(&media, to, max).await
}

#[tokio::test]
async fn a_file_is_fetched_into_a_new_private_file() {
    let line = Line::new();
    let to = line.dir.path().join("in");
    let bytes = vec![7; 300_000];
    fetch(&line, &line.fake.offer_file(&bytes), &to, 300_000)
        .await
        .unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), bytes);
    assert_eq!(
        std::fs::metadata(&to).unwrap().permissions().mode() & 0o777,
        0o600
    );
    // What is there already is not touched.
    let again = fetch(&line, &line.fake.offer_file(b"other"), &to, 10).await;
    assert!(matches!(again, Err(FetchError::Again(_))), "{again:?}");
    assert_eq!(std::fs::read(&to).unwrap(), bytes);
    let odd = line
        .fake
        .offer_file_at("photos/a b/%2e%2e/ü?x#y.jpg", b"odd");
    fetch(&line, &odd, &line.dir.path().join("odd"), 10)
        .await
        .unwrap();
    assert_eq!(std::fs::read(line.dir.path().join("odd")).unwrap(), b"odd");
}

#[tokio::test]
async fn a_fetch_that_fails_says_whether_to_come_back_and_leaves_nothing() {
    let line = Line::new();
    let to = line.dir.path().join("in");
    let file = line.fake.offer_file(&[1; 1000]);
    let too_large = |max| Err(FetchError::TooLarge { max });
    assert_eq!(fetch(&line, &file, &to, 999).await, too_large(999));
    let huge = line.fake.offer_file(&vec![0; (20 << 20) + 1]);
    assert_eq!(
        fetch(&line, &huge, &to, u64::MAX).await,
        too_large(20 << 20)
    );
    let local = line.fake.offer_file_at("/var/lib/telegram-bot-api/x", b"x");
    for never in [
        "unknown",
        &local,
        &line.fake.offer_file_at("../../etc/passwd", b"x"),
    ] {
        let result = fetch(&line, never, &to, 1000).await;
        assert!(
            matches!(result, Err(FetchError::Never(_))),
            "{never}: {result:?}"
        );
    }
    let token = line.fake.token();
    for (method, kind) in [
        ("getFile", FaultKind::Drop),
        ("getFile", FaultKind::Status(429)),
        ("file", FaultKind::Html502),
        ("file", FaultKind::Drop),
        ("file", FaultKind::DropAfter),
        ("file", FaultKind::Status(401)),
    ] {
        line.fake.fault(Fault {
            method,
            kind,
            count: 1,
        });
        let Err(FetchError::Again(reason)) = fetch(&line, &file, &to, 1000).await else {
            panic!("{method} {kind:?}")
        };
        assert!(!reason.contains(token), "{reason}");
    }
    for status in [302, 404] {
        line.fake.fault(Fault {
            method: "file",
            kind: FaultKind::Status(status),
            count: 1,
        });
        assert!(
            matches!(
                fetch(&line, &file, &to, 1000).await,
                Err(FetchError::Never(_))
            ),
            "{status}"
        );
    }
    assert!(!to.exists());
    // Given up in the middle, it is gone too.
    line.fake.fault(Fault {
        method: "file",
        kind: FaultKind::Hang,
        count: 1,
    });
    assert!(
        tokio::time::timeout(Duration::from_millis(100), fetch(&line, &file, &to, 1000))
            .await
            .is_err()
    );
    assert!(!to.exists());
}
