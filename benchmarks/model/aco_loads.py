#!/usr/bin/env python3
"""How far ahead of their use kernels load device memory, in the instructions that Mesa's compiler for AMD's chips makes of
them. No device is needed.

  qcc compile FILE --target=vulkan --no-cache -q -o FILE.qbin
  mkdir DIR; RADV_FORCE_FAMILY=NAVI21 VK_ICD_FILENAMES=/usr/share/vulkan/icd.d/radeon_icd.x86_64.json \\
    MESA_SHADER_CACHE_DISABLE=1 build/release/bin/device_vulkan_kernels FILE.qbin sg32-dot "" DIR
  benchmarks/model/aco_loads.py DIR [--kernel PREFIX]

Of each kernel: instructions, loads, how many of them a thread waits for within NEAR instructions, and the places where it
waits for all that it has asked for. A loop's counts once. Up to GFX9 a wait counts stores with the loads, which the encoding
of any kernel's scalar loads tells; GFX12 has other waits, which this does not read.
"""
import argparse
import pathlib
import re

LOAD = re.compile(r"(global|flat|buffer)_load")
# What vmcnt counts: GFX10 and later have a counter of its own for what brings nothing back.
COUNTED = re.compile(r"(global|flat|buffer|scratch)_(load|atomic.* glc\b)")
COUNTED_GFX9 = re.compile(r"(global|flat|buffer|scratch)_(load|store|atomic)")
GFX9 = re.compile(r"\bs_load_\w+ .*; c[0-3]")  # later chips encode them as f4
WAIT = re.compile(r"s_waitcnt .*vmcnt\((\d+)\)")


def instructions(text):
    """Without labels of blocks and what stands behind an instruction."""
    lines = (line.split(";")[0].strip() for line in text.splitlines())
    return [line for line in lines if line and not re.match(r"BB\d+:", line)]


def loads(listing, counted):
    """(instructions from each load to the wait for it, places where all that was asked for is waited for). What `counted` matches is
    done in order: vmcnt(N) waits for all but the last N."""
    asked, distances, whole = [], [], 0  # asked: the places of loads, None for what else is counted
    for place, text in enumerate(listing):
        if counted.match(text):
            asked.append(place if LOAD.match(text) else None)
        wait = WAIT.match(text)
        if wait:
            # Behind a branch that loads more, N may be more than the text has asked for.
            cut = max(0, len(asked) - int(wait[1]))
            done, asked = [at for at in asked[:cut] if at is not None], asked[cut:]
            whole += bool(done) and int(wait[1]) == 0
            distances += [place - at for at in done]
    return distances, whole


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="DIR of device_vulkan_kernels")
    parser.add_argument("--kernel", default="", metavar="PREFIX", help="only kernels whose names begin so")
    parser.add_argument("--near", type=int, default=16, help="instructions; default: 16")
    options = parser.parse_args()
    texts = {file.name: file.read_text() for file in sorted(options.folder.iterdir())}
    counted = COUNTED_GFX9 if any(map(GFX9.search, texts.values())) else COUNTED
    print(f"{'instructions':>12} {'loads':>5} {'near':>4} {'waits':>5}  kernel")
    for name, text in texts.items():
        if not name.startswith(options.kernel):
            continue
        listing = instructions(text)
        distances, whole = loads(listing, counted)
        near = sum(distance <= options.near for distance in distances)
        print(f"{len(listing):12} {len(distances):5} {near:4} {whole:5}  {name}")


if __name__ == "__main__":
    main()
