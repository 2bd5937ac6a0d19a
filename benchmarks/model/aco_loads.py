#!/usr/bin/env python3
"""How far ahead of their use kernels load device memory, in the instructions that Mesa's compiler for AMD's chips makes of
them. No device is needed.

  qcc compile FILE --target=vulkan --no-cache -q -o FILE.qbin
  mkdir DIR; RADV_FORCE_FAMILY=NAVI21 VK_ICD_FILENAMES=/usr/share/vulkan/icd.d/radeon_icd.x86_64.json \\
    MESA_SHADER_CACHE_DISABLE=1 build/release/bin/device_vulkan_kernels FILE.qbin sg32-dot "" DIR
  benchmarks/model/aco_loads.py DIR [--kernel PREFIX]

Of each kernel: instructions, loads, how many of them a thread waits for within NEAR instructions, and the places where it
waits for all that it has asked for. A loop's counts once.
"""
import argparse
import pathlib
import re

LOAD = re.compile(r"(global|flat|buffer)_load")
WAIT = re.compile(r"s_waitcnt .*vmcnt\((\d+)\)")


def instructions(text):
    """Without labels of blocks and what stands behind an instruction."""
    lines = (line.split(";")[0].strip() for line in text.splitlines())
    return [line for line in lines if line and not re.match(r"BB\d+:", line)]


def loads(listing):
    """(instructions from each load to the wait for it, places where all that was asked for is waited for). Loads come back in order:
    vmcnt(N) waits for all but the last N."""
    asked, distances, whole = [], [], 0
    for place, text in enumerate(listing):
        if LOAD.match(text):
            asked.append(place)
        wait = WAIT.match(text)
        if wait:
            left = int(wait[1])
            done = asked[:len(asked) - left] if left else asked
            whole += bool(done) and left == 0
            distances += [place - at for at in done]
            asked = asked[len(done):]
    return distances, whole


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="DIR of device_vulkan_kernels")
    parser.add_argument("--kernel", default="", metavar="PREFIX", help="only kernels whose names begin so")
    parser.add_argument("--near", type=int, default=16, help="instructions; default: 16")
    options = parser.parse_args()
    print(f"{'instructions':>12} {'loads':>5} {'near':>4} {'waits':>5}  kernel")
    for file in sorted(options.folder.glob(options.kernel + "*")):
        listing = instructions(file.read_text())
        distances, whole = loads(listing)
        near = sum(distance <= options.near for distance in distances)
        print(f"{len(listing):12} {len(distances):5} {near:4} {whole:5}  {file.name}")


if __name__ == "__main__":
    main()
