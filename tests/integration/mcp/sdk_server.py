"""A server made with the official Python SDK, over stdio or Streamable HTTP."""

import asyncio
import sys

from mcp.server.mcpserver import Context, Image, MCPServer
from pydantic import BaseModel

server = MCPServer("desk")


class Place(BaseModel):
    city: str
    country: str = "DE"


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def greet(place: Place, times: int | None = None) -> str:
    """Greet a place."""
    return f"hello {place.city} ({place.country}) x{times or 1}"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("no such thing")


@server.tool()
def picture() -> list:
    """Draw."""
    return ["here it is", Image(data=b"\x89PNG not really", format="png")]


@server.tool()
def photo() -> list:
    """Show a real picture."""
    pixel = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"
    return ["a pixel", Image(data=pixel, format="gif")]


@server.tool()
async def slowly(context: Context) -> str:
    """Take 5 s and say so."""
    for step in range(100):
        await context.report_progress(0, 10, f"begin {step}")
    for step in range(10):
        await asyncio.sleep(0.5)
        await context.report_progress(step + 1, 10, f"step {step + 1}")
    return "at last"


@server.resource("note://today", description="What is on today.")
def today() -> str:
    return "tea at five"


@server.resource("note://{day}", description="What is on one day.")
def of_day(day: str) -> str:
    return f"nothing on {day}"


@server.prompt(description="Greet somebody.")
def greeting(name: str) -> str:
    return f"Say hello to {name}."


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", port=int(sys.argv[2]), json_response=sys.argv[1] == "json")
