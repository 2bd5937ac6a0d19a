#!/usr/bin/env python3
"""The artifact: equal bytes from equal input, ISA levels, damage, buckets, inspection, atomic writing."""
import ctypes
import ctypes.util
import functools
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import time

import gguf_edit
from harness import ROOT, TINY, Harness, contents, goldens, nmse, read_logits

LADDERS = ["--decode=1,4", "--prefill=32"]
F32_LIMIT = 1e-9  # f32 numerics, f32 KV: as for the goldens
NOBODY = 65534


def determinism(h, gguf, qbin):
    """`qbin` again under another name, from another folder, in another environment, on one core."""
    folder = h.path("elsewhere")
    os.makedirs(os.path.join(folder, "tmp"))
    shutil.copy(gguf, folder)
    environment = {"TZ": "Pacific/Chatham", "LC_ALL": "C", "HOME": "/", "TMPDIR": os.path.join(folder, "tmp"), "PATH": os.environ["PATH"]}
    environment |= {name: value for name, value in os.environ.items() if name in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS")}
    subprocess.run([os.path.abspath(os.path.join(h.args.bin, "qcc")), "compile", os.path.basename(gguf), "-o", "renamed.qbin", "-q", "--no-cache",
                    f"--cpu={','.join(h.levels[-1:] + h.levels[:-1])}", "--prefill=32", "--decode=4,1"],
                   cwd=folder, env=environment, check=True, preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}))
    a, b = contents(qbin), contents(os.path.join(folder, "renamed.qbin"))
    first = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    h.check("two compiles give equal bytes", a == b, "" if a == b else f"{len(a)} and {len(b)} bytes, the first difference at {first}")
    h.check("no path, user or folder of this machine in the artifact", not any(word.encode() in a for word in (h.work, os.path.dirname(gguf), folder)))
    h.check("temporary files are removed", not os.listdir(os.path.join(folder, "tmp")), str(os.listdir(os.path.join(folder, "tmp"))))


def levels(h, qbin, gguf, tokens, reference, limit):
    want = read_logits(reference)
    devices = h.run("qrun", "devices", qbin).decode()
    runs = [n for n in h.levels if re.search(rf"cpu {n}\b.*runs here", devices)]
    h.check("devices tells of each level", all(f"cpu {n}" in devices for n in h.levels) and "base" in runs, devices)
    got = {}
    for name in h.levels:
        if name not in runs:
            needs = re.search(rf"cpu {name}\b.*", devices).group(0)
            p = h.tool("qrun", "logits", qbin, "--tokens", tokens, "-o", h.path("none.bin"), "--cpu", name)
            h.check(f"level {name} is refused here, by the feature's name", p.returncode == 5 and b"[Q5001]" in p.stderr, f"{needs}; {p.stderr.decode()}")
            continue
        got[name] = h.logits(qbin, tokens, "--cpu", name)
        error = nmse(got[name], want)
        h.check(f"level {name} against the golden", error <= limit, f"NMSE {error:.2e}, limit {limit:.2e}")
        h.check(f"level {name}: threads and split change no bit", h.logits(qbin, tokens, "--cpu", name, "-t", 3, "--split", "5,9") == got[name])
    for name in runs[1:]:
        error = nmse(got[name], got["base"])
        h.check(f"levels {name} and base agree", error <= limit, f"NMSE {error:.2e}, limit {limit:.2e}")
    best = [n for n in reversed(h.levels) if n in runs][0]
    h.check("the best level is the default", h.logits(qbin, tokens) == got[best], best)
    text = h.compile(TINY, "text.qbin", f"--cpu=base,{best}", "--goldens=off", "--decode=8", "--prefill=8")
    for asked, options in ((best, ()), (best, ("--cpu", best)), ("base", ("--cpu", "base"))):
        p = h.tool("qrun", text, "--raw", "-p", "x", "-n", 1, "--timing=json", *options)
        ran = json.loads(p.stderr)["cpu"] if p.returncode == 0 else p.stderr.decode()
        h.check(f"--timing names the level that ran, {' '.join(options) or 'the best of this machine'}", ran == asked, f"{ran}, expected {asked}")
    lacking = [n for n in h.levels if n not in runs]
    if lacking:
        only = h.compile(gguf, "only.qbin", f"--cpu={lacking[0]}", *LADDERS)
        p = h.tool("qrun", only, "--raw", "-p", "x")
        missing = set(re.findall(r"\w+", p.stderr.decode())) & set(h.run("qcc", "targets").decode().split())
        h.check(f"an artifact of {lacking[0]} alone is refused, by the feature's name", p.returncode == 5 and b"[Q5001]" in p.stderr and missing, p.stderr.decode())
    else:
        print("skip an artifact of a level that this machine lacks: it has all")


def levels_f32(h, gguf, tokens, reference):
    """f32 numerics are the reference on every level, not only on the best that this machine has (which test_golden.py takes)."""
    want = read_logits(reference)
    qbin = h.compile(gguf, "f32.qbin", f"--cpu={','.join(h.levels)}", "--numerics=f32", "--kv=f32", *LADDERS)
    devices = h.run("qrun", "devices", qbin).decode()
    for name in h.levels:
        if not re.search(rf"cpu {name}\b.*runs here", devices):
            print(f"skip level {name} in f32: this machine lacks it")
            continue
        error = nmse(h.logits(qbin, tokens, "--cpu", name), want)
        h.check(f"level {name} in f32 against the golden", error <= F32_LIMIT, f"NMSE {error:.2e}, limit {F32_LIMIT:.0e}")


def refusal(p):
    """What is wrong with the way an artifact was refused; empty if nothing."""
    err = p.stderr.decode(errors="replace")
    if p.returncode != 4:
        return f"exit {p.returncode}: {err[-300:]}"
    if p.stdout or not re.match(r"(qrun|qcc): error: .+ \[Q40\d\d\]\n  note: ", err):
        return f"stdout {p.stdout!r}, stderr {err!r}"
    return ""


def damage(h, qbin):
    rng = random.Random(20)
    data = contents(qbin)
    report = h.inspect(qbin)
    sections = report["sections"]
    path = h.path("damaged.qbin")

    def attempt(name, data, command=("qrun",), tail=("--raw", "-p", "x", "-n", "1")):
        with open(path, "wb") as f:
            f.write(data)
        wrong = refusal(h.tool(command[0], *command[1:], path, *tail))
        h.check(name, not wrong, wrong)

    edges = [s["offset"] + d for s in sections for d in (-1, 0, 1)] + [s["offset"] + s["size"] - 1 for s in sections]
    for size in sorted({0, 1, 7, 8, 16, 47, 48, 49, 87, 88, 4095, 4096, len(data) - 1, *edges, *(rng.randrange(len(data)) for _ in range(8))}):
        attempt(f"cut to {size} bytes", data[:size])
    attempt("one byte more", data + b"\0")
    attempt("another megabyte", data + bytes(1 << 20))

    def flipped(at, bit):
        return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1:]

    areas = [("header", 0, 48), ("table", 48, 48 + 40 * len(sections))]
    areas += [(f"{s['kind']} {s['index']}", s["offset"], s["offset"] + s["size"]) for s in sections if s["kind"] != "weights"]
    gaps = [(a["offset"] + a["size"], b["offset"]) for a, b in zip(sections, sections[1:])]
    areas += [("padding", *max(gaps, key=lambda g: g[1] - g[0]))]
    for name, begin, end in areas:
        for at in [begin, end - 1] + [rng.randrange(begin, end) for _ in range(6)]:
            attempt(f"flip in {name} at {at}", flipped(at, rng.randrange(8)))
    weights = [s for s in sections if s["kind"] == "weights"]
    for s in weights:
        for at in [s["offset"], s["offset"] + s["size"] - 1] + [s["offset"] + rng.randrange(s["size"]) for _ in range(4)]:
            attempt(f"flip in weights at {at}: qrun check", flipped(at, rng.randrange(8)), ("qrun", "check"), ())
        attempt("flip in weights: qcc verify", flipped(s["offset"] + s["size"] // 2, 0), ("qcc", "verify"), ())
    attempt("flip in code: qcc inspect", flipped(sections[0]["offset"] + 100, 0), ("qcc", "inspect"), ())
    attempt("flip in code: qrun devices", flipped(sections[0]["offset"] + 100, 0), ("qrun", "devices"), ())
    attempt("cut: qcc inspect", data[:5000], ("qcc", "inspect"), ())
    h.check("the whole one passes", h.tool("qrun", "check", qbin).returncode == 0)


KEYS = {
    "schema": int, "file_bytes": int, "format": dict, "identity": str, "model": dict, "numerics": str, "kv": str, "sections": list, "targets": list,
    "formats": list, "memory": dict, "programs": list, "states": list, "tokenizer": dict, "sampling": (dict, type(None)),
    "chat_template_section": (int, type(None)), "goldens_section": (int, type(None)), "provenance": dict,
}
INNER = {
    "format": ["major", "minor", "required_features"],
    "model": ["arch", "name", "vocab_size", "logits_stride", "context_length", "embedding_length"],
    "sections": ["index", "kind", "offset", "size", "alignment", "optional", "hash"],
    "targets": ["target", "isa", "features", "section", "code_bytes", "weights_section"],
    "formats": ["name", "tensors", "source_bytes", "packed_bytes"],
    "memory": ["weights_bytes", "scratch_bytes", "state_bytes_per_sequence", "rewindable_state_bytes_per_sequence", "kv_bytes_per_token"],
    "programs": ["name", "takes", "given_cols", "stream", "advances", "leaves", "gives", "rows", "scratch_bytes", "dispatches", "barriers", "weight_bytes", "logits_cols"],
    "states": ["name", "kind", "layer", "shape", "element", "offset", "bytes"],
    "tokenizer": ["pre", "bos", "eos", "eot", "pad", "add_bos", "eog", "section"],
    "provenance": ["compiler", "source_name", "source_bytes", "source_hash", "options"],
}


def inspection(h, gguf, qbin):
    report = h.inspect(qbin)
    wrong = [k for k, t in KEYS.items() if not isinstance(report.get(k), t)]
    h.check("inspect --json: the documented keys", not wrong and report["schema"] == 2, ", ".join(wrong))
    for key, names in INNER.items():
        rows = report[key] if isinstance(report[key], list) else [report[key]]
        missing = {n for row in rows for n in names if n not in row}
        h.check(f"inspect --json: keys of {key}", rows and not missing, ", ".join(sorted(missing)))
    sections = report["sections"]
    h.check("inspect: the sections are the file", sections[-1]["offset"] + sections[-1]["size"] == report["file_bytes"] == os.path.getsize(qbin)
            and all(s["offset"] % s["alignment"] == 0 and a["offset"] + a["size"] <= s["offset"] for a, s in zip(sections, sections[1:])))
    # Of the kernel that takes most: a panel of weights, sums of others and rows put together (LinearScratch), or keys, values, queries and sums of attention.
    model = {t["thread_scratch_bytes"] for t in report["targets"]}
    h.check("inspect: scratch of a thread", len(model) == 1 and all(0 < b <= 1 << 20 and b % 64 == 0 for b in model), str(model))
    h.check("inspect: levels, best first", [t["isa"] for t in report["targets"]] == h.levels[::-1])
    programs = {p["name"]: p for p in report["programs"]}
    h.check("inspect: a program for each kind and bucket", {"decode_1", "decode_4", "prefill_32", "head_8"} <= set(programs), str(programs))
    names = [s["name"] for s in report["states"]]
    does = {n: [p[k] for k in ("takes", "stream", "advances", "leaves", "gives")] for n, p in programs.items()}
    # Decode goes on from its rows to logits in place, so that none are left.
    h.check("inspect: what programs take, advance, leave and give", does["decode_1"] == [["tokens"], None, names, None, "chosen_logits"]
            and does["prefill_32"] == [["tokens"], None, names, "trunk", "nothing"] and does["head_8"] == [["stream"], "trunk", [], None, "chosen_logits"], str(does))
    states, memory = report["states"], report["memory"]
    kv = [s for s in states if s["kind"] == "kv"]
    layers = {s["layer"] for s in states}
    h.check("inspect: KV per token is the sum of its states", kv and sum(s["bytes"] for s in kv) == memory["kv_bytes_per_token"])
    h.check("inspect: state per sequence holds conv and delta states", {s["kind"] for s in states} == {"conv", "delta", "kv"}
            and sum(s["bytes"] for s in states if s["kind"] != "kv") <= memory["state_bytes_per_sequence"], str(layers))
    # Every fourth layer of this model attends, the others are delta nets.
    kinds = {layer: sorted(s["kind"] for s in states if s["layer"] == layer) for layer in sorted(layers)}
    h.check("inspect: each layer's kinds of state, and their bytes", kinds == {i: ["kv"] if i % 4 == 3 else ["conv", "delta"] for i in range(len(kinds))}
            and all(s["name"].startswith(f"blk.{s['layer']}.") and s["bytes"] > 0 for s in states), str(kinds))
    packed, weights = sum(f["packed_bytes"] for f in report["formats"]), sum(s["size"] for s in sections if s["kind"] == "weights")
    h.check("inspect: the formats' table is the weights, but for alignment", packed <= memory["weights_bytes"] == weights <= packed * 1.02, f"{packed}, {memory}, section {weights}")
    h.check("inspect: provenance", report["provenance"]["source_name"] == os.path.basename(gguf) and report["provenance"]["source_bytes"] == os.path.getsize(gguf))
    text = h.run("qcc", "inspect", qbin).decode()
    h.check("inspect as text", all(word in text for word in ("sections", "targets", "formats", "memory", "programs", "provenance", report["identity"])))
    wide = h.inspect(h.compile(gguf, "wide.qbin", "--cpu=native", "--kv=f32", "--numerics=f32", *LADDERS))
    h.check("--kv=f32 takes twice the KV", wide["kv"] == "f32" and wide["numerics"] == "f32" and wide["memory"]["kv_bytes_per_token"] == 2 * memory["kv_bytes_per_token"])
    basis(h, qbin)


class Basis:
    """Bytes of what code relies on: numbers as 64 bits, texts and lists behind their length."""
    def __init__(self):
        self.bytes = bytearray()

    def numbers(self, *values):
        for value in values:
            self.bytes += struct.pack("<Q", value & (2**64 - 1))

    def text(self, value):
        self.numbers(len(value.encode()))
        self.bytes += value.encode()

    def each(self, values, put):
        self.numbers(len(values))
        for value in values:
            put(value)

    def hash(self):
        class Hash(ctypes.Structure):
            _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]
        library = ctypes.CDLL(ctypes.util.find_library("xxhash"))
        library.XXH3_128bits.restype, library.XXH3_128bits.argtypes = Hash, [ctypes.c_char_p, ctypes.c_size_t]
        found = library.XXH3_128bits(bytes(self.bytes), len(self.bytes))
        return struct.pack(">QQ", found.high, found.low)


def basis(h, qbin):
    """Code ends with the hash of what qbin-format.md lists, in the order of the page."""
    report, streams = h.inspect(qbin), json.loads(h.run("qcc", "inspect", qbin, "--emit=manifest"))["streams"]
    names, out = [s["name"] for s in report["states"]], Basis()

    def state(s):
        out.text(s["name"])
        out.numbers(["conv", "delta", "kv", "trace"].index(s["kind"]), s["layer"])
        out.each(s["shape"], out.numbers)
        out.numbers(["f32", "f16", "b16"].index(s["element"]), s["offset"], s["bytes"], s["entry_bytes"])

    def program(p):
        place = lambda stream: -1 if stream is None else streams.index(stream)
        out.text(p["name"])
        out.numbers(sum({"tokens": 1, "given": 2, "stream": 4}[t] for t in p["takes"]), p["given_cols"], place(p["stream"]), place(p["leaves"]))
        out.numbers(["nothing", "chosen_logits", "logits"].index(p["gives"]))
        out.each([names.index(s) for s in p["advances"]], out.numbers)
        out.numbers(*(p[key] for key in ("rows", "scratch_bytes", "dispatches", "barriers", "weight_bytes")))
        out.numbers(0 if p["logits_cols"] == report["model"]["vocab_size"] else p["logits_cols"])

    def code(target):
        for key in ("target", "isa"):
            out.text(target[key])
        out.each(target["features"], out.text)
        out.numbers(report["sections"][target["weights_section"]]["size"])
    sizes, memory, block = report["model"], report["memory"], 16  # tokens (layouts::kStateBlock)
    puts = {"numerics": lambda: out.numbers(["f32", "int8"].index(report["numerics"])), "kv_element": lambda: out.numbers(["f32", "f16"].index(report["kv"])),
            "state_bytes": lambda: out.numbers(memory["state_bytes_per_sequence"]), "kv_bytes_per_token": lambda: out.numbers(memory["kv_bytes_per_token"]),
            "state_block": lambda: out.numbers(block), "of each state every field": lambda: out.each(report["states"], state),
            "the streams": lambda: out.each(streams, out.text), "of each program every field": lambda: out.each(report["programs"], program)}
    puts |= {key: lambda key=key: out.numbers(sizes[key]) for key in ("vocab_size", "logits_stride", "context_length", "embedding_length")}
    with open(os.path.join(ROOT, "docs/reference/qbin-format.md"), encoding="utf-8") as f:
        page = " ".join(f.read().split("### What code was made for")[1].split())
    listed = [item.strip(" `") for item in re.split("[;,]", page.split("in this order:")[1].split("; where there are parts")[0])]
    h.check("qbin-format.md: the list of what code was made for", sorted(listed) == sorted(puts), str(listed))
    wrong = []
    for target in report["targets"]:
        out.bytes.clear()
        for item in listed:
            puts[item]()
        code(target)
        section = report["sections"][target["section"]]
        if contents(qbin)[section["offset"]:][:section["size"]][-16:] != out.hash():
            wrong.append(target["isa"])
    h.check("code ends with the hash of that, in that order", report["targets"] and not wrong, ", ".join(wrong))


def stages(h, qbin):
    """What is timed is what a step does: its dispatches, and the weights that it reads."""
    has = {p["name"]: p for p in h.inspect(qbin)["programs"]}
    programs = json.loads(h.run("qrun", "bench", qbin, "-p", "40", "-n", "3", "-r", "2", "-t", "2", "--profile-stages", "--json"))["programs"]
    ran = {p["program"]: p for p in programs}
    h.check("stages: decode and prefill ran", "decode_1" in ran and any(name.startswith("prefill") for name in ran), str(list(ran)))
    for name, program in ran.items():
        steps, counted = program["steps"], program["stages"]
        # Attention of few rows is two calls.
        dispatches = sum(s["runs"] for s in counted if s["kernel"] and not s["specification"].startswith("attention.fold "))
        weights = sum(s["runs"] * s["weight_bytes"] for s in counted)
        h.check(f"stages of {name}: all dispatches, and their weights", dispatches == steps * has[name]["dispatches"] and weights == steps * has[name]["weight_bytes"],
                f"{steps} steps: {dispatches} dispatches, {weights} bytes; {has[name]}")
        h.check(f"stages of {name}: each thread's time", all(len(s["busy_seconds"]) == 2 and min(s["busy_seconds"]) > 0 for s in counted if s["kernel"]), str(counted))
        groups = {s["group"] for s in counted}
        h.check(f"stages of {name}: groups", {"delta", "attention", "linears", "norms"} <= groups if name.startswith("prefill") else "head" in groups and "other" not in groups, str(groups))
        h.check(f"stages of {name}: the kernels are those of the artifact", all(s["specification"] for s in counted if s["kernel"]), str(counted))


def buckets(h, gguf, tokens):
    """Ladders of one to six programs: the same bits, and one copy of the weights, which all of them read."""
    want, weights = None, set()
    for ladder in (["--decode=1", "--prefill=1"], ["--decode=1,2,4,8", "--prefill=32,128"], ["--decode=1,3", "--prefill=7,48"], ["--decode=64,1", "--prefill=20,5,5"]):
        qbin = h.compile(gguf, "ladder.qbin", "--cpu=native", *ladder)
        report = h.inspect(qbin)
        rows = {(p["name"].split("_")[0], p["rows"]) for p in report["programs"] if "tokens" in p["takes"]}
        weights.add(tuple((s["size"], s["hash"]) for s in report["sections"] if s["kind"] == "weights"))
        asked = {(o[2:].split("=")[0], int(n)) for o in ladder for n in o.split("=")[1].split(",")}
        h.check(f"ladder {' '.join(ladder)}", rows == asked, f"has {sorted(rows)}")
        got = [h.logits(qbin, tokens), h.logits(qbin, tokens, "--split", "1"), h.logits(qbin, tokens, "--split", "3,8")]
        want = want or got[0]
        h.check(f"ladder {' '.join(ladder)}: the same bits", all(g == want for g in got))
    h.check("ladders: the weights are there once, the same bytes", len(weights) == 1 and len(min(weights)) == 1, str(weights))


def atomic(h, gguf):
    folder = h.path("atomic")
    os.makedirs(folder)
    out = os.path.join(folder, "m.qbin")
    with open(out, "wb") as f:
        f.write(b"an older artifact")
    command = [os.path.join(h.args.bin, "qcc"), "compile", gguf, "-o", out, "--no-cache", "--cpu=native", *LADDERS]
    # The stage behind which the signal comes: 4/6: while code is made; 5/6: while the file is written.
    for name, number, stage, delay, exit_code in (("SIGINT", signal.SIGINT, "[ 4/6]", 0.2, 130), ("SIGTERM", signal.SIGTERM, "[ 4/6]", 0.0, 130),
                                                  ("SIGKILL", signal.SIGKILL, "[ 4/6]", 0.2, -9), ("SIGKILL", signal.SIGKILL, "[ 5/6]", 0.0, -9),
                                                  ("SIGKILL", signal.SIGKILL, "[ 5/6]", 0.01, -9)):
        late = stage == "[ 5/6]"  # the signal may come behind the rename, or behind the end
        for _ in range(5):  # on a busy machine it may do so behind 4/6, too
            process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            for line in process.stderr:
                if line.startswith(stage):
                    break
            time.sleep(delay)
            ended = process.poll() is not None
            process.send_signal(number)
            err = process.communicate()[1]
            if late or not ended:
                break
            with open(out, "wb") as f:
                f.write(b"an older artifact")
        left = os.listdir(folder)
        h.check(f"{name} after {stage}: exit code", process.returncode == exit_code or late and process.returncode == 0, f"exit {process.returncode}, want {exit_code}: {err}")
        older = contents(out) == b"an older artifact"
        h.check(f"{name} after {stage}: the older file or a whole new one, nothing else", left == ["m.qbin"] and (older or late and h.tool("qcc", "verify", out).returncode == 0),
                f"{left}, {'older' if older else os.path.getsize(out)}")
        with open(out, "wb") as f:
            f.write(b"an older artifact")
    p = h.tool("qcc", *command[1:])
    h.check("and the next compile works", p.returncode == 0 and h.tool("qcc", "verify", out).returncode == 0 and os.listdir(folder) == ["m.qbin"], p.stderr.decode())


def read_only(h, gguf):
    folder = h.path("readonly")
    os.makedirs(folder)
    shutil.copy(gguf, folder)
    os.chmod(folder, 0o555)
    command = [os.path.abspath(os.path.join(h.args.bin, "qcc")), "compile", os.path.basename(gguf), "-o", "m.qbin", "-q", "--no-cache"]
    user = {}
    if os.geteuid() == 0:  # to whom no folder is read-only
        os.chmod(h.work, 0o755)
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        try:
            subprocess.run([command[0], "--version"], cwd=folder, check=True, capture_output=True, **user)
        except (OSError, subprocess.CalledProcessError) as e:
            print(f"skip read-only folder: another user cannot run qcc here ({e})")
            return
    p = subprocess.run(command, cwd=folder, capture_output=True, text=True, **user)
    h.check("a read-only folder is refused", p.returncode == 6 and "[Q6002]" in p.stderr and "folder" in p.stderr, f"exit {p.returncode}: {p.stderr}")
    os.chmod(folder, 0o755)
    with open(os.path.join(folder, os.path.basename(gguf)), "wb") as f:
        f.write(b"not a model")
    os.chmod(folder, 0o555)
    p = subprocess.run(command, cwd=folder, capture_output=True, text=True, **user)
    h.check("and before the model is read", p.returncode == 6 and "[Q6002]" in p.stderr, f"exit {p.returncode}: {p.stderr}")
    os.chmod(folder, 0o755)


# What the runtime must not need, as names of libraries and of symbols. Drivers are opened where there are any, not linked.
FOREIGN_LIBRARY = re.compile("llvm|mlir|absl|lld|vulkan|cuda|nvidia|shaderc|spirv", re.I)
FOREIGN_SYMBOL = re.compile(r"^_Z.*(4llvm|4mlir|4absl|3lld|7shaderc|8spvtools)|^(LLVM|mlir[A-Z]|shaderc_|spv[A-Z]|vk[A-Z]|cu[A-Z]|nv[A-Z])")


def dependencies(h):
    p = subprocess.run(["ldd", os.path.join(h.args.bin, "qrun")], capture_output=True, text=True)
    libraries = [line.split()[0] for line in p.stdout.strip().split("\n")]
    foreign = [n for n in libraries if FOREIGN_LIBRARY.search(n)]
    h.check("qrun needs no LLVM, MLIR, Abseil, and no GPU's driver or compiler", p.returncode == 0 and any("libc.so" in n for n in libraries) and not foreign, " ".join(libraries))
    archive = os.path.join(h.args.bin, "..", "lib", "libqrt.a")
    if not os.path.isfile(archive):
        print(f"skip symbols of libqrt.a: there is none at {archive} (a sanitizer build makes none)")
        return
    # qrun goes to machines where no more than this is installed: what edits its lines is linked into it.
    more = [n for n in libraries if not re.match(r"(linux-vdso|libc|libm|libdl|libpthread|libstdc\+\+|libgcc_s)\.so", n)
            and "ld-linux" not in n]
    h.check("qrun needs the libraries of C and C++ only", not more, " ".join(more))
    if not shutil.which("nm"):
        print("skip symbols of libqrt.a: no nm here")
        return
    p = subprocess.run(["nm", "--format=posix", archive], capture_output=True, text=True)
    symbols = [line.split()[:2] for line in p.stdout.split("\n") if " " in line]  # name, type
    foreign = sorted({name for name, _ in symbols if FOREIGN_SYMBOL.search(name)})
    h.check("libqrt.a neither holds nor needs a symbol of LLVM, MLIR, Abseil, or of a GPU's driver or compiler", p.returncode == 0 and len(symbols) > 100 and not foreign,
            f"{len(symbols)} symbols, {p.stderr}, {foreign[:10]}")
    shown = sorted(name for name, kind in symbols if kind.isupper() and kind != "U")
    h.check("libqrt.a shows qrt_* alone", "qrt_artifact_open" in shown and all(n.startswith("qrt_") for n in shown), ", ".join(n for n in shown if not n.startswith("qrt_"))[:300])


def spellings(h):
    """A file may spell one model in several ways: only the provenance, which is of the file, tells them apart."""
    def compiled(gguf, name):
        report = h.inspect(h.compile(gguf, name, "--cpu=base", "--decode=1", "--prefill=16"))
        return report, {s["kind"]: s["hash"] for s in report["sections"] if s["kind"] != "manifest"}

    report, plain = compiled(TINY, "plain.qbin")
    layers = 1 + max(s["layer"] for s in report["states"])
    kv = {s["layer"]: s["shape"][0] for s in report["states"] if s["kind"] == "kv"}
    h.check("spellings: code, weights, tokenizer, template and goldens are compared", len(plain) >= 5, str(sorted(plain)))
    per_layer = gguf_edit.u32_array_value([kv.get(layer, 0) for layer in range(layers)])
    array = gguf_edit.with_metadata(TINY, h.path("array.gguf"), {"qwen35.attention.head_count_kv": per_layer})
    h.check("spellings: KV heads per layer", compiled(array, "array.qbin")[1] == plain)

    def other(name, extents):
        if name.endswith("ssm_conv1d.weight"):
            return name, [extents[0], 1, extents[1]]
        return name.replace("ssm_dt.bias", "ssm_dt"), extents

    other_names = gguf_edit.with_metadata(TINY, h.path("names.gguf"), {}, spelled=other)
    h.check("spellings: ssm_dt, and convolution weights of rank 3", compiled(other_names, "names.qbin")[1] == plain)

    # As another runtime's converter has them, whose files carry the image encoder's keys along.
    elsewhere = gguf_edit.with_metadata(TINY, h.path("elsewhere.gguf"), {
        "qwen35.attention.head_count_kv": per_layer, "qwen35.full_attention_interval": None, "qwen35.ssm.v_head_reordered": gguf_edit.bool_value(True),
        "qwen35.rope.mrope_interleaved": gguf_edit.bool_value(True), "qwen35.vision.block_count": gguf_edit.u32_value(27),
        "qwen35.image_token_id": gguf_edit.u32_value(5)})
    h.check("spellings: keys of another converter", compiled(elsewhere, "elsewhere.qbin")[1] == plain)

    norm = "blk.0.attn_norm.weight"
    extents, _, data = gguf_edit.tensor(TINY, norm)
    halves = struct.pack(f"<{extents[0]}e", *struct.unpack_from(f"<{extents[0]}f", data))
    widened = gguf_edit.f32_data(struct.unpack(f"<{extents[0]}e", halves))
    as_halves, as_floats = (compiled(gguf_edit.with_metadata(TINY, h.path(f"{name}.gguf"), {}, tensors={norm: (extents, kind, content)}), f"{name}.qbin")[1]
                            for name, kind, content in (("halves", gguf_edit.F16, halves), ("floats", gguf_edit.F32, widened)))
    h.check("spellings: a norm in halves is that in f32 of the same values", as_halves == as_floats and as_halves["weights"] != plain["weights"])


def outputs(h, gguf):
    """Nothing is compiled for an output that could not get its name."""
    folder = h.path("outputs")
    os.makedirs(os.path.join(folder, "real"))
    os.symlink("real", os.path.join(folder, "link"))
    for out, option in (("u.qbin", "--dump-ir=u.qbin/"), ("u.qbin", "--dump-ir=./u.qbin//"), ("w.qbin", "--cache-dir=w.qbin/c"),
                        ("out.qbin", "--dump-kernels=out.qbin/k/l"), ("link/x.qbin", "--dump-ir=real/x.qbin")):
        p = subprocess.run([os.path.abspath(os.path.join(h.args.bin, "qcc")), "compile", os.path.abspath(gguf), "-o", out, option, "--cpu=native", *LADDERS],
                           cwd=folder, capture_output=True)
        name = option.split("=")[0]
        h.check(f"-o {out} {option}", p.returncode == 2 and b"[Q0103]" in p.stderr and name.encode() in p.stderr, p.stderr.decode())
        h.check(f"-o {out} {option}: nothing is left", sorted(os.listdir(folder)) == ["link", "real"] and not os.listdir(os.path.join(folder, "real")))
    p = h.tool("qcc", "compile", gguf, "-o", h.path("beside.qbin"), f"--dump-ir={h.path('beside.qbin.ir')}", "--compile-to=artifact", "--cpu=native", "--goldens=off", *LADDERS)
    h.check("a folder whose name begins with the output's", p.returncode == 0, p.stderr.decode())


def long_keys(h):
    """A key may have 64 KiB, and more than the artifact takes of a text is warned of."""
    keys = {"general.sampling." + 65500 * "k": gguf_edit.f32_value(1)}
    keys |= {f"tokenizer.chat_template.t{i}" + 65000 * "n": gguf_edit.string_value("x") for i in range(20)}
    model = gguf_edit.with_metadata(TINY, h.path("keys.gguf"), keys)
    p = h.tool("qcc", "compile", model, "-o", h.path("keys.qbin"), "--cpu=native", "--goldens=off", *LADDERS)
    h.check("long keys: compiled", p.returncode == 0, p.stderr.decode()[-600:])
    h.check("long keys: warned of in a few words", p.stderr.count(b"warning:") == 2 and len(p.stderr) < 4000, p.stderr.decode()[-600:])


def pieces(h, gguf):
    """qcc eval takes a text in pieces by itself: the bits are those of one."""
    tokens = h.path("pieces.txt")
    with open(tokens, "w") as f:
        f.write(" ".join(str(i * 37 % 250) for i in range(150)))
    outs = []
    for options in ((), ("--split", 150), ("--split", "7,64,1,40")):
        outs.append(h.path(f"pieces{len(outs)}.bin"))
        h.run("qcc", "eval", gguf, "--tokens", tokens, "-o", outs[-1], "--arithmetic", "f32", "--kv", "f16", *options)
    h.check("eval: pieces change no bit", read_logits(outs[0])[0] == 150 and all(contents(out) == contents(outs[0]) for out in outs))


def main():
    h = Harness(__doc__)
    plain_check = h.check
    h.check = lambda name, ok, detail="": plain_check(name, ok, "" if ok else detail)
    (name, gguf, tokens, reference, row), = [g for g in goldens(formats=("Q8_0",)) if g[0] == "t35-q-Q8_0"]

    @functools.cache
    def qbin():
        return h.compile(gguf, "model.qbin", f"--cpu={','.join(h.levels)}", *LADDERS)

    # A line is a round of three shares, whose costs are about equal. What takes long is to compile, for all levels four times as long as for one:
    # the first share does so for all of them twice, the third too, and for one a few times; the second for one ten times, half of them broken off.
    for part in h.share([lambda: determinism(h, gguf, qbin()), lambda: buckets(h, gguf, tokens), lambda: levels_f32(h, gguf, tokens, reference),
                         lambda: inspection(h, gguf, qbin()), lambda: stages(h, qbin()), lambda: atomic(h, gguf), lambda: levels(h, qbin(), gguf, tokens, reference, row["int8_limit"]),
                         lambda: damage(h, qbin()), lambda: read_only(h, gguf), lambda: spellings(h),
                         lambda: dependencies(h), lambda: outputs(h, gguf), lambda: long_keys(h),
                         lambda: pieces(h, gguf)]):
        part()
    h.finish()


if __name__ == "__main__":
    main()
