"""A homeserver that does what it should not: stands before Synapse, and does to requests what it is told.

A rule is one line of standard input, a JSON object: requests whose "METHOD path" has a match for the regular expression
"match" are treated as "act" says, "times" times (for ever without it). The newest rule counts. What it did are lines of
standard output.

  refuse   answers "status" and "body", and asks Synapse nothing
  swallow  hands it to Synapse, and hangs up without an answer
  hold     answers {} at once, and hands it on when "release" comes
  change   hands it on, and in the answer replaces each regular expression of "words" by its value
  merge    hands it on, and puts "with" into the answer: objects into objects, lists behind lists
"""
import asyncio
import json
import re
import sys

from aiohttp import ClientSession, web

rules, held = [], []
here, there = int(sys.argv[1]), sys.argv[2]
HOP = {"host", "content-length", "transfer-encoding", "content-encoding", "accept-encoding", "connection"}


def out(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def rule_of(what):
    for rule in reversed(rules):
        if re.search(rule["match"], what) and rule.get("times", 1) > 0:
            if "times" in rule:
                rule["times"] -= 1
            return rule
    return {"act": "pass"}


def merged(old, new):
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {key: merged(old[key], value) if key in old else value for key, value in new.items()}
    return old + new if isinstance(old, list) and isinstance(new, list) else new


async def forward(session, method, path, headers, body):
    async with session.request(method, there + path, headers=headers, data=body, allow_redirects=False) as got:
        return got.status, {k: v for k, v in got.headers.items() if k.lower() not in HOP}, await got.read()


async def handle(request):
    session = request.app["session"]
    headers = {k: v for k, v in request.headers.items() if k.lower() not in HOP}
    body = await request.read()
    rule = rule_of(f"{request.method} {request.raw_path}")
    act = rule["act"]
    if act != "pass":
        out({"did": act, "to": f"{request.method} {request.raw_path}", "times": rule.get("times")})
    if act == "refuse":
        return web.json_response(rule["body"], status=rule["status"], headers=rule.get("headers", {}))
    if act == "hold":
        held.append((session, request.method, request.raw_path, headers, body))
        return web.json_response({})
    status, answered, content = await forward(session, request.method, request.raw_path, headers, body)
    if act == "swallow":
        request.transport.close()
    if act == "change":
        text = content.decode()
        for wrong, value in rule["words"].items():
            text = re.sub(wrong, value, text)
        content = text.encode()
    if act == "merge":
        content = json.dumps(merged(json.loads(content), rule["with"])).encode()
    return web.Response(status=status, headers=answered, body=content)


async def main():
    app = web.Application(client_max_size=1 << 26)
    app["session"] = ClientSession(auto_decompress=True)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", here).start()
    out({"ready": here})
    reader = asyncio.StreamReader(limit=1 << 26)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        rule = json.loads(line)
        if rule["act"] == "release":
            for one in held:
                await forward(*one)
            out({"released": len(held)})
            held.clear()
        elif rule["act"] == "forget":
            rules.clear()
            out({"forgot": True})
        else:
            rules.append(rule)
            out({"rule": len(rules)})


asyncio.run(main())
