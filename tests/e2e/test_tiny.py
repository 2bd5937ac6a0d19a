#!/usr/bin/env python3
"""The trained model: perplexity, greedy continuations and chat against its known answers."""
import json
import os

from harness import GOLDEN, Harness, TINY, WIDER


def models():
    """(name, gguf, known answers of this model): the default model, all three where the wider set is present."""
    folder = os.path.join(WIDER, "tiny")
    if os.path.isfile(os.path.join(folder, "known.json")):
        known = json.load(open(os.path.join(folder, "known.json")))
        return [(n, os.path.join(folder, n + ".gguf"), k) for n, k in known["models"].items()]
    known = json.load(open(os.path.join(GOLDEN, "tiny", "known.json")))
    return [("tiny-qwen35-q8_0", TINY, known["models"]["tiny-qwen35-q8_0"])]


def perplexity(h, qbin):
    out = h.run("qrun", "perplexity", qbin, "-f", os.path.join(GOLDEN, "tiny", "text.txt")).decode()
    return float(out.split()[1])


def main():
    h = Harness(__doc__)
    for name, gguf, known in models():
        f32 = h.compile(gguf, "f32.qbin", "--numerics=f32", "--kv=f32", "--cpu=native")
        int8 = h.compile(gguf, "int8.qbin", "--numerics=int8", "--cpu=native")
        for label, qbin, tolerance in (("f32", f32, 1e-3), ("int8", int8, 1e-2)):
            got, want = perplexity(h, qbin), known["perplexity"]
            h.check(f"{name} perplexity {label}", abs(got / want - 1) <= tolerance, f"{got:.4f}, stated {want:.4f}")
        for case in known["greedy"]:
            out = h.run("qrun", f32, "--raw", "--temp", "0", "--repeat-penalty", "1", "--presence-penalty", "0", "-n", len(case["ids"]), "-p", case["prompt"])
            want = case["text"].removesuffix("<|im_end|>").removesuffix("<|endoftext|>")
            got = out.decode()
            h.check(f"{name} greedy {case['prompt']!r}", got.rstrip("\n") == want.rstrip("\n"), f"got {got!r}, want {want!r}" if got.rstrip("\n") != want.rstrip("\n") else "")
        for case in known["chat"]:
            p = h.tool("qrun", f32, "--temp", "0", "--repeat-penalty", "1", "--presence-penalty", "0", "-n", "256", "--timing=json", "-p", case["user"])
            want = case["text"].removesuffix("<|im_end|>")
            got = p.stdout.decode()
            h.check(f"{name} chat {case['user']!r}", p.returncode == 0 and got.rstrip("\n") == want.rstrip("\n"), f"got {got!r}, want {want!r}" if got.rstrip("\n") != want.rstrip("\n") else "")
            h.check(f"{name} chat {case['user']!r} ends by itself", b'"stop"' in p.stderr or b'"eog"' in p.stderr, p.stderr.decode()[-300:])
    h.finish()


if __name__ == "__main__":
    main()
