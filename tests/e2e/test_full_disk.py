#!/usr/bin/env python3
"""A disk that is full, for which a limit of the size of files stands in: each tool says so, with what its user can do, and leaves nothing half-written."""
import os
import resource

import gguf_edit
from harness import TINY
from test_cli import quiet_harness, refused

PROMPT = ("--raw", "-p", "Once upon a time there was a mill by the river, and nobody knew why it stopped.", "-n", 1, "-q")


def limit(size):
    return {resource.RLIMIT_FSIZE: size}


def main():
    h = quiet_harness(__doc__)
    traceable = h.compile(TINY, "all.qbin", "--cpu=native", "--goldens=off", "--traceable=all")
    # A limit that the first row passes and a later one meets: what fits stdio's buffer is written when the file is closed.
    values = h.path("values")
    refused(h, "--dump", 6, "Q6003", ["l_out-0.npy", "free space"], "qrun", traceable, *PROMPT, "--dump", "l_out:0", "--dump-dir", values, limits=limit(2048))
    h.expect("--dump leaves no half of a file", not os.listdir(values), os.listdir(values))

    cache = h.path("prompts")
    os.makedirs(cache)
    command = (traceable, *[word for word in PROMPT if word != "-q"], "--prompt-cache", cache)
    p = h.tool("qrun", *command, limits=limit(2048))
    h.expect("a prompt that cannot be kept is a warning with the reason",
             p.returncode == 0 and b"warning: a prefix of 16 tokens is not kept" in p.stderr and b": File too large" in p.stderr, p.stderr.decode())
    h.expect("--prompt-cache leaves no half of a file", not os.listdir(cache), os.listdir(cache))

    refused(h, "a GGUF", 6, "Q6003", ["another disk", "--cache-dir"], "qcc", "cache", "artifact", TINY, "-q", "--cpu=base", "--goldens=off",
            f"--cache-dir={h.path('cache')}", limits=limit(1 << 20))
    # Of a split model the named shard is the smallest part. A hole takes no room here.
    first, second = gguf_edit.split(TINY, h.path("split"), 2)
    disk = os.statvfs(h.work)
    try:
        os.truncate(second, disk.f_bavail * disk.f_frsize + (1 << 30))
    except OSError as e:
        print(f"skip a model larger than the disk: {e}")
        h.finish()
    refused(h, "all shards count", 6, "Q6003", ["the output needs about"], "qcc", "compile", first, "-o", h.path("shards.qbin"), "-q", "--cpu=base", "--goldens=off",
            timeout=300)
    h.finish()


if __name__ == "__main__":
    main()
