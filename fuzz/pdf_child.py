#!/usr/bin/env python3
"""Feeds damaged PDFs to the process that reads PDFs: fuzz/pdf_child.py AGENT_DAEMON [CPU_SECONDS] [SEED].

The parser is a library's, and may fail in any way; what must hold is what its process promises. It ends within its time,
with at most its memory and its output, and by an exit code or a signal that media/pdf.rs knows.
"""

import random
import resource
import signal
import subprocess
import sys
import time
import zlib

WALL, OUTPUT, MEMORY_KB = 31, 4 << 20, 560 << 10
ENDS = {0, 3, 4, 101, -signal.SIGABRT, -signal.SIGXCPU, -signal.SIGKILL, -signal.SIGSEGV, -signal.SIGPIPE, -signal.SIGBUS}
WORDS = [b"/Length 99999999", b"/Filter/FlateDecode", b"/Filter[/ASCIIHexDecode/ASCII85Decode/LZWDecode]", b"/Parent 3 0 R", b"/Kids[2 0 R]",
         b"/Count 2147483647", b"/Type/ObjStm", b"/Type/XRef", b"/Prev 0", b"/Encoding/Identity-H", b"/ToUnicode 4 0 R", b"/DescendantFonts[5 0 R]",
         b"<</Subtype/Type0", b"<</Subtype/Type3", b"/W[1 2 1]", b"/Size 4294967296", b"/Index[0 99999]", b"endobj", b"stream\n", b"R", b"[", b"<<",
         b">>", b"-1", b"1e99", b"(" * 200, b"\\377", b"BT /F1 1e38 Tf (x) Tj ET", b"q " * 300, b"cm", b"TJ", b"Do", b"/Encrypt 5 0 R"]


def made(content, extra=b"", compress=False):
    body = zlib.compress(content) if compress else content
    filter_ = b"/Filter/FlateDecode" if compress else b""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R 3 0 R]/Count 2>>",
               b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 5 0 R>>>>/Contents 4 0 R>>",
               b"<</Length %d%s>>stream\n%s\nendstream" % (len(body), filter_, body),
               b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding" + extra + b">>"]
    file, table = b"%PDF-1.4\n", b"0000000000 65535 f \n"
    for number, text in enumerate(objects, 1):
        table += b"%010d 00000 n \n" % len(file)
        file += b"%d 0 obj\n%s\nendobj\n" % (number, text)
    return file + b"xref\n0 6\n%strailer\n<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (table, len(file))


def mutated(seeds, rng):
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        at, kind = rng.randrange(len(data) + 1), rng.randrange(6)
        if kind == 0 and at < len(data):
            data[at] = rng.randrange(256)
        elif kind == 1:
            data[at:at + rng.randrange(1, 64)] = b""
        elif kind == 2:
            data[at:at] = rng.choice(WORDS)
        elif kind == 3:
            other = rng.choice(seeds)
            begin = rng.randrange(len(other))
            data[at:at] = other[begin:begin + rng.randrange(1, 400)]
        elif kind == 4:
            part = bytes(data[at:at + rng.randrange(1, 120)])
            data[at:at] = part * rng.choice([2, 10, 2000])
        else:
            digits = [i for i, byte in enumerate(data) if 48 <= byte <= 57]
            if digits:
                data[rng.choice(digits)] = rng.choice(b"0123456789-")
    return bytes(data) or b"%"


def main():
    program, budget = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 600.0
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
    rng, ends, worst, runs, said = random.Random(seed), {}, [0.0, 0, 0], 0, 0.0
    page = b"BT /F1 12 Tf 72 700 Td (Total: 12,50) Tj 0 -14 Td (Gr\\374\\337e) Tj [(a) -250 (b)] TJ ET"
    seeds = [made(page), made(page * 40, compress=True), made(page, b"/ToUnicode 4 0 R/FirstChar 0/LastChar 255/Widths[1 2 3]"),
             made(b"q 1 0 0 1 0 0 cm BT /F1 9 Tf (x) Tj ET Q " * 20), made(b"/F1 Do BT ET", b"/Subtype/Type0/DescendantFonts[5 0 R]/Encoding/Identity-H")]
    used = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    print("seed", seed, flush=True)
    while used() < budget:
        data, began = mutated(seeds, rng), time.monotonic()
        child = subprocess.Popen([program, "__pdf"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={})
        try:
            output, _ = child.communicate(data, timeout=WALL)
        except subprocess.TimeoutExpired:
            child.kill()
            output, _ = child.communicate()
            ends["too long"] = ends.get("too long", 0) + 1
        took, peak = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        runs += 1
        ends[child.returncode] = ends.get(child.returncode, 0) + 1
        worst = [max(worst[0], took), max(worst[1], len(output)), peak]
        if took >= WALL or len(output) > OUTPUT or peak > MEMORY_KB or child.returncode not in ENDS:
            name = f"pdf-{seed}-{runs}.pdf"
            with open(name, "wb") as kept:
                kept.write(data)
            sys.exit(f"{name}: {took:.1f} s, {len(output)} bytes, {peak} kB, ended with {child.returncode}")
        if used() - said >= 60:
            said = used()
            print(f"{said:.0f} s, {runs} files, {ends}, at most {worst[0]:.1f} s, {worst[1]} bytes, {worst[2]} kB", flush=True)
    print(f"{used():.0f} s of CPU, {runs} files, ends {ends}; at most {worst[0]:.1f} s, {worst[1]} bytes, {worst[2]} kB")


if __name__ == "__main__":
    main()
