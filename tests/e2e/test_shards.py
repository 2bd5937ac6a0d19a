#!/usr/bin/env python3
"""A split model compiles to one artifact whichever of its shards is named, and computes what the whole file does."""
import os

import gguf_edit
from harness import TINY, Harness, contents

QUICK = ("--cpu=base", "--decode=1", "--prefill=32")


def refused(h, name, path, code, *says):
    p = h.tool("qcc", "compile", path, "-o", h.path("none.qbin"), *QUICK)
    text = p.stderr.decode()
    h.check(name, p.returncode == 3 and f"[{code}]" in text and all(word in text for word in says) and not os.path.exists(h.path("none.qbin")), text)


def overwriting(h, shards, tokens):
    """No output takes the place of a shard, whichever of them is named."""
    before = [contents(shard) for shard in shards]
    link = h.path("link.qbin")
    os.symlink(shards[2], link)
    for name, command in (("compile", ["compile", shards[0], "-o", shards[1], *QUICK]),
                          ("compile with what is known from before", ["compile", shards[1], "-o", shards[0], f"--cache-dir={h.cache}", *QUICK]),
                          ("compile onto a link", ["compile", shards[0], "-o", link, *QUICK]),
                          ("eval", ["eval", shards[0], "--tokens", tokens, "-o", shards[1]])):
        p = h.tool("qcc", *command)
        h.check(f"{name}: a shard is no output", p.returncode == 2 and b"[Q0103]" in p.stderr and [contents(shard) for shard in shards] == before,
                f"exit {p.returncode}: {p.stderr.decode()}")


def main():
    h = Harness(__doc__)
    shards = gguf_edit.split(TINY, h.path("tiny"), 3)
    whole = h.compile(TINY, "whole.qbin", *QUICK)
    made = [contents(h.compile(shard, "split.qbin", *QUICK)) for shard in shards]
    h.check("any shard gives the same artifact", made[0] == made[1] == made[2])
    tokens = h.path("ids.txt")
    with open(tokens, "w") as f:
        f.write("940 1209 937 44 32 451 1266")
    h.check("the same logits as the whole file", h.logits(h.path("split.qbin"), tokens) == h.logits(whole, tokens))
    said = h.inspect(h.path("split.qbin"))["provenance"]
    h.check("its source is the set", (said["source_name"], said["source_bytes"]) == (os.path.basename(shards[0]), sum(map(os.path.getsize, shards))), str(said))
    report = h.inspect(shards[1])
    h.check("inspect of a shard: the set", report["shards"] == {"number": None, "count": 3} and report["refusals"] == [] and
            report["tensors"] == h.inspect(TINY)["tensors"], str(report["refusals"]))
    evaluated = []
    for model in (TINY, shards[2]):
        h.run("qcc", "eval", model, "--tokens", tokens, "-o", h.path("eval.bin"))
        evaluated.append(contents(h.path("eval.bin")))
    h.check("qcc eval of a shard", evaluated[0] == evaluated[1])

    overwriting(h, shards, tokens)
    os.rename(shards[1], h.path("kept"))
    refused(h, "a missing shard", shards[0], "Q1404", "shard 2 of 3", os.path.basename(shards[1]))
    report = h.inspect(shards[2])
    h.check("inspect of a shard without its siblings", report["shards"] == {"number": 2, "count": 3} and "Q1404" in [r["code"] for r in report["refusals"]], str(report["refusals"]))
    with open(shards[1], "wb") as f:
        f.write(contents(shards[2]))
    refused(h, "a doubled shard", shards[0], "Q1405", "shard 3 of 3", "expected shard 2 of 3")
    os.rename(h.path("kept"), shards[1])
    alone = h.path("renamed.gguf")
    os.rename(shards[1], alone)
    refused(h, "a shard by another name", alone, "Q1401", "shard 2 of 3")
    h.finish()


if __name__ == "__main__":
    main()
