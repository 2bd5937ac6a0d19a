#!/usr/bin/env python3
"""`qcc compile --traceable` and `qrun --trace-layers`: what each layer left of a prompt's last token, and which one first went wrong."""
import re
import struct

from harness import Harness, TINY

PROMPT = ("-p", "Once upon a time", "--raw", "--greedy", "-q")


def table(stderr):
    """Rows of the table on stderr, each [layer, len, nnz, nan, min, max, mean]."""
    lines = stderr.decode().splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith("layers after the token at position ")), None)
    assert begin is not None, f"no table: {stderr.decode()}"
    assert lines[begin + 1].split() == ["layer", "len", "nnz", "nan", "min", "max", "mean"], lines[begin + 1]
    return [[float(v) for v in line.split()] for line in lines[begin + 2:] if re.match(r" *\d+ ", line)]


def main():
    h = Harness(__doc__)
    plain = h.compile(TINY, "plain.qbin", "--cpu=native", "--goldens=off", "--numerics=f32")
    traceable = h.compile(TINY, "trace.qbin", "--cpu=native", "--goldens=off", "--numerics=f32", "--traceable")
    facts = h.inspect(traceable)
    width = facts["model"]["embedding_length"]
    layers = 1 + max(s["layer"] for s in facts["states"])

    def same_text():
        want = h.run("qrun", plain, *PROMPT, "-n", 24)
        got = h.run("qrun", traceable, *PROMPT, "-n", 24, "--trace-layers")
        assert got == want, f"{got!r}, without traces {want!r}"
    h.case("the text is that of an artifact without traces", same_text)

    def rows():
        first = table(h.tool("qrun", traceable, *PROMPT, "-n", 1, "--trace-layers", "-t", 1).stderr)
        assert [row[0] for row in first] == list(range(layers)), f"layers {[row[0] for row in first]}, expected {layers}"
        for row in first:
            assert row[1] == width and 0 < row[2] <= width and row[3] == 0, row
            assert row[4] < row[6] < row[5], row
        assert len({tuple(row[4:]) for row in first}) == layers, f"layers are alike: {first}"
        other = table(h.tool("qrun", traceable, *PROMPT, "-n", 1, "--trace-layers", "-t", 2).stderr)
        assert other == first, f"another count of threads, other values: {other}, {first}"
    h.case("a row for each layer, the same on one thread and on two", rows)

    def the_states_are_in_inspect():
        kinds = {s["layer"] for s in facts["states"] if s["kind"] == "trace" and s["shape"] == [width]}
        assert kinds == set(range(layers)), kinds
    h.case("inspect lists the states", the_states_are_in_inspect)

    def refused():
        p = h.tool("qrun", plain, *PROMPT, "-n", 1, "--trace-layers")
        assert p.returncode == 4 and b"[Q5326]" in p.stderr and b"--traceable" in p.stderr, (p.returncode, p.stderr)
    h.case("an artifact without traces is refused", refused)

    def from_gguf():
        p = h.tool("qrun", TINY, *PROMPT, "-n", 1, "--trace-layers", "--goldens=off", "--numerics=f32", f"--cache-dir={h.path('cache')}")
        assert p.returncode == 0, p.stderr
        want = table(h.tool("qrun", traceable, *PROMPT, "-n", 1, "--trace-layers").stderr)
        assert table(p.stderr) == want, f"{table(p.stderr)}, of the artifact {want}"
    h.case("of a GGUF, qcc is asked for a traceable artifact", from_gguf)

    def first_bad_layer():
        for bad in (0, layers - 1):
            weight = next(w for w in facts["weights"] if w["name"] == f"blk.{bad}.attn_norm.weight")
            section = facts["sections"][weight["section"]]
            with open(traceable, "rb") as f:
                data = bytearray(f.read())
            struct.pack_into("<f", data, section["offset"] + weight["offset"], float("nan"))
            damaged = h.path("damaged.qbin")
            with open(damaged, "wb") as f:
                f.write(data)
            p = h.tool("qrun", damaged, *PROMPT, "-n", 1)
            says = f"layer {bad} is the first with NaN or infinite values"
            assert p.returncode == 4 and b"[Q5325]" in p.stderr and says.encode() in p.stderr, f"layer {bad}: exit {p.returncode}, {p.stderr}"
    h.case("a numeric fault names the layer where it begins", first_bad_layer)
    h.finish()


if __name__ == "__main__":
    main()
