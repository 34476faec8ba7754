use super::*;
use crate::channel::telegram::tests::{check_markdown as holds, checked, without_blanks};
use proptest::prelude::*;

#[track_caller]
fn check(markdown: &str, html: &str) {
    let (parts, _) = checked(markdown, 4080);
    let htmls: Vec<&str> = parts.iter().map(|part| part.html.as_str()).collect();
    assert_eq!(htmls, [html]);
    assert_eq!(
        parts.first().map(|part| part.plain.as_str()),
        Some(markdown.trim())
    );
}

#[test]
fn inline_styles_become_tags() {
    check(
        "**bold** *italic* ~~strike~~ `code`",
        "<b>bold</b> <i>italic</i> <s>strike</s> <code>code</code>",
    );
    check("__bold__ ***both***", "<b>bold</b> <b><i>both</i></b>");
    check(
        "<u>a</u> <ins>b</ins> <b>c</b>",
        "<u>a</u> <u>b</u> <b>c</b>",
    );
    check("**a *b* c**", "<b>a <i>b</i> c</b>");
}

#[test]
fn a_spoiler_hides_its_code_and_a_lone_pair_of_pipes_is_text() {
    check(
        "||a **b** `c`|| d",
        "<tg-spoiler>a <b>b</b> c</tg-spoiler> d",
    );
    check("a || b || c", "a || b || c");
    check("\\||a||", "||a||");
    check("||a\n\nb||", "||a\n\nb||");
    check("`||a||`", "<code>||a||</code>");
}

#[test]
fn text_is_escaped_and_entities_are_decoded_once() {
    check("a < b && c > \"d\"", "a &lt; b &amp;&amp; c &gt; \"d\"");
    check("&lt;b&gt; &amp;amp; \\&lt;", "&lt;b&gt; &amp;amp; &amp;lt;");
    check("`<b>&amp;`", "<code>&lt;b&gt;&amp;amp;</code>");
}

#[test]
fn unknown_or_unclosed_html_is_shown_as_it_stands() {
    check("use the <b> tag", "use the &lt;b&gt; tag");
    check(
        "a <span>b</span> <a@b",
        "a &lt;span&gt;b&lt;/span&gt; &lt;a@b",
    );
    check("<div>\n**x**\n</div>", "&lt;div&gt;\n**x**\n&lt;/div&gt;");
    check("a<br>b<br/>c", "a\nb\nc");
    check(
        "a\n\n[<br>b](http://c.de)\n\n- <br>c",
        "a\n\n<a href=\"http://c.de\">\nb</a>\n\n• \n  c",
    );
    check("<u>a\n\nb</u>", "&lt;u&gt;a\n\nb&lt;/u&gt;");
}

#[test]
fn headings_are_bold_and_rules_are_lines() {
    check(
        "# One\ntext\n\n## Two `x`\n\n---",
        "<b>One</b>\n\ntext\n\n<b>Two </b><code>x</code>\n\n———",
    );
}

#[test]
fn lists_keep_their_markers_and_depth() {
    check(
        "- a\n- b\n  - c\n    1. d\n    2. e\n- f",
        "• a\n• b\n  • c\n    1. d\n    2. e\n• f",
    );
    check("9. a\n10. b\n\n    par", "9. a\n\n10. b\n\n    par");
    check("- [x] done\n- [ ] **todo**\n", "☑ done\n☐ <b>todo</b>");
    check(
        "- \n- > q\n- ```\n  c\n  ```\n- - a",
        "•\n•\n<blockquote>q</blockquote>\n\n•\n<pre>c</pre>\n\n• • a",
    );
}

#[test]
fn quotes_are_never_nested() {
    check(
        "> a\n> > b\n>\n> - c\n\nd",
        "<blockquote>a\n\nb\n\n• c</blockquote>\n\nd",
    );
    check(
        "> a\n\n<!-- -->\n\n> b",
        "<blockquote>a</blockquote>\n\n&lt;!-- --&gt;\n\n<blockquote>b</blockquote>",
    );
    check("> ```\n> x\n> ```", "<blockquote><pre>x</pre></blockquote>");
}

#[test]
fn fences_keep_their_language_and_lines() {
    check(
        "```rust\nlet a = 1 < 2;\n\n    b\n```",
        "<pre><code class=\"language-rust\">let a = 1 &lt; 2;\n\n    b</code></pre>",
    );
    check(
        "```c++ title\nx\n```\n\n~~~\"><i>\ny\n~~~",
        "c++ title\n<pre><code class=\"language-c++\">x</code></pre>\n\n\"&gt;&lt;i&gt;\n<pre>y</pre>",
    );
    check(
        "- ```sh {1,3}\n  x\n  ```",
        "•\n  sh {1,3}\n<pre><code class=\"language-sh\">x</code></pre>",
    );
    check("```\n\ttab\n```", "<pre>    tab</pre>");
    check("a\n\n```sh\n```\n\nb", "a\n\nsh\n\nb");
    check(
        "```go\nnever closed",
        "<pre><code class=\"language-go\">never closed</code></pre>",
    );
}

#[test]
fn tables_are_aligned_by_width_and_lose_no_cell() {
    check(
        "| a | n |\n|:--|--:|\n| 漢字 | 1 |\n| **x** | 100 |",
        "<pre>a    |   n\n-----+----\n漢字 |   1\nx    | 100</pre>",
    );
    check("|a|\n|-|\n|b|c d|", "<pre>a\n--+----\nb | c d</pre>");
    check(
        "|a|\n|-|\n|[b](http://c.de)|",
        "<pre>a\n---------------\nb (http://c.de)</pre>",
    );
}

#[test]
fn links_are_escaped_and_only_of_schemes_telegram_opens() {
    check(
        "[a & b](https://e.com/?a=1&b=\"2\")",
        "<a href=\"https://e.com/?a=1&amp;b=&quot;2&quot;\">a &amp; b</a>",
    );
    check(
        "[u](tg://user?id=1) <joe@x.com>",
        "<a href=\"tg://user?id=1\">u</a> <a href=\"mailto:joe@x.com\">joe@x.com</a>",
    );
    check(
        "[a](javascript:x) [b](/c) [d]()",
        "a (javascript:x) b (/c) d",
    );
    check("[`c`](http://e.com)", "<a href=\"http://e.com\">c</a>");
}

#[test]
fn a_link_telegram_would_drop_is_spelled_out() {
    check(
        "[app](http://localhost:3000/x)",
        "app (http://localhost:3000/x)",
    );
}

#[test]
fn the_title_of_a_link_is_spelled_out() {
    check(
        "[a](http://e.com \"why *b*\") c",
        "<a href=\"http://e.com\">a</a> (why *b*) c",
    );
    check(
        "[Docs](http://e.com 'Docs') ![](p.png \"a cat\")",
        "<a href=\"http://e.com\">Docs</a> p.png (a cat)",
    );
    check(
        "|a|\n|-|\n|[b](http://c.de 'd')|",
        "<pre>a\n-------------------\nb (http://c.de) (d)</pre>",
    );
}

#[test]
fn images_are_links() {
    check(
        "![alt](https://e.com/x.png) ![](https://e.com/y.png)",
        "<a href=\"https://e.com/x.png\">alt</a> <a href=\"https://e.com/y.png\">https://e.com/y.png</a>",
    );
    check(
        "[![alt](https://e.com/x.png)](https://e.com)",
        "<a href=\"https://e.com\">alt</a>",
    );
    check("![x](out/x.png)", "x (out/x.png)");
}

#[test]
fn used_link_definitions_are_hidden_and_unused_ones_stay() {
    check(
        "[one][1]\n\n[1]: https://a.com",
        "<a href=\"https://a.com\">one</a>",
    );
    check(
        "[INFO]: started\n[INFO]: done",
        "[INFO]: started\n[INFO]: done",
    );
}

#[test]
fn a_footnote_stays_where_it_stands() {
    check(
        "a[^1] b[^n]\n\n[^1]: A note.\n[^n]: *More*",
        "a[^1] b[^n]\n\n[^1]: A note.\n[^n]: <i>More</i>",
    );
}

#[test]
fn what_would_render_to_nothing_is_shown_literally() {
    check("# ", "#");
    check("```", "```");
    check("&nbsp;", "&amp;nbsp;");
}

#[test]
fn blank_input_has_no_parts() {
    for blank in [
        "",
        " \n\t",
        "\u{200b}\u{feff}",
        "\0\u{1}",
        "\u{2800}\u{3000}",
    ] {
        assert_eq!(render(blank, 4080), [], "{blank:?}");
    }
}

#[test]
fn what_telegram_drops_is_removed() {
    let (parts, shown) = checked("a\0b\u{7}c\r\nd\re\u{202e}f&#8;g", 4080);
    assert_eq!((parts.len(), shown.as_str()), (1, "abc\nd\nefg\n"));
}

#[test]
fn five_thousand_levels_of_anything_are_rendered() {
    for (open, close) in [
        (">", ""),
        ("> ", ""),
        ("- ", ""),
        ("1. ", ""),
        ("[", "]"),
        ("*", "*"),
        ("*_", "_*"),
        ("![", "](u)"),
        ("<u>", "</u>"),
        ("||", "||"),
    ] {
        let (_, shown) = checked(
            &format!("{}letter{}", open.repeat(5000), close.repeat(5000)),
            4080,
        );
        assert!(shown.contains("letter"), "{open}");
    }
}

#[test]
fn a_megabyte_of_markup_is_rendered() {
    for piece in [
        "[",
        "*a ",
        "`",
        "> ",
        "- ",
        "\n",
        "||",
        "<",
        "|a|b|\n|-|-|\n",
        "[a]: b\n",
        "\u{301}",
    ] {
        checked(&piece.repeat(100_000 / piece.len()), 4080);
    }
    checked(&("- ".repeat(25_000) + &"\n".repeat(50_000)), 4080);
    checked(
        &(format!("|{}|b|\n|-|-|\n", "a".repeat(70)) + &"||\n".repeat(30_000)),
        4080,
    );
}

fn markdownish() -> impl Strategy<Value = String> {
    let tokens = [
        "a",
        "bc ",
        "word. ",
        "\n",
        "\n\n",
        " ",
        "    ",
        "\t",
        "*",
        "**",
        "_",
        "~~",
        "`",
        "```\n",
        "```rust\n",
        "||",
        "|",
        "|-|-|\n",
        "> ",
        "- ",
        "1. ",
        "- [ ] ",
        "# ",
        "---\n",
        "[",
        "](",
        "](http://e.com/q)",
        "](http://e.com 'title')",
        ")",
        "![",
        "]: ",
        "<",
        ">",
        "<u>",
        "</u>",
        "<b>",
        "</b>",
        "<br>",
        "<tg-spoiler>",
        "</tg-spoiler>",
        "<code>",
        "</code>",
        "&",
        "&lt;",
        "&#1;",
        "&#x202e;",
        "\"",
        "\\",
        "\0",
        "\r",
        "\u{1f}",
        "é",
        "e\u{301}",
        "\u{301}",
        "漢字。",
        "👨‍👩‍👧‍👦",
        "🇩🇪",
        "אב",
        "\u{202e}",
        "\u{200d}",
        "\u{a0}",
        "\u{2800}",
        "https://a.bc/d",
        "<x@y.zz>",
        "longunbrokenwordlongunbrokenword",
    ];
    prop::collection::vec(prop::sample::select(tokens.to_vec()), 0..120)
        .prop_map(|tokens| tokens.concat())
}

proptest! {
    #[test]
    fn any_markdown_is_accepted_within_the_limit_and_lost_nowhere(markdown in markdownish(), limit in 64usize..300) {
        holds(&markdown, limit);
    }

    #[test]
    fn any_text_is_accepted_within_the_limit_and_lost_nowhere(markdown in any::<String>(), limit in 64usize..100) {
        holds(&markdown, limit);
    }

    #[test]
    fn no_word_of_the_source_is_lost(tokens in prop::collection::vec((prop::sample::select(vec![
        " ", "\n", "\n\n", "*", "**", "_", "~~", "`", "||", "> ", "- ", "2. ", "# ", "[", "]", "](", ")", "]: ", "<", ">", "|", "|-|\n", "\n    ",
    ]), any::<bool>()), 0..60), limit in 64usize..300) {
        let markdown: String = tokens.iter().enumerate().map(|(index, (token, word))| if *word { format!("{token}w{index}x") } else { (*token).to_owned() }).collect();
        let (parts, shown) = checked(&markdown, limit);
        let hrefs: String = parts.iter().map(|part| part.html.as_str()).collect();
        for index in tokens.iter().enumerate().filter(|(_, (_, word))| *word).map(|(index, _)| index) {
            let word = format!("w{index}x");
            prop_assert!(without_blanks(&shown).contains(&word) || hrefs.contains(&word), "{word} of {markdown:?} is not in {shown:?}");
        }
    }
}
