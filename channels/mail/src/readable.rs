//! The text that a person wrote in a mail: HTML as text, without quotations and signatures.

mod nesting;
mod others;

use dom_query::{Document, NodeRef};

use others::{Begin, begin, is_forward_mark, is_quote, is_quoted_signature};

/// More HTML than this is read by the plainer way, bytes.
const MAX_HTML: usize = 4 << 20;
/// The stack of the thread that reads HTML, bytes.
const STACK: usize = 64 << 20;

/// What mail programs put around what others wrote before.
const QUOTES: &str = ".gmail_quote, blockquote[type='cite' i], .moz-cite-prefix, .yahoo_quoted, [id^='yahoo_quoted'], \
    .protonmail_quote, .tutanota_quote, .zmail_extra, div[name='quote' i], [name='messageReplySection'], #OLK_SRC_BODY_SECTION";
/// What Outlook puts before them, with all that follows in the document.
const QUOTES_FOLLOW: &str =
    "#divRplyFwdMsg, #appendonsend, #mail-editor-reference-message-container";
/// The line that Word draws above the head of a mail, in whatever language; so many are looked at.
const LINE_ABOVE: &str = "div[style*='border-top' i]";
const MAX_LINES_ABOVE: usize = 20;
/// Stands for a quote that was taken out, so that words between quotes are known as such.
const TAKEN_OUT: char = '\u{e000}';
/// And this among the words, where a quote was.
const LEFT_OUT: &str = "[…]";
/// What nobody wrote or sees.
const UNSEEN: &str = "head, script, style, template, title, .gmail_signature, .moz-signature, .moz-forward-container > br, [hidden], \
    [style*='display:none' i], [style*='display: none' i], [style*='mso-hide' i]";
/// What mail programs of phones put below, in some languages: how the line begins, and what it says then.
const SENT_FROM: [(&str, &str); 9] = [
    ("sent from my ", ""),
    ("sent from outlook", ""),
    ("get outlook for ", ""),
    ("von meinem ", " gesendet"),
    ("gesendet von ", ""),
    ("envoyé de mon ", ""),
    ("enviado desde mi ", ""),
    ("inviato da ", ""),
    ("verzonden vanaf ", ""),
];
/// What begins a signature (RFC 3676 §4.3), and how many lines it has at most: what is longer is text.
const SIGNATURE: &str = "-- ";
const MAX_SIGNATURE: usize = 15;
/// The lines above a quote that may introduce it.
const MAX_INTRODUCTION: usize = 24;

/// A text, and what of it somebody else wrote.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// The person's own words.
    pub own: String,
    /// What they quoted or passed on; empty when there is none.
    pub others: String,
    /// Whether the own words stand between the quotes: without these they may say little.
    pub is_interleaved: bool,
    /// Whether nothing marks the lines of the quote: own words may stand among them.
    pub is_unmarked: bool,
    /// Whether the person passed another mail on.
    pub is_forward: bool,
    /// Whether it says where another mail begins: with its head, a mark, or what mail programs put around it in HTML.
    pub has_seam: bool,
    /// Whether it ends with words of others, so that what comes after it goes on with them.
    pub is_open: bool,
}

/// Reads a plain text.
pub fn plain(text: &str) -> Read {
    let text = text.replace("\r\n", "\n").replace('\u{a0}', " ");
    let whole: Vec<&str> = text.lines().collect();
    let lines: Vec<&str> = whole.iter().map(|line| line.trim_end()).collect();
    let found = begin(&lines);
    let at = match found {
        Some(Begin::Forward(at) | Begin::Head(at) | Begin::Unmarked(at) | Begin::Nothing(at)) => at,
        None => lines.len(),
    };
    let mut own = lines.get(..at).unwrap_or_default().to_vec();
    if let Some(signature) = signature(whole.get(..at).unwrap_or_default()) {
        own.drain(signature);
    }
    let mut read = without_quotes(&own);
    let tail = lines.get(at..).unwrap_or_default().join("\n");
    if !tail.trim().is_empty() {
        read.others = format!("{}\n{tail}", read.others).trim().to_owned();
    }
    read.is_forward = matches!(found, Some(Begin::Forward(_)));
    read.has_seam = matches!(found, Some(Begin::Forward(_) | Begin::Head(_)));
    read.is_unmarked |= matches!(found, Some(Begin::Unmarked(_)));
    read.is_open |= found.is_some();
    read
}

/// Returns which lines are the signature: what is below the last mark of one, up to the end or to quotes that end the mail.
fn signature(lines: &[&str]) -> Option<std::ops::Range<usize>> {
    let from = lines.iter().rposition(|line| *line == SIGNATURE)?;
    let quoted = lines.iter().skip(from).position(|line| is_quote(line));
    let end = quoted.map_or(lines.len(), |at| from + at);
    let below = lines.get(end..).unwrap_or_default();
    let said = lines.get(from + 1..end).unwrap_or_default();
    let is_last = below
        .iter()
        .all(|line| is_quote(line) || line.trim().is_empty());
    let count = said.iter().filter(|line| !line.trim().is_empty()).count();
    (is_last && count <= MAX_SIGNATURE).then_some(from..end)
}

/// Reads HTML.
pub fn html(html: &str) -> Read {
    let whole = html.to_owned();
    if html.len() <= MAX_HTML && nesting::is_bounded(html) {
        let reader = std::thread::Builder::new().stack_size(STACK);
        let read = reader
            .spawn(move || tree(&whole))
            .map(std::thread::JoinHandle::join);
        if let Ok(Ok(read)) = read {
            return read;
        }
    }
    plainer(html)
}

/// Reads HTML whose tree is not made: what begins with a quote is not the person's own, whatever follows.
fn plainer(html: &str) -> Read {
    const BEGIN: [&str; 9] = [
        "<blockquote",
        "gmail_quote",
        "moz-cite-prefix",
        "yahoo_quoted",
        "protonmail_quote",
        "tutanota_quote",
        "divrplyfwdmsg",
        "appendonsend",
        "olk_src_body_section",
    ];
    let small = html.to_ascii_lowercase();
    let found = BEGIN.iter().filter_map(|begin| small.find(begin)).min();
    let found = found.map(|at| {
        small
            .get(..=at)
            .and_then(|before| before.rfind('<'))
            .unwrap_or(at)
    });
    let (own, others) = html.split_at(found.unwrap_or(html.len()));
    let text = mail_parser::decoders::html::html_to_text;
    let mut read = plain(&text(own));
    if !others.is_empty() {
        read.others = format!("{}\n{}", read.others, text(others))
            .trim()
            .to_owned();
        read.is_unmarked = true;
        read.has_seam = true;
        read.is_open = true;
    }
    read
}

fn tree(html: &str) -> Read {
    let document = Document::from(html);
    document.select(UNSEEN).remove();
    let mut quoted = String::new();
    let follow = document.select(QUOTES_FOLLOW).nodes().first().cloned();
    if let Some(first) = follow.or_else(|| drawn_above(&document)) {
        cut(&first, &mut quoted);
    }
    let is_cut = !quoted.trim().is_empty();
    let quotes = document.select(QUOTES);
    // The first has those within it; Thunderbird's introduction stands before it.
    let is_quote = |node: &&NodeRef<'_>| !node.has_class("moz-cite-prefix");
    if let Some(first) = quotes.nodes().iter().find(is_quote) {
        quoted.push_str(first.md(None).trim());
    }
    for quote in quotes.nodes() {
        quote.set_text(TAKEN_OUT.to_string());
    }
    let quoted = quoted.trim().to_owned();
    let body = document
        .body()
        .map(|body| body.md(None))
        .unwrap_or_default();
    let mut read = plain(&body.replace(TAKEN_OUT, &format!("\n\n> {TAKEN_OUT}\n\n")));
    // Its blank is lost, and what followed it is known by its class.
    let own = read.own.trim_end();
    let own = own
        .strip_suffix("\n\\--")
        .or_else(|| own.strip_suffix("\n--"));
    if let Some(own) = own.map(|own| own.trim_end().to_owned()) {
        read.own = own;
    }
    read.is_forward |= quoted.lines().take(4).any(is_forward_mark);
    read.has_seam |= !quoted.is_empty();
    read.is_open |= is_cut;
    let others = read.others.lines().filter(|line| !line.contains(TAKEN_OUT));
    let others: Vec<&str> = others.chain(quoted.lines()).collect();
    read.others = others.join("\n").trim().to_owned();
    read
}

/// Returns what has a line above and says at least three times `Name: value`, with an address or a date.
fn drawn_above<'a>(document: &'a Document) -> Option<NodeRef<'a>> {
    let drawn = document.select(LINE_ABOVE);
    let mut drawn = drawn.nodes().iter().take(MAX_LINES_ABOVE);
    drawn
        .find(|node| {
            let text = node.md(None);
            let is_field = |line: &&str| {
                let name = line.split_once([':', '：']).map(|(name, _)| name);
                name.is_some_and(|name| (1..30).contains(&name.chars().count()))
            };
            text.lines().filter(is_field).count() >= 3
                && (text.contains('@') || others::digits(&text) >= 3)
        })
        .cloned()
}

/// Takes out what begins with `first`, to the end of the document.
fn cut(first: &NodeRef<'_>, quoted: &mut String) {
    // Not by a selector of siblings, which looks at each before each.
    let mut next = Some(*first);
    let mut above = first.parent();
    loop {
        while let Some(node) = next {
            next = node.next_sibling();
            quoted.push_str(node.md(None).trim());
            quoted.push('\n');
            node.remove_from_parent();
        }
        match above {
            Some(parent) if !parent.is("body") => {
                next = parent.next_sibling();
                above = parent.parent();
            }
            _ => return,
        }
    }
}

fn is_mark(line: &String) -> bool {
    line.trim().is_empty() || line == LEFT_OUT
}

/// Where a line stands that bears no mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Among the person's own.
    Own,
    /// Right below a quoted line: it was broken anew, and lost its mark.
    Quote,
    /// Below a blank line below that: the person may go on here.
    Below,
}

fn without_quotes(lines: &[&str]) -> Read {
    let mut own: Vec<String> = Vec::new();
    let mut others = String::new();
    let mut place = Place::Own;
    let (mut is_signed, mut is_unmarked) = (false, false);
    for line in lines {
        let is_marked = is_quote(line);
        if line.trim().is_empty() {
            own.push(String::new());
            if place == Place::Quote {
                place = Place::Below;
            }
        } else if is_marked || is_signed || place == Place::Quote {
            if place == Place::Own {
                take_introduction(&mut own, &mut others);
                own.push(LEFT_OUT.to_owned());
            }
            // Whoever spoke above the quote does not answer below the name of who wrote it.
            is_signed |= is_quoted_signature(line) && own.iter().any(|line| !is_mark(line));
            is_unmarked |= !is_marked;
            place = Place::Quote;
            others.push_str(line);
            others.push('\n');
        } else {
            place = Place::Own;
            own.push((*line).to_owned());
        }
    }
    // What is quoted at the end or at the beginning needs no mark.
    while own.last().is_some_and(is_mark) {
        own.pop();
    }
    while own.last().is_some_and(|line| is_sent_from(line)) {
        own.pop();
        while own.last().is_some_and(is_mark) {
            own.pop();
        }
    }
    let from = own
        .iter()
        .position(|line| !is_mark(line))
        .unwrap_or(own.len());
    let own = own.split_off(from).join("\n");
    Read {
        is_interleaved: own.contains(LEFT_OUT),
        is_unmarked,
        is_open: place != Place::Own,
        own,
        others: others.trim_end().to_owned(),
        ..Read::default()
    }
}

fn is_sent_from(line: &str) -> bool {
    let line = line.trim().to_lowercase();
    line.chars().count() < 80
        && SENT_FROM
            .iter()
            .any(|(begin, then)| line.starts_with(begin) && line.contains(then))
}

/// Moves `On Tuesday Ada <ada@example.org> wrote:` to the quote below it; it may be broken over some lines.
fn take_introduction(own: &mut Vec<String>, others: &mut String) {
    while own.last().is_some_and(|line| line.trim().is_empty()) {
        own.pop();
    }
    let Some(end) = own.len().checked_sub(1) else {
        return;
    };
    // No more is looked at, however long the text above is.
    let least = own.len().saturating_sub(MAX_INTRODUCTION);
    let lines: Vec<&str> = own.iter().skip(least).map(String::as_str).collect();
    let end = end - least;
    let is_end = |line: &&str| line.trim_end().ends_with([':', '：']);
    if !lines.get(end).is_some_and(is_end) {
        return;
    }
    let begin = others::first_of_broken(&lines, end);
    // The shortest that names a time or an address, or that somebody wrote: whoever did chose the name before it.
    let found = (begin..=end).rev().find(|at| {
        let said = lines.get(*at..).unwrap_or_default().join(" ");
        let names = said.contains('@') || others::digits(&said) >= 3;
        names || others::is_said_of_somebody(&said)
    });
    let found = found.map(|at| others::with_time(&lines, at, end));
    for line in found
        .map(|at| own.split_off(least + at))
        .unwrap_or_default()
    {
        others.push_str(&line);
        others.push('\n');
    }
}

#[cfg(test)]
mod tests;
