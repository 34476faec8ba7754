"""A day of many people in a few minutes: the released daemon between stand-ins of the Bot API and of a model server.

The day is compressed, the model is not: an answer takes as long as a real one. So a day in 8 minutes is 180 times as many
messages a second as these people write in a real one. Each person writes when they want to, whether or not they were answered
(else a slow daemon would be asked less), and a message is a turn of its own. The stand-ins and the driver are one process beside
the daemon; what they take of the machine is printed.
"""

import asyncio
import bisect
import dataclasses
import json
import math
import os
import pathlib
import random
import re
import resource
import shutil
import statistics
import tempfile
import time

import message

SEED = 20260504
HOURS = 24
# How much is written in each hour from midnight on: little at night, a peak at nine in the evening, when 8 % of a day are.
PROFILE = (1.4, 0.8, 0.5, 0.3, 0.3, 0.7, 1.8, 3.2, 4.4, 4.9, 5.0, 5.1, 5.6, 5.4, 4.9, 4.9, 5.1, 5.6, 6.2, 7.2, 8.0, 8.2, 6.2, 3.3)
# Messages of a person: log-normal, so that a tenth of the people write a third of all. Nobody writes without end.
SPREAD, MOST_MESSAGES = 0.9, 60
# So often somebody writes again a moment later, while the answer is being written.
AGAIN, MOMENT = 0.15, (0.5, 3.0)
# Seconds that the model takes: median, spread (log-normal), and where it is cut.
MODEL, MODEL_SPREAD, MODEL_MOST = 3.0, 0.5, 12.0
# Characters of a message and of an answer: median and spread, and the most.
QUESTION, ANSWER, MOST_CHARS = (60, 0.7), (350, 0.7), 3000
# How long it may take to answer the last ones.
LAST = 120
WORDS = """the and you that was for are with what have when this how not about time can would there which one could more know
like than want some then only come work good day over think also after use two way because any give most week house garden train
dinner doctor school meeting letter birthday ticket weather music window kitchen morning evening report budget holiday""".split()

CONFIG = """
[agent]
max_concurrent_runs = {people}
[cost]
day_usd = 0.0
[pipeline]
debounce_ms = 0
on_busy = "queue"
[telegram]
enabled = true
api_url = "http://127.0.0.1:{telegram}"
token_env = "TELEGRAM_BOT_TOKEN"
owner = [1]
dm_policy = "open"
[providers]
load = ["bench"]
"""


@dataclasses.dataclass
class Said:
    """A message, and what became of it; times by the one clock of this process."""

    person: int
    text: str
    at: float = 0.0
    # When the model was asked and answered, the last time.
    asked: float = 0.0
    thought: float = 0.0
    calls: int = 0
    # When each answer to it arrived.
    answers: list = dataclasses.field(default_factory=list)


class Telegram(message.Telegram):
    """The Bot API; every answer is noted at the message it answers."""

    def __init__(self, said):
        super().__init__()
        self.said, self.calls, self.order, self.missing = said, {}, {}, len(said)
        self.done = asyncio.Event()

    async def answer(self, path, body):
        method = path.rsplit("/", 1)[1]
        self.calls[method] = self.calls.get(method, 0) + 1
        if method.lower() == "sendmessage":
            asked = json.loads(body)
            mark = re.search(r"mark(\d+)", asked["text"])
            if mark:
                self.answered(int(asked["chat_id"]), int(mark[1]))
        return await super().answer(path, body)

    def answered(self, chat, number):
        one = self.said[number]
        one.answers.append(time.perf_counter())
        self.order.setdefault(chat, []).append(number)
        if len(one.answers) == 1:
            self.missing -= 1
            if not self.missing:
                self.done.set()


class Model:
    """A model that takes its time and repeats the mark of what it is asked."""

    def __init__(self, said, rng):
        self.said, self.rng, self.running, self.most, self.bytes = said, rng, 0, 0, 0

    async def answer(self, _path, body):
        content = json.loads(body)["messages"][-1]["content"]
        text = content if isinstance(content, str) else " ".join(str(block.get("text")) for block in content)
        number = int(re.findall(r"mark(\d+)", text)[-1])
        one, seconds = self.said[number], min(MODEL_MOST, lognormal(self.rng, MODEL, MODEL_SPREAD))
        words = f"mark{number} {sentence(self.rng, ANSWER)}"
        one.calls, one.asked = one.calls + 1, time.perf_counter()
        self.bytes += len(body)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(seconds)
        self.running -= 1
        one.thought = time.perf_counter()
        usage = {"input_tokens": 2000, "output_tokens": len(words) // 4}
        events = [
            {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "bench", "content": [], "stop_reason": None, "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
            {"type": "message_stop"},
        ]
        return b"text/event-stream", "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def lognormal(rng, median, spread):
    return rng.lognormvariate(math.log(median), spread)


def sentence(rng, length):
    """Returns words of about as many characters as such a text has."""
    chars, words, count = min(MOST_CHARS, lognormal(rng, *length)), [], 0
    while count < chars:
        words.append(rng.choice(WORDS))
        count += len(words[-1]) + 1
    return " ".join(words)


def plan(people, each, seconds):
    """Returns (when, person), in the order of the day, `seconds` long; the same each time."""
    rng, planned, hour = random.Random(f"{SEED} {people}"), [], seconds / HOURS
    for person in range(people):
        left, at = min(MOST_MESSAGES, max(1, round(lognormal(rng, each, SPREAD)))), None
        while left:
            if at is not None and rng.random() < AGAIN:
                at += rng.uniform(*MOMENT)
            else:
                at = (rng.choices(range(HOURS), PROFILE)[0] + rng.random()) * hour
            planned.append((at, 10_000 + person))
            left -= 1
    return sorted(planned)


def marked(planned):
    """Returns the messages, each with a mark by which its answer is known."""
    rng = random.Random(f"{SEED} words")
    return [Said(person, f"{sentence(rng, QUESTION)} mark{number}") for number, (_, person) in enumerate(planned)]


async def talk(planned, said, telegram):
    """Says all of it, each at its time; returns by how much the latest was late."""
    began, late = time.perf_counter(), 0.0
    for (at, person), one in zip(planned, said):
        wait = began + at - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        one.at = time.perf_counter()
        late = max(late, one.at - began - at)
        telegram.say(person, one.text)
    return late


async def watch(daemon, seen):
    """Looks at the daemon's memory and the machine's load once a second, for ever."""
    while True:
        seen.append((daemon.pss(), os.getloadavg()[0]))
        await asyncio.sleep(1)


def sizes(home):
    """Returns the bytes that a home takes of the disk: conversations, databases, logs, all else."""
    sums = {"conversations": 0, "databases": 0, "logs": 0, "else": 0}
    for path in home.rglob("*"):
        if not path.is_file():
            continue
        part = path.relative_to(home).parts
        kind = "logs" if "logs" in part or path.name in ("bench.log", "audit.jsonl") else "conversations" if "sessions" in part else "databases" if ".db" in path.name else "else"
        sums[kind] += path.stat().st_blocks * 512
    return sums


def written(daemon):
    """Returns the bytes that the daemon had written to the disk so far."""
    return int(re.search(r"(?m)^write_bytes: (\d+)", pathlib.Path(f"/proc/{daemon.process.pid}/io").read_text())[1])


async def run(daemon, planned, said, parts, idle):
    """The day, in a daemon that runs; returns what was seen from outside."""
    telegram, model = parts
    seen, before, disk = [], sizes(daemon.home), written(daemon)
    cpu, own, began = daemon.cpu(), time.process_time(), time.perf_counter()
    watching = asyncio.create_task(watch(daemon, seen))
    late = await talk(planned, said, telegram)
    try:
        await asyncio.wait_for(telegram.done.wait(), LAST)
    except asyncio.TimeoutError:
        pass
    took = time.perf_counter() - began
    # What is done after an answer belongs to it, and a second answer would come now.
    await asyncio.sleep(2)
    figures = {"seconds": took, "late": late, "cpu": daemon.cpu() - cpu, "own_cpu": time.process_time() - own, "disk_written": written(daemon) - disk}
    watching.cancel()
    figures["peak"], figures["load"] = max(pss for pss, _ in seen), statistics.mean(load for _, load in seen)
    await asyncio.sleep(idle)
    figures |= {"after": daemon.pss(), "idle": idle, "models": model.most, "model_bytes": model.bytes, "calls": telegram.calls}
    await daemon.stop()
    figures["disk"] = {kind: size - before[kind] for kind, size in sizes(daemon.home).items()}
    return figures


async def measure(programs, people, minutes, each, idle, keep):
    """Returns (what held, figures)."""
    # A call of the model is a connection at each end.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    planned = plan(people, each, minutes * 60)
    said = marked(planned)
    parts = telegram, _ = Telegram(said), Model(said, random.Random(f"{SEED} model"))
    servers = [await asyncio.start_server(lambda r, w, a=part.answer: message.requests(r, w, a), "127.0.0.1", 0, limit=2**24, backlog=1000) for part in parts]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    home = pathlib.Path(tempfile.mkdtemp(prefix="agent-bench-", dir=keep))
    daemon = message.Daemon(programs, home, telegram)
    try:
        (home / "providers.d").mkdir()
        (home / "agent.toml").write_text(CONFIG.format(telegram=ports[0], people=people))
        (home / "providers.d/bench.toml").write_text(message.PROVIDER.format(model=ports[1]))
        await daemon.start()
        figures = await run(daemon, planned, said, parts, idle)
    finally:
        if daemon.process and daemon.process.poll() is None:
            await daemon.stop()
        if not keep:
            shutil.rmtree(home)
    hour = minutes * 60 / HOURS
    figures |= {"people": people, "minutes": minutes, "messages": len(said), "busiest": busiest([at for at, _ in planned], hour) / hour}
    return held(said, telegram.order), figures | times(said)


def busiest(moments, width):
    """Returns the most messages in any stretch of the day that is `width` seconds long; `moments` are in order."""
    return max(number + 1 - bisect.bisect_left(moments, at - width) for number, at in enumerate(moments))


def held(said, order):
    """Returns how many messages were not answered, were answered twice, and stand behind a later one of their chat."""
    swapped = sum(sum(later < earlier for earlier, later in zip(numbers, numbers[1:])) for numbers in order.values())
    return {"unanswered": sum(not one.answers for one in said), "doubled": sum(len(one.answers) > 1 for one in said), "out of order": swapped}


def times(said):
    """Returns the seconds of each answered message, split: the model, waiting for one's own message before, the rest."""
    before, parts = {}, {"all": [], "model": [], "behind": [], "rest": []}
    for one in said:
        if not one.answers:
            continue
        at, model = one.answers[0], one.thought - one.asked
        behind = max(0.0, before.get(one.person, 0.0) - one.at)
        before[one.person] = at
        for name, seconds in (("all", at - one.at), ("model", model), ("behind", behind), ("rest", at - one.at - model - behind)):
            parts[name].append(seconds)
    return {"times": parts, "asked": sum(one.calls for one in said)}


def of(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def summary(figures):
    """Returns the figures without the times of each message, for JSON."""
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    parts = {name: {key: of(values, share) for key, share in shares.items()} for name, values in figures["times"].items() if values}
    return {**figures, "times": parts}


def table(what_held, document):
    """Returns all of it as Markdown; `document` is a summary."""
    count, people, disk = document["messages"], document["people"], document["disk"]
    span = lambda name: " / ".join(f"{document['times'][name][key]:.3g} s" for key in ("p50", "p95", "p99"))
    calls = ", ".join(f"{method} {number:,}" for method, number in sorted(document["calls"].items()))
    rows = [
        ("what", "measured"),
        ("---", "---"),
        ("people, messages, length of the day", f"{people:,}, {count:,}, {document['minutes']:g} min (then {document['seconds'] - document['minutes'] * 60:+.0f} s)"),
        ("unanswered / answered twice / out of order", " / ".join(str(number) for number in what_held.values())),
        ("the busiest hour", f"{document['busiest']:.1f} messages/s; up to {document['models']:,} answers of the model at a time"),
        ("message to answer, p50 / p95 / p99", span("all")),
        ("– of it the model", span("model")),
        ("– waiting for the answer to one's own message before", span("behind")),
        ("– all else: the daemon and the stand-ins", span("rest")),
        ("CPU time of the daemon", f"{document['cpu'] / count * 1000:.1f} ms a message, {document['cpu'] / document['seconds']:.2f} of a core over the day"),
        ("CPU time of stand-ins and driver", f"{document['own_cpu'] / count * 1000:.1f} ms a message"),
        (f"PSS: at most, and {document['idle']:g} s after", f"{document['peak'] / 1e6:.1f} MB, {document['after'] / 1e6:.1f} MB"),
        ("disk a person", f"{sum(disk.values()) / people / 1000:.1f} kB: " + ", ".join(f"{kind} {size / people / 1000:.1f}" for kind, size in disk.items())),
        ("written to the disk", f"{document['disk_written'] / count / 1000:.0f} kB a message"),
        ("calls of the model, a request of it; calls of the Bot API", f"{document['asked']:,}, {document['model_bytes'] / document['asked'] / 1000:.1f} kB; {calls}"),
        ("load of the machine, mean; the latest message of the driver", f"{document['load']:.1f}; {document['late'] * 1000:.0f} ms late"),
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
