//! Reads the part of mdoc(7) that our pages use: sections, lists, literal blocks, and lines as the plain
//! text a reader sees. A macro it does not know is a panic with its place, so that nothing is passed over.

mod line;

use std::{fs, path::PathBuf};

/// A page.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// Its file, such as `agent-send.1`.
    pub(super) file: String,
    /// The entries of lists outside of other entries, in order.
    pub(super) items: Vec<Item>,
    /// What stands outside of lists, by section and subsection.
    pub(super) texts: Vec<(Place, Span)>,
    /// What stands as it is.
    pub(super) blocks: Vec<Block>,
}

/// A section and, if any, a subsection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) section: String,
    pub(super) subsection: Option<String>,
}

/// An entry of a list.
#[derive(Debug, Default)]
pub(super) struct Item {
    pub(super) line: usize,
    pub(super) place: Place,
    /// What stands at the margin.
    pub(super) head: Span,
    /// What is said of it, without the entries below it.
    pub(super) body: Span,
    /// The entries of lists in it.
    pub(super) items: Vec<Item>,
}

/// Some words, and which of them are marked how.
#[derive(Clone, Debug, Default)]
pub(super) struct Span {
    /// As it is read.
    pub(super) text: String,
    /// Macro, word, line.
    pub(super) marks: Vec<(String, String, usize)>,
}

/// Text that stands as it is.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) line: usize,
    pub(super) place: Place,
    /// Whether it is a display (`.Bd`), and not a single line (`.Dl`).
    pub(super) display: bool,
    pub(super) text: String,
}

impl Span {
    /// Returns the words of a macro.
    pub(super) fn of(&self, name: &str) -> Vec<&str> {
        self.marks
            .iter()
            .filter(|(mark, ..)| mark == name)
            .map(|(_, word, _)| word.as_str())
            .collect()
    }

    fn add(&mut self, other: Span) {
        if !self.text.is_empty() && !other.text.is_empty() {
            self.text.push(' ');
        }
        self.text.push_str(&other.text);
        self.marks.extend(other.marks);
    }
}

impl Item {
    /// Returns the item and everything below it, in order.
    pub(super) fn all(&self) -> Vec<&Item> {
        std::iter::once(self)
            .chain(self.items.iter().flat_map(Item::all))
            .collect()
    }

    /// Returns the words of the item and of everything below it.
    pub(super) fn whole(&self) -> Span {
        let mut whole = Span::default();
        for item in self.all() {
            whole.add(item.head.clone());
            whole.add(item.body.clone());
        }
        whole
    }
}

impl Page {
    /// Reads `man/FILE`.
    pub(super) fn read(file: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("man")
            .join(file);
        let text = fs::read_to_string(&path).unwrap_or_else(|why| panic!("man/{file}: {why}"));
        Self::parse(file, &text)
    }

    fn parse(file: &str, text: &str) -> Self {
        let page = Page {
            file: file.to_owned(),
            ..Page::default()
        };
        let mut reader = Reader {
            lines: text.lines().enumerate(),
            page,
            place: Place::default(),
        };
        while let Some((at, line)) = reader.lines.next() {
            if let Some(title) = line.strip_prefix(".Sh ") {
                reader.place = Place {
                    section: title.to_owned(),
                    subsection: None,
                };
            } else if let Some(title) = line.strip_prefix(".Ss ") {
                reader.place.subsection = Some(line::words(title));
            } else if line.starts_with(".Bl ") {
                let items = reader.list();
                reader.page.items.extend(items);
            } else if !reader.block(at, line) {
                let span = reader.print(at, line);
                reader.page.texts.push((reader.place.clone(), span));
            }
        }
        reader.page
    }

    /// Returns the items of a section outside of its subsections.
    pub(super) fn section(&self, section: &str) -> impl Iterator<Item = &Item> {
        self.items
            .iter()
            .filter(move |item| item.place.section == section && item.place.subsection.is_none())
    }

    /// Returns everything that is said in the page.
    pub(super) fn spans(&self) -> impl Iterator<Item = &Span> {
        let items = self
            .items
            .iter()
            .flat_map(Item::all)
            .flat_map(|item| [&item.head, &item.body]);
        self.texts.iter().map(|(_, span)| span).chain(items)
    }
}

struct Reader<'a> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
    page: Page,
    place: Place,
}

/// Lines that print nothing: comments, paragraphs, the prologue.
const SILENT: &[&str] = &["\\\"", "Pp", "Dd ", "Dt ", "Os"];

impl Reader<'_> {
    /// Reads the items of a list up to its end.
    fn list(&mut self) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::new();
        while let Some((at, line)) = self.lines.next() {
            if line == ".El" {
                return items;
            }
            if let Some(head) = line.strip_prefix(".It") {
                let head = line::print(head, &self.page.file, at + 1);
                items.push(Item {
                    line: at + 1,
                    place: self.place.clone(),
                    head,
                    ..Item::default()
                });
                continue;
            }
            let below = if line.starts_with(".Bl ") {
                self.list()
            } else {
                Vec::new()
            };
            let said = if !below.is_empty() || self.block(at, line) {
                Span::default()
            } else {
                self.print(at, line)
            };
            let item = items.last_mut().unwrap_or_else(|| {
                panic!("man/{}:{}: a list begins with .It", self.page.file, at + 1)
            });
            item.body.add(said);
            item.items.extend(below);
        }
        panic!("man/{}: a list has no .El", self.page.file)
    }

    /// Takes a literal block that begins with `line`; false when none does.
    fn block(&mut self, at: usize, line: &str) -> bool {
        let display = line.starts_with(".Bd -literal");
        let text = match line.strip_prefix(".Dl ") {
            Some(text) => line::words(text),
            None if display => {
                let lines = self
                    .lines
                    .by_ref()
                    .map(|(_, line)| line)
                    .take_while(|line| *line != ".Ed");
                lines.map(line::unescaped).collect::<Vec<_>>().join("\n")
            }
            None => return false,
        };
        self.page.blocks.push(Block {
            line: at + 1,
            place: self.place.clone(),
            display,
            text,
        });
        true
    }

    fn print(&self, at: usize, line: &str) -> Span {
        match line.strip_prefix('.') {
            None => Span {
                text: line::unescaped(line),
                marks: Vec::new(),
            },
            Some(rest) if SILENT.iter().any(|silent| rest.starts_with(silent)) => Span::default(),
            Some(rest) => line::print(rest, &self.page.file, at + 1),
        }
    }
}

#[test]
fn items_know_what_stands_in_them() {
    let list = ".Bl -tag\n.It Fl -by Ar WHAT\nA line for\n.Bl -tag\n.It Cm day\nlocal day\n.El\n.Pp\nand so on\n.El\n";
    let text =
        format!(".Sh OPTIONS\n.Ss More\n{list}.Dl x\n.Bd -literal\na\\(dq\nb\n.Ed\nThe end.\n");
    let page = Page::parse("prog.1", &text);
    let [item] = page.items.as_slice() else {
        panic!("{page:?}")
    };
    let place = Place {
        section: "OPTIONS".to_owned(),
        subsection: Some("More".to_owned()),
    };
    assert_eq!(
        (item.head.text.as_str(), item.body.text.as_str(), item.line),
        ("--by WHAT", "A line for and so on", 4)
    );
    assert_eq!(
        (&item.place, item.items.len(), item.whole().of("Cm")),
        (&place, 1, vec!["day"])
    );
    let blocks: Vec<_> = page
        .blocks
        .iter()
        .map(|block| (block.line, block.display, block.text.as_str()))
        .collect();
    assert_eq!(blocks, [(13, false, "x"), (14, true, "a\"\nb")]);
    assert_eq!(
        page.texts
            .iter()
            .map(|(_, span)| span.text.as_str())
            .collect::<Vec<_>>(),
        ["The end."]
    );
}
