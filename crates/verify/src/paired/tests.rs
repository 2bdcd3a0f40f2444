//! The best model of a run, and what is adjusted for.

use super::*;
use crate::stats::Attempts;

/// The results of models: for each question `Some` whether it passed, or `None` if it was not scored.
fn tally(models: &[(&str, &[Option<bool>])]) -> RunTally {
    let mut run = RunTally::default();
    for (label, questions) in models {
        let mut model = ModelTally::default();
        for (index, passed) in questions.iter().enumerate() {
            let id: QuestionId = format!("q{index:02}").parse().unwrap();
            let question = model.questions.entry(id.clone()).or_default();
            question.attempts =
                Attempts { passed: usize::from(*passed == Some(true)), scored: usize::from(passed.is_some()) };
            model.order.push(id);
        }
        run.order.push((*label).to_owned());
        run.models.insert((*label).to_owned(), model);
    }
    run
}

fn passing(count: usize, of: usize) -> Vec<Option<bool>> {
    (0..of).map(|index| Some(index < count)).collect()
}

fn best(models: &[(&str, &[Option<bool>])]) -> String {
    compare_with_best(&tally(models)).first().map(|compared| compared.model_a.clone()).unwrap_or_default()
}

#[test]
fn p_values_are_adjusted_for_all_pairs_of_which_the_results_chose_the_best() {
    // Against the best model: 8 and 7 questions of 8 worse. The other two differ in 1.
    let models = [("a", passing(8, 8)), ("b", passing(0, 8)), ("c", passing(1, 8))];
    let models: Vec<(&str, &[Option<bool>])> = models.iter().map(|(label, of)| (*label, of.as_slice())).collect();
    let compared = compare_with_best(&tally(&models));
    let found: Vec<String> =
        compared.iter().map(|of| format!("{} {:.6} {:.6}", of.model_b, of.p, of.p_adjusted)).collect();
    // McNemar: 2 / 2^8 and 2 / 2^7. Holm over three comparisons, not over two.
    assert_eq!(found, ["b 0.007813 0.023438", "c 0.015625 0.031250"]);
    assert!(compare_with_best(&tally(&models[..1])).is_empty());
}

#[test]
fn the_best_model_is_chosen_over_questions_that_all_candidates_answered() {
    let lucky: &[Option<bool>] = &[Some(true), None, None, None];
    let good: &[Option<bool>] = &[Some(true), Some(true), Some(true), Some(false)];
    assert_eq!(best(&[("lucky", lucky), ("good", good)]), "good", "one scored answer of four does not suffice");
    // Without the question that only the first one has a score for, both are equal, and the first one counts.
    let easy: &[Option<bool>] = &[Some(true), Some(true), Some(false), None];
    let hard: &[Option<bool>] = &[Some(true), Some(true), Some(false), Some(false)];
    assert_eq!(best(&[("hard", hard), ("easy", easy)]), "hard");
    assert_eq!(best(&[("none", &[None, None]), ("also none", &[None, None])]), "none");
}
