//! The text of a PDF. The format invites attacks, so a process that can do nothing else reads it
//! ([`crate::sandbox::compute`]): its resources are limited, and a crash affects only this process.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use pdf_extract::encryption::DecryptionError;
use pdf_extract::{
    ConvertToFmt, Document, Error, MediaBox, OutputDev, OutputError, PlainTextOutput, Transform,
    output_doc,
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::sandbox;
use crate::sandbox::{Limits, Status};

/// The hidden first argument with which a program of ours must call [`pdf_main`] before it does
/// anything else.
pub const PDF_ARG: &str = "__pdf";

/// A book of 1000 pages has about 3 MB of text and takes a second (measured with texinfo's).
const LIMITS: Limits = Limits {
    memory: 512 << 20,
    cpu: Duration::from_secs(20),
    wall: Duration::from_secs(30),
    max_output: 4 << 20,
};
/// So many are read at one time; each may take all that [`LIMITS`] grants.
static AT_ONCE: Semaphore = Semaphore::const_new(2);

/// Exit codes of the reader.
const ENCRYPTED: u8 = 3;
const DAMAGED: u8 = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pdf {
    /// Its text, pages apart by an empty line; never blank.
    pub text: String,
    /// Why there is no more of it; `None` when this is all.
    pub broken_off: Option<&'static str>,
}

impl Pdf {
    /// Returns its text, and below it why there is no more.
    pub fn told(self) -> String {
        match self.broken_off {
            None => self.text,
            Some(why) => format!("{}\n\n[… the rest could not be read: {why} …]", self.text),
        }
    }
}

/// Reads a PDF.
///
/// # Errors
/// Why there is no text, in a person's words.
pub async fn pdf(file: File, cancel: &CancellationToken) -> Result<Pdf, String> {
    let Ok(_turn) = AT_ONCE.acquire().await else {
        return Err("it cannot be read now".to_owned());
    };
    match sandbox::compute(PDF_ARG, file, LIMITS, cancel).await {
        Ok((output, status)) => outcome(&output, status),
        Err(error) => {
            tracing::error!(%error, "a PDF could not be read");
            Err(format!("it cannot be read safely on this machine: {error}"))
        }
    }
}

/// Makes of the end of the reader what there is to be said about the file.
fn outcome(output: &[u8], status: Status) -> Result<Pdf, String> {
    // What is cut in a letter loses that letter.
    let text = String::from_utf8_lossy(output);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == char::REPLACEMENT_CHARACTER);
    let broken_off = match status {
        Status::Exited(0) => None,
        Status::Exited(code) if code == i32::from(ENCRYPTED) => {
            return Err("it is encrypted and needs a password".to_owned());
        }
        Status::Exited(_) => Some("it is damaged"),
        Status::Signaled(signal) if signal == nix::libc::SIGPIPE => Some("it is too long"),
        Status::Signaled(signal)
            if signal == nix::libc::SIGXCPU || signal == nix::libc::SIGKILL =>
        {
            Some("it takes too long to read")
        }
        Status::Signaled(_) => Some("it is damaged, or needs more memory than it may have"),
        Status::OutOfMemory => Some("it takes too much memory to read"),
        Status::TimedOut | Status::DiskFull => Some("it takes too long to read"),
        Status::Cancelled => Some("reading it was stopped"),
    };
    match (text.is_empty(), broken_off) {
        (false, broken_off) => Ok(Pdf {
            text: text.to_owned(),
            broken_off,
        }),
        (true, Some(why)) => Err(format!("its text cannot be read: {why}")),
        (true, None) => Err("it has no text, only pictures of pages (a scan?)".to_owned()),
    }
}

/// Becomes the reader of the PDF on standard input.
pub fn pdf_main() -> ExitCode {
    sandbox::compute_main(LIMITS, |bytes, output| match write_text(bytes, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(OutputError::PdfError(Error::Decryption(_) | Error::UnsupportedSecurityHandler(_))) => {
            ExitCode::from(ENCRYPTED)
        }
        Err(_) => ExitCode::from(DAMAGED),
    })
}

/// Writes each page's text as soon as it is known: what comes later may break the reader.
fn write_text(bytes: &[u8], output: &mut dyn Write) -> Result<(), OutputError> {
    let mut document = Document::load_mem(bytes)?;
    if document.is_encrypted() {
        // Most encrypted files only forbid printing; those open with the empty password.
        document.decrypt("").map_err(|error| match error {
            Error::Decryption(why) => Error::Decryption(why),
            _ => Error::Decryption(DecryptionError::IncorrectPassword),
        })?;
    }
    let page = Page::default();
    let mut pages = Pages {
        page: page.clone(),
        inner: PlainTextOutput::new(page),
        output,
    };
    output_doc(&document, &mut pages)
}

/// The text of the page at hand, shared with the library's own output.
#[derive(Clone, Default)]
struct Page(Rc<RefCell<String>>);

impl std::fmt::Write for Page {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.borrow_mut().push_str(text);
        Ok(())
    }
}

impl ConvertToFmt for Page {
    type Writer = Self;
    fn convert(self) -> Self {
        self
    }
}

/// The library's output, with an end to each page.
struct Pages<'a> {
    page: Page,
    inner: PlainTextOutput<Page>,
    output: &'a mut dyn Write,
}

impl OutputDev for Pages<'_> {
    fn begin_page(
        &mut self,
        number: u32,
        media_box: &MediaBox,
        art_box: Option<(f64, f64, f64, f64)>,
    ) -> Result<(), OutputError> {
        self.inner.begin_page(number, media_box, art_box)
    }

    fn end_page(&mut self) -> Result<(), OutputError> {
        self.inner.end_page()?;
        let text = self.page.0.take();
        match text.trim() {
            "" => Ok(()),
            text => write!(self.output, "{text}\n\n").map_err(OutputError::IoError),
        }
    }

    fn output_character(
        &mut self,
        transform: &Transform,
        width: f64,
        spacing: f64,
        font_size: f64,
        text: &str,
    ) -> Result<(), OutputError> {
        self.inner
            .output_character(transform, width, spacing, font_size, text)
    }

    fn begin_word(&mut self) -> Result<(), OutputError> {
        self.inner.begin_word()
    }

    fn end_word(&mut self) -> Result<(), OutputError> {
        self.inner.end_word()
    }

    fn end_line(&mut self) -> Result<(), OutputError> {
        self.inner.end_line()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A PDF of one page with this content stream.
    fn made(content: &str) -> Vec<u8> {
        let objects = [
            "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
            "<</Type/Pages/Kids[3 0 R 3 0 R]/Count 2>>".to_owned(),
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 5 0 R>>>>/Contents 4 0 R>>".to_owned(),
            format!("<</Length {}>>stream\n{content}\nendstream", content.len()),
            "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>".to_owned(),
        ];
        let (mut file, mut table) = ("%PDF-1.4\n".to_owned(), "0000000000 65535 f \n".to_owned());
        for (number, object) in (1..).zip(objects) {
            table.push_str(&format!("{:010} 00000 n \n", file.len()));
            file.push_str(&format!("{number} 0 obj\n{object}\nendobj\n"));
        }
        let start = file.len();
        file.push_str(&format!(
            "xref\n0 6\n{table}trailer\n<</Size 6/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n"
        ));
        file.into_bytes()
    }

    fn read(bytes: &[u8]) -> Result<String, OutputError> {
        let mut output = Vec::new();
        write_text(bytes, &mut output)?;
        Ok(String::from_utf8(output).expect("UTF-8"))
    }

    #[test]
    fn pages_and_lines_stay_apart() {
        let page = "BT /F1 12 Tf 72 700 Td (Total: 12,50) Tj 0 -14 Td (Gr\\374\\337e) Tj ET";
        assert_eq!(
            read(&made(page)).expect("text"),
            "Total: 12,50\nGrüße\n\nTotal: 12,50\nGrüße\n\n"
        );
        assert_eq!(read(&made("0 0 m")).expect("no text"), "");
        assert!(read(b"%PDF-1.4 and no more").is_err());
    }

    #[test]
    fn the_end_of_the_reader_says_what_is_wrong_with_the_file() {
        let check =
            |output: &str, status: Status, expected: Result<(&str, Option<&'static str>), &str>| {
                let expected = expected
                    .map(|(text, broken_off)| Pdf {
                        text: text.into(),
                        broken_off,
                    })
                    .map_err(str::to_owned);
                assert_eq!(outcome(output.as_bytes(), status), expected);
            };
        check("one\n\n", Status::Exited(0), Ok(("one", None)));
        check(
            " \n",
            Status::Exited(0),
            Err("it has no text, only pictures of pages (a scan?)"),
        );
        check(
            "",
            Status::Exited(3),
            Err("it is encrypted and needs a password"),
        );
        check(
            "one",
            Status::Exited(101),
            Ok(("one", Some("it is damaged"))),
        );
        check(
            "",
            Status::Exited(4),
            Err("its text cannot be read: it is damaged"),
        );
        check(
            "",
            Status::Signaled(9),
            Err("its text cannot be read: it takes too long to read"),
        );
        check(
            "one",
            Status::TimedOut,
            Ok(("one", Some("it takes too long to read"))),
        );
        let torn = outcome(b"one \xc3", Status::Signaled(nix::libc::SIGPIPE));
        assert_eq!(
            torn,
            Ok(Pdf {
                text: "one".into(),
                broken_off: Some("it is too long")
            })
        );
    }
}
