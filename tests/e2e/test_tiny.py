#!/usr/bin/env python3
"""The trained model: perplexity, greedy continuations and chat against its known answers, and one text on levels of CPUs."""
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


PLAIN = ["--temp", "0", "--repeat-penalty", "1", "--presence-penalty", "0"]


def answer(h, name, qbin, case, prompt, limit, *options):
    """One continuation: its text to the last byte, how many tokens it has and why it ends. A stated answer ends with an end token, which is counted
    and not printed, or was cut at the number of tokens it has."""
    p = h.tool("qrun", qbin, *options, *PLAIN, "-n", limit, "--timing=json", "-p", prompt)
    want = case["text"].removesuffix("<|im_end|>").removesuffix("<|endoftext|>")
    reason = "length" if want == case["text"] else "stop"
    got = p.stdout.decode()
    h.check(name, p.returncode == 0 and got == want, "" if got == want else f"got {got!r}, want {want!r}")
    t = json.loads(p.stderr.decode().strip().split("\n")[-1])
    found = (t["reason"], t["generated_tokens"], t["prompt_tokens"])
    stated = (reason, len(case["ids"]), len(case["prompt_ids"]))
    h.check(f"{name}: end, tokens, prompt tokens", found == stated, f"{found}, stated {stated}")


def ids(h, name, qbin, case):
    """The stated ids, not only a text that many ids spell: behind the prompt and the ids before it, each is the highest logit."""
    fed = case["prompt_ids"] + case["ids"][:-1]
    with open(h.path("ids.txt"), "w") as f:
        f.write(" ".join(map(str, fed)))
    rows, columns, values = h.logits(qbin, h.path("ids.txt"))
    found = []
    for row in range(len(case["prompt_ids"]) - 1, rows):
        logits = values[row * columns:(row + 1) * columns]
        found.append(logits.index(max(logits)))
    h.check(f"{name}: ids", found == case["ids"], "" if found == case["ids"] else f"{found}, stated {case['ids']}")


def one_text(h, name, qbin):
    """Levels of CPUs multiply and add in other orders and roundings: in f32 that changes none of 256 greedy tokens."""
    texts = {t["isa"]: h.run("qrun", qbin, "--raw", *PLAIN, "-n", 256, "--ignore-eos", "--device=cpu", "--draft=off", "--cpu", t["isa"], "-p", "KING RICHARD III:\n")
             for t in h.inspect(qbin)["targets"]}
    if len(texts) == 1:
        print("skip one text on two levels: this machine has the lowest alone")
        return
    same = len(set(texts.values())) == 1 and len(texts["base"]) > 256
    h.check(f"{name}: 256 greedy tokens are one text on {' and '.join(texts)}", same, "" if same else str(texts))


def main():
    h = Harness(__doc__)
    for name, gguf, known in models():
        f32 = h.compile(gguf, "f32.qbin", "--numerics=f32", "--kv=f32", "--cpu=base,native")
        int8 = h.compile(gguf, "int8.qbin", "--numerics=int8", "--cpu=native")
        one_text(h, name, f32)
        for label, qbin, tolerance in (("f32", f32, 1e-3), ("int8", int8, 1e-2)):
            got, want = perplexity(h, qbin), known["perplexity"]
            h.check(f"{name} perplexity {label}", abs(got / want - 1) <= tolerance, f"{got:.4f}, stated {want:.4f}")
        for case in known["greedy"]:
            label = f"{name} greedy {case['prompt']!r}"
            answer(h, label, f32, case, case["prompt"], len(case["ids"]), "--raw")
            ids(h, label, f32, case)
        for case in known["chat"]:
            label = f"{name} chat {case['user']!r}"
            h.check(f"{label} is stated to end by itself", case["ends"])
            answer(h, label, f32, case, case["user"], 256)
            ids(h, label, f32, case)
        ends = {case["text"].endswith(">") for case in known["greedy"]}
        h.check(f"{name}: some stated continuations end by themselves, some were cut", ends == {True, False}, str(ends))
    h.finish()


if __name__ == "__main__":
    main()
