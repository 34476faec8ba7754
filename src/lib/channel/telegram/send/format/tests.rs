use super::*;
use crate::channel::telegram::tests::{check_markdown as holds, checked, without_blanks};
use proptest::prelude::*;

#[track_caller]
fn check(about: &str, markdown: &str, html: &str) {
    let (parts, _) = checked(markdown, 4080);
    let expected = Part {
        html: html.to_owned(),
        plain: markdown.trim().to_owned(),
    };
    assert_eq!(parts, [expected], "{about}");
}

/// The cases of `cases.txt`: what they are about, the Markdown, the HTML.
fn cases() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let cases = include_str!("cases.txt").split("\n@@@ ").skip(1);
    cases.map(|case| {
        let (about, case) = case.split_once('\n').expect("a line of what it is about");
        let (markdown, html) = case.split_once("\n=>\n").expect("the two halves");
        (about, markdown, html.trim_end())
    })
}

#[test]
fn every_case_becomes_the_html_that_it_names() {
    let cases: Vec<_> = cases().collect();
    assert_eq!(cases.len(), 50);
    for (about, markdown, html) in cases {
        check(about, markdown, html);
    }
    // Blanks at the ends of lines.
    check("blank", "# ", "#");
    check(
        "items that begin with a box",
        "- \n- > q\n- ```\n  c\n  ```\n- - a",
        "•\n•\n<blockquote>q</blockquote>\n\n•\n<pre>c</pre>\n\n• • a",
    );
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
    let levels = [
        ">", "> ", "- ", "1. ", "[ ]", "* *", "*_ _*", "![ ](u)", "<u> </u>", "|| ||",
    ];
    for level in levels {
        let (open, close) = match level.split_once(' ') {
            Some((open, close)) if !close.is_empty() => (open, close),
            _ => (level, ""),
        };
        let markdown = format!("{}letter{}", open.repeat(5000), close.repeat(5000));
        let (_, shown) = checked(&markdown, 4080);
        assert!(shown.contains("letter"), "{level}");
    }
}

#[test]
fn a_megabyte_of_markup_is_rendered() {
    let table = "|a|b|\n|-|-|\n";
    for piece in [
        "[", "*a ", "`", "> ", "- ", "\n", "||", "<", table, "[a]: b\n", "\u{301}",
    ] {
        checked(&piece.repeat(100_000 / piece.len()), 4080);
    }
    checked(&("- ".repeat(25_000) + &"\n".repeat(50_000)), 4080);
    let wide = format!("|{}|b|\n|-|-|\n", "a".repeat(70));
    checked(&(wide + &"||\n".repeat(30_000)), 4080);
}

/// What the property tests put together: everything that means something in Markdown, letters that are
/// hard to cut, and characters that Telegram drops.
const TOKENS: &str = "a|bc |word. |\n|\n\n| |    |\t|*|**|_|~~|`|```\n|```rust\n|> |- |1. |- [ ] |# |---\n\
    |[|](|](http://e.com/q)|](http://e.com 'title')|)|![|]: |<|>|<u>|</u>|<b>|</b>|<br>\
    |<tg-spoiler>|</tg-spoiler>|<code>|</code>|&|&lt;|&#1;|&#x202e;|\"|\\|\0|\r|\u{1f}|é|e\u{301}\
    |\u{301}|漢字。|👨‍👩‍👧‍👦|🇩🇪|אב|\u{202e}|\u{200d}|\u{a0}|\u{2800}|https://a.bc/d|<x@y.zz>\
    |longunbrokenwordlongunbrokenword";

fn markdownish() -> impl Strategy<Value = String> {
    let mut tokens: Vec<&str> = TOKENS.split('|').collect();
    tokens.extend(["|", "||", "|-|-|\n"]);
    prop::collection::vec(prop::sample::select(tokens), 0..120).prop_map(|tokens| tokens.concat())
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

#[test]
fn an_address_that_is_its_own_text_is_shown_once() {
    for markdown in ["- <tg:>x", "- <tg:\u{5}>x"] {
        let parts = crate::channel::telegram::send::format::render(markdown, 4096);
        assert_eq!(parts[0].html, "• tg:x", "{markdown:?}");
    }
}
