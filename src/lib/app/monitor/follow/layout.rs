//! The layout: on a large screen all panes side by side, on a medium one the turns above and one other pane below, on a
//! small one the selected pane.

use crate::app::monitor::frame::Frame;

const LARGE: Frame = Frame {
    columns: 100,
    rows: 20,
};
/// Below this one only one is.
const USUAL: Frame = Frame {
    columns: 40,
    rows: 12,
};
const GAP: usize = 2;
const LEAST: usize = 2;
const GLIMPSE: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Lanes,
    Questions,
    Queue,
    Costs,
    Memory,
    /// The newest lines of the log.
    Log,
}

impl Pane {
    /// In the order in which Tab goes through them.
    pub(super) const ALL: [Self; 6] = [
        Self::Lanes,
        Self::Questions,
        Self::Queue,
        Self::Costs,
        Self::Memory,
        Self::Log,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Lanes => "lanes",
            Self::Questions => "questions",
            Self::Queue => "queue",
            Self::Costs => "costs",
            Self::Memory => "memory",
            Self::Log => "log",
        }
    }

    /// Returns the pane that is `steps` further, around the end.
    pub(super) fn further(self, steps: usize) -> Self {
        Self::ALL[(self as usize + steps) % Self::ALL.len()]
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) columns: usize,
    pub(super) rows: usize,
}

pub(super) struct Wish<'a> {
    pub(super) size: Frame,
    pub(super) focus: Pane,
    /// The pane next to the turns where there is room for one only.
    pub(super) below: Pane,
    pub(super) header: usize,
    pub(super) lines: &'a dyn Fn(Pane, usize) -> usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) header: Area,
    pub(super) panes: Vec<(Pane, Area)>,
    pub(super) footer: Option<Area>,
}

impl Plan {
    pub(super) fn of(wish: &Wish<'_>) -> Self {
        let Frame { columns, rows } = wish.size;
        if columns == 0 || rows == 0 {
            return Self::default();
        }
        let footer = (rows >= 4).then(|| Area {
            x: 0,
            y: rows - 1,
            columns,
            rows: 1,
        });
        let header = Area {
            x: 0,
            y: 0,
            columns,
            rows: wish.header.clamp(1, (rows / 3).max(1)),
        };
        let body = Area {
            y: header.rows,
            rows: rows - header.rows - usize::from(footer.is_some()),
            ..header
        };
        let panes = if columns >= LARGE.columns && rows >= LARGE.rows {
            large(wish, body)
        } else if columns >= USUAL.columns && rows >= USUAL.rows {
            usual(wish, body)
        } else if body.rows > 0 {
            vec![(wish.focus, body)]
        } else {
            Vec::new()
        };
        Self {
            header,
            panes,
            footer,
        }
    }
}

fn large(wish: &Wish<'_>, body: Area) -> Vec<(Pane, Area)> {
    let left = Area {
        columns: body.columns * 3 / 5 - GAP,
        ..body
    };
    let right = Area {
        x: left.columns + GAP,
        columns: body.columns - left.columns - GAP,
        ..body
    };
    let mut standing = vec![Pane::Queue, Pane::Costs, Pane::Memory];
    if wish.focus == Pane::Questions || (wish.lines)(Pane::Questions, right.columns) > 0 {
        standing.insert(0, Pane::Questions);
    }
    let mut panes = stack(wish, left, &[Pane::Lanes, Pane::Log]);
    panes.extend(stack(wish, right, &standing));
    panes
}

fn usual(wish: &Wish<'_>, body: Area) -> Vec<(Pane, Area)> {
    let wanted = 1 + (wish.lines)(Pane::Lanes, body.columns).max(1);
    // What was chosen leaves the other a glimpse.
    let most = if wish.focus == Pane::Lanes {
        body.rows - GLIMPSE
    } else {
        body.rows / 2
    };
    let rows = wanted.clamp(LEAST, most.max(LEAST));
    vec![
        (Pane::Lanes, Area { rows, ..body }),
        (
            wish.below,
            Area {
                y: body.y + rows,
                rows: body.rows - rows,
                ..body
            },
        ),
    ]
}

/// Puts panes below each other: each has what it needs if there is room, the chosen one first.
fn stack(wish: &Wish<'_>, area: Area, panes: &[Pane]) -> Vec<(Pane, Area)> {
    let wanted: Vec<usize> = panes
        .iter()
        .map(|pane| 1 + (wish.lines)(*pane, area.columns).max(1))
        .collect();
    let chosen = panes.iter().position(|pane| *pane == wish.focus);
    let mut y = area.y;
    let heights = share(area.rows, &wanted, chosen);
    let place = |(pane, rows): (&Pane, usize)| {
        let place = (*pane, Area { y, rows, ..area });
        y += rows;
        place
    };
    panes.iter().zip(heights).map(place).collect()
}

/// Shares `rows` among those who want so many: each has the least, then the chosen one all it wants, then
/// all alike; what is left has the last. With less room than that the first ones have it.
fn share(rows: usize, wanted: &[usize], chosen: Option<usize>) -> Vec<usize> {
    let mut left = rows;
    let mut heights = vec![0; wanted.len()];
    let mut give = |height: &mut usize, most: usize| {
        let more = most.saturating_sub(*height).min(left);
        *height += more;
        left -= more;
        more > 0
    };
    for height in &mut heights {
        give(height, LEAST);
    }
    if let Some(at) = chosen
        && let (Some(height), Some(want)) = (heights.get_mut(at), wanted.get(at))
    {
        give(height, *want);
    }
    let mut goes_on = true;
    while goes_on {
        goes_on = false;
        for (height, want) in heights.iter_mut().zip(wanted) {
            let one = (*height + 1).min(*want);
            goes_on |= give(height, one);
        }
    }
    if let Some(last) = heights.last_mut() {
        give(last, usize::MAX);
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_are_shared_fairly_and_the_chosen_one_first() {
        let check = |rows, wanted: &[usize], chosen, heights: &[usize]| {
            assert_eq!(
                share(rows, wanted, chosen),
                heights,
                "{rows} {wanted:?} {chosen:?}"
            );
        };
        check(20, &[3, 4], None, &[3, 17]);
        check(10, &[9, 9], None, &[5, 5]);
        check(10, &[9, 9], Some(1), &[2, 8]);
        check(10, &[9, 9], Some(0), &[8, 2]);
        check(3, &[9, 9, 9], Some(2), &[2, 1, 0]);
        check(0, &[1], None, &[0]);
    }

    proptest! {
        #[test]
        fn nothing_stands_outside_the_screen_or_upon_another(
            (columns, rows) in (0usize..250, 0usize..80),
            (focus, below, header) in (0usize..6, 1usize..6, 0usize..20),
            lines in prop::array::uniform6(0usize..100),
        ) {
            let count = |pane: Pane, _: usize| lines[pane as usize];
            let size = Frame { columns, rows };
            let wish = Wish { size, focus: Pane::ALL[focus], below: Pane::ALL[below], header, lines: &count };
            let plan = Plan::of(&wish);
            let mut taken = vec![false; columns * rows];
            let areas = plan.panes.iter().map(|(_, area)| *area).chain([plan.header]).chain(plan.footer);
            for area in areas {
                for y in area.y..area.y + area.rows {
                    for x in area.x..area.x + area.columns {
                        prop_assert!(x < columns && y < rows, "{area:?} of {size:?}");
                        prop_assert!(!std::mem::replace(&mut taken[y * columns + x], true), "{area:?} of {size:?}");
                    }
                }
            }
            if columns >= 20 && rows >= 5 {
                let shown = plan.panes.iter().any(|(pane, area)| *pane == wish.focus && area.rows > 0);
                let elsewhere = plan.panes.iter().any(|(pane, _)| *pane == wish.below);
                prop_assert!(shown || elsewhere, "{size:?} {:?}", plan.panes);
            }
        }
    }
}
