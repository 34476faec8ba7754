"""What a message costs: the released daemon against stand-ins of the Bot API and of a model server, all on this machine.

The stand-ins answer at once, in one process with what measures; their own time is in every figure.
"""

import asyncio
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

TOKEN = "123456789:" + "B" * 35
PEOPLE = range(1001, 1021)
GAP = 0.1
LONGEST_WAIT = 30

CONFIG = """
[pipeline]
debounce_ms = 0
on_busy = "queue"
[telegram]
enabled = true
api_url = "http://127.0.0.1:{telegram}"
token_env = "TELEGRAM_BOT_TOKEN"
owner = {people}
dm_policy = "allowlist"
allow_from = {people}
[providers]
load = ["bench"]
[tools.exec]
policy = "sandboxed"
"""
PROVIDER = """
type = "anthropic"
base_url = "http://127.0.0.1:{model}"
api_key_env = "BENCH_KEY"
[models.primary]
model = "bench"
context_window = 200000
cost_per_mtok = [3.0, 15.0, 0.3, 3.75]
"""


async def requests(reader, writer, answer):
    """Serves one connection: `answer(path, document)` returns the body and its type."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = re.search(rb"(?i)content-length: *(\d+)", head)
            body = await reader.readexactly(int(length[1])) if length else b""
            kind, sent = await answer(head.split(b" ", 2)[1].decode(), body)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s" % (kind, len(sent), sent))
            await writer.drain()
    except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
        pass
    finally:
        writer.close()


class Telegram:
    """The Bot API, as much of it as an answer takes."""

    def __init__(self):
        self.updates, self.first, self.answers, self.polled = [], 1, {}, asyncio.Event()
        self.news = asyncio.Event()

    def say(self, chat, text):
        number = self.first + len(self.updates)
        person = {"id": chat, "is_bot": False, "first_name": "Ada"}
        message = {"message_id": number, "date": int(time.time()), "chat": {"id": chat, "type": "private", "first_name": "Ada"}, "from": person, "text": text}
        self.updates.append({"update_id": number, "message": message})
        self.news.set()

    async def poll(self, offset, seconds):
        self.polled.set()
        gone = max(0, offset - self.first)
        del self.updates[:gone]
        self.first += gone
        if not self.updates:
            self.news.clear()
            try:
                await asyncio.wait_for(self.news.wait(), seconds)
            except asyncio.TimeoutError:
                pass
        return self.updates[:100]

    async def answer(self, path, body):
        method = path.rsplit("/", 1)[1].lower()
        asked = json.loads(body) if body.startswith(b"{") else {}
        result = True
        if method == "getme":
            result = {"id": 123456789, "is_bot": True, "first_name": "Bench", "username": "bench_bot"}
        elif method == "getupdates":
            result = await self.poll(asked.get("offset") or 0, min(asked.get("timeout") or 0, 20))
        elif method == "sendmessage":
            chat = int(asked["chat_id"])
            waits = self.answers.get(chat)
            if waits and waits[0][0] in asked["text"]:
                _, future = waits.pop(0)
                future.set_result(time.perf_counter())
            result = {"message_id": time.monotonic_ns() % 2**31, "date": int(time.time()), "chat": {"id": chat, "type": "private"}, "text": asked["text"]}
        return b"application/json", json.dumps({"ok": True, "result": result}).encode()

    def expect(self, chat, mark):
        future = asyncio.get_running_loop().create_future()
        self.answers.setdefault(chat, []).append((mark, future))
        return future


class Model:
    """A model that repeats the last word it was told, after a command when it is told `run`."""

    def __init__(self):
        self.asked = []

    async def answer(self, _path, body):
        self.asked.append(time.perf_counter())
        content = json.loads(body)["messages"][-1]["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        text = " ".join(str(block.get("text") or block.get("content")) for block in blocks)
        mark = re.findall(r"mark\d+", text)[-1]
        is_result = any(block["type"] == "tool_result" for block in blocks)
        if f"run {mark}" in text and not is_result:
            block, part = {"type": "tool_use", "id": f"call_{mark}", "name": "exec", "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps({"command": f"echo {mark}"})}
            stop = "tool_use"
        else:
            block, part, stop = {"type": "text", "text": ""}, {"type": "text_delta", "text": f"heard {mark}"}, "end_turn"
        usage = {"input_tokens": 2000, "output_tokens": 10}
        events = [
            {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "bench", "content": [], "stop_reason": None, "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": part},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage},
            {"type": "message_stop"},
        ]
        return b"text/event-stream", "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


class Daemon:
    """The daemon in a home of its own."""

    def __init__(self, programs, home, telegram):
        self.program, self.home, self.telegram, self.process = programs / "agent-daemon", home, telegram, None

    async def start(self):
        """Returns the seconds until it asks for messages."""
        environment = {"PATH": os.environ["PATH"], "AGENT_HOME": str(self.home), "TELEGRAM_BOT_TOKEN": TOKEN, "BENCH_KEY": "k"}
        self.telegram.polled.clear()
        began = time.perf_counter()
        with open(self.home / "bench.log", "ab") as log:
            self.process = subprocess.Popen([self.program], env=environment, cwd=self.home, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        await asyncio.wait_for(self.telegram.polled.wait(), LONGEST_WAIT)
        return time.perf_counter() - began

    async def stop(self):
        self.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(self.process.wait)

    def cpu(self):
        """Returns the CPU time of it and of its children that have ended, seconds."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def pss(self):
        """Returns the memory that is its own, with its share of what others use too, bytes."""
        text = pathlib.Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return int(re.search(r"(?m)^Pss: +(\d+)", text)[1]) * 1024


async def one_by_one(daemon, telegram, model, count, verb, number):
    """Returns the seconds of each message, those of them before the model was asked, and the CPU time of one."""
    took, before, cpu = [], [], daemon.cpu()
    for _ in range(count):
        await asyncio.sleep(GAP)
        chat, mark = PEOPLE[number % 5], f"mark{number}"
        number += 1
        answered, began, asked = telegram.expect(chat, mark), time.perf_counter(), len(model.asked)
        telegram.say(chat, f"{verb} {mark}")
        took.append(await asyncio.wait_for(answered, LONGEST_WAIT) - began)
        before.append(model.asked[asked] - began)
    return took, before, (daemon.cpu() - cpu) / count, number


async def burst(telegram, each, number):
    """Returns how many messages a second are answered when every person sends `each` at once."""
    began, waits = time.perf_counter(), []
    for _ in range(each):
        for chat in PEOPLE:
            waits.append(telegram.expect(chat, f"mark{number}"))
            telegram.say(chat, f"say mark{number}")
            number += 1
    await asyncio.wait_for(asyncio.gather(*waits), LONGEST_WAIT)
    return len(waits) / (time.perf_counter() - began)


async def measure(programs, count, idle):
    """Returns the rows of the table: figure, goal, median, 99th of 100, what bounds it."""
    telegram, model = Telegram(), Model()
    servers = [await asyncio.start_server(lambda r, w, a=part.answer: requests(r, w, a), "127.0.0.1", 0, limit=2**24) for part in (telegram, model)]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    home = pathlib.Path(tempfile.mkdtemp(prefix="agent-bench-"))
    daemon = Daemon(programs, home, telegram)
    try:
        (home / "providers.d").mkdir()
        (home / "agent.toml").write_text(CONFIG.format(telegram=ports[0], people=list(PEOPLE)))
        (home / "providers.d/bench.toml").write_text(PROVIDER.format(model=ports[1]))
        first = await daemon.start()
        starts = []
        for _ in range(8):
            await daemon.stop()
            starts.append(await daemon.start())
        _, _, _, number = await one_by_one(daemon, telegram, model, 10, "say", 1)
        plain, before, cpu, number = await one_by_one(daemon, telegram, model, count, "say", number)
        tool, _, tool_cpu, number = await one_by_one(daemon, telegram, model, max(20, count // 3), "run", number)
        rates = [await burst(telegram, 10, number + 200 * turn) for turn in range(3)]
        await asyncio.sleep(idle)
        pss = daemon.pss()
    finally:
        if daemon.process and daemon.process.poll() is None:
            await daemon.stop()
        shutil.rmtree(home)
    size = (programs / "agent-daemon").stat().st_size
    return [
        ("a message", "5 / 25 ms", *of_times(plain), "the stand-ins; five syncs of the disk, one after another"),
        ("– of it before the model is asked", "", *of_times(before), "three syncs"),
        ("CPU time of a message", "2.5 ms", f"{cpu * 1000:.1f} ms", "", "the kernel: waking threads, writing pages of the log"),
        ("a message with a command", "13 ms", *of_times(tool), "the sandbox; two calls of the model"),
        ("CPU time of one", "", f"{tool_cpu * 1000:.1f} ms", "", "namespaces and mounts, four processes"),
        ("20 chats × 10 messages at once", "1,000/s", f"{statistics.median(rates):,.0f}/s", "", "one thread that writes"),
        ("start to the first poll, again", "15 ms", *of_times(starts), "opening the databases, looking at the home"),
        ("– in an empty home", "", f"{first * 1000:.0f} ms", "", "making files and tables"),
        (f"PSS, idle for {idle:g} s", "12 MB", f"{pss / 1e6:.1f} MB", "", "pages of the program file"),
        ("the program file", "20 MB", f"{size / 1e6:.1f} MB", "", "code made for our own types"),
    ]


def of_times(seconds):
    """Returns the median and the 99th of 100, as text."""
    ordered = sorted(seconds)
    last = ordered[min(len(ordered) - 1, round(0.99 * (len(ordered) - 1)))]
    return f"{statistics.median(ordered) * 1000:.1f} ms", f"{last * 1000:.1f} ms"


def table(rows):
    """Returns the rows as Markdown."""
    head = ("figure", "goal", "median", "p99", "what bounds it")
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))
