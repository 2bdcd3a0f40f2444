//! Each limit, on the way of a run that would have gone on.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use wharf_agent::models::{Dialect, OpenAi, Priced};
use wharf_agent::{ExitBehavior, Limit, Limits, Model, RunEnd};
use wharf_testkit::models::{Fault, Tokens, Turn};

use super::super::kit::{Adapter, endpoint};
use super::{Came, Trial, Who, everybody};
use crate::kit::Way;

#[tokio::test(start_paused = true)]
async fn the_limit_of_questions_ends_the_run_before_one_more() {
    for who in everybody() {
        let turns = [who.looks(&["a"]), who.looks(&["b"]), who.says("never heard")];
        let limits = Limits { model_calls: 2, ..Limits::default() };
        let came = Trial::new(who, turns).within(limits).run("model calls").await;
        came.expect_limit(&Limit::ModelCalls { most: 2 }, None, 2);
        assert_eq!(came.results().len(), 2, "{}", came.name);
    }
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_calls_leaves_a_last_word_without_tools_or_lets_the_model_go_on() {
    for who in everybody() {
        let limits = |exit_behavior| Limits { tool_calls: 1, exit_behavior, ..Limits::default() };
        let limit = Limit::ToolCalls { most: 1 };
        // Where one turn holds one call, it takes two turns to run into it.
        let looks = || -> Vec<Turn> {
            match who {
                Who::Native(_) => vec![who.looks(&["a", "b"])],
                Who::Emulated => vec![who.looks(&["a"]), who.looks(&["b"])],
            }
        };
        let turns = || looks().into_iter().chain([who.says("enough")]);
        let offers = |body: &Value| match who {
            // Who has used tools has to be told of some; that none may be called is said beside them.
            Who::Native(_) => body.get("tools").is_some() && body["tool_choice"]["type"] != "none",
            Who::Emulated => body.get("response_format").is_some(),
        };
        let trial = Trial::new(who, turns()).within(limits(ExitBehavior::End));
        let tools = Arc::clone(&trial.tools);
        let came = trial.run("tool calls, end").await;
        came.expect_limit(&limit, Some("enough"), looks().len() + 1);
        let offered: Vec<bool> = came.fake.bodies().iter().map(offers).collect();
        assert_eq!(offered.iter().filter(|offers| !**offers).count(), 1, "{}", came.name);
        assert_eq!(offered.last(), Some(&false), "{}: the last word is asked for without tools", came.name);
        assert_eq!(tools.log().len(), 2, "{}: one was called", came.name);
        let blocked = came.results()[1];
        assert!(blocked.tool_result.as_ref().unwrap().is_error, "{}", came.name);
        assert_eq!(blocked.content, "This tool was not called: the limit of 1 tool calls is reached.");

        // Whoever calls again instead of answering has no last word.
        let stubborn = looks().into_iter().chain([who.looks(&["c"]), who.says("never heard")]);
        let came = Trial::new(who, stubborn).within(limits(ExitBehavior::End)).run("tool calls, end, again").await;
        came.expect_limit(&limit, None, looks().len() + 1);

        let trial = Trial::new(who, turns()).within(limits(ExitBehavior::Continue));
        let tools = Arc::clone(&trial.tools);
        let came = trial.run("tool calls, continue").await;
        assert_eq!((&came.result.stop, came.result.limits.as_slice()), (&RunEnd::Completed, [limit].as_slice()));
        assert_eq!(came.result.final_response.as_deref(), Some("enough"), "{}", came.name);
        assert!(came.fake.bodies().iter().all(offers), "{}: there are tools to the end", came.name);
        assert_eq!(tools.log().len(), 2, "{}: one was called", came.name);
    }
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_one_tool_is_told_to_the_model_which_goes_on() {
    for who in everybody() {
        let turns = [who.looks(&["a"]), who.looks(&["b"]), who.says("enough")];
        let limits = Limits { per_tool: [("look".to_owned(), 1)].into(), ..Limits::default() };
        let trial = Trial::new(who, turns).within(limits);
        let tools = Arc::clone(&trial.tools);
        let came = trial.run("per tool").await;
        assert_eq!(came.result.stop, RunEnd::Completed, "{}", came.name);
        assert_eq!(came.result.limits, [Limit::PerTool { name: "look".to_owned(), most: 1 }], "{}", came.name);
        assert_eq!(came.result.final_response.as_deref(), Some("enough"), "{}", came.name);
        assert_eq!(tools.log().len(), 2, "{}: one was called", came.name);
        assert_eq!(came.results()[1].content, "This tool was not called: the limit of 1 calls of look is reached.");
    }
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_tokens_ends_the_run_before_one_more_question() {
    for who in everybody() {
        let turns = [who.looks(&["a"]), who.looks(&["b"]), who.says("never heard")];
        // Fifteen a turn.
        let limits = Limits { tokens: Some(30), ..Limits::default() };
        let came = Trial::new(who, turns).within(limits).run("tokens").await;
        came.expect_limit(&Limit::Tokens { most: 30 }, None, 2);
        assert_eq!(came.result.usage.total_tokens(), 30, "{}", came.name);
    }
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_cost_holds_where_the_provider_or_the_table_tells_it_and_is_never_made_up() {
    let tokens = Tokens { input: 100_000, output: 1_000, ..Tokens::default() };
    let told = Tokens { cost: Some(0.25), ..tokens };
    for who in everybody() {
        let (name, tokens, known) = match who {
            Who::Native(Adapter::Anthropic) => ("claude-sonnet-4-5", tokens, true),
            Who::Native(Adapter::OpenAi(Dialect::OpenAi)) => ("gpt-5", tokens, true),
            Who::Native(Adapter::OpenAi(Dialect::OpenRouter)) => ("any/model", told, true),
            Who::Native(Adapter::OpenAi(Dialect::Endpoint | Dialect::Ollama)) | Who::Emulated => {
                ("gpt-5", tokens, false)
            }
        };
        let turns = [who.looks(&["a"]), who.says("enough")].map(|turn| turn.costing(tokens));
        let mut trial = Trial::new(who, turns).within(Limits { cost_usd: Some(0.1), ..Limits::default() });
        let at = endpoint(&trial.fake);
        let model: Arc<dyn Model> = match who {
            Who::Native(adapter) => Arc::from(adapter.named(at, name)),
            Who::Emulated => Arc::new(OpenAi::new(Dialect::Endpoint, at, name).unwrap().emulating_tools()),
        };
        trial.model = Arc::new(Priced::new(model));
        let came = trial.run("cost").await;
        if known {
            came.expect_limit(&Limit::Cost { most: "0.1".to_owned() }, None, 1);
            assert!(came.result.usage.cost_usd.is_some_and(|cost| cost >= 0.1), "{}", came.name);
        } else {
            let Came { name, result, .. } = &came;
            assert_eq!((&result.stop, result.usage.cost_usd), (&RunEnd::Completed, None), "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_time_ends_the_run_in_the_middle_of_an_answer_of_a_call_and_of_a_pause() {
    let limits = || Limits { time: Some(Duration::from_secs(3)), ..Limits::default() };
    let limit = Limit::Time { seconds: 3 };
    for who in everybody() {
        let busy = || who.says("").with(Fault::Status(529, Vec::new(), "{}".to_owned()));
        let slow = who.says("never heard").with(Fault::HangMidway);
        for (what, second, asked) in [("answer", vec![slow], 2), ("pause", vec![busy(), busy(), busy()], 3)] {
            let turns = [who.looks(&["a"])].into_iter().chain(second);
            let came = Trial::new(who, turns).within(limits()).run(&format!("time, in an {what}")).await;
            let least = if what == "pause" { 2 } else { asked };
            let questions = came.fake.requests().len();
            assert!((least..=asked).contains(&questions), "{}: {questions}", came.name);
            came.expect_limit(&limit, None, questions);
            assert_eq!((came.took.as_secs(), came.result.timeout_reached), (3, true), "{}", came.name);
            assert_eq!(came.result.usage.total_tokens(), 15, "{}", came.name);
        }
        let trial = Trial::new(who, [who.looks(&["a", "b"]), who.says("never heard")]).within(limits());
        // The first call of those who only speak has an id of ours.
        let hangs = if who == Who::Emulated { "call_1" } else { "b" };
        let tools = trial.tools.way(hangs, Way::Never);
        let came = trial.run("time, in a call").await;
        came.expect_limit(&limit, None, 1);
        assert_eq!((came.took.as_secs(), came.result.timeout_reached), (3, true), "{}", came.name);
        let given_up = came.results().pop().unwrap();
        assert!(given_up.tool_result.as_ref().unwrap().is_error, "{}", came.name);
        let words = "The call was given up: the limit of 3 s is reached. Nobody knows whether it had an effect.";
        assert_eq!(given_up.content, words, "{}", came.name);
        assert!(!tools.log().contains(&format!("{hangs} ends")), "{}: {:?}", came.name, tools.log());
    }
}
