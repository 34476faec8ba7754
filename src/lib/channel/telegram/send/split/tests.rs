use super::*;
use crate::channel::telegram::send::format::render;
use crate::channel::telegram::tests::{checked, visible, without_blanks};

#[track_caller]
fn check(markdown: &str, limit: usize, expected: &[(&str, &str)]) {
    let (parts, _) = checked(markdown, limit);
    let parts: Vec<(&str, &str)> = parts
        .iter()
        .map(|part| (part.html.as_str(), part.plain.as_str()))
        .collect();
    assert_eq!(parts, expected);
}

fn lengths(markdown: &str, limit: usize) -> Vec<usize> {
    let (parts, _) = checked(markdown, limit);
    parts
        .iter()
        .map(|part| units(&visible(&part.html).expect("checked")))
        .collect()
}

#[test]
fn exactly_the_limit_is_one_part_and_one_more_is_two() {
    for letter in ["x", "<", "字", "é"] {
        assert_eq!(lengths(&letter.repeat(4080), 4080), [4080]);
        assert_eq!(lengths(&letter.repeat(4081), 4080), [4080, 1]);
        assert_eq!(
            lengths(&format!("**{}**", letter.repeat(4080)), 4080),
            [4080]
        );
        assert_eq!(
            lengths(&format!("{}\n\n", letter.repeat(4080)), 4080),
            [4080]
        );
    }
    assert_eq!(lengths(&format!("{} y", "x".repeat(4080)), 4080), [4080, 1]);
    assert_eq!(lengths(&"😀".repeat(2041), 4080), [4080, 2]);
}

#[test]
fn a_paragraph_is_preferred_to_a_line_to_a_sentence_to_a_space_to_a_letter() {
    let x = "x".repeat(30);
    for (before, after) in [("\n\n", "\n"), ("\n", ". "), (". ", " "), (" ", "")] {
        let (first, second) = (
            format!("{x}{}", before.trim_end()),
            format!("{x}{after}{x}"),
        );
        check(
            &format!("{x}{before}{second}"),
            90,
            &[(&first, &first), (&second, &second)],
        );
    }
    assert_eq!(lengths(&"x".repeat(250), 100), [100, 100, 50]);
}

#[test]
fn a_break_that_leaves_the_part_nearly_empty_is_not_taken_while_there_is_a_better_one() {
    assert_eq!(
        lengths(&format!("a\n\n{} {}", "x".repeat(60), "y".repeat(60)), 100),
        [63, 60]
    );
    assert_eq!(lengths(&format!("a\n\n{}", "x".repeat(100)), 100), [1, 100]);
}

#[test]
fn chinese_is_cut_after_its_full_stop() {
    assert_eq!(
        lengths(&format!("{}。{}", "字".repeat(60), "字".repeat(60)), 100),
        [61, 60]
    );
}

#[test]
fn styles_are_closed_and_opened_again_over_a_cut() {
    let (x, y) = ("x".repeat(60), "y".repeat(60));
    check(
        &format!("**{x} *{y}* z**"),
        100,
        &[
            (&format!("<b>{x}</b>"), &format!("**{x}")),
            (&format!("<b><i>{y}</i> z</b>"), &format!("*{y}* z**")),
        ],
    );
    check(
        &format!("> {x}\n> {y}"),
        100,
        &[
            (&format!("<blockquote>{x}</blockquote>"), &format!("> {x}")),
            (&format!("<blockquote>{y}</blockquote>"), &format!("> {y}")),
        ],
    );
}

#[test]
fn a_fence_is_closed_and_opened_again_in_its_language() {
    let line = "let abc = 1;".repeat(5);
    let code = |lines: &str| format!("<pre><code class=\"language-rust\">{lines}</code></pre>");
    check(
        &format!("```rust\n{line}\n    {line}\n```"),
        100,
        &[
            (&code(&line), &format!("```rust\n{line}")),
            (&code(&format!("    {line}")), &format!("    {line}\n```")),
        ],
    );
    let (parts, shown) = checked(&format!("```py\n{}```", "x = 1\n".repeat(1500)), 4080);
    assert_eq!((parts.len(), shown.matches("x = 1\n").count()), (3, 1500));
}

#[test]
fn a_cut_before_a_fence_is_preferred_to_one_inside_it() {
    let parts = render(
        &format!(
            "{}\n\n```\nfn a() {{}}\n\nfn b() {{}}\n\n{}\n```",
            "x".repeat(50),
            "y".repeat(50)
        ),
        100,
    );
    assert_eq!(
        parts
            .iter()
            .map(|part| part.html.contains("<pre>"))
            .collect::<Vec<_>>(),
        [false, true]
    );
}

#[test]
fn rewritten_text_keeps_its_source() {
    let x = "x".repeat(60);
    check(
        &format!("{x}\n\n---\n\n{x}"),
        64,
        &[(&x, &x), ("———", "---"), (&x, &x)],
    );
    check(
        &format!("{x}. `a\nb`"),
        64,
        &[
            (&format!("{x}."), &format!("{x}.")),
            ("<code>a b</code>", "`a\nb`"),
        ],
    );
}

#[test]
fn a_table_is_cut_between_rows() {
    let (x, y) = ("x".repeat(40), "y".repeat(40));
    let pre = |text: &str| format!("<pre>{text}</pre>");
    let head = format!("a\n{}\n{x}", "-".repeat(40));
    check(
        &format!("|a|\n|-|\n|{x}|\n|{y}|"),
        100,
        &[
            (&pre(&head), &format!("|a|\n|-|\n|{x}|")),
            (&pre(&y), &format!("|{y}|")),
        ],
    );
}

#[test]
fn a_list_item_keeps_its_marker_and_indentation() {
    let (x, y) = ("x".repeat(60), "y".repeat(60));
    check(
        &format!("- {x}\n  - {y}"),
        100,
        &[
            (&format!("• {x}"), &format!("- {x}")),
            (&format!("  • {y}"), &format!("  - {y}")),
        ],
    );
    assert_eq!(lengths(&format!("- {}", "x".repeat(120)), 100), [100, 22]);
}

#[test]
fn a_link_over_a_cut_is_a_link_in_both_and_its_target_is_in_every_plain_text() {
    let (x, y) = ("x".repeat(60), "y".repeat(60));
    let link = |text: &str| format!("<a href=\"http://a.bc\">{text}</a>");
    check(
        &format!("[{x} {y}](http://a.bc)"),
        100,
        &[
            (&link(&x), &format!("[{x}")),
            (&link(&y), &format!("{y}](http://a.bc)")),
        ],
    );
}

#[test]
fn plain_is_the_visible_text_with_targets_where_the_source_does_not_fit() {
    let source = format!("[a](http://a.bc) {}", "**b** ".repeat(20).trim_end());
    check(
        &source,
        100,
        &[(
            &format!(
                "<a href=\"http://a.bc\">a</a> {}",
                "<b>b</b> ".repeat(20).trim_end()
            ),
            &format!("a (http://a.bc) {}", "b ".repeat(20).trim_end()),
        )],
    );
}

#[test]
fn ten_thousand_letters_without_a_space_are_three_parts() {
    assert_eq!(lengths(&"x".repeat(10_000), 4080), [4080, 4080, 1840]);
}

#[test]
fn letters_are_never_torn_apart() {
    for letter in ["👨‍👩‍👧‍👦", "🇩🇪", "e\u{301}", "नि", "각"] {
        let (parts, shown) = checked(&letter.repeat(300), 101);
        assert_eq!(shown.replace('\n', ""), letter.repeat(300));
        for part in parts {
            assert_eq!(part.html.replace(letter, ""), "");
        }
    }
}

#[test]
fn a_letter_over_the_limit_is_cut_between_characters() {
    let pile = format!("a{}", "\u{302}".repeat(500));
    let (parts, shown) = checked(&pile, 64);
    assert_eq!((parts.len(), without_blanks(&shown)), (8, pile));
}

#[test]
fn concatenated_plain_texts_are_the_source() {
    let source = format!(
        "# Title\n\n{}- item **bold**\n\n```sh\necho\n```\n\n> quote\n",
        "Some words here. ".repeat(30) + "\n\n"
    );
    let (parts, _) = checked(&source, 120);
    assert_eq!(
        without_blanks(
            &parts
                .iter()
                .map(|part| part.plain.as_str())
                .collect::<String>()
        ),
        without_blanks(&source)
    );
}
