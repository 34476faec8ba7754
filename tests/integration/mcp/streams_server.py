"""A server over Streamable HTTP whose streams break off and can be taken up again, made with the official Python SDK."""

import asyncio
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http import EventMessage, EventStore

server = MCPServer("desk")


class Kept(EventStore):
    def __init__(self):
        self.events = []

    async def store_event(self, stream_id, message):
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id, send_callback):
        at = int(last_event_id)
        stream = self.events[at - 1][0]
        for number, (stream_id, message) in enumerate(self.events[at:], at + 1):
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


@server.tool()
async def broken(context: Context) -> str:
    """Answer after the stream broke off twice."""
    for _ in range(2):
        await context.close_sse_stream()
        await asyncio.sleep(0.5)
    return "whole again"


@server.tool()
async def grow(context: Context) -> str:
    """Get another tool, and say so on the other stream."""

    def fresh() -> str:
        """New."""
        return "fresh"

    server.add_tool(fresh)
    asyncio.get_running_loop().create_task(later(context))
    return "grown"


async def later(context):
    await asyncio.sleep(0.3)
    await context.session.send_tool_list_changed()


server.run("streamable-http", port=int(sys.argv[2]), event_store=Kept(), retry_interval=100)
