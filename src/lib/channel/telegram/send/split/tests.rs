use super::*;
use crate::channel::telegram::send::format::render;
use crate::channel::telegram::tests::{checked, visible, without_blanks};

#[track_caller]
fn check(markdown: &str, limit: usize, expected: &[(&str, &str)]) {
    let (parts, _) = checked(markdown, limit);
    let parts = parts.iter();
    let parts: Vec<(&str, &str)> = parts
        .map(|part| (part.html.as_str(), part.plain.as_str()))
        .collect();
    assert_eq!(parts, expected);
}

fn lengths(markdown: &str, limit: usize) -> Vec<usize> {
    let (parts, _) = checked(markdown, limit);
    let length = |part: &Part| units(&visible(&part.html).expect("checked"));
    parts.iter().map(length).collect()
}

#[test]
fn exactly_the_limit_is_one_part_and_one_more_is_two() {
    for letter in ["x", "<", "字", "é"] {
        let full = letter.repeat(4080);
        assert_eq!(lengths(&full, 4080), [4080]);
        assert_eq!(lengths(&format!("**{full}**"), 4080), [4080]);
        assert_eq!(lengths(&format!("{full}\n\n"), 4080), [4080]);
        assert_eq!(lengths(&format!("{full}{letter}"), 4080), [4080, 1]);
    }
    assert_eq!(lengths(&"😀".repeat(2041), 4080), [4080, 2]);
    assert_eq!(lengths(&"x".repeat(10_000), 4080), [4080, 4080, 1840]);
}

#[test]
fn a_paragraph_is_preferred_to_a_line_to_a_sentence_to_a_space_to_a_letter() {
    let x = "x".repeat(30);
    for (before, after) in [("\n\n", "\n"), ("\n", ". "), (". ", " "), (" ", "")] {
        let first = format!("{x}{}", before.trim_end());
        let second = format!("{x}{after}{x}");
        let parts = [(first.as_str(), first.as_str()), (&second, &second)];
        check(&format!("{x}{before}{second}"), 90, &parts);
    }
}

#[test]
fn how_long_the_parts_are() {
    let (x, y) = ("x".repeat(60), "y".repeat(60));
    let (long, han) = ("x".repeat(100), "字".repeat(60));
    for (markdown, expected) in [
        // A break that leaves the part nearly empty is not taken while there is a better one.
        (format!("a\n\n{x} {y}"), [63, 60]),
        (format!("a\n\n{long}"), [1, 100]),
        // Chinese is cut after its full stop.
        (format!("{han}。{han}"), [61, 60]),
        // A marker stays with its item.
        (format!("- {}", "x".repeat(120)), [100, 22]),
    ] {
        assert_eq!(lengths(&markdown, 100), expected, "{markdown}");
    }
}

#[test]
fn what_is_cut_is_closed_and_opened_again_and_keeps_its_source() {
    let (x, y) = ("x".repeat(60), "y".repeat(60));
    let code = |lines: &str| format!("<pre><code class=\"language-rust\">{lines}</code></pre>");
    let pre = |text: &str| format!("<pre>{text}</pre>");
    let quote = |text: &str| format!("<blockquote>{text}</blockquote>");
    let link = |text: &str| format!("<a href=\"http://a.bc\">{text}</a>");
    let (row, other) = ("x".repeat(40), "y".repeat(40));
    let head = format!("a\n{}\n{row}", "-".repeat(40));
    for (markdown, first, second) in [
        (
            format!("**{x} *{y}* z**"),
            [format!("<b>{x}</b>"), format!("**{x}")],
            [format!("<b><i>{y}</i> z</b>"), format!("*{y}* z**")],
        ),
        (
            format!("> {x}\n> {y}"),
            [quote(&x), format!("> {x}")],
            [quote(&y), format!("> {y}")],
        ),
        (
            format!("```rust\n{x}\n    {y}\n```"),
            [code(&x), format!("```rust\n{x}")],
            [code(&format!("    {y}")), format!("    {y}\n```")],
        ),
        (
            format!("|a|\n|-|\n|{row}|\n|{other}|"),
            [pre(&head), format!("|a|\n|-|\n|{row}|")],
            [pre(&other), format!("|{other}|")],
        ),
        (
            format!("- {x}\n  - {y}"),
            [format!("• {x}"), format!("- {x}")],
            [format!("  • {y}"), format!("  - {y}")],
        ),
        (
            format!("[{x} {y}](http://a.bc)"),
            [link(&x), format!("[{x}")],
            [link(&y), format!("{y}](http://a.bc)")],
        ),
    ] {
        let parts = [&first, &second].map(|[html, plain]| (html.as_str(), plain.as_str()));
        check(&markdown, 100, &parts);
    }
    let rule = format!("{x}\n\n---\n\n{x}");
    check(&rule, 64, &[(&x, &x), ("———", "---"), (&x, &x)]);
    let (code, dot) = (format!("{x}. `a\nb`"), format!("{x}."));
    check(&code, 64, &[(&dot, &dot), ("<code>a b</code>", "`a\nb`")]);
    let (parts, shown) = checked(&format!("```py\n{}```", "x = 1\n".repeat(1500)), 4080);
    assert_eq!((parts.len(), shown.matches("x = 1\n").count()), (3, 1500));
}

#[test]
fn a_cut_before_a_fence_is_preferred_to_one_inside_it() {
    let (x, y) = ("x".repeat(50), "y".repeat(50));
    let markdown = format!("{x}\n\n```\nfn a() {{}}\n\nfn b() {{}}\n\n{y}\n```");
    let parts = render(&markdown, 100);
    let fenced = parts.iter().map(|part| part.html.contains("<pre>"));
    assert_eq!(fenced.collect::<Vec<_>>(), [false, true]);
}

#[test]
fn plain_is_the_visible_text_with_targets_where_the_source_does_not_fit() {
    let times = |text: &str| text.repeat(20).trim_end().to_owned();
    check(
        &format!("[a](http://a.bc) {}", times("**b** ")),
        100,
        &[(
            &format!("<a href=\"http://a.bc\">a</a> {}", times("<b>b</b> ")),
            &format!("a (http://a.bc) {}", times("b ")),
        )],
    );
}

#[test]
fn letters_are_never_torn_apart_unless_one_is_over_the_limit() {
    for letter in ["👨‍👩‍👧‍👦", "🇩🇪", "e\u{301}", "नि", "각"] {
        let (parts, shown) = checked(&letter.repeat(300), 101);
        assert_eq!(shown.replace('\n', ""), letter.repeat(300));
        assert!(
            parts
                .iter()
                .all(|part| part.html.replace(letter, "").is_empty())
        );
    }
    let pile = format!("a{}", "\u{302}".repeat(500));
    let (parts, shown) = checked(&pile, 64);
    assert_eq!((parts.len(), without_blanks(&shown)), (8, pile));
}

#[test]
fn concatenated_plain_texts_are_the_source() {
    let source = format!(
        "# Title\n\n{}\n\n- item **bold**\n\n```sh\necho\n```\n\n> quote\n",
        "Some words here. ".repeat(30)
    );
    let (parts, _) = checked(&source, 120);
    let plain: String = parts.iter().map(|part| part.plain.as_str()).collect();
    assert_eq!(without_blanks(&plain), without_blanks(&source));
}
