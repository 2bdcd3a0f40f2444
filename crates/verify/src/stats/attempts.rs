//! Repeated attempts at the same question: pass@k, pass^k and flakiness.

use serde::Serialize;

use super::number;

/// The scored attempts at one question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Attempts {
    /// Attempts that passed.
    pub passed: usize,
    /// All scored attempts.
    pub scored: usize,
}

/// Returns the probability that at least one of `k` attempts passes, averaged over the questions with at least `k` scored
/// attempts, by the unbiased estimator `1 - C(n-c, k) / C(n, k)`. `None` without such a question.
pub fn pass_at_k(questions: &[Attempts], k: usize) -> Option<f64> {
    mean(questions, k, |attempts| 1.0 - all_drawn(attempts.scored - attempts.passed, attempts.scored, k))
}

/// Returns the probability that all of `k` attempts pass (pass^k), averaged over the questions with at least `k` scored
/// attempts, by the unbiased estimator `C(c, k) / C(n, k)`. With exactly `k` attempts it is the share of questions that
/// passed in all of them.
pub fn pass_all_k(questions: &[Attempts], k: usize) -> Option<f64> {
    mean(questions, k, |attempts| all_drawn(attempts.passed, attempts.scored, k))
}

/// Returns the probability that two attempts at the same question have the same verdict, averaged over the questions with
/// at least two scored attempts. `None` without such a question.
pub fn replicate_agreement(questions: &[Attempts]) -> Option<f64> {
    mean(questions, 2, |attempts| {
        let Attempts { passed, scored } = *attempts;
        all_drawn(passed, scored, 2) + all_drawn(scored - passed, scored, 2)
    })
}

/// Whether a question neither always passed nor always failed.
pub fn is_flaky(attempts: Attempts) -> bool {
    attempts.passed > 0 && attempts.passed < attempts.scored
}

fn mean(questions: &[Attempts], k: usize, value: impl Fn(&Attempts) -> f64) -> Option<f64> {
    let enough = || questions.iter().filter(|attempts| attempts.scored >= k);
    let count = enough().count();
    (k > 0 && count > 0).then(|| enough().map(value).sum::<f64>() / number(count))
}

/// Returns the probability that `k` attempts drawn from `all` without replacement are among `some` of them:
/// `C(some, k) / C(all, k)`, as a product of small factors.
fn all_drawn(some: usize, all: usize, k: usize) -> f64 {
    if some < k {
        return 0.0;
    }
    (0..k).map(|drawn| number(some - drawn) / number(all - drawn)).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(passed: usize, scored: usize) -> Attempts {
        Attempts { passed, scored }
    }

    fn close(found: Option<f64>, expected: f64) {
        assert!(found.is_some_and(|found| (found - expected).abs() < 1e-9), "{found:?}, expected {expected}");
    }

    #[test]
    fn one_attempt_is_the_mean_accuracy() {
        let questions = [attempts(3, 3), attempts(1, 3), attempts(0, 3)];
        close(pass_at_k(&questions, 1), 4.0 / 9.0);
        close(pass_all_k(&questions, 1), 4.0 / 9.0);
    }

    #[test]
    fn more_attempts_help_once_and_hurt_always() {
        // Three of five passed: a pair without a pass is 1 of 10, a pair of passes 3 of 10.
        close(pass_at_k(&[attempts(3, 5)], 2), 0.9);
        close(pass_all_k(&[attempts(3, 5)], 2), 0.3);
        close(pass_at_k(&[attempts(3, 5)], 3), 1.0);
        let questions = [attempts(3, 3), attempts(2, 3), attempts(3, 3), attempts(0, 3)];
        close(pass_all_k(&questions, 3), 0.5);
        close(pass_at_k(&questions, 3), 0.75);
    }

    #[test]
    fn questions_with_too_few_scored_attempts_do_not_count() {
        close(pass_at_k(&[attempts(1, 1), attempts(0, 2)], 2), 0.0);
        assert_eq!(pass_at_k(&[attempts(1, 1)], 2), None);
        assert_eq!(pass_all_k(&[], 1), None);
        assert_eq!(pass_at_k(&[attempts(1, 1)], 0), None);
    }

    #[test]
    fn agreement_is_the_share_of_pairs_with_the_same_verdict() {
        // Three of four passed: 3 of 6 pairs agree. One of one does not count.
        close(replicate_agreement(&[attempts(3, 4), attempts(1, 1)]), 0.5);
        close(replicate_agreement(&[attempts(3, 3), attempts(0, 3), attempts(1, 3)]), 7.0 / 9.0);
        assert_eq!(replicate_agreement(&[attempts(1, 1)]), None);
    }

    #[test]
    fn many_attempts_do_not_overflow() {
        close(pass_all_k(&[attempts(100_000, 100_000)], 50_000), 1.0);
        let rare = pass_at_k(&[attempts(1, 100_000)], 50_000).unwrap();
        assert!((rare - 0.5).abs() < 1e-6, "{rare}");
    }

    #[test]
    fn flaky_is_neither_always_nor_never() {
        assert!(is_flaky(attempts(1, 2)));
        for stable in [attempts(0, 2), attempts(2, 2), attempts(0, 0)] {
            assert!(!is_flaky(stable));
        }
    }
}
