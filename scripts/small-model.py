#!/usr/bin/env python3
"""Measures whether a small model calls the tools that it is offered: scripts/small-model.py URL [--model NAME] [--tasks N].

URL is an OpenAI-compatible server, such as llama-server at http://127.0.0.1:8080/v1. The agent is asked 24 times for one
thing that one tool does, each time in a new conversation: with `cron`, `schedule_message` and `sessions_spawn` described
outright (as for a model that reads its cache at a quarter of the price), then by name only, behind `more_tools` (as for any
other model). A task is done when the job is there and due at the right time, or the sub-agent was started; what the model
says counts for nothing. The home is made here and removed again. Not part of the gate.
"""

import argparse
import datetime
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ("cron", "schedule_message", "sessions_spawn")
# What is asked, and what is to come of it: a day and an hour, a schedule, or a sub-agent.
TASKS = [
    ("Remind me tomorrow at 9 to call Mum.", ("at", 1, 9, 0)),
    ("Every Monday at 8 remind me to put out the paper.", ("cron", [1], 8, 0)),
    ("Look in the background which files my workspace has.", ("spawn",)),
    ("Remind me tomorrow at 7:30 to water the plants.", ("at", 1, 7, 30)),
    ("Every day at 7 say good morning to me.", ("cron", None, 7, 0)),
    ("Start a sub-agent that sums up AGENTS.md.", ("spawn",)),
    ("Send me a message tomorrow at 18:00: take out the bins.", ("at", 1, 18, 0)),
    ("Each Friday at 16:30 ask me for my hours.", ("cron", [5], 16, 30)),
    ("In the background, find out how much disk is free.", ("spawn",)),
    ("Please remind me in two days at noon to pay the rent.", ("at", 2, 12, 0)),
    ("Remind me every Sunday at 19:00 to plan the week.", ("cron", [0], 19, 0)),
    ("Have a sub-agent count the words of SOUL.md.", ("spawn",)),
    ("Tomorrow at 8 in the morning tell me to take my pills.", ("at", 1, 8, 0)),
    ("Every weekday at 9:15 remind me of the stand-up.", ("cron", [1, 2, 3, 4, 5], 9, 15)),
    ("Look into the history of the bicycle in the background and report.", ("spawn",)),
    ("Remind me tomorrow at 20:15 that the film begins.", ("at", 1, 20, 15)),
    ("Every Wednesday at 12 remind me to order lunch.", ("cron", [3], 12, 0)),
    ("Do this in the background: list the Markdown files here.", ("spawn",)),
    ("Set a reminder for tomorrow 10:00: dentist.", ("at", 1, 10, 0)),
    ("Every evening at 22:00 remind me to lock the door.", ("cron", None, 22, 0)),
    ("Start a background task that checks which Python is installed.", ("spawn",)),
    ("Remind me in three days at 17:00 to buy flowers.", ("at", 3, 17, 0)),
    ("Each Tuesday at 6 in the morning remind me of the market.", ("cron", [2], 6, 0)),
    ("Let somebody else look up in the background what my notes say of Porto.", ("spawn",)),
]


class Recorder(http.server.BaseHTTPRequestHandler):
    """Passes requests on to the model and notes their size."""

    url = ""
    seen = []

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.pass_on(None)

    def do_POST(self):
        self.pass_on(self.rfile.read(int(self.headers["Content-Length"])))

    def pass_on(self, body):
        path = self.path.removeprefix("/v1")
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, body, headers)
        if body:
            body = json.loads(body)
            note = {"bytes": len(request.data), "tools": len(json.dumps(body.get("tools", []))), "tokens": None}
            self.seen.append(note)
        try:
            with urllib.request.urlopen(request, timeout=1800) as answer:
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.headers.get("Content-Type", ""))
                self.end_headers()
                for line in answer:
                    if body and b'"prompt_tokens"' in line:
                        usage = json.loads(line.removeprefix(b"data: ")).get("usage") or {}
                        note["tokens"] = usage.get("prompt_tokens")
                    self.wfile.write(line)
        except urllib.error.HTTPError as error:
            self.send_response(error.code)
            self.end_headers()
            self.wfile.write(error.read())


class Home:
    """An agent of its own, with one model."""

    def __init__(self, programs, port, model, outright):
        self.programs, self.made = programs, tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.made.name)
        self.run("agent-daemon", "init", "--yes")
        (self.path / "agent.toml").write_text(
            '[agent]\ntimezone = "UTC"\nmax_turns = 6\n[providers]\nload = ["local"]\n'
            "[memory.recall]\nmax_tokens = 0\n[pipeline]\ndebounce_ms = 0\n[cost]\nday_usd = 0.0\n"
        )
        rates = "[1.0, 1.0, 0.1, 1.0]" if outright else "[0, 0, 0, 0]"
        (self.path / "providers.d" / "local.toml").write_text(
            f'type = "openai"\nbase_url = "http://127.0.0.1:{port}/v1"\n[models.primary]\nmodel = "{model}"\n'
            f"max_tokens = 120\ncontext_window = 131072\ncost_per_mtok = {rates}\n"
        )
        log = open(self.path / "log", "w")
        self.daemon = subprocess.Popen([self.programs / "agent-daemon", "run"], env=self.env(), stdout=log, stderr=log)
        while json.loads(self.run("agent-send", "--status", "--json") or "{}").get("running") is not True:
            time.sleep(0.2)

    def env(self):
        return {**os.environ, "AGENT_HOME": str(self.path)}

    def run(self, program, *words):
        told = subprocess.run([self.programs / program, *words], env=self.env(), capture_output=True, text=True)
        return told.stdout

    def end(self):
        self.daemon.terminate()
        self.daemon.wait()
        self.made.cleanup()

    def jobs(self):
        return {job["id"]: job for job in json.loads(self.run("agent-send", "--job", "list", "--json"))["jobs"]}

    def calls(self):
        """Returns the names of the tools that were called, also by way of `more_tools`."""
        found = []
        for file in sorted((self.path / "state" / "sessions").glob("*.jsonl")):
            for line in file.read_text().splitlines():
                event = json.loads(line)
                for block in event.get("content") or [] if event.get("type") == "message" else []:
                    if block.get("type") == "tool_call":
                        asked = block.get("input") or {}
                        is_meant = block["name"] == "more_tools" and "input" in asked
                        found.append(str(asked.get("name")) if is_meant else block["name"])
        return found


def is_due(job, wanted):
    """Returns whether a job runs when it was asked for."""
    now = datetime.datetime.now(datetime.timezone.utc)
    if not job.get("next_at"):
        return False
    at = datetime.datetime.fromisoformat(job["next_at"].replace("Z", "+00:00"))
    kind, days, hour, minute = wanted
    if (at.hour, at.minute) != (hour, minute):
        return False
    if kind == "at":
        return (at.date() - now.date()).days == days and str(job["schedule"]).startswith("at ")
    weekday = str(job["schedule"]).split()[-1].strip("'}\"")
    named = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
    meant = set()
    for part in weekday.lower().split(","):
        ends = [named.get(end, int(end) % 7 if end.isdigit() else None) for end in part.split("-")]
        if None in ends:
            return days is None and weekday == "*"
        meant |= set(range(ends[0], ends[-1] + 1))
    return days is not None and meant == set(days)


class Count:
    """What came of the tasks with one way to offer the tools."""

    def __init__(self, programs, port, model, outright):
        self.name = "outright" if outright else "by name"
        self.home = Home(programs, port, model, outright)
        self.tasks, self.called, self.done, self.first = 0, 0, 0, None

    def ask(self, asked, wanted):
        home = self.home
        before, calls = home.jobs(), len(home.calls())
        Recorder.seen.clear()
        home.run("agent-send", "--wait=1800", "--session", f"task{self.tasks}", asked)
        new = [job for id, job in home.jobs().items() if id not in before]
        made = home.calls()[calls:]
        is_done = "sessions_spawn" in made if wanted == ("spawn",) else any(is_due(job, wanted) for job in new)
        for id in home.jobs():
            home.run("agent-send", "--job", "remove", id)
        self.first = self.first or dict(Recorder.seen[0]) if Recorder.seen else self.first
        self.tasks, self.done = self.tasks + 1, self.done + is_done
        self.called += any(name in TOOLS for name in made)
        print(f"  {self.name:8} {'done' if is_done else '-':4} {asked} {made}", file=sys.stderr, flush=True)

    def shown(self):
        return {"tools": self.name, "first_request": self.first, "tasks": self.tasks, "called": self.called, "done": self.done}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--model", default="default", help="its name, where the server has several")
    parser.add_argument("--tasks", type=int, default=len(TASKS), help="only the first so many")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target" / "release", help="where the programs are")
    arguments = parser.parse_args()
    Recorder.url = arguments.url.rstrip("/")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    counts = [Count(arguments.bin, server.server_port, arguments.model, outright) for outright in (True, False)]
    # In turn, so that whatever else the machine does falls on both.
    for asked, wanted in TASKS[: arguments.tasks]:
        for count in counts:
            count.ask(asked, wanted)
    for count in counts:
        count.home.end()
        print(json.dumps(count.shown()))


if __name__ == "__main__":
    main()
