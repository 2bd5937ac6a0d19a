#!/usr/bin/env python3
"""`qcc compile --traceable` and `qrun --trace-layers`: what each layer left of a prompt's last token, and which one first went wrong."""
import ast
import math
import os
import re
import signal
import struct
import subprocess
import time

from harness import Harness, TINY, contents

PROMPT = ("-p", "Once upon a time", "--raw", "--greedy", "-q")


def table(stderr):
    """Rows of the table on stderr, each [layer, len, nnz, nan, min, max, mean]."""
    lines = stderr.decode().splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith("layers after the token at position ")), None)
    assert begin is not None, f"no table: {stderr.decode()}"
    assert lines[begin + 1].split() == ["layer", "len", "nnz", "nan", "min", "max", "mean"], lines[begin + 1]
    return [[float(v) for v in line.split()] for line in lines[begin + 2:] if re.match(r" *\d+ ", line)]


def rows_of(path):
    """The rows of a file of --dump."""
    with open(path, "rb") as f:
        data = f.read()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    size = struct.unpack_from("<H", data, 8)[0]
    header = ast.literal_eval(data[10:10 + size].decode())
    assert (10 + size) % 64 == 0 and header["descr"] == "<f4" and not header["fortran_order"], header
    count, length = header["shape"]
    values = struct.unpack_from(f"<{count * length}f", data, 10 + size)
    assert len(data) == 10 + size + 4 * count * length, f"{len(data)} bytes of {header}"
    return [values[i * length:(i + 1) * length] for i in range(count)]


def rounded(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def dumps(h, plain, traceable):
    """`qcc compile --traceable=all` and `qrun --dump`: values inside of layers, against each other and against the traces of layers."""
    full = h.compile(TINY, "all.qbin", "--cpu=native", "--goldens=off", "--numerics=f32", "--traceable=all")
    folder = h.path("values")
    names = "attn_norm:*,attn_gate:*,Qcur:3,attn_residual:*,ffn_gate:*,ffn_up:*,ffn_swiglu:*,ffn_out:*,l_out:*"

    def text():
        p = h.tool("qrun", full, *PROMPT, "-n", 24, "--dump", names, "--dump-dir", folder)
        want = h.run("qrun", plain, *PROMPT, "-n", 24)
        assert p.returncode == 0 and p.stdout == want, f"{p.stdout!r}, without traces {want!r}: {p.stderr}"
        listed = {line.split()[0]: line.split()[1:] for line in p.stderr.decode().splitlines() if line.endswith(".npy")}
        tokens = len(h.run("qrun", "tokenize", plain, *PROMPT[:2]).split())
        assert listed["attn_gate:0"][0] == str(tokens) and listed["l_out:7"] == [str(tokens), "256", folder + "/l_out-7.npy"], listed
        assert sorted(os.listdir(folder)) == sorted(os.path.basename(entry[2]) for entry in listed.values()), listed
    h.case("--dump lists what it writes, and the text is the same", text)

    def sums():
        for layer in range(8):
            out, inner, ffn = (rows_of(f"{folder}/{role}-{layer}.npy") for role in ("l_out", "attn_residual", "ffn_out"))
            gate, up, hidden = (rows_of(f"{folder}/{role}-{layer}.npy") for role in ("ffn_gate", "ffn_up", "ffn_swiglu"))
            for row in range(len(out)):
                assert all(rounded(a + b) == c for a, b, c in zip(inner[row], ffn[row], out[row])), f"layer {layer}, row {row}: the sum is another"
                for g, u, value in zip(gate[row], up[row], hidden[row]):
                    want = g / (1 + math.exp(-g)) * u
                    assert abs(value - want) <= 1e-5 * (1 + abs(want)), f"layer {layer}, row {row}: {value}, expected {want}"
    h.case("residual + ffn_out is l_out, silu(gate) * up is what goes into it", sums)

    def norms():
        facts = h.inspect(full)
        with open(full, "rb") as f:
            data = f.read()
        for layer in range(1, 8):
            weight = next(w for w in facts["weights"] if w["name"] == f"blk.{layer}.attn_norm.weight")
            scale = struct.unpack_from("<256f", data, facts["sections"][weight["section"]]["offset"] + weight["offset"])
            for x, y in zip(rows_of(f"{folder}/l_out-{layer - 1}.npy"), rows_of(f"{folder}/attn_norm-{layer}.npy")):
                factor = 1 / math.sqrt(sum(v * v for v in x) / len(x) + 1e-6)
                assert all(abs(v * factor * s - w) <= 1e-4 * (1 + abs(w)) for v, s, w in zip(x, scale, y)), f"layer {layer}"
    h.case("attn_norm is the norm of the layer before", norms)

    def last_rows():
        for name, (layer, _, _, _, low, high, mean) in ((f"l_out-{int(row[0])}.npy", row) for row in table(h.tool("qrun", traceable, *PROMPT, "-n", 1, "--trace-layers").stderr)):
            last = rows_of(f"{folder}/{name}")[-1]
            assert all(abs(a - b) <= 1e-3 * (1 + abs(b)) for a, b in ((min(last), low), (max(last), high), (sum(last) / len(last), mean))), f"layer {layer}"
    h.case("the last rows are those of --trace-layers, of a fused artifact", last_rows)

    def refused():
        inside = h.tool("qrun", full, *PROMPT, "-n", 1, "--dump", "l_out:0,Qcur_normed:3", "--dump-dir", folder)
        assert inside.returncode == 0 and b"Qcur_normed:3 was fused into qk_norm_rope_store" in inside.stderr, inside.stderr
        for qbin, name, code, *words in ((full, "Qcur_normed:3", 4, b"[Q5326]", b"was fused into qk_norm_rope_store"),
                                         (traceable, "ffn_gate:0", 4, b"[Q5326]", b"was fused into linear_swiglu"),
                                         (plain, "Qcur:3", 4, b"[Q5326]", b"--traceable=all"),
                                         (full, "attn_nrm:1", 2, b"did you mean attn_norm?"),
                                         (full, "l_out:8", 2, b"no value 'l_out:8'", b"l_out:* names all"),
                                         (full, "l_out:x", 2, b"is no ROLE:LAYER")):
            p = h.tool("qrun", qbin, *PROMPT, "-n", 1, "--dump", name, "--dump-dir", folder)
            assert p.returncode == code and all(word in p.stderr for word in words), f"{name}: exit {p.returncode}, {p.stderr}"
    h.case("names that are none, and values that are not kept, are told with the reason", refused)

    def interrupted():
        before = {name: contents(os.path.join(folder, name)) for name in os.listdir(folder)}
        for times in (1, 2):
            process = subprocess.Popen([os.path.join(h.args.bin, "qrun"), full, "-p", "word " * 4000, *PROMPT[2:], "-n", "1", "--dump", "*:*", "--dump-dir", folder],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            limit = time.monotonic() + 300
            while sum(len(names) for _, _, names in os.walk(folder)) == len(before):
                assert process.poll() is None and time.monotonic() < limit, f"nothing is written: exit {process.poll()}"
                time.sleep(0.001)
            for _ in range(times):
                process.send_signal(signal.SIGINT)
            process.communicate()
            assert process.returncode == 130, f"exit {process.returncode}"
            left = os.listdir(folder)
            assert sorted(left) == sorted(before), f"{times} Ctrl-C: {sorted(set(left) ^ set(before))}"
            changed = [name for name, data in before.items() if contents(os.path.join(folder, name)) != data]
            assert not changed, f"{times} Ctrl-C: {changed}"
    h.case("Ctrl-C, once or twice, leaves an earlier dump as it was", interrupted)


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
    dumps(h, plain, traceable)
    h.finish()


if __name__ == "__main__":
    main()
