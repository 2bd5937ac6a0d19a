#!/usr/bin/env python3
"""Tokens/s of qcc and of other programs on the same GGUF files, measured in turns, beside what the machine's memory gives.

  ninja -C build/release qrt_read_bench
  npm install --prefix PEERS node-llama-cpp           # llama.cpp
  benchmarks/compare/compare.py --bin build/release/bin --node-llama PEERS model.gguf ...
  benchmarks/compare/compare.py --bin build/release/bin --llama-bench "ik=/path/to/llama-bench -rtr 1" --synth qwen35:0.8b:q4_k_m

One round runs each program once, the best read bandwidth (qrt_read_bench: the artifact's own pages) before each; rows have medians over the
rounds. "of the bound": the bytes that a decoded token must move (weights, states read and written, KV read) times tokens/s over that
bandwidth's median. Prompts and tokens count behind a first prompt that does not; only llama.cpp's tokens are its own (the greatest logit),
those of qcc and llama-bench are given. "first token": loading included; of qcc from the start of its process, of llama.cpp behind that of
Node, which it does not need elsewhere.
"""
import argparse
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def run(*command):
    p = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if p.returncode != 0:
        sys.exit(f"{shlex.join(map(str, command))}: exit {p.returncode}\n{p.stderr}")
    return p.stdout


def cpu_name():
    with open("/proc/cpuinfo") as f:
        info = f.read()
    model = re.search(r"model name\s*: (.*)", info)
    flags = re.search(r"flags\s*: (.*)", info)
    known = [flag for flag in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8") if flags and flag in flags[1].split()]
    return f"{model[1] if model else 'unknown CPU'} ({' '.join(known)}), {len(os.sched_getaffinity(0))} cores"


class Qcc:
    """Ours: the artifact is made once."""
    name = "qcc"

    def __init__(self, args, gguf, folder):
        self.args, self.artifact = args, os.path.join(folder, "model.qbin")
        self.qrun = os.path.join(args.bin, "qrun")
        run(os.path.join(args.bin, "qcc"), "compile", gguf, "-o", self.artifact, "-q", "--cpu=native", "--goldens=off", *shlex.split(args.compile))
        self.held = json.loads(run(os.path.join(args.bin, "qcc"), "inspect", self.artifact, "--json"))

    def sample(self):
        a = self.args
        got = json.loads(run(self.qrun, "bench", self.artifact, "-p", a.prompt, "-n", a.tokens, "-d", a.depth, "-r", 1, "-t", a.threads, "--json"))
        return {"prefill": got["prefill"]["median"] if a.prompt else None, "decode": got["decode"]["median"] if a.tokens else None,
                "first_seconds": got["first_token_seconds"], "peak_rss_bytes": got["peak_rss_bytes"]}

    def bytes_per_token(self):
        one, memory = next(p for p in self.held["programs"] if p["rows"] == 1 and "tokens" in p["takes"]), self.held["memory"]
        context = self.args.depth + self.args.tokens / 2
        return one["weight_bytes"] + sum(map(moved_per_token, self.held["states"])) + context * memory["kv_bytes_per_token"]


def moved_per_token(state):
    """Bytes of a state that a token reads and writes, in the mean over a block of 16 (dialects/layouts/sequence_state.h)."""
    block, entry = 16, state["entry_bytes"]
    if state["kind"] == "conv":  # the columns before, and its own
        return (state["shape"][0] + 1) * entry
    if state["kind"] == "delta":
        # S is read by each and written by the last; entries of those before are read, its own is written, the last reads all.
        slot = state["bytes"] - block * entry
        return slot * (1 + 1 / block) + ((block - 1) / 2 + 2) * entry
    return 0


class NodeLlama:
    """llama.cpp of the npm package."""
    name = "llama.cpp"

    def __init__(self, args, gguf):
        a = args
        self.command = ["node", os.path.join(HERE, "node_llama_bench.mjs"), a.node_llama, gguf, a.prompt, a.tokens, a.depth, a.threads]

    def sample(self):
        return json.loads(run(*self.command).splitlines()[-1])


class LlamaBench:
    """A llama-bench program, of llama.cpp or of what is made from it."""

    def __init__(self, args, spec, gguf):
        self.name, command = spec.split("=", 1)
        self.args, self.command = args, [*shlex.split(command), "-m", gguf, "-r", 1, "-t", args.threads, "-o", "json"]

    def rate(self, prompt, tokens):
        if not prompt and not tokens:
            return None
        depth = ["-d", self.args.depth] if self.args.depth else []
        return json.loads(run(*self.command, "-p", prompt, "-n", tokens, *depth))[-1]["avg_ts"]

    def sample(self):
        return {"prefill": self.rate(self.args.prompt, 0), "decode": self.rate(0, self.args.tokens)}


def median(samples, key):
    values = [s[key] for s in samples if s.get(key) is not None]
    return statistics.median(values) if values else None


def compare(args, gguf, folder):
    """One file: for each program its medians, and ours over it."""
    ours = Qcc(args, gguf, folder)
    programs = [ours]
    if args.node_llama:
        programs.append(NodeLlama(args, gguf))
    programs += [LlamaBench(args, spec, gguf) for spec in args.llama_bench]
    samples, reads = {p.name: [] for p in programs}, []
    for i in range(args.rounds):
        for p in programs:
            reads.append(float(re.search(r"best: ([0-9.]+)", run(os.path.join(args.bin, "qrt_read_bench"), args.threads, ours.artifact))[1]))
            samples[p.name].append(p.sample())
            print(f"round {i + 1}: {p.name}: {json.dumps(samples[p.name][-1])}, read {reads[-1]} GB/s", file=sys.stderr, flush=True)
    bandwidth = statistics.median(reads)
    rows = []
    for p in programs:
        row = {"file": os.path.basename(gguf), "program": p.name,
               **{key: median(samples[p.name], key) for key in ("prefill", "decode", "first_seconds", "peak_rss_bytes")}}
        for key in ("prefill", "decode"):
            mine = median(samples[ours.name], key)
            row[key + "_ratio"] = mine / row[key] if row[key] and mine and p is not ours else None
        if p is ours and row["decode"]:
            row.update(read_gbs=bandwidth, bytes_per_token=ours.bytes_per_token(), of_bound=1e-9 * ours.bytes_per_token() * row["decode"] / bandwidth)
        rows.append(row)
    os.remove(ours.artifact)
    return rows


def figure(value, digits=1, suffix=""):
    return "" if value is None else f"{value:.{digits}f}{suffix}"


COLUMNS = [
    ("file", lambda r: r["file"]), ("program", lambda r: r["program"]), ("prefill tok/s", lambda r: figure(r["prefill"])),
    ("qcc is", lambda r: figure(r["prefill_ratio"], 2, "x")), ("decode tok/s", lambda r: figure(r["decode"])),
    ("qcc is", lambda r: figure(r["decode_ratio"], 2, "x")), ("of the bound", lambda r: figure(r.get("of_bound"), 2)),
    ("read GB/s", lambda r: figure(r.get("read_gbs"))), ("first token s", lambda r: figure(r["first_seconds"], 2)),
    ("peak MiB", lambda r: figure(r["peak_rss_bytes"] and r["peak_rss_bytes"] / 2**20, 0)),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL.gguf")
    parser.add_argument("--bin", required=True, help="folder with qcc, qrun and qrt_read_bench")
    parser.add_argument("--work", help="folder for artifacts and made models (default: a temporary one)")
    parser.add_argument("--synth", action="append", default=[], metavar="ARCH:PRESET:FORMAT[ OPTIONS]", help="a model with random weights, made by qcc synth")
    parser.add_argument("--node-llama", metavar="DIR", help="where npm has installed node-llama-cpp")
    parser.add_argument("--llama-bench", action="append", default=[], metavar="NAME=COMMAND", help="another program that takes the options of llama-bench")
    parser.add_argument("--compile", default="", help="further options of qcc compile")
    parser.add_argument("-p", "--prompt", type=int, default=512, help="tokens of the prompt; 0: no prefill; default: %(default)s")
    parser.add_argument("-n", "--tokens", type=int, default=128, help="tokens decoded; 0: none; default: %(default)s")
    parser.add_argument("-d", "--depth", type=int, default=0, help="tokens in the context before either; default: %(default)s")
    parser.add_argument("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="samples of each program; default: %(default)s")
    parser.add_argument("--json", action="store_true", help="the rows as JSON instead of a table")
    args = parser.parse_args()
    if not args.models and not args.synth:
        parser.error("give models, or --synth")
    folder = args.work or tempfile.mkdtemp(prefix="qcc-compare-")
    os.makedirs(folder, exist_ok=True)
    rows = []
    try:
        for gguf in args.models:
            rows += compare(args, gguf, folder)
        for spec in args.synth:
            spec, *options = shlex.split(spec)
            arch, preset, mix = spec.split(":")
            gguf = os.path.join(folder, "-".join([arch, preset, mix]) + ".gguf")
            run(os.path.join(args.bin, "qcc"), "synth", "--arch", arch, "--preset", preset, "--format", mix, "--seed", 1, *options, "-o", gguf, "-q")
            rows += compare(args, gguf, folder)
            os.remove(gguf)
    finally:
        if not args.work:
            shutil.rmtree(folder, ignore_errors=True)
    if args.json:
        print(json.dumps({"cpu": cpu_name(), "threads": args.threads, "rows": rows}, indent=1))
        return
    print(f"{cpu_name()}; {args.threads} threads, prefill {args.prompt}, decode {args.tokens}, depth {args.depth}, {args.rounds} rounds\n")
    print("| " + " | ".join(name for name, _ in COLUMNS) + " |")
    print("|---|---" + "|--:" * (len(COLUMNS) - 2) + "|")
    for row in rows:
        print("| " + " | ".join(cell(row) for _, cell in COLUMNS) + " |")


if __name__ == "__main__":
    main()
