//! The best of many chunks, collected without sorting the others.

use std::cmp::Ordering;

use crate::memory::index::chunk_columns::Blocks;

/// The `most` chunks with the greatest keys; of equals the latest.
pub(crate) struct TopK<'a, K> {
    most: usize,
    blocks: &'a Blocks,
    found: Vec<(K, usize)>,
    /// A smaller key is not among them.
    least: Option<K>,
}

impl<'a, K: Copy + PartialOrd> TopK<'a, K> {
    pub(crate) fn new(most: usize, blocks: &'a Blocks) -> Self {
        Self {
            most,
            blocks,
            found: Vec::with_capacity(most * 2),
            least: None,
        }
    }

    /// Returns false when a chunk with this key is not among them.
    pub(crate) fn accepts(&self, key: K) -> bool {
        self.most > 0 && self.least.is_none_or(|least| key >= least)
    }

    /// Adds one with an accepted key.
    pub(crate) fn push(&mut self, key: K, id: usize) {
        self.found.push((key, id));
        if self.found.len() >= self.most * 2 {
            self.cut();
        }
    }

    /// Returns their ids, the best first.
    pub(crate) fn in_order(mut self) -> impl Iterator<Item = i64> {
        self.cut();
        self.found
            .sort_unstable_by(|a, b| best_first(self.blocks, a, b));
        self.found
            .into_iter()
            .filter_map(|(_, id)| i64::try_from(id).ok())
    }

    fn cut(&mut self) {
        if self.found.len() > self.most {
            let blocks = self.blocks;
            self.found
                .select_nth_unstable_by(self.most - 1, |a, b| best_first(blocks, a, b));
            self.found.truncate(self.most);
            self.least = self.found.last().map(|(key, _)| *key);
        }
    }
}

fn best_first<K: PartialOrd>(blocks: &Blocks, a: &(K, usize), b: &(K, usize)) -> Ordering {
    b.0.partial_cmp(&a.0)
        .unwrap_or(Ordering::Equal)
        .then_with(|| blocks.latest_first(a.1, b.1))
}
