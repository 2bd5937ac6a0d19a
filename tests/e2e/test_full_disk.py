#!/usr/bin/env python3
"""A disk that is full, for which a limit of the size of files stands in: each tool says so, with what its user can do, and leaves nothing half-written."""
import os
import resource
import struct

import gguf_edit
from harness import TINY
from test_cli import quiet_harness, refused

PROMPT = ("--raw", "-p", "Once upon a time there was a mill by the river, and nobody knew why it stopped.", "-n", 1, "-q")


def limit(size):
    return {resource.RLIMIT_FSIZE: size}


def larger_than_the_disk(h):
    """The first shard of a model whose second one has an embedding of twice the bytes that are free, in a hole, which takes no room. None: there
    cannot be one here."""
    name, columns = "token_embd.weight", gguf_edit.tensor(TINY, "token_embd.weight")[0][0]
    small = gguf_edit.with_tensors(TINY, h.path("last.gguf"), {name}, {name: ([columns, 1], gguf_edit.F32, b"")})
    first, second = gguf_edit.split(small, h.path("split"), 2)
    disk = os.statvfs(h.work)
    rows = 2 * disk.f_bavail * disk.f_frsize // (4 * columns)
    with open(second, "rb+") as f:
        data = f.read()
        extents = data.index(name.encode()) + len(name) + struct.calcsize("<I")
        assert struct.unpack_from("<2QI", data, extents) == (columns, 1, gguf_edit.F32)
        f.seek(extents)
        f.write(struct.pack("<2Q", columns, rows))
        try:
            f.truncate(len(data) + 4 * columns * rows)
        except OSError:
            return None
    return first if rows < 1 << 32 else None  # as many ids as there can be


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
    first = larger_than_the_disk(h)
    if first is None:
        print("skip a model larger than the disk: it takes no file of twice what is free")
    else:
        refused(h, "all shards count", 6, "Q6003", ["the output needs about"], "qcc", "compile", first, "-o", h.path("shards.qbin"), "-q", "--cpu=base", "--goldens=off",
                timeout=300)
    h.finish()


if __name__ == "__main__":
    main()
