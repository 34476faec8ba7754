//! Server-sent events from a stream of bytes, bounded in size and in silence.
//!
//! The format is the HTML standard's (<https://html.spec.whatwg.org/multipage/server-sent-events.html>,
//! read 2026-11): lines end with CR, LF or CRLF, `:` begins a comment, `data` lines of one event are
//! joined by LF, a blank line delivers it, and an event the stream ends in is not delivered. Of the fields
//! `data` is kept (all vendors repeat the event's name inside it), and the last `id` and `retry` for those who
//! take a stream up again.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{Stream, StreamExt};

use super::body::{BodyError, Timeouts, innermost};

/// The largest event taken, bytes. A model's longest single event is a tool input of some hundred kB.
const MAX_EVENT: usize = 8 * 1024 * 1024;

/// The largest answer taken, bytes: 128k tokens streamed one an event are about 20 MB.
pub(crate) const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// The longest id of an event that is kept, bytes.
const MAX_ID: usize = 1024;

/// How long to read after the last event, so that the connection can be used again.
const DRAIN: Duration = Duration::from_millis(250);

/// Reads events from `S`, a stream of byte chunks.
pub(crate) struct Events<S> {
    stream: S,
    parser: Parser,
    timeouts: Timeouts,
    read: usize,
    last_id: Option<String>,
}

impl<S, B, E> Events<S>
where
    S: Stream<Item = Result<B, E>> + Unpin,
    B: AsRef<[u8]>,
    E: std::error::Error,
{
    pub(crate) fn new(stream: S, timeouts: Timeouts) -> Self {
        Self {
            stream,
            parser: Parser::default(),
            timeouts,
            read: 0,
            last_id: None,
        }
    }

    /// Returns it as one that continues after the event of this id.
    pub(crate) fn after(self, last_id: String) -> Self {
        Self {
            last_id: Some(last_id),
            ..self
        }
    }

    /// Returns the id of the last event, when events have ids.
    pub(crate) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Returns after how long the server wants to be asked again.
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.parser.retry
    }

    /// Returns the data of the next event, or `None` at the end of the stream.
    ///
    /// # Errors
    /// [`BodyError`]; nothing more can be read after it.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, BodyError> {
        loop {
            if let Some((data, id)) = self.parser.ready.pop_front() {
                self.last_id = id.or(self.last_id.take());
                match data {
                    Some(data) => return Ok(Some(data)),
                    None => continue,
                }
            }
            let wait = if self.read == 0 {
                self.timeouts.first
            } else {
                self.timeouts.between
            };
            let chunk = match tokio::time::timeout(wait, self.stream.next()).await {
                Err(_) => return Err(BodyError::Timeout(wait)),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(BodyError::Transport(innermost(&error))),
                Ok(Some(Ok(chunk))) => chunk,
            };
            self.read += chunk.as_ref().len();
            if self.read > MAX_ANSWER {
                return Err(BodyError::TooLarge(MAX_ANSWER));
            }
            self.parser.push(chunk.as_ref())?;
        }
    }

    /// Reads the little that follows the last event: a connection with unread bytes is closed
    /// instead of used for the next call.
    pub(crate) async fn drain(mut self) {
        let rest = async { while let Some(Ok(_)) = self.stream.next().await {} };
        // Whether it ended or not, the answer is complete; only the connection is at stake.
        let _ = tokio::time::timeout(DRAIN, rest).await;
    }
}

/// The pure part: bytes in, finished events out.
#[derive(Default)]
struct Parser {
    line: Vec<u8>,
    after_cr: bool,
    after_first_line: bool,
    data: Option<String>,
    /// The id of the event that is being read.
    id: Option<String>,
    retry: Option<Duration>,
    /// What was delivered: the data, and the id. An id may come alone.
    ready: VecDeque<(Option<String>, Option<String>)>,
}

impl Parser {
    fn push(&mut self, bytes: &[u8]) -> Result<(), BodyError> {
        for &byte in bytes {
            let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => self.end_line(),
                _ => self.line.push(byte),
            }
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > MAX_EVENT {
                return Err(BodyError::TooLarge(MAX_EVENT));
            }
        }
        Ok(())
    }

    fn end_line(&mut self) {
        // Only a whole line is decoded, so a letter split over two chunks is whole again.
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = if self.after_first_line {
            &*line
        } else {
            line.strip_prefix('\u{feff}').unwrap_or(&line)
        };
        self.after_first_line = true;
        if line.is_empty() {
            let event = (self.data.take(), self.id.take());
            self.ready
                .extend(Some(event).filter(|event| *event != (None, None)));
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {}
            "id" => {
                self.id =
                    Some(value.to_owned()).filter(|id| id.len() <= MAX_ID && !id.contains('\0'));
                return;
            }
            "retry" => {
                self.retry = value.parse().ok().map(Duration::from_millis);
                return;
            }
            _ => return, // a comment (empty field), or event
        }
        match &mut self.data {
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
            None => self.data = Some(value.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use proptest::prelude::*;
    use std::io;

    fn parsed(chunks: &[&[u8]]) -> Vec<String> {
        let mut parser = Parser::default();
        for chunk in chunks {
            parser.push(chunk).unwrap();
        }
        let data = parser.ready.into_iter().filter_map(|(data, _)| data);
        data.collect()
    }

    fn quick() -> Timeouts {
        Timeouts {
            between: Duration::from_millis(20),
            ..Timeouts::all(Duration::from_millis(200))
        }
    }

    #[test]
    fn every_line_end_ends_a_line() {
        for end in ["\n", "\r", "\r\n"] {
            let text =
                "event: a\ndata: one\n\n: comment\ndata:two\ndata\ndata:  three\n\nid: 7\n\n"
                    .replace('\n', end);
            assert_eq!(
                parsed(&[text.as_bytes()]),
                ["one", "two\n\n three"],
                "{end:?}"
            );
        }
    }

    #[test]
    fn a_last_event_without_blank_line_is_not_delivered() {
        assert_eq!(parsed(&[b"data: whole\n\ndata: half\n"]), ["whole"]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped_once() {
        assert_eq!(parsed(&["\u{feff}data: a\n\n".as_bytes()]), ["a"]);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut parser = Parser::default();
        parser.push(b"data: ").unwrap();
        let megabyte = vec![b'x'; 1024 * 1024];
        let result = (0..9).try_for_each(|_| parser.push(&megabyte));
        assert_eq!(result, Err(BodyError::TooLarge(MAX_EVENT)));
    }

    #[tokio::test]
    async fn silence_ends_the_reading() {
        let bytes = stream::iter([Ok::<_, io::Error>(b"data: a\n\n")]).chain(stream::pending());
        let mut events = Events::new(Box::pin(bytes), quick());
        assert_eq!(events.next().await, Ok(Some("a".to_owned())));
        assert_eq!(
            events.next().await,
            Err(BodyError::Timeout(quick().between))
        );
    }

    #[tokio::test]
    async fn a_lost_connection_is_told_from_an_end() {
        let bytes = stream::iter([Ok(&b"data: a\n"[..]), Err(io::Error::other("reset"))]);
        assert_eq!(
            Events::new(bytes, quick()).next().await,
            Err(BodyError::Transport("reset".to_owned()))
        );
        let bytes = stream::iter([Ok::<_, io::Error>(&b"data: a\n"[..])]);
        assert_eq!(Events::new(bytes, quick()).next().await, Ok(None));
    }

    proptest! {
        #[test]
        fn chunk_borders_do_not_matter(lines in prop::collection::vec("(data: ?|:|x: )\\PC{0,12}|", 0..20), cuts in prop::collection::vec(0usize..200, 0..8)) {
            for end in ["\n", "\r", "\r\n"] {
                let text = lines.join(end) + end + end;
                let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
                cuts.extend([0, text.len()]);
                cuts.sort_unstable();
                let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();
                prop_assert_eq!(parsed(&chunks), parsed(&[text.as_bytes()]));
            }
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            parsed(&[&bytes]);
        }
    }
}
