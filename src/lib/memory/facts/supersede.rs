//! What was stated about one thing, in order, as facts: pure, and the same whatever order it is read in.
//!
//! ```text
//! stated   Berlin 1 May · Berlin 3 May · Paris 2 June · Berlin (a note found later) 4 May
//! facts    Berlin 1 May – 2 June, three sources · Paris since 2 June
//! ```
//! A value that is older than the current one is history. A source that is withdrawn (the line was
//! deleted) takes its statement with it, and what is left decides.

/// Something was stated.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Said {
    /// What, in the form in which values are compared.
    pub value: String,
    /// That it was so and is no longer.
    pub ended: bool,
    /// When, milliseconds since 1970 UTC.
    pub at: i64,
    pub path: String,
    pub line: i64,
    /// The fact it was a source of so far.
    pub fact: Option<i64>,
    /// When it was forgotten on order, at `at` or later.
    pub forgotten: Option<i64>,
    /// Its place in the caller's list.
    pub number: usize,
}

/// A fact so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub id: i64,
    pub is_current: bool,
}

/// A time in which one value held.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Period {
    pub value: String,
    pub from: i64,
    /// When the next value began, this was said to be over, or it was forgotten; `None` for the current one.
    pub to: Option<i64>,
    /// The fact that is this one; `None` for a new one.
    pub fact: Option<i64>,
    /// Its sources: places in the list that [`periods`] was given and has sorted.
    pub said: std::ops::Range<usize>,
}

/// Sorts `said` by time and returns the periods it makes, oldest first; two neighbours have the same
/// value only when it was over in between. What was said at the same time counts by its place: the lower
/// line is newer. What was said to be over and was not so is taken out of `said`.
pub(super) fn periods(said: &mut Vec<Said>, known: &[Known]) -> Vec<Period> {
    said.sort_by(|a, b| (a.at, &a.path, a.line).cmp(&(b.at, &b.path, b.line)));
    let mut now: Option<String> = None;
    said.retain(|one| {
        let was_so = now.as_ref() == Some(&one.value);
        if !one.ended {
            now = Some(one.value.clone());
        } else if was_so {
            now = None;
        }
        !one.ended || was_so
    });
    let mut periods: Vec<Period> = Vec::new();
    let mut before: Option<&Said> = None;
    let goes_on = |before: &Said, one: &Said| !before.ended && before.forgotten == one.forgotten;
    for (number, one) in said.iter().enumerate() {
        match periods.last_mut() {
            Some(last)
                if last.value == one.value
                    && (one.ended || before.is_some_and(|before| goes_on(before, one))) =>
            {
                last.said.end = number + 1;
                if one.ended {
                    last.to = Some(last.to.map_or(one.at, |to| to.min(one.at)));
                }
            }
            last => {
                if let Some(last) = last {
                    last.to = Some(last.to.map_or(one.at, |to| to.min(one.at)));
                }
                let (value, to) = (one.value.clone(), one.forgotten);
                periods.push(Period {
                    value,
                    from: one.at,
                    to,
                    fact: None,
                    said: number..number + 1,
                });
            }
        }
        before = Some(one);
    }
    // The newest first, so that the current fact keeps its number when a period is split.
    let mut taken = Vec::new();
    for period in periods.iter_mut().rev() {
        let facts = said
            .get(period.said.clone())
            .unwrap_or_default()
            .iter()
            .filter_map(|one| one.fact);
        let free = facts.filter(|id| !taken.contains(id));
        let is_current = |id: &i64| known.iter().any(|fact| fact.id == *id && fact.is_current);
        period.fact = free.max_by_key(|id| (is_current(id), *id));
        taken.extend(period.fact);
    }
    periods
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn said(value: &str, at: i64, fact: Option<i64>) -> Said {
        Said {
            value: value.to_owned(),
            ended: false,
            at,
            path: format!("p{at}"),
            line: 1,
            fact,
            forgotten: None,
            number: 0,
        }
    }

    fn shown(said: &[Said], known: &[(i64, bool)]) -> Vec<(String, i64, Option<i64>, Option<i64>)> {
        let known: Vec<Known> = known
            .iter()
            .map(|(id, is_current)| Known {
                id: *id,
                is_current: *is_current,
            })
            .collect();
        periods(&mut said.to_vec(), &known)
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
            shown(&all, &[(1, true)]),
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
        assert_eq!(shown(&all, &[(1, true)]), expected);
    }

    #[test]
    fn a_value_between_two_equal_ones_that_goes_leaves_one_fact() {
        let all = [said("b", 1, Some(1)), said("b", 9, Some(3))];
        assert_eq!(
            shown(&all, &[(1, false), (2, false), (3, true)]),
            [row("b", 1, None, Some(3))]
        );
        assert_eq!(shown(&[], &[(1, true)]), []);
    }

    #[test]
    fn what_is_said_to_be_over_ends_that_value_and_no_other() {
        let over = |value: &str, at: i64| Said {
            ended: true,
            ..said(value, at, None)
        };
        let all = [said("berlin", 1, Some(1)), over("berlin", 5)];
        assert_eq!(
            shown(&all, &[(1, true)]),
            [row("berlin", 1, Some(5), Some(1))]
        );
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
        assert_eq!(shown(&all, &[]), expected);
        let all = [
            over("paris", 1),
            said("berlin", 2, None),
            over("paris", 5),
            said("berlin", 6, None),
            over("rome", 7),
        ];
        assert_eq!(shown(&all, &[]), [row("berlin", 2, None, None)]);
    }

    #[test]
    fn in_one_file_the_lower_line_counts() {
        let line = |value: &str, line: i64| Said {
            line,
            path: "p".to_owned(),
            ..said(value, 1, None)
        };
        let all = [line("two", 8), line("one", 2)];
        assert_eq!(
            shown(&all, &[]),
            [row("one", 1, Some(1), None), row("two", 1, None, None)]
        );
    }

    #[test]
    fn what_was_forgotten_ends_there_and_what_is_said_later_holds() {
        let forgotten = |value: &str, at: i64| Said {
            forgotten: Some(7),
            ..said(value, at, None)
        };
        let all = [forgotten("b", 1), forgotten("p", 3), said("p", 9, None)];
        let expected = [
            row("b", 1, Some(3), None),
            row("p", 3, Some(7), None),
            row("p", 9, None, None),
        ];
        assert_eq!(shown(&all, &[]), expected);
        assert_eq!(
            shown(&[forgotten("p", 3)], &[]),
            [row("p", 3, Some(7), None)]
        );
        assert_eq!(
            shown(&[forgotten("p", 3), said("b", 5, None)], &[])[0],
            row("p", 3, Some(5), None)
        );
    }

    proptest! {
        #[test]
        fn the_order_of_reading_does_not_matter(mut all in proptest::collection::vec(("[abc]", 0i64..6), 0..8), seed in 0usize..99) {
            let make = |list: &[(String, i64)]| -> Vec<Said> {
                list.iter().map(|(value, at)| Said { path: format!("{value}{at}"), ..said(value, *at, None) }).collect()
            };
            let one = shown(&make(&all), &[]);
            let len = all.len().max(1);
            all.rotate_left(seed % len);
            all.reverse();
            prop_assert_eq!(shown(&make(&all), &[]), one.clone());
            prop_assert!(one.windows(2).all(|pair| pair[0].0 != pair[1].0 && pair[0].2 == Some(pair[1].1)));
            prop_assert!(one.last().is_none_or(|last| last.2.is_none()));
        }
    }
}
