#!/usr/bin/env python3
"""Decode speed of every format mix of qcc synth on the CPU, beside Q8_0's: one row per mix.

  benchmarks/model/formats.py --bin build/release/bin
  benchmarks/model/formats.py --bin build/release/bin --preset qwen3:0.6b --formats q4_k_m,iq2_xs

Each mix is measured in turns with q8_0, so that what slows the machine for a while slows both; a row has the medians, and its
share is of the q8_0 beside it. GB/s is the bytes of the artifact's weights that a token reads times tokens/s. A format whose codes cost more to unpack than to fetch
stays below Q8_0's GB/s: those below --bound are listed at the end.
"""
import argparse
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

from real_shapes import token_weight_bytes

REFERENCE = "q8_0"


def run(*command):
    p = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if p.returncode != 0:
        sys.exit(f"{shlex.join(map(str, command))}: exit {p.returncode}\n{p.stderr}")
    return p.stdout


def every_mix(qcc):
    return re.search(r"format mix: (.*)", run(qcc, "synth", "--help")).group(1).split(", ")


def build(args, qcc, mix, folder):
    """The mix's artifact and its sizes. The GGUF is gone again."""
    gguf, qbin = (os.path.join(folder, mix + end) for end in (".gguf", ".qbin"))
    arch, preset = args.preset.split(":")
    run(qcc, "synth", "--arch", arch, "--preset", preset, "--format", mix, "--seed", 1, *shlex.split(args.synth), "-o", gguf, "-q")
    run(qcc, "compile", gguf, "-o", qbin, "-q", f"--cpu={args.cpu}", "--decode=1", "--prefill=1")
    model = json.loads(run(qcc, "inspect", gguf, "--json"))["model"]
    os.remove(gguf)
    read = token_weight_bytes(json.loads(run(qcc, "inspect", qbin, "--json")))
    return {"mix": mix, "qbin": qbin, "parameters": model["parameters"], "gguf_bytes": model["weight_bytes"], "read_bytes": read}


def built(args, qcc, mixes, folder):
    """The models of the mixes, one after another. qcc synth encodes on one processor, so several are built at a time; none
    while the caller measures."""
    several = len(os.sched_getaffinity(0))
    with concurrent.futures.ThreadPoolExecutor(several) as pool:
        for i in range(0, len(mixes), several):
            yield from list(pool.map(lambda mix: build(args, qcc, mix, folder), mixes[i : i + several]))


def measure(args, qrun, reference, model):
    """Adds to `model` its medians and its share of the speed at which the reference moved weights in the same minutes."""
    samples = {REFERENCE: [], model["mix"]: []}
    for _ in range(args.rounds):
        for m in (reference, model):
            bench = json.loads(run(qrun, "bench", m["qbin"], "-p", 0, "-n", args.tokens, "-r", args.reps, "--threads", args.threads, "--json"))
            samples[m["mix"]] += bench["decode"]["samples"]
            m.update(weight_bytes=bench["weight_bytes"], level=bench["cpu"], threads=bench["threads"])
    rate = {m["mix"]: m["read_bytes"] * statistics.median(samples[m["mix"]]) / 1e9 for m in (reference, model)}
    model.update(speed=statistics.median(samples[model["mix"]]), gbs=rate[model["mix"]], share=rate[model["mix"]] / rate[REFERENCE])


HEAD = "| mix | GGUF B/weight | artifact B/weight | decode tok/s | GB/s | of Q8_0's GB/s |\n|---|--:|--:|--:|--:|--:|"


def row(m):
    """A line of Markdown."""
    return (f"| {m['mix']} | {m['gguf_bytes'] / m['parameters']:.3f} | {m['weight_bytes'] / m['parameters']:.3f} "
            f"| {m['speed']:.2f} | {m['gbs']:.2f} | {m['share']:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder with qcc and qrun")
    parser.add_argument("--preset", default="qwen35:0.8b", help="ARCH:PRESET; default: %(default)s")
    parser.add_argument("--formats", help="format mixes of qcc synth, with commas; default: all. Q8_0 is always measured")
    parser.add_argument("--synth", default="", help="further options of qcc synth, such as '--layers 4'")
    parser.add_argument("--cpu", default="native", help="ISA level; default: %(default)s")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of qrun; default: %(default)s")
    parser.add_argument("--tokens", type=int, default=32, help="tokens decoded per sample; default: %(default)s")
    parser.add_argument("--reps", type=int, default=3, help="samples a round; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="times that a mix and q8_0 take turns; default: %(default)s")
    parser.add_argument("--bound", type=float, default=0.7, help="least share of Q8_0's GB/s; default: %(default)s")
    parser.add_argument("--work", help="folder for the artifacts, as many at a time as there are processors, and Q8_0's; default: a temporary one")
    args = parser.parse_args()
    qcc, qrun = (os.path.join(args.bin, t) for t in ("qcc", "qrun"))
    known = every_mix(qcc)
    mixes = args.formats.split(",") if args.formats else known
    unknown = [mix for mix in mixes if mix not in known]
    if unknown:
        parser.error(f"--formats: {', '.join(unknown)}; qcc synth has {', '.join(known)}")
    folder = tempfile.mkdtemp(prefix="qcc-formats-", dir=args.work)
    try:
        reference = build(args, qcc, REFERENCE, folder)
        measure(args, qrun, reference, reference)
        models = [reference]
        print(f"{args.preset}, {reference['level']}, {reference['threads']} threads\n{HEAD}\n{row(reference)}", flush=True)
        for model in built(args, qcc, [mix for mix in mixes if mix != REFERENCE], folder):
            models.append(model)
            measure(args, qrun, reference, model)
            os.remove(model["qbin"])
            print(row(model), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    slow = [f"{m['mix']} {m['share']:.2f}" for m in models if m["share"] < args.bound]
    print(f"below {args.bound:g} of Q8_0's GB/s: {', '.join(slow) or 'none'}")


if __name__ == "__main__":
    main()
