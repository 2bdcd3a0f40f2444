"""A server on the mcp 2.x SDK with all features of the 2026-07-28 revision.

It serves stdio, or with `http PORT` Streamable HTTP at /mcp. It has the tools, prompts
and resources of the testkit's `rmcp-server`, so that one test can run against both
SDKs and show their differences.

It is built on the SDK's low-level server, because the high-level one encrypts every
requestState (so none could be awkward) and rejects tools with an invalid x-mcp-header.
The SDK does not implement the tasks extension, but a server can handle any method and
return any resultType, which is how extensions are meant to be added.
"""

import json
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import datetime, timezone
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPError

TASKS = "io.modelcontextprotocol/tasks"
POLL_MS = 50
TTL_MS = 60_000

# State that a client would change if it parsed or re-encoded it.
AWKWARD = (
    "{\"q\": 'a\\\\b', \"tab\": \"\t\", \"nul\": \"\\u0000\"} \\ / \r\n "
    "\u00e9 e\u0301 \U0001f6a2 \u2028 </script> =?base64?eA==?= "
)
LONG = "0123456789abcdef" * 512

Ctx = ServerRequestContext[Any, Any]
Answer = types.CallToolResult | types.InputRequiredResult | dict[str, Any]
Answers = dict[str, Any]


# Results that require input from the client, and the client's input responses.


def form(message: str, **properties: str) -> types.ElicitRequest:
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def name_form() -> types.ElicitRequest:
    return form("Who are you?", name="string", age="integer")


def visit() -> types.ElicitRequest:
    params = types.ElicitRequestURLParams(message="Please log in.", url="https://example.com/login?a=1&b=2")
    return types.ElicitRequest(params=params)


def sample() -> types.CreateMessageRequest:
    question = types.SamplingMessage(role="user", content=types.TextContent(text="What is the capital of France?"))
    params = types.CreateMessageRequestParams(messages=[question], max_tokens=100, system_prompt="Be brief.")
    return types.CreateMessageRequest(params=params)


def ask(state: str | None = None, **requests: types.InputRequest) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests or None, request_state=state)


def describe(answer: Any) -> str:
    """Describe an input response."""
    match answer:
        case types.ElicitResult(action="accept", content=None):
            return "accepted"
        case types.ElicitResult(action="accept", content=content):
            return " ".join(str(value) for value in content.values())
        case types.ElicitResult(action=action):
            return {"decline": "declined"}.get(action, "cancelled")
        case types.CreateMessageResult(model=model, content=types.TextContent(text=said)):
            return f"{model} says {said}"
        case types.ListRootsResult(roots=roots):
            return " ".join(f"{root.name or '-'}={root.uri}" for root in roots)
        case _:
            return f"a strange answer: {answer!r}"


def requires(ctx: Ctx, **needed: Any) -> None:
    """Fail if the client did not declare the capability for an input."""
    needed_capabilities = types.ClientCapabilities(**needed)
    fulfilled = ctx.session.check_client_capability(needed_capabilities)
    # The SDK only checks elicitation as a whole. Without modes it means forms, as before modes existed.
    if fulfilled and (modes := needed_capabilities.elicitation) is not None:
        has = ctx.session.client_capabilities.elicitation
        fulfilled = has.url is not None if modes.url is not None else has.form is not None or has.url is None
    if not fulfilled:
        data = {"requiredCapabilities": needed_capabilities.model_dump(by_alias=True, exclude_none=True)}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "Missing required client capability", data)


def asks_for(capability: dict[str, Any], **requests: types.InputRequest) -> Callable[..., Awaitable[Answer]]:
    """Create a tool that requires inputs in one round and returns them as text, in order."""

    async def tool(ctx: Ctx, arguments: dict[str, Any], answers: Answers, state: str | None) -> Answer:
        requires(ctx, **capability)
        if not answers.keys() >= requests.keys():
            return ask(**requests)
        return text("; ".join(describe(answers[key]) for key in requests))

    return tool


async def ask_twice(ctx: Ctx, arguments: dict[str, Any], answers: Answers, state: str | None) -> Answer:
    requires(ctx, **FORM)
    if state is None:
        return ask(AWKWARD + LONG, first=form("The first word?", word="string"))
    if state == AWKWARD + LONG and "first" in answers:
        return ask(AWKWARD + describe(answers["first"]), second=form("The second word?", word="string"))
    if state.startswith(AWKWARD) and list(answers) == ["second"]:
        return text(f"{state.removeprefix(AWKWARD)}, {describe(answers['second'])}")
    return text("the requestState or the answers came back changed", is_error=True)


async def ask_again(ctx: Ctx, arguments: dict[str, Any], answers: Answers, state: str | None) -> Answer:
    """Require a retry without input, which is how a server sheds load."""
    return text("came back") if state == "come back" else ask("come back")


async def ask_forever(ctx: Ctx, arguments: dict[str, Any], answers: Answers, state: str | None) -> Answer:
    requires(ctx, **FORM)
    return ask(str(int(state or 0) + 1), name=name_form())


# Tasks. Nothing runs: the state of a task follows from the clock and the responses so far.


class Task:
    def __init__(self, kind: str, arguments: dict[str, Any]) -> None:
        self.id = str(uuid.uuid4())
        self.kind = kind
        self.arguments = arguments
        self.made = self.changed = datetime.now(timezone.utc)
        self.due = time.monotonic() + arguments.get("ms", 0) / 1000
        self.cancelled = False
        self.answers: Answers = {}

    def state(self) -> dict[str, Any]:
        if self.cancelled:
            return {"status": "cancelled"}
        if self.kind == "task_forever" or time.monotonic() < self.due:
            return {"status": "working", "statusMessage": "busy"}
        if self.kind == "task_fail":
            return {"status": "failed", "error": {"code": types.INTERNAL_ERROR, "message": "it broke"}}
        if self.kind == "task_ask" and "name" not in self.answers:
            request = name_form().model_dump(by_alias=True, mode="json", exclude_none=True)
            return {"status": "input_required", "inputRequests": {"name": request}}
        said = describe(self.answers["name"]) if self.kind == "task_ask" else "finished"
        result = text(said, is_error=self.arguments.get("is_error", False))
        return {"status": "completed", "result": result.model_dump(by_alias=True, mode="json", exclude_none=True)}

    def seed(self) -> dict[str, Any]:
        return {
            "taskId": self.id,
            "createdAt": self.made.isoformat(),
            "lastUpdatedAt": self.changed.isoformat(),
            "ttlMs": TTL_MS,
            "pollIntervalMs": POLL_MS,
        }


class TaskParams(types.RequestParams):
    task_id: str


class TaskUpdateParams(TaskParams):
    input_responses: types.InputResponses


tasks: dict[str, Task] = {}


def starts(kind: str) -> Callable[..., Awaitable[Answer]]:
    async def tool(ctx: Ctx, arguments: dict[str, Any], answers: Answers, state: str | None) -> Answer:
        requires(ctx, extensions={TASKS: {}})
        task = Task(kind, arguments)
        tasks[task.id] = task
        return {"resultType": "task", **task.seed(), "status": "working"}

    return tool


def known(ctx: Ctx, params: TaskParams) -> Task:
    requires(ctx, extensions={TASKS: {}})
    if params.task_id not in tasks:
        raise MCPError(types.INVALID_PARAMS, f"unknown task: {params.task_id}")
    return tasks[params.task_id]


async def get_task(ctx: Ctx, params: TaskParams) -> dict[str, Any]:
    task = known(ctx, params)
    return {**task.seed(), **task.state()}


async def update_task(ctx: Ctx, params: TaskUpdateParams) -> dict[str, Any]:
    task = known(ctx, params)
    task.answers |= params.input_responses
    task.changed = datetime.now(timezone.utc)
    return {}


async def cancel_task(ctx: Ctx, params: TaskParams) -> dict[str, Any]:
    task = known(ctx, params)
    if task.state()["status"] in ("working", "input_required"):
        task.cancelled = True
        # The caller is gone, so only stderr can show it.
        print(f"{task.kind} was cancelled", file=sys.stderr, flush=True)
    return {}


# The other tools.


def text(content: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=content)], is_error=is_error)


async def echo(ctx: Ctx, arguments: dict[str, Any], answers: Answers, state: str | None) -> Answer:
    return text(arguments["text"])


async def list_count(ctx: Ctx, arguments: dict[str, Any], answers: Answers, state: str | None) -> Answer:
    return text(str(lists_asked))


async def read_count(ctx: Ctx, arguments: dict[str, Any], answers: Answers, state: str | None) -> Answer:
    return text(str(reads_asked))


async def grow(ctx: Ctx, arguments: dict[str, Any], answers: Answers, state: str | None) -> Answer:
    TOOLS[arguments["name"]] = (tool_of(arguments["name"], {"text": STRING}, ["text"]), echo)
    await bus.publish(ToolsListChanged())
    return text(f"grew {arguments['name']}")


async def touch(ctx: Ctx, arguments: dict[str, Any], answers: Answers, state: str | None) -> Answer:
    await bus.publish(ResourceUpdated(arguments["uri"]))
    return text(f"touched {arguments['uri']}")


async def hang_up(ctx: Ctx, arguments: dict[str, Any], answers: Answers, state: str | None) -> Answer:
    listen.close()
    return text("hung up")


async def headers(ctx: Ctx, arguments: dict[str, Any], answers: Answers, state: str | None) -> Answer:
    """Return the headers that repeat arguments; empty over stdio."""
    came = ctx.request.headers.items() if ctx.request is not None else ()
    return text(json.dumps({name: value for name, value in sorted(came) if name.startswith("mcp-param-")}))


async def meta(ctx: Ctx, arguments: dict[str, Any], answers: Answers, state: str | None) -> Answer:
    """Return the received _meta. The SDK only sends log messages at the requested level."""
    for level in ("debug", "info", "error"):
        await ctx.session.send_log_message(level, f"a line of {level}", "peer", ctx.request_id)
    return text(json.dumps((ctx.params or {}).get("_meta"), sort_keys=True))


async def slow(ctx: Ctx, arguments: dict[str, Any], answers: Answers, state: str | None) -> Answer:
    steps = arguments["steps"]
    try:
        for step in range(1, steps + 1):
            await anyio.sleep(arguments["delay_ms"] / 1000)
            await ctx.session.report_progress(step, steps, f"step {step} of {steps}")
    except anyio.get_cancelled_exc_class():
        # The response cannot show that the work stopped, so stderr does.
        print("slow was cancelled", file=sys.stderr, flush=True)
        raise
    return text(f"finished {steps} steps")


# The lists of tools, prompts and resources.


def tool_of(name: str, properties: dict[str, Any], required: list[str]) -> types.Tool:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return types.Tool(name=name, description=f"The tool {name}.", input_schema=schema)


def header(kind: str, name: Any) -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": name}


STRING, INTEGER, BOOLEAN = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
FORM = {"elicitation": types.ElicitationCapability(form=types.FormElicitationCapability())}
URL = {"elicitation": types.ElicitationCapability(url=types.UrlElicitationCapability())}
MODEL, ROOTS = {"sampling": types.SamplingCapability()}, {"roots": types.RootsCapability()}
ROOM = {"type": "object", "properties": {"city": header("string", "City"), "floor": INTEGER}}

TOOLS: dict[str, tuple[types.Tool, Callable[..., Awaitable[Answer]]]] = {
    name: (tool_of(name, properties, required), run)
    for name, properties, required, run in [
        ("echo", {"text": STRING}, ["text"], echo),
        ("slow", {"steps": INTEGER, "delay_ms": INTEGER}, ["steps", "delay_ms"], slow),
        ("meta", {}, [], meta),
        ("list_count", {}, [], list_count),
        ("read_count", {}, [], read_count),
        ("grow", {"name": STRING}, ["name"], grow),
        ("touch", {"uri": STRING}, ["uri"], touch),
        ("hang_up", {}, [], hang_up),
        ("ask_form", {}, [], asks_for(FORM, name=name_form())),
        ("ask_url", {}, [], asks_for(URL, login=visit())),
        ("ask_model", {}, [], asks_for(MODEL, capital=sample())),
        ("ask_roots", {}, [], asks_for(ROOTS, roots=types.ListRootsRequest())),
        ("ask_all", {}, [], asks_for(FORM | MODEL | ROOTS, a=name_form(), b=sample(), c=types.ListRootsRequest())),
        ("ask_twice", {}, [], ask_twice),
        ("ask_again", {}, [], ask_again),
        ("ask_forever", {}, [], ask_forever),
        (
            "headers",
            {
                "region": header("string", "Region"),
                "count": header("integer", "Count"),
                "urgent": header("boolean", "Urgent"),
                "room": ROOM,
                "plain": STRING,
            },
            [],
            headers,
        ),
        ("bad_header_type", {"a": header("number", "A")}, [], headers),
        ("bad_header_name", {"a": header("string", "not a token")}, [], headers),
        ("bad_header_twice", {"a": header("string", "Same"), "b": header("string", "sAME")}, [], headers),
        ("bad_header_place", {"a": {"type": "array", "items": header("string", "A")}}, [], headers),
        ("task_after", {"ms": INTEGER, "is_error": BOOLEAN}, ["ms"], starts("task_after")),
        ("task_fail", {"ms": INTEGER}, ["ms"], starts("task_fail")),
        ("task_ask", {}, [], starts("task_ask")),
        ("task_forever", {}, [], starts("task_forever")),
    ]
}
lists_asked = reads_asked = 0


async def list_tools(ctx: Ctx, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    global lists_asked
    lists_asked += 1
    return types.ListToolsResult(tools=[tool for tool, _ in TOOLS.values()])


async def call_tool(ctx: Ctx, params: types.CallToolRequestParams) -> Answer:
    if params.name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f"unknown tool: {params.name}")
    _, run = TOOLS[params.name]
    return await run(ctx, params.arguments or {}, params.input_responses or {}, params.request_state)


async def list_prompts(ctx: Ctx, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    name = types.PromptArgument(name="name", required=True)
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(name="greet", description="Ask for a greeting.", arguments=[name]),
            types.Prompt(name="ask", description="Ask who is to be greeted first."),
        ]
    )


async def get_prompt(
    ctx: Ctx, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    match params.name, params.input_responses:
        case "greet", _:
            whom = (params.arguments or {}).get("name", "nobody")
        case "ask", {"name": answer} if params.request_state == AWKWARD:
            whom = describe(answer)
        case "ask", _:
            requires(ctx, **FORM)
            return ask(AWKWARD, name=name_form())
        case name, _:
            raise MCPError(types.INVALID_PARAMS, f"unknown prompt: {name}")
    content = types.TextContent(text=f"Please greet {whom}.")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


async def list_resources(ctx: Ctx, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    resources = [types.Resource(name=name, uri=f"note://{name}", mime_type="text/plain") for name in ("hello", "ask")]
    return types.ListResourcesResult(resources=resources)


async def list_templates(
    ctx: Ctx, params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(name="echo", uri_template="echo://{words}", mime_type="text/plain")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(
    ctx: Ctx, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult | types.InputRequiredResult:
    global reads_asked
    reads_asked += 1
    match params.uri, params.input_responses:
        case "note://hello", _:
            content = "Hello from the note."
        case "note://ask", {"name": answer} if params.request_state == AWKWARD:
            content = f"Hello {describe(answer)}."
        case "note://ask", _:
            requires(ctx, **FORM)
            return ask(AWKWARD, name=name_form())
        case uri, _ if uri.startswith("echo://"):
            content = uri.removeprefix("echo://")
        case uri, _:
            raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
    contents = types.TextResourceContents(uri=params.uri, mime_type="text/plain", text=content)
    return types.ReadResourceResult(contents=[contents])


bus = InMemorySubscriptionBus()
listen = ListenHandler(bus)
server = Server(
    "wharf-peer-mcp2-modern",
    version="1.2.3",
    instructions="Be kind.",
    cache_hints={
        "server/discover": CacheHint(60_000, "public"),
        "tools/list": CacheHint(60_000, "public"),
        "prompts/list": CacheHint(60_000, "public"),
        "resources/list": CacheHint(60_000, "private"),
        "resources/templates/list": CacheHint(0, "private"),
        "resources/read": CacheHint(60_000, "private"),
    },
    # Otherwise the SDK requests the list itself to check headers, which `list_count` would count.
    get_tool_input_schema=lambda name: TOOLS[name][0].input_schema if name in TOOLS else None,
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,
    on_subscriptions_listen=listen,
)
server.extensions[TASKS] = {}
server.add_request_handler("tasks/get", TaskParams, get_task)
server.add_request_handler("tasks/update", TaskUpdateParams, update_task)
server.add_request_handler("tasks/cancel", TaskParams, cancel_task)


async def stdio() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["http", port]:
            # Subscribers never disconnect on their own, so the shutdown must not wait for them.
            uvicorn.run(server.streamable_http_app(), port=int(port), timeout_graceful_shutdown=1)
        case _:
            anyio.run(stdio)
