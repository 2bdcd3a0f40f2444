"""A server on the mcp 1.x SDK, which many servers in use are still built on.

It serves stdio, or with `http PORT` Streamable HTTP at /mcp, or with `sse PORT`
the older HTTP+SSE at /sse. It has the tools of mcp2_server.py, so that one test
can run against both SDKs and show their differences.
"""

import base64
import os
import sys

import anyio
from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.server.fastmcp.exceptions import ToolError

# One red pixel, the smallest image that a decoder accepts.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC"
)

server = FastMCP("wharf-peer-mcp1")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def echo(text: str) -> str:
    """Return the text unchanged."""
    return text


@server.tool()
async def slow(steps: int, delay_ms: int, ctx: Context) -> str:
    """Wait delay_ms for each of the steps, and report progress after each."""
    try:
        for step in range(1, steps + 1):
            await anyio.sleep(delay_ms / 1000)
            await ctx.report_progress(step, steps, f"step {step} of {steps}")
    except anyio.get_cancelled_exc_class():
        # The response cannot show that the work stopped, so stderr does.
        print("slow was cancelled", file=sys.stderr, flush=True)
        raise
    return f"finished {steps} steps"


@server.tool()
def crash() -> str:
    """End the process at once, without a reply."""
    # sys.exit would let the SDK clean up, unlike a real crash.
    os._exit(7)


@server.tool()
def fail(reason: str) -> str:
    """Fail with the reason."""
    raise ToolError(reason)


@server.tool()
def picture() -> Image:
    """Return a picture of one pixel."""
    return Image(data=PNG, format="png")


@server.prompt()
def greet(name: str) -> str:
    """Ask for a greeting."""
    return f"Please greet {name}."


@server.resource("note://hello", mime_type="text/plain")
def hello() -> str:
    """A short note."""
    return "Hello from the note."


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["http", port]:
            server.settings.port = int(port)
            server.run("streamable-http")
        case ["sse", port]:
            server.settings.port = int(port)
            server.run("sse")
        case _:
            server.run("stdio")
