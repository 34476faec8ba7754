//! Writes HTML, with all text escaped.

use crate::app::table::Table;
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

    /// Adds a paragraph of the class `quiet` or `trouble`.
    pub(super) fn paragraph(&mut self, class: &str, words: &str) {
        self.raw("<p class=\"").raw(class).raw("\">");
        self.text(words).raw("</p>");
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
        self.raw("<section><h2>").text(title).raw("</h2>");
        self.paragraph("trouble", why);
        self.raw("</section>");
    }

    /// Adds a table, unless it is empty.
    pub(super) fn table(&mut self, table: &Table) {
        if table.rows.is_empty() {
            return;
        }
        // What is wider than the page can be moved with the keyboard.
        self.raw(
            "<div class=\"scroll\" role=\"group\" aria-label=\"Table\" tabindex=\"0\"><table>",
        );
        if table
            .columns
            .iter()
            .any(|column| !column.title().is_empty())
        {
            self.raw("<thead><tr>");
            for column in &table.columns {
                self.raw("<th scope=\"col\">")
                    .text(column.title())
                    .raw("</th>");
            }
            self.raw("</tr></thead>");
        }
        self.raw("<tbody>");
        for row in &table.rows {
            self.raw("<tr>");
            for cell in row {
                self.raw("<td>").text(cell).raw("</td>");
            }
            self.raw("</tr>");
        }
        self.raw("</tbody></table></div>");
    }

    pub(super) fn into_text(self) -> String {
        self.0
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
    use crate::app::table::Column;

    #[test]
    fn no_words_become_markup() {
        let hostile =
            "</td><script>alert(1)</script><img src=x onerror='a'> \"&amp;\u{202e}\u{200b}";
        let table = Table {
            columns: vec![Column::left("A")],
            rows: vec![vec![hostile.to_owned()]],
        };
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
