#!/usr/bin/env python3
"""Promise 4: the bits of the logits do not depend on how a prompt is split, the bucket or the number of threads."""
from harness import Harness, TINY, goldens


def main():
    h = Harness(__doc__)
    models = [(name, gguf, tokens) for name, gguf, tokens, _, _ in goldens(formats=("F32", "Q8_0", "Q4_K_M"))]
    for (name, gguf, tokens), numerics in h.share((model, numerics) for model in models for numerics in ("f32", "int8")):
        qbin = h.compile(gguf, "m.qbin", f"--numerics={numerics}", "--cpu=native", "--prefill=16,64")
        want = h.logits(qbin, tokens, "-t", 1)
        n = want[0]
        splits = ["1", "3,5", "8", "2", "4", "7", "16", "17", "33"] + [f"{k},{n - k}" for k in (1, 2, 3, 31, 48, n - 1)]
        for threads in (1, 2, 3):
            for split in [None] + (splits if threads == 1 else ["1", "5,7", "16"]):
                options = ["-t", threads] + (["--split", split] if split else [])
                got = h.logits(qbin, tokens, *options)
                h.check(f"{name} {numerics} -t {threads} --split {split}", got == want, "" if got == want else "bits differ from one call on one thread")
    if h.first():
        two_way(h)
        two_way_golden(h)
        long_context(h)
    h.finish()


def two_way(h):
    """Every 2-way split of a short prompt on the default model."""
    ids = [940, 1209, 937, 44, 32, 451, 1266, 278, 262, 3036, 327, 891, 1508, 2138, 315, 49, 57, 55, 51, 44]
    tokens = h.path("ids.txt")
    with open(tokens, "w") as f:
        f.write(" ".join(map(str, ids)) + "\n")
    qbin = h.compile(TINY, "tiny.qbin", "--cpu=native")
    want = h.logits(qbin, tokens)
    for k in range(1, len(ids)):
        got = h.logits(qbin, tokens, "--split", f"{k},{len(ids) - k}")
        h.check(f"tiny split {k}+{len(ids) - k}", got == want)


def two_way_golden(h):
    """Every 2-way split of a short prompt on a golden with delta-rule and attention layers, in both numerics, on one thread and on two. 19 tokens are
    more than a block of the delta rule and than the largest bucket (16 both), so long parts are cut once more."""
    (_, gguf, tokens), = [(name, gguf, tokens) for name, gguf, tokens, _, _ in goldens(formats=("Q8_0",)) if name == "t35-q-Q8_0"]
    with open(tokens) as f:
        ids = f.read().split()[:19]
    short = h.path("short.txt")
    with open(short, "w") as f:
        f.write(" ".join(ids))
    for numerics in ("f32", "int8"):
        qbin = h.compile(gguf, "two.qbin", f"--numerics={numerics}", "--cpu=native", "--decode=1,4", "--prefill=16")
        want = h.logits(qbin, short, "-t", 1)
        h.check(f"golden {numerics}: {len(ids)} rows", want[0] == len(ids))
        for threads in (1, 2):
            wrong = [k for k in range(1, len(ids)) if h.logits(qbin, short, "-t", threads, "--split", f"{k},{len(ids) - k}") != want]
            h.check(f"golden {numerics} -t {threads}: every 2-way split", not wrong, f"bits differ when cut behind tokens {wrong}" if wrong else "")


def long_context(h):
    """Attention goes over more than 512 tokens in parts, which threads share where rows are few."""
    ids = [(i * i * 7 + i * 13 + 5) % 2000 for i in range(1060)]
    tokens = h.path("long.txt")
    with open(tokens, "w") as f:
        f.write(" ".join(map(str, ids)))
    for numerics in ("f32", "int8"):
        qbin = h.compile(TINY, "long.qbin", f"--numerics={numerics}", "--cpu=native")
        want = h.logits(qbin, tokens, "-t", 1)
        h.check(f"long {numerics}: {len(ids)} rows", want[0] == len(ids))
        for threads, split in ((3, None), (1, "508,8,1"), (2, "1"), (3, "500,8,4,1"), (5, "700,2")):
            got = h.logits(qbin, tokens, "-t", threads, *(["--split", split] if split else []))
            h.check(f"long {numerics} -t {threads} --split {split}", got == want)


if __name__ == "__main__":
    main()
