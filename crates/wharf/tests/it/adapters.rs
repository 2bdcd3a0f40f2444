//! The tools of third-party servers with every model adapter: one conversation, the same trace.
//!
//! The servers are processes, started once and shared. The models use their real wire formats on a real port.

use std::sync::Arc;

use serde_json::{Value, json};
use wharf::agent::models::{Anthropic, Dialect, Endpoint, OpenAi};
use wharf::agent::{Agent, AgentResult, Limits, Model, ModelOptions, Run, RunEnd, Scripted, TraceMessage};
use wharf::config::StdioConfig;
use wharf::fleet::{
    Dispatcher, Fleet, FleetOptions, HostEnvironment, Scope, Server, TransportConfig, Turn as FleetTurn,
};
use wharf::{Environment, HttpClient, HttpSettings, Message, Role, Tools};
use wharf_testkit::models::{FakeModels, ListeningModels, Turn};
use wharf_testkit::{children_of, peers, soon, until};

/// The model adapter under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Adapter {
    Anthropic,
    OpenAi(Dialect),
    /// Chat Completions without tools.
    Emulated,
    Scripted,
}

const NATIVE: [Adapter; 6] = [
    Adapter::Anthropic,
    Adapter::OpenAi(Dialect::OpenAi),
    Adapter::OpenAi(Dialect::OpenRouter),
    Adapter::OpenAi(Dialect::Endpoint),
    Adapter::OpenAi(Dialect::Ollama),
    Adapter::Scripted,
];

/// The calls of every turn: id, tool, arguments.
const CALLS: [&[(&str, &str, &str)]; 4] = [
    &[
        ("call_a", "mcp__everything__echo", r#"{"message":"où?"}"#),
        ("call_b", "mcp__everything__get-sum", r#"{"a":17,"b":25.5}"#),
    ],
    &[(
        "call_c",
        "mcp__time__convert_time",
        r#"{"source_timezone":"Asia/Tokyo","time":"12:30","target_timezone":"Asia/Kolkata"}"#,
    )],
    &[("call_d", "mcp__everything__get-tiny-image", "{}")],
    &[(
        "call_e",
        "mcp__time__convert_time",
        r#"{"source_timezone":"Mars/Olympus","time":"12:30","target_timezone":"UTC"}"#,
    )],
];
const FIRST_WORDS: &str = "Both at once.";
const FINAL_RESPONSE: &str = "It is 09:00 in Kolkata.";

fn native() -> Vec<Turn> {
    let mut turns: Vec<Turn> = CALLS
        .iter()
        .map(|calls| {
            calls.iter().fold(Turn::default(), |turn, (id, name, arguments)| turn.calling(id, name, arguments))
        })
        .collect();
    turns[0] =
        CALLS[0].iter().fold(Turn::text(FIRST_WORDS), |turn, (id, name, arguments)| turn.calling(id, name, arguments));
    turns.push(Turn::text(FINAL_RESPONSE));
    turns
}

/// Returns the same turns in the format of emulated tools: one call per turn.
fn emulated() -> Vec<Turn> {
    let calls = CALLS.iter().copied().flatten();
    let mut turns: Vec<Turn> = calls
        .map(|(_, name, arguments)| Turn::text(format!(r#"{{"tool": "{name}", "arguments": {arguments}}}"#)))
        .collect();
    turns.push(Turn::text(json!({ "answer": FINAL_RESPONSE }).to_string()));
    turns
}

/// Returns the same turns as a script file; JSON is also YAML.
fn scripted() -> Scripted {
    let usage = json!({"input_tokens": 10, "output_tokens": 5});
    let mut turns: Vec<Value> = CALLS
        .iter()
        .map(|calls| {
            let call = |(id, name, arguments): &(&str, &str, &str)| {
                json!({"id": id, "name": name, "arguments": serde_json::from_str::<Value>(arguments).unwrap()})
            };
            json!({"tools": calls.iter().map(call).collect::<Vec<_>>(), "usage": usage})
        })
        .collect();
    turns[0]["text"] = json!(FIRST_WORDS);
    turns.push(json!({"text": FINAL_RESPONSE, "usage": usage}));
    Scripted::parse("fake-1", &json!(turns).to_string()).unwrap()
}

impl Adapter {
    fn model(self, at: &ListeningModels) -> Arc<dyn Model> {
        let endpoint = |url: String| {
            let http = HttpClient::new(HttpSettings::default()).unwrap();
            Endpoint::new(&url, None, http).unwrap()
        };
        match self {
            Self::Anthropic => Arc::new(Anthropic::new(endpoint(at.anthropic_url()), "fake-1").unwrap()),
            Self::OpenAi(dialect) => Arc::new(OpenAi::new(dialect, endpoint(at.openai_url()), "fake-1").unwrap()),
            Self::Emulated => {
                let model = OpenAi::new(Dialect::Endpoint, endpoint(at.openai_url()), "fake-1").unwrap();
                Arc::new(model.with_emulated_tools())
            }
            Self::Scripted => Arc::new(scripted()),
        }
    }
}

/// Opens a fleet with the two servers.
fn open() -> Fleet {
    let root = peers();
    let at = |path: &str| root.join(".peers").join(path).to_str().unwrap().to_owned();
    let server = |name: &str, command: String, args: &[String]| {
        let launch = StdioConfig { command, args: args.to_vec(), env: [].into(), cwd: None };
        Server::new(name.parse().unwrap(), Scope::User, TransportConfig::Stdio(launch)).into()
    };
    let everything = at("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let servers = [
        server("everything", at("node_modules/node/bin/node"), &[everything, "stdio".to_owned()]),
        server("time", at("py2/bin/python"), &["-m", "mcp_server_time", "--local-timezone", "UTC"].map(str::to_owned)),
    ];
    let environment = Environment::default().with("PATH", "/usr/local/bin:/usr/bin:/bin").with("HOME", "/nonexistent");
    let host_environment = HostEnvironment { environment, ..HostEnvironment::default() };
    Fleet::open(servers, FleetOptions { host_environment, ..FleetOptions::default() })
}

/// Runs the whole conversation with a model, and returns the result and the requests to the provider.
async fn converse(adapter: Adapter, stream: bool, fleet: &Fleet) -> (AgentResult, Vec<Value>) {
    let fake = FakeModels::new(match adapter {
        Adapter::Emulated => emulated(),
        Adapter::Scripted => Vec::new(),
        Adapter::Anthropic | Adapter::OpenAi(_) => native(),
    });
    let listening = fake.listen().await;
    let fleet = fleet.clone();
    let dispatcher = Arc::new(Dispatcher::default());
    let turns = move || Arc::new(FleetTurn::new(fleet.catalog(), Arc::clone(&dispatcher))) as Arc<dyn Tools>;
    let options = ModelOptions { stream, ..ModelOptions::default() };
    let agent = Agent::new(adapter.model(&listening), Arc::new(turns)).with_options(options);
    let given = vec![Message::text(Role::System, "Use tools."), Message::text(Role::User, "What time is it there?")];
    let mut run = Run::new("s", given, Limits::default());
    let result = soon(agent.run(&mut run, std::future::pending())).await.unwrap();
    assert_eq!((&result.stop, fake.remaining_turns()), (&RunEnd::Completed, 0), "{adapter:?}, stream: {stream}");
    assert_eq!(result.final_response.as_deref(), Some(FINAL_RESPONSE), "{adapter:?}, stream: {stream}");
    (result, fake.bodies())
}

/// Normalizes a trace: removes dates, and numbers the ids in order.
fn normalized(trace: &[TraceMessage]) -> String {
    let mut text = serde_json::to_string(trace).unwrap();
    for (place, id) in trace.iter().flat_map(|message| &message.tool_calls).map(|call| &call.id).enumerate() {
        text = text.replace(&format!("\"{id}\""), &format!("\"id {}\"", place + 1));
    }
    for time in ["T12:30:00", "T09:00:00"] {
        while let Some(end) = text.find(time).filter(|end| !text[..*end].ends_with("DATE")) {
            text.replace_range(end - 10..end, "DATE");
        }
        text = text.replace(&format!("DATE{time}"), &format!("DATE {}", &time[1..]));
    }
    for day in ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"] {
        text = text.replace(day, "DAY");
    }
    text
}

fn messages(trace: &str) -> Vec<Value> {
    serde_json::from_str(trace).unwrap()
}

/// Returns calls and results, independent of the number of calls per turn.
fn flat(trace: &str) -> Vec<Value> {
    let trace = messages(trace);
    let calls = trace.iter().flat_map(|message| message["tool_calls"].as_array().cloned().unwrap_or_default());
    let results = trace.iter().filter(|message| message["role"] == "tool");
    calls.chain(results.map(|result| json!([result["content"], result["tool_result"]]))).collect()
}

/// Returns a short, readable form.
fn summary(trace: &str) -> String {
    let line = |message: &Value| {
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let calls =
            calls.map(|call| format!("  calls {} {} ({})", word(&call["name"]), call["input"], word(&call["id"])));
        let who = match message["tool_result"].as_object() {
            Some(result) if result["is_error"] == true => format!("{} failed", word(&result["tool_use_id"])),
            Some(result) => word(&result["tool_use_id"]),
            None => word(&message["role"]),
        };
        let said = format!("{who}: {}", word(&message["content"])).trim_end().to_owned();
        [said].into_iter().chain(calls).collect::<Vec<_>>().join("\n")
    };
    messages(trace).iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the tool results in the last request: texts, errors and images.
fn sent(adapter: Adapter, body: &Value) -> Vec<String> {
    let mut sent = Vec::new();
    let image = |kind: &str, data: &str| format!("{kind} {data}");
    for message in body["messages"].as_array().unwrap() {
        let parts = message["content"].as_array().cloned().unwrap_or_default();
        match (adapter, message["role"].as_str().unwrap()) {
            (Adapter::Anthropic, "user") => {
                for result in parts.iter().filter(|part| part["type"] == "tool_result") {
                    for part in result["content"].as_array().unwrap() {
                        let source = &part["source"];
                        sent.push(match part["type"].as_str().unwrap() {
                            "image" => image(source["media_type"].as_str().unwrap(), source["data"].as_str().unwrap()),
                            _ if result["is_error"] == true => format!("ERROR {}", part["text"].as_str().unwrap()),
                            _ => part["text"].as_str().unwrap().to_owned(),
                        });
                    }
                }
            }
            (Adapter::OpenAi(_), "tool") => {
                sent.push(message["content"].as_str().unwrap().replace("Error: ", "ERROR "));
            }
            (_, "user") => {
                let result = message["content"].as_str().and_then(|text| text.strip_prefix("Result of "));
                sent.extend(result.map(|text| text.split_once('\n').unwrap().1.replace("Error: ", "ERROR ")));
                for url in parts.iter().filter_map(|part| part["image_url"]["url"].as_str()) {
                    let (kind, data) = url.strip_prefix("data:").unwrap().split_once(";base64,").unwrap();
                    sent.push(image(kind, data));
                }
            }
            _ => {}
        }
    }
    sent
}

/// Checks the requests to a provider: every result, the image as an image, and the error as an error.
fn expect_sent(adapter: Adapter, bodies: &[Value], image: &str) {
    let offered = bodies[0]["tools"].as_array().cloned().unwrap_or_default();
    if adapter == Adapter::Emulated {
        assert!(bodies.iter().all(|body| body.get("tools").is_none()), "{adapter:?} sent tools");
    } else {
        let name = |tool: &Value| tool["function"]["name"].as_str().or(tool["name"].as_str()).unwrap().to_owned();
        let names: Vec<String> = offered.iter().map(name).collect();
        for (_, name, _) in CALLS.iter().copied().flatten() {
            assert!(names.iter().any(|offered| offered == name), "{adapter:?} did not offer {name}: {names:?}");
        }
    }
    let sent = sent(adapter, bodies.last().unwrap());
    assert_eq!(sent[..2], ["Echo: où?", "The sum of 17 and 25.5 is 42.5."], "{adapter:?}");
    assert!(sent[2].contains("T09:00:00+05:30") && sent[2].contains("-3.5h"), "{adapter:?}: {}", sent[2]);
    assert!(sent.iter().any(|text| text.contains("Here's the image you requested:")), "{adapter:?}: {sent:?}");
    let images: Vec<&String> = sent.iter().filter(|text| text.starts_with("image/")).collect();
    assert_eq!(images, [&format!("image/png {image}")], "{adapter:?} sent one image");
    let errors: Vec<&String> = sent.iter().filter(|text| text.starts_with("ERROR ")).collect();
    assert_eq!(errors.len(), 1, "{adapter:?} sent one error: {sent:?}");
    assert!(errors[0].contains("Invalid timezone") && errors[0].contains("Mars/Olympus"), "{adapter:?}: {errors:?}");
    let last = sent.last().unwrap();
    assert_eq!(last, errors[0], "{adapter:?}: the error must be last");
}

#[tokio::test]
async fn tools_of_real_servers_produce_the_same_trace_with_every_adapter() {
    let fleet = open();
    soon(fleet.needed(true, std::time::Duration::from_secs(30))).await.unwrap();
    // A slow server briefly runs twice while its protocol is negotiated; the second process ends soon after.
    let servers = fleet.statuses().len();
    until(async || children_of(std::process::id()).len() == servers).await;
    let children = children_of(std::process::id());
    let (expected, _) = converse(Adapter::Scripted, true, &fleet).await;
    let expected = normalized(&expected.trace_messages);
    insta::assert_snapshot!(summary(&expected), @r#"
    assistant: Both at once.
      calls mcp__everything__echo {"message":"où?"} (id 1)
      calls mcp__everything__get-sum {"a":17,"b":25.5} (id 2)
    id 1: Echo: où?
    id 2: The sum of 17 and 25.5 is 42.5.
    assistant:
      calls mcp__time__convert_time {"source_timezone":"Asia/Tokyo","time":"12:30","target_timezone":"Asia/Kolkata"} (id 3)
    id 3: {
      "source": {
        "timezone": "Asia/Tokyo",
        "datetime": "DATE 12:30:00+09:00",
        "day_of_week": "DAY",
        "is_dst": false
      },
      "target": {
        "timezone": "Asia/Kolkata",
        "datetime": "DATE 09:00:00+05:30",
        "day_of_week": "DAY",
        "is_dst": false
      },
      "time_difference": "-3.5h"
    }
    assistant:
      calls mcp__everything__get-tiny-image {} (id 4)
    id 4: Here's the image you requested:
    [image, image/png, 3.9 KiB]
    The image above is the MCP logo.
    assistant:
      calls mcp__time__convert_time {"source_timezone":"Mars/Olympus","time":"12:30","target_timezone":"UTC"} (id 5)
    id 5 failed: Error executing tool convert_time: Invalid timezone: 'No time zone found with key Mars/Olympus'
    assistant: It is 09:00 in Kolkata.
    "#);
    let block = messages(&expected)[6]["tool_result"]["output"]["content"][1].clone();
    let image = block["data"].as_str().unwrap();
    for adapter in NATIVE {
        for stream in [true, false] {
            let (result, bodies) = converse(adapter, stream, &fleet).await;
            let trace = normalized(&result.trace_messages);
            assert_eq!(summary(&trace), summary(&expected), "{adapter:?}, stream: {stream}");
            assert_eq!(trace, expected, "{adapter:?}, stream: {stream}");
            assert_eq!((result.turns, result.usage.total_tokens()), (5, 75), "{adapter:?}, stream: {stream}");
            if adapter != Adapter::Scripted {
                assert_eq!(bodies[0]["stream"] == true, stream, "{adapter:?}");
                expect_sent(adapter, &bodies, image);
            }
        }
    }
    // Emulated tools have one call per turn, so only calls and results are comparable.
    let (result, bodies) = converse(Adapter::Emulated, true, &fleet).await;
    assert_eq!(flat(&normalized(&result.trace_messages)), flat(&expected));
    assert_eq!(result.turns, 6);
    expect_sent(Adapter::Emulated, &bodies, image);

    assert_eq!(children_of(std::process::id()), children, "no server was restarted");
    soon(fleet.close()).await;
    assert_eq!(children_of(std::process::id()), Vec::<u32>::new());
}
