//! One line of macros, as it is printed.

use super::Span;

/// What a macro does with what follows it.
#[derive(Clone, Copy)]
enum Macro {
    /// It marks words.
    Words,
    /// It stands around the rest of the line.
    Around(&'static str, &'static str),
    /// It is a sign that opens, or one that closes.
    Open(&'static str),
    Close(&'static str),
    /// No space comes.
    Join,
    /// A page and its section come.
    Page,
}

const MACROS: &[(&str, Macro)] = &[
    ("Ar", Macro::Words),
    ("Cm", Macro::Words),
    ("Em", Macro::Words),
    ("Ev", Macro::Words),
    ("Fl", Macro::Words),
    ("Lk", Macro::Words),
    ("Nd", Macro::Words),
    ("Nm", Macro::Words),
    ("No", Macro::Words),
    ("Pa", Macro::Words),
    ("Sx", Macro::Words),
    ("Sy", Macro::Words),
    ("Va", Macro::Words),
    ("Dq", Macro::Around("“", "”")),
    ("Op", Macro::Around("[", "]")),
    ("Pq", Macro::Around("(", ")")),
    ("Ql", Macro::Around("‘", "’")),
    ("Sq", Macro::Around("‘", "’")),
    ("Oo", Macro::Open("[")),
    ("Po", Macro::Open("(")),
    ("Oc", Macro::Close("]")),
    ("Pc", Macro::Close(")")),
    ("Ns", Macro::Join),
    ("Xr", Macro::Page),
];
const CLOSERS: &[&str] = &[".", ",", ":", ";", ")", "]", "?", "!"];

/// A word, and whether it stood in quotes: then it is no macro and no sign.
type Token = (String, bool);

/// Returns the words of a line without quotes and escapes.
pub(super) fn words(line: &str) -> String {
    tokens(line)
        .into_iter()
        .map(|(word, _)| word)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns a text without its escapes.
pub(super) fn unescaped(text: &str) -> String {
    let text = text
        .replace("\\(dq", "\"")
        .replace("\\&", "")
        .replace("\\-", "-");
    text.replace("\\e", "\\")
}

fn tokens(line: &str) -> Vec<Token> {
    let (mut tokens, mut rest) = (Vec::new(), line.trim());
    while !rest.is_empty() {
        let (word, after, quoted) = match rest.strip_prefix('"') {
            Some(inside) => inside
                .split_once('"')
                .map(|(word, after)| (word, after, true))
                .unwrap_or((inside, "", true)),
            None => rest
                .split_once(' ')
                .map_or((rest, "", false), |(word, after)| (word, after, false)),
        };
        tokens.push((unescaped(word), quoted));
        rest = after.trim_start();
    }
    tokens
}

fn known((word, quoted): &Token) -> Option<Macro> {
    MACROS
        .iter()
        .find(|(name, _)| !quoted && name == word)
        .map(|(_, what)| *what)
}

fn closes((word, quoted): &Token) -> bool {
    !quoted && CLOSERS.contains(&word.as_str())
}

/// Returns a line as it is printed; `page` is what `.Nm` says, `at` the line's number.
///
/// # Panics
/// With the name of a macro that stands at the beginning and is not known.
pub(super) fn print(line: &str, page: &str, at: usize) -> Span {
    let mut tokens = tokens(line);
    if let Some(first) = tokens
        .first()
        .filter(|first| known(first).is_none() && is_macro(&first.0))
    {
        panic!(
            "man/{page}:{at}: the macro {} is not known to the test",
            first.0
        );
    }
    let tail = tokens
        .iter()
        .rev()
        .take_while(|token| closes(token))
        .count();
    let tail = tokens.split_off(tokens.len() - tail);
    let mut printer = Printer {
        page: page.to_owned(),
        at,
        ..Printer::default()
    };
    let mut ends = Vec::new();
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        let (word, quoted) = &token;
        match known(&token) {
            None if closes(&token) => printer.close(word),
            None if word == "|" && !quoted => printer.bar(),
            None => printer.word(word),
            Some(Macro::Words) => printer.begin(word),
            Some(Macro::Around(open, close)) => {
                printer.begin(word);
                printer.open(open);
                ends.push(close);
            }
            Some(Macro::Open(sign)) => printer.open(sign),
            Some(Macro::Close(sign)) => printer.close(sign),
            Some(Macro::Join) => {
                printer.begin("No");
                printer.join = true;
            }
            Some(Macro::Page) => {
                printer.begin("Xr");
                let mut next = || tokens.next().map(|(word, _)| word).unwrap_or_default();
                let page = format!("{}({})", next(), next());
                printer.word(&page);
            }
        }
    }
    printer.settle();
    ends.iter().rev().for_each(|end| printer.close(end));
    tail.iter().for_each(|(word, _)| printer.close(word));
    printer.span
}

fn is_macro(word: &str) -> bool {
    let mut letters = word.chars();
    word.len() == 2
        && letters.next().is_some_and(|c| c.is_ascii_uppercase())
        && letters.all(|c| c.is_ascii_lowercase())
}

#[derive(Default)]
struct Printer {
    page: String,
    at: usize,
    span: Span,
    /// The macro whose words come, and whether none of them came yet.
    mark: String,
    fresh: bool,
    /// No space before what comes.
    join: bool,
}

impl Printer {
    fn put(&mut self, text: &str) {
        if !self.join && !self.span.text.is_empty() {
            self.span.text.push(' ');
        }
        self.join = false;
        self.span.text.push_str(text);
    }

    /// Begins a macro.
    fn begin(&mut self, mark: &str) {
        self.settle();
        self.mark = mark.to_owned();
        self.fresh = true;
    }

    /// Two macros say something without a word, too.
    fn settle(&mut self) {
        if std::mem::take(&mut self.fresh) {
            match self.mark.as_str() {
                "Fl" => self.put("-"),
                "Nm" => {
                    let name = self
                        .page
                        .rsplit_once('.')
                        .map_or(self.page.as_str(), |(name, _)| name)
                        .to_owned();
                    self.put(&name);
                }
                _ => {}
            }
        }
    }

    fn word(&mut self, word: &str) {
        self.fresh = false;
        let word = if self.mark == "Fl" {
            format!("-{word}")
        } else {
            word.to_owned()
        };
        self.put(&word);
        let mark = if self.mark.is_empty() {
            "No"
        } else {
            &self.mark
        };
        self.span.marks.push((mark.to_owned(), word, self.at));
    }

    fn open(&mut self, sign: &str) {
        self.settle();
        self.put(sign);
        self.join = true;
    }

    fn close(&mut self, sign: &str) {
        self.settle();
        self.join = true;
        self.put(sign);
    }

    fn bar(&mut self) {
        self.settle();
        self.put("|");
    }
}

#[test]
fn a_line_is_read_as_it_is_printed() {
    for (line, text) in [
        ("Fl -wait Ns Op = Ns Ar SECS", "--wait[=SECS]"),
        (
            "Fl c Ar FILE , Fl -config Ar FILE",
            "-c FILE, --config FILE",
        ),
        (
            "Fl -reset Ar all | CONTACT | SESSION",
            "--reset all | CONTACT | SESSION",
        ),
        ("Ar TEXT | Fl", "TEXT | -"),
        ("Ql /exit ) .", "‘/exit’)."),
        ("Nm", "prog"),
        ("Xr cron 8 ,", "cron(8),"),
        (
            "Va env No = [\\(dqA\\(dq, \\(dqB\\(dq]",
            "env = [\"A\", \"B\"]",
        ),
        (
            "Pq everything; the default of Fl -system .",
            "(everything; the default of --system).",
        ),
        ("Po Fl -a , Fl -b", "(--a, --b"),
        ("Pa a\\e\"b\" \"Fl\"", "a\\\"b\" Fl"),
    ] {
        assert_eq!(print(line, "prog.1", 1).text, text, "{line}");
    }
    let marks = print("Cm run Fl -a Ns = Ns Ar B , C plain", "prog.1", 7).marks;
    let expected = [
        ("Cm", "run"),
        ("Fl", "--a"),
        ("No", "="),
        ("Ar", "B"),
        ("Ar", "C"),
        ("Ar", "plain"),
    ];
    assert_eq!(
        marks,
        expected.map(|(mark, word)| (mark.to_owned(), word.to_owned(), 7))
    );
}
