"""What scripts/bench consolidate does: the golden set (tests/golden/consolidate) against the real program.

Each conversation gets a home of its own: its notes, and a transcript in the archive, as if it had ended. What
`agent-consolidate facts` and `commitments` say afterwards is compared with what is to be known; how is told in
tests/golden/consolidate/README.md. The test in src/lib/memory/extract/golden_tests.rs compares in the same way.
"""

import concurrent.futures
import datetime
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import tomllib

BEGIN = "2026-05-04T09:00:00Z"
# Notes were written before anything was said.
NOTED = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc).timestamp()
SETTINGS = """[agent]
name = "golden"
timezone = "Europe/Berlin"
[providers]
load = ["offline"]
[cost]
day_usd = 0.0
"""
NO_WORDS = set("a an the of der die das den dem ein eine einen el la los las un una le les une de o os".split())
KINDS = {"fact": "facts", "past": "what held once", "commitment": "commitments"}


def load(directory):
    """Returns the conversations and the other names of attributes."""
    attributes = tomllib.loads((directory / "attributes.toml").read_text())
    found = []
    for path in sorted(directory.glob("*.toml")):
        if path.name != "attributes.toml":
            file = tomllib.loads(path.read_text())
            found += [{**one, "held_out": file.get("held_out", False)} for one in file["conversation"]]
    return found, attributes


def events(said):
    """The transcript, an event a line."""
    common = itertools.count(1)
    start = datetime.datetime.fromisoformat(BEGIN)
    lines, run = [], 0

    def add(at, event):
        lines.append({"v": 1, "ts": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"), "seq": next(common), **event})

    add(start, {"type": "session", "session_id": "golden", "key": "cli:owner", "contact": "owner", "created_at": BEGIN})
    for number, line in enumerate(said):
        head, words = line.split(": ", 1)
        who, _, at = head.partition(" @ ")
        at = datetime.datetime.fromisoformat(at) if at else start + datetime.timedelta(seconds=number)
        content = [{"type": "text", "text": words}]
        if who in ("user", "other"):
            run += 1
            trust = "owner" if who == "user" else "other"
            add(at, {"type": "message", "role": "user", "run_id": f"r{run}", "trust": trust, "content": content})
        elif who == "tool":
            call = {"type": "tool_call", "id": f"t{number}", "name": "read", "input": {"path": "notes.txt"}}
            add(at, {"type": "message", "role": "assistant", "run_id": f"r{run}", "content": [call]})
            result = {"type": "tool_result", "run_id": f"r{run}", "name": "read", "duration_ms": 1}
            add(at, {**result, "id": f"t{number}", "text": words, "untrusted": True})
        else:
            add(at, {"type": "message", "role": "assistant", "run_id": f"r{run}", "content": content})
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def prepare(home, conversation, settings):
    archive, workspace = home / "state/sessions/archive", home / "workspace"
    for directory in (archive, workspace):
        directory.mkdir(parents=True, mode=0o700)
    if settings:
        for name in ("agent.toml", "providers.d", ".env"):
            source = settings / name
            if source.is_dir():
                shutil.copytree(source, home / name)
            elif source.is_file():
                shutil.copy2(source, home / name)
    else:
        (home / "agent.toml").write_text(SETTINGS)
    for name, text in conversation.get("notes", {}).items():
        (workspace / name).write_text(text)
        os.utime(workspace / name, (NOTED, NOTED))
    if conversation["said"]:
        (archive / "golden.2026-05-04.jsonl").write_text(events(conversation["said"]))


class Trouble(Exception):
    """The program did not do its work."""


def ask(program, home, *arguments, what="stdout"):
    done = subprocess.run([program, "--home", home, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Trouble(f"agent-consolidate {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
    return getattr(done, what)


def plain(text):
    """The words without what makes no difference, as in golden.rs."""
    words = text.lower().replace("’", "'").replace("_", " ").split()
    words = [re.sub(r"^(\d+)(st|nd|rd|th)$", r"\1", word.rstrip(".,;!")) for word in words]
    return " ".join(word for word in words if word not in NO_WORDS)


def fits(wanted, found, attributes):
    """`wanted` is a line of the set; `found` has three fields."""
    who, what, value = ([plain(one) for one in field.split(" / ")] for field in wanted.split(" | "))
    who_found, what_found, value_found = map(plain, found)
    if who_found not in who or value_found not in value:
        return False
    if attributes is None:
        # A commitment: all the words, and up to three more.
        words = what_found.split()
        return any(set(one.split()) <= set(words) and len(words) <= len(one.split()) + 3 for one in what)
    known = {plain(other) for one in wanted.split(" | ")[1].split(" / ") for other in [one, *attributes.get(one, [])]}
    return what_found in known


def spaced(text):
    return " " + " ".join(re.findall(r"[^\W_]+", text.lower())) + " "


def judge(conversation, facts, commitments, attributes):
    """Returns how many were right, found, wanted and missed of each kind, and what is to be said of it."""
    told = []
    score = {kind: {"right": 0, "found": 0, "wanted": 0, "missed": 0} for kind in KINDS}
    lists = {kind: [(one["entity"], one["attribute"], one["value"]) for one in facts if (one["valid_to"] is None) == now]
             for kind, now in (("fact", True), ("past", False))}
    lists["commitment"] = [(one["who"], one["what"], deadline(one["deadline"])) for one in commitments]
    wanted = {"fact": "facts", "past": "past", "commitment": "commitments"}
    also = {"fact": "also", "commitment": "also_commitments"}
    for kind, found in lists.items():
        lines, known = conversation.get(wanted[kind], []), None if kind == "commitment" else attributes
        for one in found if kind != "past" else []:
            is_right = any(fits(line, one, known) for line in lines)
            if is_right or not any(fits(line, one, known) for line in conversation.get(also[kind], [])):
                score[kind]["found"] += 1
                score[kind]["right"] += is_right
                if not is_right:
                    told.append(f"wrong {kind}: {' | '.join(one)}")
        for line in lines:
            score[kind]["wanted"] += 1
            if not any(fits(line, one, known) for one in found):
                score[kind]["missed"] += 1
                told.append(f"missed {kind}: {line}")
    forbidden = 0
    for one in itertools.chain(*lists.values()):
        is_right = any(fits(line, one, attributes) for line in conversation["facts"])
        hit = next((never for never in conversation.get("never", []) if spaced(never) in spaced(" ".join(one))), None)
        if hit and not is_right:
            forbidden += 1
            told.append(f"FORBIDDEN ({hit}): {' | '.join(one)}")
    return {"score": score, "forbidden": forbidden, "told": told}


def deadline(moment):
    if not moment:
        return "-"
    # A moment with its zone: that of the set.
    if re.search(r"(Z|[+-]\d\d:?\d\d)$", moment) and "T" in moment:
        at = datetime.datetime.fromisoformat(moment).astimezone(datetime.timezone(datetime.timedelta(hours=2)))
        return at.strftime("%Y-%m-%dT%H:%M")
    return moment[:16]


def one(program, base, number, conversation, settings, attributes):
    home = base / str(number)
    home.mkdir(mode=0o700)
    try:
        prepare(home, conversation, settings)
        log = ask(program, home, "-v", what="stderr")
        if json.loads(ask(program, home, "status", "--json"))["pending_sessions"]:
            raise Trouble(f"the conversation waits: {log.strip()}")
        facts = json.loads(ask(program, home, "facts", "--all", "--json"))["facts"]
        commitments = json.loads(ask(program, home, "commitments", "--all", "--json"))["commitments"]
        told = judge(conversation, facts, commitments, attributes)
    except (Trouble, OSError, ValueError) as error:
        told = judge(conversation, [], [], attributes)
        told["told"] = [f"FAILED: {error}"]
        told["failed"] = True
    return {"name": conversation["name"], "language": conversation["language"], "held_out": conversation["held_out"], **told}


def total(results, kinds=tuple(KINDS)):
    sums = {what: sum(result["score"][kind][what] for result in results for kind in kinds)
            for what in ("right", "found", "wanted", "missed")}
    sums["precision"] = sums["right"] / sums["found"] if sums["found"] else None
    sums["recall"] = (sums["wanted"] - sums["missed"]) / sums["wanted"] if sums["wanted"] else None
    return sums


def summary(results):
    part = lambda wanted: [result for result in results if wanted(result)]
    groups = {"all": results, "tuned": part(lambda one: not one["held_out"]), "held out": part(lambda one: one["held_out"])}
    languages = sorted({result["language"] for result in results})
    groups |= {f"in {language}": part(lambda one, language=language: one["language"] == language) for language in languages}
    rows = {name: {"conversations": len(group), **total(group), "forbidden": sum(result["forbidden"] for result in group)}
            for name, group in groups.items()}
    kinds = {told: total(results, (kind,)) for kind, told in KINDS.items()}
    return {"groups": rows, "kinds": kinds, "failed": sum(result.get("failed", False) for result in results)}


def table(document):
    share = lambda value: "–" if value is None else f"{value:.3f}".lstrip("0") if value < 1 else "1.000"
    lines = ["| | conversations | precision | recall | must never be |", "|---|---|---|---|---|"]
    for name, row in document["groups"].items():
        found = f"{share(row['precision'])} ({row['right']}/{row['found']})"
        kept = f"{share(row['recall'])} ({row['wanted'] - row['missed']}/{row['wanted']})"
        lines.append(f"| {name} | {row['conversations']} | {found} | {kept} | {row['forbidden']} |")
    for name, row in document["kinds"].items():
        found = f"{share(row['precision'])} ({row['right']}/{row['found']})" if row["found"] else "–"
        lines.append(f"| {name} | | {found} | {share(row['recall'])} ({row['wanted'] - row['missed']}/{row['wanted']}) | |")
    if document["failed"]:
        lines += ["", f"{document['failed']} conversations failed; -v says why."]
    return "\n".join(lines)


def run(program, directory, settings, keep, jobs):
    """Returns (document, results); the homes go unless they are to be kept."""
    conversations, attributes = load(directory)
    base = pathlib.Path(tempfile.mkdtemp(prefix="agent-golden-", dir=keep))
    try:
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            work = [pool.submit(one, program, base, number, conversation, settings, attributes)
                    for number, conversation in enumerate(conversations, 1)]
            results = [job.result() for job in work]
    finally:
        if not keep:
            shutil.rmtree(base, ignore_errors=True)
    return summary(results), results
