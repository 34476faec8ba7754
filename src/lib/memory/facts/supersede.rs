//! A newer fact supersedes an older one, which ends. Derives facts from the statements about one attribute in their order;
//! pure, and independent of the order of reading.
//!
//! ```text
//! stated   Berlin 1 May · Berlin 3 May · Paris 2 June · Berlin (a note found later) 4 May
//! facts    Berlin 1 May – 2 June, three sources · Paris since 2 June
//! ```
//! A value that is older than the current one is history. When a source is withdrawn (the line was deleted), the remaining
//! sources decide.

use std::ops::Range;

use super::rows::Source;

/// A time in which one value held.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Period {
    pub value: String,
    pub from: i64,
    /// When the next value began, this was said to be over, or it was forgotten; `None` for the current one.
    pub to: Option<i64>,
    /// The fact that is this one; `None` for a new one.
    pub fact: Option<i64>,
    /// Its sources: a part of the list that [`periods`] was given and has sorted.
    pub sources: Range<usize>,
}

/// Sorts `sources` by time and returns the periods they make, oldest first; two neighbours have the same
/// value only when it was over in between. What was said at the same time counts by its place: the lower
/// line is newer. What was said to be over and was not so is taken out of `sources`. `current` is the fact
/// that was current so far.
pub(super) fn periods(sources: &mut Vec<Source>, current: Option<i64>) -> Vec<Period> {
    let place = |source: &Source| {
        let stated = &source.statement;
        (stated.at, stated.path.clone(), stated.line)
    };
    sources.sort_by_cached_key(place);
    let mut value: Option<String> = None;
    sources.retain(|source| {
        let was_so = value.as_ref() == Some(&source.value);
        if !source.statement.ended {
            value = Some(source.value.clone());
        } else if was_so {
            value = None;
        }
        !source.statement.ended || was_so
    });
    let mut periods: Vec<Period> = Vec::new();
    let mut before: Option<&Source> = None;
    for (number, source) in sources.iter().enumerate() {
        let (at, ended) = (source.statement.at, source.statement.ended);
        let continues = ended
            || before.is_some_and(|before| {
                !before.statement.ended && before.forgotten == source.forgotten
            });
        before = Some(source);
        let end = |last: &mut Period| last.to = Some(last.to.map_or(at, |to| to.min(at)));
        match periods.last_mut() {
            Some(last) if last.value == source.value && continues => {
                last.sources.end = number + 1;
                if ended {
                    end(last);
                }
            }
            last => {
                last.map(end);
                periods.push(Period {
                    value: source.value.clone(),
                    from: at,
                    to: source.forgotten,
                    fact: None,
                    sources: number..number + 1,
                });
            }
        }
    }
    // The newest first, so that the current fact keeps its number when a period is split.
    let mut taken = Vec::new();
    for period in periods.iter_mut().rev() {
        let sources = sources.get(period.sources.clone()).unwrap_or_default();
        let facts = sources.iter().filter_map(|source| source.fact);
        let free = facts.filter(|id| !taken.contains(id));
        period.fact = free.max_by_key(|id| (Some(*id) == current, *id));
        taken.extend(period.fact);
    }
    periods
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::facts::store::Statement;
    use crate::memory::scope::Scope;
    use proptest::prelude::*;

    fn said(value: &str, at: i64, fact: Option<i64>) -> Source {
        stated(&format!("p{at}"), 1, value, at, fact, false)
    }

    fn stated(
        path: &str,
        line: i64,
        value: &str,
        at: i64,
        fact: Option<i64>,
        ended: bool,
    ) -> Source {
        let source = Source::new(Statement {
            scope: Scope::Owner,
            entity: "user".to_owned(),
            said_of: None,
            attribute: "lives in".to_owned(),
            value: value.to_owned(),
            ended,
            confidence: 1.0,
            path: path.to_owned(),
            line,
            session: None,
            quote: value.to_owned(),
            at,
        });
        Source { fact, ..source }
    }

    fn shown(
        sources: &[Source],
        current: Option<i64>,
    ) -> Vec<(String, i64, Option<i64>, Option<i64>)> {
        periods(&mut sources.to_vec(), current)
            .into_iter()
            .map(|period| (period.value, period.from, period.to, period.fact))
            .collect()
    }

    fn row(
        value: &str,
        from: i64,
        to: Option<i64>,
        fact: Option<i64>,
    ) -> (String, i64, Option<i64>, Option<i64>) {
        (value.to_owned(), from, to, fact)
    }

    #[test]
    fn a_newer_value_ends_the_older_one_and_the_same_value_goes_on() {
        let all = [
            said("berlin", 1, Some(1)),
            said("paris", 5, None),
            said("berlin", 3, None),
        ];
        assert_eq!(
            shown(&all, Some(1)),
            [
                row("berlin", 1, Some(5), Some(1)),
                row("paris", 5, None, None)
            ]
        );
    }

    #[test]
    fn an_older_value_is_history_and_a_split_fact_stays_the_current_one() {
        let all = [
            said("b", 1, Some(1)),
            said("b", 9, Some(1)),
            said("p", 5, None),
        ];
        let expected = [
            row("b", 1, Some(5), None),
            row("p", 5, Some(9), None),
            row("b", 9, None, Some(1)),
        ];
        assert_eq!(shown(&all, Some(1)), expected);
    }

    #[test]
    fn a_value_between_two_equal_ones_that_goes_leaves_one_fact() {
        let all = [said("b", 1, Some(1)), said("b", 9, Some(3))];
        assert_eq!(shown(&all, Some(3)), [row("b", 1, None, Some(3))]);
        assert_eq!(shown(&[], Some(1)), []);
    }

    #[test]
    fn what_is_said_to_be_over_ends_that_value_and_no_other() {
        let over = |value: &str, at: i64| stated(&format!("p{at}"), 1, value, at, None, true);
        let all = [said("berlin", 1, Some(1)), over("berlin", 5)];
        assert_eq!(shown(&all, Some(1)), [row("berlin", 1, Some(5), Some(1))]);
        let all = [
            said("berlin", 1, None),
            over("berlin", 5),
            said("berlin", 7, None),
            said("paris", 9, None),
        ];
        let expected = [
            row("berlin", 1, Some(5), None),
            row("berlin", 7, Some(9), None),
            row("paris", 9, None, None),
        ];
        assert_eq!(shown(&all, None), expected);
        let all = [
            over("paris", 1),
            said("berlin", 2, None),
            over("paris", 5),
            said("berlin", 6, None),
            over("rome", 7),
        ];
        assert_eq!(shown(&all, None), [row("berlin", 2, None, None)]);
    }

    #[test]
    fn in_one_file_the_lower_line_counts() {
        let line = |value: &str, line: i64| stated("p", line, value, 1, None, false);
        let all = [line("two", 8), line("one", 2)];
        assert_eq!(
            shown(&all, None),
            [row("one", 1, Some(1), None), row("two", 1, None, None)]
        );
    }

    #[test]
    fn what_was_forgotten_ends_there_and_what_is_said_later_holds() {
        let forgotten = |value: &str, at: i64| Source {
            forgotten: Some(7),
            ..said(value, at, None)
        };
        let all = [forgotten("b", 1), forgotten("p", 3), said("p", 9, None)];
        let expected = [
            row("b", 1, Some(3), None),
            row("p", 3, Some(7), None),
            row("p", 9, None, None),
        ];
        assert_eq!(shown(&all, None), expected);
        assert_eq!(
            shown(&[forgotten("p", 3)], None),
            [row("p", 3, Some(7), None)]
        );
        assert_eq!(
            shown(&[forgotten("p", 3), said("b", 5, None)], None)[0],
            row("p", 3, Some(5), None)
        );
    }

    proptest! {
        #[test]
        fn the_order_of_reading_does_not_matter(mut all in proptest::collection::vec(("[abc]", 0i64..6), 0..8), seed in 0usize..99) {
            let make = |list: &[(String, i64)]| -> Vec<Source> {
                list.iter().map(|(value, at)| stated(&format!("{value}{at}"), 1, value, *at, None, false)).collect()
            };
            let one = shown(&make(&all), None);
            let len = all.len().max(1);
            all.rotate_left(seed % len);
            all.reverse();
            prop_assert_eq!(shown(&make(&all), None), one.clone());
            prop_assert!(one.windows(2).all(|pair| pair[0].0 != pair[1].0 && pair[0].2 == Some(pair[1].1)));
            prop_assert!(one.last().is_none_or(|last| last.2.is_none()));
        }
    }
}
