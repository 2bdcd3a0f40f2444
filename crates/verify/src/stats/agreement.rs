//! Agreement of raters beyond chance.

use std::collections::BTreeMap;

use super::number;

/// Returns Cohen's kappa of two raters over the same subjects: 1 is full agreement, 0 is what chance gives.
///
/// `None` without subjects, and if both raters gave one and the same category to all of them: chance then agrees as well.
pub fn cohen_kappa<C: Ord>(ratings: &[(C, C)]) -> Option<f64> {
    if ratings.is_empty() {
        return None;
    }
    let subjects = number(ratings.len());
    let agreed = ratings.iter().filter(|(first, second)| first == second).count();
    let mut counts: BTreeMap<&C, (usize, usize)> = BTreeMap::new();
    for (first, second) in ratings {
        counts.entry(first).or_default().0 += 1;
        counts.entry(second).or_default().1 += 1;
    }
    let by_chance: f64 =
        counts.values().map(|(first, second)| number(*first) / subjects * (number(*second) / subjects)).sum();
    beyond_chance(number(agreed) / subjects, by_chance)
}

/// Returns Fleiss' kappa of several raters. Each subject has the number of raters that chose each category.
///
/// `None` unless every subject has the same number of ratings, at least two, and more than one category was chosen.
pub fn fleiss_kappa(subjects: &[Vec<usize>]) -> Option<f64> {
    let raters: usize = subjects.first()?.iter().sum();
    let categories = subjects.iter().map(Vec::len).max().unwrap_or_default();
    if raters < 2 || subjects.iter().any(|counts| counts.iter().sum::<usize>() != raters) {
        return None;
    }
    let count = number(subjects.len());
    let raters = number(raters);
    let pairs = raters * (raters - 1.0);
    let agreement = |counts: &Vec<usize>| {
        counts.iter().map(|chosen| number(*chosen) * (number(*chosen) - 1.0)).sum::<f64>() / pairs
    };
    let observed = subjects.iter().map(agreement).sum::<f64>() / count;
    let share = |category: usize| {
        let chosen: usize = subjects.iter().filter_map(|counts| counts.get(category)).sum();
        number(chosen) / (count * raters)
    };
    let by_chance: f64 = (0..categories).map(|category| share(category).powi(2)).sum();
    beyond_chance(observed, by_chance)
}

fn beyond_chance(observed: f64, by_chance: f64) -> Option<f64> {
    let room = 1.0 - by_chance;
    (room > f64::EPSILON).then(|| (observed - by_chance) / room)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: Option<f64>, expected: f64) {
        assert!(found.is_some_and(|found| (found - expected).abs() < 5e-4), "{found:?}, expected {expected}");
    }

    #[test]
    fn cohens_kappa_matches_published_examples() {
        // Two readers of 50 grant proposals: both yes 20, only A 5, only B 10, both no 15.
        let mut ratings = Vec::new();
        for (count, pair) in [(20, (true, true)), (5, (true, false)), (10, (false, true)), (15, (false, false))] {
            ratings.extend(std::iter::repeat_n(pair, count));
        }
        close(cohen_kappa(&ratings), 0.4);
        close(cohen_kappa(&[("a", "a"), ("b", "b"), ("c", "c")]), 1.0);
        close(cohen_kappa(&[("a", "b"), ("b", "a")]), -1.0);
        assert_eq!(cohen_kappa(&[("a", "a"), ("a", "a")]), None);
        assert_eq!(cohen_kappa::<bool>(&[]), None);
    }

    #[test]
    fn fleiss_kappa_matches_the_published_example() {
        // Fourteen raters, ten subjects, five categories (Fleiss 1971).
        let subjects = [
            [0, 0, 0, 0, 14],
            [0, 2, 6, 4, 2],
            [0, 0, 3, 5, 6],
            [0, 3, 9, 2, 0],
            [2, 2, 8, 1, 1],
            [7, 7, 0, 0, 0],
            [3, 2, 6, 3, 0],
            [2, 5, 3, 2, 2],
            [6, 5, 2, 1, 0],
            [0, 2, 2, 3, 7],
        ];
        close(fleiss_kappa(&subjects.map(Vec::from)), 0.210);
        // With two raters the marginals are pooled, so it differs from Cohen's kappa.
        close(fleiss_kappa(&[vec![2, 0], vec![0, 2], vec![1, 1]]), 1.0 / 3.0);
        assert_eq!(fleiss_kappa(&[vec![3, 0], vec![2, 0]]), None, "another number of raters");
        assert_eq!(fleiss_kappa(&[vec![3, 0], vec![3, 0]]), None, "one category");
        assert_eq!(fleiss_kappa(&[vec![1, 0]]), None, "one rater");
        assert_eq!(fleiss_kappa(&[]), None);
    }
}
