#!/usr/bin/env python3
"""Real shapes through the whole pipeline: synth, compile, run. Prints one row per preset and format, beside the bounds.

  benchmarks/model/real_shapes.py --bin build/release/bin
  benchmarks/model/real_shapes.py --bin build/release/bin --presets qwen35:0.8b,qwen3:0.6b --formats q8_0

Bounds: qcc's peak memory is at most artifact + 1 GiB; qrun's at most artifact + plan + 5 %, where the plan is scratch, state
and KV of the context that ran. The exit code is 1 if one does not hold. Decode GB/s is the bytes of weights that a token
reads times tokens/s; the read bandwidth beside it is what as many threads as qrun has get of the artifact's own pages
(ninja qrt_read_bench; without it these columns are left out).
"""
import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

GIB, MIB = 1 << 30, 1 << 20
PROMPT = 512
READ_BENCH = "qrt_read_bench"


class Ran:
    """One child: its output, wall seconds and peak resident memory in bytes."""

    def __init__(self, *command):
        start = time.monotonic()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen([str(c) for c in command], stdout=out, stderr=err, stdin=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.seconds, self.peak = time.monotonic() - start, usage.ru_maxrss * 1024
            out.seek(0)
            err.seek(0)
            self.out = out.read().decode()
            if process.returncode != 0:
                sys.exit(f"{shlex.join(map(str, command))}: exit {process.returncode}\n{err.read().decode()}")


def read_bandwidth(folder, threads, artifact):
    """GB/s of `threads` that only read the artifact; None where the program is not built, or the artifact has less than the 2 MiB
    a thread that it wants."""
    program = os.path.join(folder, READ_BENCH)
    if not os.path.exists(program) or os.path.getsize(artifact) < threads * 2 * MIB:
        return None
    return float(re.search(r"best: ([0-9.]+)", Ran(program, threads, artifact).out)[1])


def kernel_bandwidth(folder):
    """What the kernels' own benchmark (ninja qcc_kernels_bench) reads on one thread, GB/s; None where it is not built."""
    program = os.path.join(folder, "qcc_kernels_bench")
    if not os.path.exists(program):
        return None
    rates = [float(r) for r in re.findall(r"plain read +([0-9.]+) GB/s", Ran(program, "--threads", 1, "--mebibytes", 256, "--format", "q8_0", "--rounds", 3).out)]
    return max(rates) if rates else None


def token_weight_bytes(held):
    """Bytes of weights that decoding a token reads: of the experts those it uses, of an embedding that is no output matrix one
    row, of a NextN block nothing. `held`: what `qcc inspect ARTIFACT --json` says."""
    return next(p["weight_bytes"] for p in held["programs"] if p["rows"] == 1 and p["takes"] == ["tokens"] and p["gives"] != "nothing")


def measure(args, arch, preset, mix, folder):
    qcc, qrun = (os.path.join(args.bin, t) for t in ("qcc", "qrun"))
    gguf, qbin = os.path.join(folder, "model.gguf"), os.path.join(folder, "model.qbin")
    Ran(qcc, "synth", "--arch", arch, "--preset", preset, "--format", mix, "--seed", 1, *shlex.split(args.synth), "-o", gguf, "-q")
    compiled = Ran(qcc, "compile", gguf, "-o", qbin, "-q", "--no-cache", f"--cpu={args.cpu}")
    row = {"model": " ".join([arch, preset, mix, *shlex.split(args.synth)]), "compile_s": compiled.seconds, "qcc_peak": compiled.peak,
           "gguf": os.path.getsize(gguf), "qbin": os.path.getsize(qbin)}
    os.remove(gguf)
    os.sync()  # the artifact's pages on their way to the disk slow everything: 0.8b q8_0 decoded 16 tok/s then, 26 after
    threads = ["-t", args.threads] if args.threads else []
    first = Ran(qrun, qbin, "--raw", "--greedy", "-p", "Hello", "-n", 1, *threads)
    bench = Ran(qrun, "bench", qbin, "-p", PROMPT, "-n", args.tokens, "-r", args.reps, "--json", *threads)
    held, b = json.loads(Ran(qcc, "inspect", qbin, "--json").out), json.loads(bench.out)
    row["bandwidth"] = read_bandwidth(args.bin, b["threads"], qbin)
    os.remove(qbin)
    memory = held["memory"]
    context = max(PROMPT, args.tokens)
    plan = memory["scratch_bytes"] + memory["state_bytes_per_sequence"] + memory["kv_bytes_per_token"] * context
    row.update(first_s=first.seconds, load_s=b["load_seconds"], qrun_peak=bench.peak, plan=plan, threads=b["threads"], cpu=b["cpu"],
               prefill=b["prefill"]["median"], decode=b["decode"]["median"],
               decode_gbs=token_weight_bytes(held) * b["decode"]["median"] / 1e9)
    row["qcc_bound"] = row["qbin"] + GIB
    row["qrun_bound"] = (row["qbin"] + plan) * 1.05
    return row


COLUMNS = [
    ("model", lambda r: r["model"]), ("compile s", lambda r: f"{r['compile_s']:.1f}"), ("GGUF MiB", lambda r: f"{r['gguf'] / MIB:.0f}"),
    ("qbin MiB", lambda r: f"{r['qbin'] / MIB:.0f}"), ("qcc peak MiB", lambda r: f"{r['qcc_peak'] / MIB:.0f}"),
    ("bound", lambda r: verdict(r["qcc_peak"], r["qcc_bound"])), ("load s", lambda r: f"{r['load_s']:.3f}"),
    ("start to first token s", lambda r: f"{r['first_s']:.3f}"), ("plan MiB", lambda r: f"{r['plan'] / MIB:.0f}"),
    ("qrun peak MiB", lambda r: f"{r['qrun_peak'] / MIB:.0f}"), ("bound", lambda r: verdict(r["qrun_peak"], r["qrun_bound"])),
    (f"prefill {PROMPT} tok/s", lambda r: f"{r['prefill']:.1f}"), ("decode tok/s", lambda r: f"{r['decode']:.2f}"),
    ("decode GB/s", lambda r: f"{r['decode_gbs']:.1f}"),
]
BANDWIDTH_COLUMNS = [
    ("read GB/s", lambda r: f"{r['bandwidth']:.1f}" if r["bandwidth"] else "-"),
    ("of bandwidth", lambda r: f"{100 * r['decode_gbs'] / r['bandwidth']:.0f} %" if r["bandwidth"] else "-"),
]


def verdict(peak, bound):
    return f"{'ok' if peak <= bound else 'ABOVE'} {bound / MIB:.0f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder with qcc and qrun")
    parser.add_argument("--work", help="folder for models (default: a temporary one); the largest is twice the model")
    parser.add_argument("--presets", default="qwen35:0.8b,qwen35:2b", help="ARCH:PRESET,...; default: %(default)s")
    parser.add_argument("--formats", default="q8_0,q4_k_m", help="format mixes of qcc synth; default: %(default)s")
    parser.add_argument("--cpu", default="native", help="--cpu of qcc compile; default: %(default)s")
    parser.add_argument("--threads", type=int, help="threads of qrun; default: its own choice")
    parser.add_argument("--tokens", type=int, default=64, help="tokens decoded per sample; default: %(default)s")
    parser.add_argument("--reps", type=int, default=5, help="samples; default: %(default)s")
    parser.add_argument("--synth", default="", help="further options of qcc synth, for a smaller model (one of some MiB is above qrun's bound: "
                        "the process itself takes 5 MiB)")
    parser.add_argument("--json", action="store_true", help="the rows as JSON instead of a table")
    args = parser.parse_args()
    folder = args.work or tempfile.mkdtemp(prefix="qcc-bench-")
    os.makedirs(folder, exist_ok=True)
    kernels = kernel_bandwidth(args.bin)
    rows = []
    try:
        for arch, preset in (p.split(":") for p in args.presets.split(",")):
            for mix in args.formats.split(","):
                print(f"{arch} {preset} {mix} ...", file=sys.stderr, flush=True)
                rows.append({**measure(args, arch, preset, mix, folder), "kernel_bandwidth": kernels})
    finally:
        if not args.work:
            shutil.rmtree(folder, ignore_errors=True)
    if args.json:
        print(json.dumps(rows, indent=1))
    else:
        columns = COLUMNS + (BANDWIDTH_COLUMNS if any(r["bandwidth"] for r in rows) else [])
        if columns == COLUMNS:
            why = "the artifacts are too small" if os.path.exists(os.path.join(args.bin, READ_BENCH)) else f"no {READ_BENCH} in {args.bin} (ninja {READ_BENCH})"
            print(f"left out: {', '.join(name for name, _ in BANDWIDTH_COLUMNS)}: {why}")
        if kernels:
            print(f"kernels' plain read on one thread {kernels:.1f} GB/s")
        print(f"qrun: {rows[0]['cpu']}, {rows[0]['threads']} threads\n")
        table = [[name for name, _ in columns]] + [[cell(r) for _, cell in columns] for r in rows]
        widths = [max(len(line[i]) for line in table) for i in range(len(columns))]
        for i, line in enumerate(table):
            print("| " + " | ".join(c.ljust(w) if k == 0 else c.rjust(w) for k, (c, w) in enumerate(zip(line, widths))) + " |")
            if i == 0:
                print("|" + "|".join("-" * (w + 1) + ("-" if k == 0 else ":") for k, w in enumerate(widths)) + "|")
    broken = [r["model"] for r in rows if r["qcc_peak"] > r["qcc_bound"] or r["qrun_peak"] > r["qrun_bound"]]
    if broken:
        sys.exit("memory above its bound: " + ", ".join(broken))


if __name__ == "__main__":
    main()
