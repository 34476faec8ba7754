"""A server made with the official Python SDK, over stdio or Streamable HTTP."""

import sys

from mcp.server.mcpserver import MCPServer
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


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", port=int(sys.argv[2]), json_response=sys.argv[1] == "json")
