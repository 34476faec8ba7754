//! HTML, written so that no word of anybody becomes a part of it.

use crate::text;

/// A page that is being written.
#[derive(Debug, Default)]
pub(super) struct Html(String);

impl Html {
    /// Adds markup of ours.
    pub(super) fn raw(&mut self, markup: &str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Adds words, which may be anybody's.
    pub(super) fn text(&mut self, words: &str) -> &mut Self {
        self.0.push_str(&escaped(words));
        self
    }

    /// Adds a name and what it stands for.
    pub(super) fn pair(&mut self, name: &str, value: &str) {
        self.raw("<dt>")
            .text(name)
            .raw("</dt><dd>")
            .text(value)
            .raw("</dd>");
    }

    /// Adds a section that cannot be shown.
    pub(super) fn trouble(&mut self, title: &str, why: &str) {
        self.raw("<section><h2>")
            .text(title)
            .raw("</h2><p class=\"trouble\">")
            .text(why)
            .raw("</p></section>");
    }

    /// Adds a table, unless it is empty.
    pub(super) fn table(&mut self, table: &Table) {
        if table.rows.is_empty() {
            return;
        }
        self.raw("<table><thead><tr>");
        for title in &table.titles {
            self.raw("<th scope=\"col\">").text(title).raw("</th>");
        }
        self.raw("</tr></thead><tbody>")
            .raw(&table.rows)
            .raw("</tbody></table>");
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    titles: Vec<&'static str>,
    rows: String,
}

impl Table {
    pub(super) fn new(titles: &[&'static str]) -> Self {
        Self {
            titles: titles.to_vec(),
            rows: String::new(),
        }
    }

    /// Adds a row; each cell may be anybody's words.
    pub(super) fn row(&mut self, cells: &[&str]) {
        self.rows.push_str("<tr>");
        for cell in cells {
            self.rows.push_str(&format!("<td>{}</td>", escaped(cell)));
        }
        self.rows.push_str("</tr>");
    }
}

/// Returns words as they are shown: no markup, no invisible characters, no secrets.
pub(super) fn escaped(words: &str) -> String {
    let mut safe = String::with_capacity(words.len());
    for c in text::visible(&crate::secret::redact(words)).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_words_become_markup() {
        let hostile =
            "</td><script>alert(1)</script><img src=x onerror='a'> \"&amp;\u{202e}\u{200b}";
        let mut table = Table::new(&["A"]);
        table.row(&[hostile]);
        let mut page = Html::default();
        page.text(hostile).table(&table);
        page.pair(hostile, hostile);
        let text = page.into_text();
        assert!(
            !text.contains("<script") && !text.contains("<img") && !text.contains('\u{202e}'),
            "{text}"
        );
        assert!(
            text.contains("&lt;script&gt;") && text.contains("&amp;amp;") && !text.contains('\''),
            "{text}"
        );
        assert_eq!(text.matches("<td>").count(), 1);
    }
}
