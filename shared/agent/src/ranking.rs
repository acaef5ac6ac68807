//! Several rankings made one.

use std::collections::BTreeMap;

/// Damps the lead of first places, so that what many queries find passes what one query finds best. The value that
/// reciprocal rank fusion was published with (Cormack, Clarke and Büttcher, 2009); little depends on it.
const DAMPING: f64 = 60.0;

/// All items of the rankings, the best first, by reciprocal rank fusion; among equals the smaller item first.
pub(crate) fn fused<T: Ord>(rankings: impl IntoIterator<Item = Vec<T>>) -> Vec<T> {
    let mut scores: BTreeMap<T, f64> = BTreeMap::new();
    for ranking in rankings {
        let mut place = DAMPING;
        for item in ranking {
            place += 1.0;
            *scores.entry(item).or_default() += 1.0 / place;
        }
    }
    let mut ranked: Vec<(T, f64)> = scores.into_iter().collect();
    ranked.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    ranked.into_iter().map(|(item, _)| item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_find_comes_first() {
        let cases: [(Vec<Vec<u32>>, Vec<u32>); 4] = [
            (vec![], vec![]),
            (vec![vec![3, 1, 2]], vec![3, 1, 2]),
            (vec![vec![1, 2], vec![3, 2], vec![4, 2]], vec![2, 1, 3, 4]),
            (vec![vec![5, 6], vec![6, 5]], vec![5, 6]),
        ];
        for (rankings, expected) in cases {
            assert_eq!(fused(rankings.clone()), expected, "{rankings:?}");
        }
    }
}
