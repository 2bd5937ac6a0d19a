#!/usr/bin/env python3
"""Real shapes on GPUs: synth, compile, bench. Prints one row per preset, format and device, beside the device's copy
bandwidth and, where it is given, beside llama.cpp on the same GGUF.

  benchmarks/model/gpu_speed.py --bin build/release/bin --device cuda,vulkan
  benchmarks/model/gpu_speed.py --bin build/release/bin --llama-bench ~/llama.cpp/build/bin/llama-bench
  benchmarks/model/gpu_speed.py --bin build/release/bin --device vulkan --bandwidth 400
  benchmarks/model/gpu_speed.py --bin build/release/bin --gpu-profiles sm90,sm80
  benchmarks/model/gpu_speed.py --bin build/release/bin --profile-stages stages

Decode GB/s is the bytes of weights that a token reads times tokens/s: what decoding would read if nothing else were
read. The copy bandwidth (bytes read and written per second by a copy inside the device's memory) is measured first, through
libcuda, for NVIDIA's GPUs, on Vulkan too; --bandwidth states it for others.

Bounds: decoding a 2b preset reaches at least 0.45 of what the copy bandwidth allows, and decoding any preset is at least
as fast as each llama-bench of the same backend. The exit code is 1 if one is missed, unless --no-bounds; a bound that
cannot be judged (no bandwidth, no such peer) is named. Each round measures everything once, one after the other; what
is shown are medians over rounds. With --profile-stages each artifact runs once more behind them, timed launch by launch.
"""
import argparse
import ctypes
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from real_shapes import token_weight_bytes

COPY_BYTES = 1 << 30
BOUND_PRESET, BOUND_SHARE = "2b", 0.45


class NoBandwidth(Exception):
    """Why a device's copy bandwidth is not known."""


class Cuda:
    """libcuda, as far as a copy needs it."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")  # OSError: no driver
        self.call("cuInit", 0)

    def call(self, name, *args):
        result = getattr(self.lib, name)(*args)
        if result != 0:
            raise NoBandwidth(f"{name}: CUDA error {result}")

    def names(self):
        count, name, device = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        names = []
        for i in range(count.value):
            self.call("cuDeviceGet", ctypes.byref(device), i)
            self.call("cuDeviceGetName", name, len(name), device)
            names.append(name.value.decode())
        return names

    def copy_bandwidth(self, index):
        """GB/s of a copy inside the device's memory: the best of five."""
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), index)
        self.call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        try:
            blocks = [ctypes.c_uint64(), ctypes.c_uint64()]
            for block in blocks:
                self.call("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(COPY_BYTES))
            best = 0.0
            for _ in range(6):  # the first warms up
                start = time.perf_counter()
                self.call("cuMemcpyDtoD_v2", blocks[0], blocks[1], ctypes.c_size_t(COPY_BYTES))
                self.call("cuCtxSynchronize")
                best = max(best, 2 * COPY_BYTES / (time.perf_counter() - start) / 1e9)
            return best
        finally:
            self.lib.cuCtxDestroy_v2(context)


class Bandwidths:
    """Copy bandwidth by qrun's name of a device, each measured once; None, and the reason said, where it cannot be. NVIDIA's are
    found by their model's name."""

    def __init__(self, stated):
        self.stated, self.measured, self.cuda = stated, {}, None

    def of(self, device):  # "cuda:0 (NVIDIA H200)"
        if self.stated:
            return self.stated
        if device not in self.measured:
            try:
                self.measured[device] = self.measure(device)
            except (OSError, NoBandwidth) as error:  # OSError: no libcuda
                print(f"{device}: copy bandwidth is not known: {error}; see --bandwidth", file=sys.stderr)
                self.measured[device] = None
        return self.measured[device]

    def measure(self, device):
        self.cuda = self.cuda or Cuda()
        name, names = device.partition("(")[2].rpartition(")")[0], self.cuda.names()
        if device.startswith("cuda:"):
            index = int(device.split()[0].split(":")[1])
        elif name in names:
            index = names.index(name)
        else:
            raise NoBandwidth("libcuda has no device of that name")
        return self.cuda.copy_bandwidth(index)

    def ask(self, qrun, asked):
        """Of all devices that --device may mean, ahead of what takes long: what is missing is said then."""
        for found in json.loads(run(qrun, "devices", "--json"))["devices"]:
            if found["usable"] and (found["id"] in asked or found["id"].split(":")[0] in asked):
                self.of(f"{found['id']} ({found['name']})")


def run(*command):
    p = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if p.returncode != 0:
        sys.exit(f"{shlex.join(map(str, command))}: exit {p.returncode}\n{p.stderr}")
    return p.stdout


def parse_llama_bench(text):
    """What `llama-bench -p P -n N -o json` printed: tokens/s of prompt and generation, and which build it was."""
    try:
        tests = json.loads(text)
        prefill = [t["avg_ts"] for t in tests if t["n_prompt"] != 0 and t["n_gen"] == 0]
        decode = [t["avg_ts"] for t in tests if t["n_prompt"] == 0 and t["n_gen"] != 0]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"not what llama-bench -o json prints: {error!r}") from error
    if len(prefill) != 1 or len(decode) != 1:
        raise ValueError(f"{len(prefill)} tests of a prompt and {len(decode)} of generation, expected one of each")
    return {"backend": tests[0].get("backends") or "?", "build": tests[0].get("build_commit") or "?", "prefill": prefill[0], "decode": decode[0]}


def peer(args, program, gguf):
    out = run(program, "-m", gguf, "-p", args.prompt, "-n", args.tokens, "-r", args.reps, "-o", "json", *shlex.split(args.llama_args))
    try:
        return parse_llama_bench(out)
    except ValueError as error:
        sys.exit(f"{program}: {error}")


def write_stages(args, places, model):
    """What each kernel of a prompt's and of a token's step takes by the device's own timestamps: a file for each device and artifact."""
    os.makedirs(args.profile_stages, exist_ok=True)
    for device, qbin in places:
        code = os.path.splitext(os.path.basename(qbin))[0]
        out = os.path.join(args.profile_stages, f"{model}-{device.replace(':', '_')}-{code}.txt")
        with open(out, "w", encoding="utf-8") as f:
            f.write(run(os.path.join(args.bin, "qrun"), "bench", qbin, f"--device={device}", "-p", args.prompt, "-n", args.tokens, "-r", 1, "--profile-stages"))


def measure(args, arch, preset, mix, folder, bandwidths):
    """One row per device and artifact: one of the usual profiles, or of each that is asked for."""
    qcc, qrun = (os.path.join(args.bin, t) for t in ("qcc", "qrun"))
    gguf = os.path.join(folder, "model.gguf")
    run(qcc, "synth", "--arch", arch, "--preset", preset, "--format", mix, "--seed", 1, "-o", gguf, "-q")
    targets = list(dict.fromkeys(d.split(":")[0] for d in args.device.split(",")))
    qbins, weights = {}, {}
    for profile in args.gpu_profiles or [None]:
        start = time.monotonic()
        qbin = os.path.join(folder, f"{profile or 'model'}.qbin")
        run(qcc, "compile", gguf, "-o", qbin, "-q", "--no-cache", f"--target={','.join(targets)}", *([f"--gpu-profiles={profile}"] if profile else []))
        qbins[qbin] = time.monotonic() - start
        weights[qbin] = token_weight_bytes(json.loads(run(qcc, "inspect", qbin, "--json")))
    ours, peers = {(d, q): [] for d in args.device.split(",") for q in qbins}, {p: [] for p in args.llama_bench}
    for _ in range(args.rounds):
        for (device, qbin), rounds in ours.items():
            bench = (qrun, "bench", qbin, f"--device={device}", "-n", args.tokens, "-r", args.reps, "--json")
            # Also with the host looking at each token before the next: what it waits for is the difference.
            one_by_one = json.loads(run(*bench, "-p", 0, "--tokens-ahead", 1))
            rounds.append({**json.loads(run(*bench, "-p", args.prompt)), "one_by_one": one_by_one["decode"]})
        for program, rounds in peers.items():
            rounds.append(peer(args, program, gguf))
    if args.profile_stages:
        write_stages(args, ours, f"{arch}-{preset}-{mix}")
    for path in (gguf, *qbins):
        os.remove(path)
    beside = [{**rounds[0], **{k: statistics.median(r[k] for r in rounds) for k in ("prefill", "decode")}} for rounds in peers.values()]
    rows = []
    for (device, qbin), rounds in ours.items():
        prefill, decode, one_by_one, load = (statistics.median(r[k]["median"] if k != "load_seconds" else r[k] for r in rounds)
                                             for k in ("prefill", "decode", "one_by_one", "load_seconds"))
        first = rounds[0]
        rows.append({"model": f"{arch} {preset} {mix}", "preset": preset, "kind": device.split(":")[0], "device": first["device"],
                     "profile": first["cpu"], "compile_s": qbins[qbin], "load_s": load, "prefill": prefill, "decode": decode, "one_by_one": one_by_one,
                     "decode_gbs": weights[qbin] * decode / 1e9, "bandwidth": bandwidths.of(first["device"]),
                     "submissions": first["decode_submissions_per_token"], "to_host": first["decode_bytes_to_host_per_token"], "peers": beside})
    return rows


def same_backend(row, other):
    return row["kind"] in other["backend"].lower()


def of_bound(row):
    """Decode speed over what the bound asks for; None where it asks nothing or cannot be judged."""
    if row["preset"] != BOUND_PRESET or not row["bandwidth"]:
        return None
    return row["decode_gbs"] / (BOUND_SHARE * row["bandwidth"])


def judge(rows):
    """Bounds that are missed, and what could not be judged, as lines."""
    missed, open_ = [], []
    for row in rows:
        what, ratio = f"{row['model']} on {row['device']}", of_bound(row)
        if ratio is not None and ratio < 1:
            missed.append(f"{what}: decode is {ratio:.2f} of {BOUND_SHARE:g} x the bandwidth bound")
        if row["preset"] == BOUND_PRESET and not row["bandwidth"]:
            open_.append(f"{what}: no copy bandwidth, see --bandwidth")
        for other in row["peers"]:
            if same_backend(row, other) and row["decode"] < other["decode"]:
                missed.append(f"{what}: decode is {row['decode'] / other['decode']:.2f} of llama.cpp's ({other['backend']} {other['build']})")
        if row["peers"] and not any(same_backend(row, other) for other in row["peers"]):
            open_.append(f"{what}: no llama-bench of this backend")
    return missed, open_


def table(rows, prompt):
    """Lines."""
    columns = [("model", lambda r: r["model"]), ("device", lambda r: r["device"].split()[0]), ("profile", lambda r: r["profile"]), ("compile s", lambda r: f"{r['compile_s']:.1f}"),
               ("load s", lambda r: f"{r['load_s']:.2f}"), (f"prefill {prompt} tok/s", lambda r: f"{r['prefill']:.1f}"),
               ("decode tok/s", lambda r: f"{r['decode']:.2f}"), ("one by one", lambda r: f"{r['one_by_one']:.2f}"), ("decode GB/s", lambda r: f"{r['decode_gbs']:.1f}"),
               ("of bandwidth", lambda r: f"{100 * r['decode_gbs'] / r['bandwidth']:.0f} %" if r["bandwidth"] else "-"),
               (f"over {BOUND_SHARE:g} x bound", lambda r: f"{of_bound(r):.2f}" if of_bound(r) else "-"),
               ("submissions", lambda r: f"{r['submissions']:g}"), ("bytes to host", lambda r: f"{r['to_host']:g}")]
    for i, other in enumerate(rows[0]["peers"]):
        name = f"llama.cpp {other['backend']} {other['build']}"
        columns += [(f"{name} prefill", lambda r, i=i: f"{r['peers'][i]['prefill']:.1f}"), ("decode", lambda r, i=i: f"{r['peers'][i]['decode']:.2f}"),
                    ("ours/its prefill", lambda r, i=i: f"{r['prefill'] / r['peers'][i]['prefill']:.2f}"),
                    ("decode", lambda r, i=i: f"{r['decode'] / r['peers'][i]['decode']:.2f}")]
    cells = [[name for name, _ in columns]] + [[cell(r) for _, cell in columns] for r in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    lines = ["| " + " | ".join(c.ljust(w) if k < 3 else c.rjust(w) for k, (c, w) in enumerate(zip(line, widths))) + " |" for line in cells]
    lines.insert(1, "|" + "|".join("-" * (w + 1) + ("-" if k < 3 else ":") for k, w in enumerate(widths)) + "|")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder with qcc and qrun")
    parser.add_argument("--device", default="cuda", help="--device of qrun; several, with commas, are measured in turns; default: %(default)s")
    parser.add_argument("--gpu-profiles", type=lambda names: names.split(","), default=[], metavar="NAME[,NAME]",
                        help="code for each of these alone, measured in turns; default: the best of the usual ones")
    parser.add_argument("--presets", default="qwen35:0.8b,qwen35:2b", help="ARCH:PRESET,...; default: %(default)s")
    parser.add_argument("--formats", default="q4_k_m,q8_0", help="format mixes of qcc synth; default: %(default)s")
    parser.add_argument("--prompt", type=int, default=512, help="tokens of the prompt; default: %(default)s")
    parser.add_argument("--tokens", type=int, default=128, help="tokens decoded per sample; default: %(default)s")
    parser.add_argument("--reps", type=int, default=5, help="samples a round; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="times that everything is measured in turns; default: %(default)s")
    parser.add_argument("--bandwidth", type=float, help="copy bandwidth in GB/s, where it cannot be measured here")
    parser.add_argument("--llama-bench", type=lambda paths: paths.split(","), default=[], metavar="PATH[,PATH]",
                        help="llama-bench of a CUDA or Vulkan build of llama.cpp, measured in turns with ours")
    parser.add_argument("--llama-args", default="-ngl 99 -sm none", help="further options of llama-bench; default: %(default)s")
    parser.add_argument("--profile-stages", metavar="DIR", help="a file for each model, device and artifact: the time of each kernel, launch by launch")
    parser.add_argument("--no-bounds", action="store_true", help="judge nothing")
    parser.add_argument("--json", action="store_true", help="the rows as JSON instead of a table")
    args = parser.parse_args()
    bandwidths, rows = Bandwidths(args.bandwidth), []
    bandwidths.ask(os.path.join(args.bin, "qrun"), args.device.split(","))
    folder = tempfile.mkdtemp(prefix="qcc-bench-")
    try:
        for p in args.presets.split(","):
            for mix in args.formats.split(","):
                rows += measure(args, *p.split(":"), mix, folder, bandwidths)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    missed, not_judged = ([], []) if args.no_bounds else judge(rows)
    if args.json:
        print(json.dumps({"rows": rows, "bounds_missed": missed, "bounds_not_judged": not_judged}, indent=1))
    else:
        for device, profile, bandwidth in dict.fromkeys((r["device"], r["profile"], r["bandwidth"]) for r in rows):
            print(f"{device}, profile {profile}; copy bandwidth " + (f"{bandwidth:.0f} GB/s" if bandwidth else "not known"))
        print("\n".join(table(rows, args.prompt)))
        for line in not_judged:
            print(f"not judged: {line}")
    if missed:
        sys.exit("bounds missed:\n  " + "\n  ".join(missed))


if __name__ == "__main__":
    main()
