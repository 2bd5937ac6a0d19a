#!/usr/bin/env python3
"""What a GPU should reach, from what a compiled step counts: bytes, arithmetic, launches and the waits between them. No device is
needed; with --device what it does is measured beside the expectation.

  benchmarks/model/gpu_model.py --bin build/release/bin
  benchmarks/model/gpu_model.py --bin build/release/bin --presets qwen35:2b --formats q4_k_m --context 8192 --floor 1.5
  benchmarks/model/gpu_model.py --bin build/release/bin --device cuda --floor 2.1

A step takes as long as its bytes take at the full bandwidth, or its operations at the full rate, whichever is more, and for
each wait the floor: from the end of what is waited for until the next launch runs at full speed. Launches between two waits
overlap. The floor of a device is not known before it is measured (benchmarks/micro/cuda_floor.cu: of an H100 1.2 for as many
workgroups as multiprocessors), so without --floor there are three. Bandwidths and rates of 8-bit integers are those of the makers' data sheets,
rates those of what the profile has: matrix units, or dot products.
"""
import argparse
import json
import os
import shutil
import tempfile

from gpu_speed import run

# GB/s of memory, 10^12 dense operations of 8-bit integers a second, profile of the artifact. The A770's 275 are of matrix units, which
# sg32-dot has not: DP4a is 64 a clock of each of 512 vector engines at 2.1 GHz (Intel, "Introduction to the Xe-HPG Architecture").
GPUS = {
    "H200": (4800, 1979, "cuda", "sm80"),
    "H100 SXM": (3350, 1979, "cuda", "sm80"),
    "RTX 4090": (1008, 661, "cuda", "sm80"),
    "RX 7900 XTX": (960, 123, "vulkan", "sg64-dot"),
    "Arc A770": (560, 69, "vulkan", "sg32-dot"),
}
FLOORS_US = (1.0, 2.0, 4.0)


def seconds(program, context, bandwidth, rate, floor_us):
    """Of a step with `context` tokens before it, and of them those that its bytes take."""
    moved = program["read_bytes"] + program["write_bytes"] + context * program["kv_bytes_per_context_token"]
    memory = moved / (bandwidth * 1e9)
    return max(memory, program["operations"] / (rate * 1e12)) + program["barriers"] * floor_us * 1e-6, memory


def programs(report, target, isa):
    found = next(t for t in report["targets"] if (t["target"], t["isa"]) == (target, isa))
    return {p["name"]: p for p in found["gpu"]["programs"]}


def rows(args, arch, preset, mix, folder):
    qcc, qrun = (os.path.join(args.bin, t) for t in ("qcc", "qrun"))
    gguf, qbin = (os.path.join(folder, name) for name in ("model.gguf", "model.qbin"))
    run(qcc, "synth", "--arch", arch, "--preset", preset, "--format", mix, "--seed", 1, "-o", gguf, "-q")
    profiles = ",".join(dict.fromkeys(isa for _, _, _, isa in GPUS.values()))
    run(qcc, "compile", gguf, "-o", qbin, "-q", "--target=cuda,vulkan", f"--gpu-profiles={profiles}", "--goldens=off", "--decode=1", "--prefill=512")
    report = json.loads(run(qcc, "inspect", qbin, "--json"))
    made = []
    for gpu, (bandwidth, rate, target, isa) in GPUS.items():
        of_target = programs(report, target, isa)
        decode, prefill = of_target["decode_1"], of_target["prefill_512"]
        for floor in args.floors:
            took, memory = seconds(decode, args.context, bandwidth, rate, floor)
            made.append({"model": f"{arch} {preset} {mix}", "gpu": gpu, "floor_us": floor, "launches": decode["dispatches"], "waits": decode["barriers"],
                         "decode": 1 / took, "share": memory / took, "prefill": 512 / seconds(prefill, args.context, bandwidth, rate, floor)[0]})
    for device in args.device.split(",") if args.device else []:
        bench = json.loads(run(qrun, "bench", qbin, f"--device={device}", "-p", 512, "-n", 128, "-d", args.context, "-r", 5, "--json"))
        made.append({"model": f"{arch} {preset} {mix}", "gpu": f"{bench['device']}, measured", "decode": bench["decode"]["median"], "prefill": bench["prefill"]["median"]})
    return made


def table(found):
    columns = [("model", lambda r: r["model"]), ("GPU", lambda r: r["gpu"]), ("launches", lambda r: str(r.get("launches", ""))),
               ("waits", lambda r: str(r.get("waits", ""))), ("floor us", lambda r: f"{r['floor_us']:g}" if "floor_us" in r else ""),
               ("decode tok/s", lambda r: f"{r['decode']:.0f}"), ("of bandwidth", lambda r: f"{r['share']:.2f}" if "share" in r else ""),
               ("prefill 512 tok/s", lambda r: f"{r['prefill']:.0f}")]
    cells = [[name for name, _ in columns]] + [[cell(r) for _, cell in columns] for r in found]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    lines = ["| " + " | ".join(c.ljust(w) if k < 2 else c.rjust(w) for k, (c, w) in enumerate(zip(line, widths))) + " |" for line in cells]
    lines.insert(1, "|" + "|".join("-" * (w + 1) + ("-" if k < 2 else ":") for k, w in enumerate(widths)) + "|")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder with qcc and qrun")
    parser.add_argument("--presets", default="qwen35:0.8b,qwen35:2b", help="ARCH:PRESET,...; default: %(default)s")
    parser.add_argument("--formats", default="q4_k_m", help="format mixes of qcc synth; default: %(default)s")
    parser.add_argument("--context", type=int, default=0, help="tokens before the step; default: %(default)s")
    parser.add_argument("--floor", type=float, dest="floors", action="append", metavar="US", help="microseconds of a wait, measured; several: each")
    parser.add_argument("--device", help="--device of qrun, whose speed is measured beside; several, with commas")
    parser.add_argument("--json", action="store_true", help="the rows as JSON instead of a table")
    args = parser.parse_args()
    args.floors = args.floors or list(FLOORS_US)
    folder, found = tempfile.mkdtemp(prefix="qcc-bench-"), []
    try:
        for preset in args.presets.split(","):
            for mix in args.formats.split(","):
                found += rows(args, *preset.split(":"), mix, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(found, indent=1) if args.json else table(found))


if __name__ == "__main__":
    main()
