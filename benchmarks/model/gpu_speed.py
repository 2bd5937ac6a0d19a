#!/usr/bin/env python3
"""Real shapes on a GPU: synth, compile, bench. Prints one row per preset and format, beside the device's copy bandwidth.

  benchmarks/model/gpu_speed.py --bin build/release/bin --device cuda
  benchmarks/model/gpu_speed.py --bin build/release/bin --device vulkan --bandwidth 4800

Decode GB/s is the bytes of weights in the artifact times tokens/s: what decoding would read if nothing else were read.
The copy bandwidth (bytes read and written per second by a copy inside the device's memory) is measured through libcuda
for CUDA; --bandwidth states it for other devices.
"""
import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

COPY_BYTES = 1 << 30


def cuda_copy_bandwidth():
    """GB/s of a copy inside the memory of CUDA device 0: the best of five."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *args):
        result = getattr(cuda, name)(*args)
        if result != 0:
            sys.exit(f"{name}: CUDA error {result}")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
    blocks = [ctypes.c_uint64(), ctypes.c_uint64()]
    for block in blocks:
        call("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(COPY_BYTES))
    best = 0.0
    for _ in range(6):  # the first warms up
        start = time.perf_counter()
        call("cuMemcpyDtoD_v2", blocks[0], blocks[1], ctypes.c_size_t(COPY_BYTES))
        call("cuCtxSynchronize")
        best = max(best, 2 * COPY_BYTES / (time.perf_counter() - start) / 1e9)
    call("cuCtxDestroy_v2", context)
    return best


def run(*command):
    p = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if p.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {p.returncode}\n{p.stderr}")
    return p.stdout


def measure(args, arch, preset, mix, folder):
    qcc, qrun = (os.path.join(args.bin, t) for t in ("qcc", "qrun"))
    gguf, qbin = os.path.join(folder, "model.gguf"), os.path.join(folder, "model.qbin")
    run(qcc, "synth", "--arch", arch, "--preset", preset, "--format", mix, "--seed", 1, "-o", gguf, "-q")
    start = time.monotonic()
    run(qcc, "compile", gguf, "-o", qbin, "-q", f"--target={args.device.split(':')[0]}")
    compile_s = time.monotonic() - start
    os.remove(gguf)
    bench = json.loads(run(qrun, "bench", qbin, f"--device={args.device}", "-p", args.prompt, "-n", args.tokens, "-r", args.reps, "--json"))
    os.remove(qbin)
    return {"model": f"{arch} {preset} {mix}", "device": bench["device"], "profile": bench["cpu"], "compile_s": compile_s,
            "load_s": bench["load_seconds"], "prefill": bench["prefill"]["median"], "decode": bench["decode"]["median"],
            "decode_gbs": bench["weight_bytes"] * bench["decode"]["median"] / 1e9,
            "submissions": bench["decode_submissions_per_token"], "to_host": bench["decode_bytes_to_host_per_token"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder with qcc and qrun")
    parser.add_argument("--device", default="cuda", help="--device of qrun; default: %(default)s")
    parser.add_argument("--presets", default="qwen35:0.8b,qwen35:2b", help="ARCH:PRESET,...; default: %(default)s")
    parser.add_argument("--formats", default="q4_k_m,q8_0", help="format mixes of qcc synth; default: %(default)s")
    parser.add_argument("--prompt", type=int, default=512, help="tokens of the prompt; default: %(default)s")
    parser.add_argument("--tokens", type=int, default=128, help="tokens decoded per sample; default: %(default)s")
    parser.add_argument("--reps", type=int, default=5, help="samples; default: %(default)s")
    parser.add_argument("--bandwidth", type=float, help="copy bandwidth in GB/s, where it cannot be measured here")
    parser.add_argument("--json", action="store_true", help="the rows as JSON instead of a table")
    args = parser.parse_args()
    bandwidth = args.bandwidth or (cuda_copy_bandwidth() if args.device.startswith("cuda") else None)
    folder = tempfile.mkdtemp(prefix="qcc-bench-")
    try:
        rows = [measure(args, *p.split(":"), mix, folder) for p in args.presets.split(",") for mix in args.formats.split(",")]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if args.json:
        print(json.dumps({"copy_bandwidth_gbs": bandwidth, "rows": rows}, indent=1))
        return
    print(f"{rows[0]['device']}, profile {rows[0]['profile']}; copy bandwidth " + (f"{bandwidth:.0f} GB/s" if bandwidth else "not known"))
    print(f"| {'model':<20} | compile s | load s | prefill {args.prompt} tok/s | decode tok/s | decode GB/s | of bandwidth | submissions | bytes to host |")
    print("|" + "-" * 22 + "|" + "--:|" * 8)
    for r in rows:
        share = f"{100 * r['decode_gbs'] / bandwidth:.0f} %" if bandwidth else "-"
        print(f"| {r['model']:<20} | {r['compile_s']:.1f} | {r['load_s']:.2f} | {r['prefill']:.1f} | {r['decode']:.2f} | {r['decode_gbs']:.1f} | {share} | "
              f"{r['submissions']:g} | {r['to_host']:g} |")


if __name__ == "__main__":
    main()
