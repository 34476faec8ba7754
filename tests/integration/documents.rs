//! `agent-send --attach` with what is more than plain text: PDFs, pictures, old encodings.
#![allow(clippy::disallowed_methods, reason = "a test writes files plainly")]

use std::{fs, time::Instant};

use base64::Engine as _;
use serde_json::{Value, json};

use crate::support::{FakeModel, Sandbox, unfenced};

/// Writes a file outside of the home and returns its path.
fn file(sandbox: &Sandbox, name: &str, bytes: &[u8]) -> String {
    let path = sandbox.home().with_file_name("mine").join(name);
    fs::create_dir_all(path.parent().expect("a directory")).expect("the sandbox is writable");
    fs::write(&path, bytes).expect("the sandbox is writable");
    path.display().to_string()
}

/// Returns what of the newest message in the newest request came after its words.
fn told(model: &FakeModel) -> Vec<Value> {
    let request = model.requests().pop().expect("a request");
    let message = request["messages"]
        .as_array()
        .and_then(|messages| messages.last())
        .cloned()
        .expect("a message");
    message["content"]
        .as_array()
        .expect("blocks")
        .iter()
        .skip(2)
        .filter(|block| {
            !block["text"]
                .as_str()
                .is_some_and(|text| text.starts_with("⟦saved as inbox/"))
        })
        .cloned()
        .map(without_mark)
        .collect()
}

fn without_mark(mut block: Value) -> Value {
    block
        .as_object_mut()
        .expect("an object")
        .remove("cache_control");
    block
}

/// Returns the text of the one file that was told.
fn told_text(model: &FakeModel) -> String {
    told(model)
        .pop()
        .and_then(|block| block["text"].as_str().map(unfenced))
        .expect("a text")
}

/// A PDF whose pages all have this content stream; `more` stands in the trailer.
fn pdf(pages: usize, content: &str, more: &str) -> Vec<u8> {
    let kids: String = (7..)
        .take(pages)
        .map(|number| format!("{number} 0 R "))
        .collect();
    let page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 5 0 R>>>>/Contents 4 0 R>>".to_owned();
    let objects = vec![
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        format!("<</Type/Pages/Kids[{kids}]/Count {pages}>>"),
        "null".to_owned(),
        format!("<</Length {}>>stream\n{content}\nendstream", content.len()),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>".to_owned(),
        "<</Filter/Standard/V 1/R 2/P -4/O<00>/U<00>>>".to_owned(),
    ];
    let (mut file, mut table) = ("%PDF-1.4\n".to_owned(), "0000000000 65535 f \n".to_owned());
    for (number, object) in (1..).zip(objects.into_iter().chain(std::iter::repeat_n(page, pages))) {
        table.push_str(&format!("{:010} 00000 n \n", file.len()));
        file.push_str(&format!("{number} 0 obj\n{object}\nendobj\n"));
    }
    let (start, size) = (file.len(), pages + 7);
    file.push_str(&format!("xref\n0 {size}\n{table}trailer\n<</Size {size}/Root 1 0 R{more}>>\nstartxref\n{start}\n%%EOF\n"));
    file.into_bytes()
}

const WORDS: &str = "BT /F1 12 Tf 72 700 Td (Total: 12,50 for \\304pfel) Tj ET";

/// A picture of one pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\0\x05\0\x01\xff\x89\x99=\x1d\0\0\0\0IEND\xaeB`\x82";

#[test]
fn a_pdf_reaches_the_model_as_its_text_or_says_why_not() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    let check = |name: &str, bytes: &[u8], expected: &str| {
        let path = file(&sandbox, name, bytes);
        let sent = sandbox.send(&["--wait", "--attach", &path, "read"]);
        assert_eq!(sent.code, 0, "{name}: {sent:?}");
        assert_eq!(
            told_text(&model),
            expected.replace("SIZE", &bytes.len().to_string()),
            "{name}"
        );
    };
    let whole = pdf(2, WORDS, "");
    check(
        "bill.pdf",
        &whole,
        "⟦untrusted file bill.pdf, SIZE bytes⟧\nTotal: 12,50 for Äpfel\n\nTotal: 12,50 for Äpfel\n⟦end⟧",
    );
    // What it is called does not matter.
    check(
        "bill",
        &whole,
        "⟦untrusted file bill, SIZE bytes⟧\nTotal: 12,50 for Äpfel\n\nTotal: 12,50 for Äpfel\n⟦end⟧",
    );
    check(
        "scan.pdf",
        &pdf(1, "0 0 m", ""),
        "⟦file scan.pdf, SIZE bytes: it has no text, only pictures of pages (a scan?)⟧",
    );
    check(
        "locked.pdf",
        &pdf(1, WORDS, "/Encrypt 6 0 R"),
        "⟦file locked.pdf, SIZE bytes: it is encrypted and needs a password⟧",
    );
    let torn = &whole[..whole.len() / 2];
    check(
        "torn.pdf",
        torn,
        "⟦file torn.pdf, SIZE bytes: its text cannot be read: it is damaged⟧",
    );
    check(
        "old.txt",
        b"Gr\xfc\xdfe",
        "⟦untrusted file old.txt, SIZE bytes⟧\nGrüße\n⟦end⟧",
    );
    check(
        "wide.csv",
        b"\xff\xfea\0;\0b\0",
        "⟦untrusted file wide.csv, SIZE bytes⟧\na;b\n⟦end⟧",
    );
    check(
        "letter.docx",
        b"PK\x03\x04",
        "⟦file letter.docx, SIZE bytes: a ZIP archive or an office document, so it cannot be shown to you⟧",
    );
    let unheard = "not transcribed: no speech_to_text model is configured ([routing] speech_to_text in agent.toml)";
    check(
        "memo.ogg",
        b"OggS\0",
        &format!("⟦audio memo.ogg, SIZE bytes; {unheard}⟧"),
    );
}

#[test]
fn a_pdf_that_would_eat_the_machine_costs_its_reader_and_nothing_else() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    // 10,000 pages of 40 KB from a file of 1.3 MB: as text far more than is ever read.
    let bomb = pdf(
        10_000,
        &format!("BT /F1 12 Tf ({}) Tj ET", "boom".repeat(10_000)),
        "",
    );
    let started = Instant::now();
    let sent = sandbox.send(&[
        "--wait=100",
        "--attach",
        &file(&sandbox, "bomb.pdf", &bomb),
        "read",
    ]);
    assert_eq!(sent.code, 0, "{sent:?}");
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    let text = told_text(&model);
    assert!(
        text.contains("boomboom") && text.contains("[… the rest could not be read: it "),
        "{}",
        text.len()
    );
    assert!(text.chars().count() < 31_000);
    // A page that is its own parent, and inherits from itself for ever.
    let ring = String::from_utf8_lossy(&pdf(1, WORDS, ""))
        .replace("/MediaBox[0 0 612 792]", "/Parent 3 0 R         ");
    let sent = sandbox.send(&[
        "--wait=100",
        "--attach",
        &file(&sandbox, "ring.pdf", ring.as_bytes()),
        "read",
    ]);
    assert_eq!(sent.code, 0, "{sent:?}");
    assert!(
        told_text(&model).contains("its text cannot be read: it "),
        "{}",
        told_text(&model)
    );
    assert_eq!(sandbox.send(&["--wait", "still there?"]).code, 0);
}

fn seeing(sandbox: Sandbox) -> Sandbox {
    sandbox.provider_config("mock", "[models.primary]\nvision = true")
}

#[test]
fn a_picture_is_shown_to_a_model_that_sees_on_both_wires() {
    let base64 = base64::engine::general_purpose::STANDARD.encode(PNG);
    let label = |number: usize| format!("⟦file plan{number}.png, {} bytes⟧", PNG.len());
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = seeing(sandbox);
    let daemon = sandbox.ready();
    let picture = file(&sandbox, "plan1.png", PNG);
    assert_eq!(
        sandbox
            .send(&["--wait", "--attach", &picture, "what is this?"])
            .code,
        0
    );
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": base64}});
    assert_eq!(
        told(&model),
        [json!({"type": "text", "text": label(1)}), image.clone()]
    );

    // In the history it is named, and its bytes are nowhere but in its file.
    let history = sandbox.send(&["--history", "--json"]);
    assert!(!history.stdout.contains(&base64), "{history:?}");

    // When its file is gone the conversation goes on.
    fs::remove_dir_all(sandbox.path("state/downloads")).expect("the sandbox is writable");
    fs::create_dir(sandbox.path("state/downloads")).expect("the sandbox is writable");
    let sent = sandbox.send(&["--wait", "and now?"]);
    assert_eq!(sent.code, 0, "{sent:?}");
    let first = model.requests().pop().expect("a request")["messages"][0]["content"].to_string();
    assert!(
        first.contains("⟦a picture that is no longer kept⟧") && !first.contains(&base64),
        "{first}"
    );
    assert_eq!(daemon.term(), 0);

    let model = FakeModel::start();
    let sandbox = seeing(Sandbox::new().with_openai(&model));
    let _daemon = sandbox.ready();
    let picture = file(&sandbox, "plan2.png", PNG);
    assert_eq!(
        sandbox
            .send(&["--wait", "--attach", &picture, "what is this?"])
            .code,
        0
    );
    let request = model.requests().pop().expect("a request");
    let content = request["messages"]
        .as_array()
        .and_then(|messages| messages.last())
        .expect("a message")["content"]
        .clone();
    assert!(
        content[0]["text"]
            .as_str()
            .is_some_and(|text| text.ends_with(&format!("what is this?\n\n{}", label(2)))),
        "{content}"
    );
    assert_eq!(
        content[1],
        json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{base64}")}})
    );
}

#[test]
fn a_model_that_does_not_see_reads_that_there_was_a_picture() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    assert_eq!(
        sandbox
            .send(&[
                "--wait",
                "--attach",
                &file(&sandbox, "plan.png", PNG),
                "what is this?"
            ])
            .code,
        0
    );
    let words =
        "⟦a picture; the model primary does not see pictures (vision = true in providers.d)⟧";
    assert_eq!(told(&model)[1], json!({"type": "text", "text": words}));
}
