#!/usr/bin/env python3
"""How far ahead of their use the kernels of a PTX file load device memory, in the instructions that ptxas makes of it.
No device is needed.

  qcc compile FILE --target=cuda --gpu-profiles=sm90 --no-cache --dump-kernels=DIR -q -o FILE.qbin
  benchmarks/model/sass_loads.py DIR/cuda-sm90/kernels.ptx
  benchmarks/model/sass_loads.py DIR/cuda-sm90/kernels.ptx --kernel k_linear_q4_k --each

A load whose first use is a few instructions behind it makes its threads wait for memory by themselves; loads in a row
with far uses wait together. Of each kernel: instructions, registers, loads, and how many of them are used within NEAR
instructions. Needs ptxas (CUDA) and nvdisasm (CUDA, or Debian's nvidia-cuda-toolkit in non-free; an nvdisasm older than
ptxas refuses its files, so the header is written as CUDA 11.8 wrote it).
"""
import argparse
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

# e_ident[EI_OSABI], e_ident[EI_ABIVERSION] and e_flags of a cubin of CUDA 11.8: 64-bit, code and virtual architecture.
OS_ABI, ABI_VERSION, ABI_FLAGS = 0x33, 7, 0x500
FLAGS_AT = 48


def as_older_abi(cubin, chip):
    """The bytes of a cubin under the header that every nvdisasm since CUDA 11.8 reads."""
    patched = bytearray(cubin)
    patched[7], patched[8] = OS_ABI, ABI_VERSION
    struct.pack_into("<I", patched, FLAGS_AT, chip << 16 | ABI_FLAGS | chip)
    return bytes(patched)


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"sass_loads.py: {command[0]} failed: {(done.stderr or done.stdout).strip()[:400]}")
    return done.stdout + done.stderr


def kernels(sass):
    """{name: instructions} of nvdisasm's text."""
    found, current = {}, None
    for line in sass.splitlines():
        section = re.match(r"\s*\.section\s+\.text\.(\w+)", line)
        if section:
            current = found.setdefault(section[1], [])
        instruction = re.match(r"\s*/\*[0-9a-f]+\*/\s+(.*?)\s*;", line)
        if instruction and current is not None:
            current.append(instruction[1])
    return found


def distances(instructions):
    """[(place, instructions until the first use)] of the loads of device memory."""
    result = []
    for place, text in enumerate(instructions):
        load = re.search(r"\bLDG\.E(?:\.(64|128))?\S* R(\d+),", text)
        if not load:
            continue
        first, words = int(load[2]), int(load[1] or 32) // 32
        loaded = {f"R{first + i}" for i in range(words)}
        use = place + 1
        while use < len(instructions):
            names = re.findall(r"\bR\d+\b", instructions[use])
            if loaded & set(names[1:] if "LDG" in instructions[use] else names):
                break
            use += 1
        result.append((place, use - place))
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ptx", type=pathlib.Path, help="kernels.ptx of --dump-kernels")
    parser.add_argument("--ptxas", default="ptxas")
    parser.add_argument("--nvdisasm", default="nvdisasm")
    parser.add_argument("--kernel", default="", metavar="PREFIX", help="only kernels whose names begin so")
    parser.add_argument("--near", type=int, default=16, help="instructions; default: 16")
    parser.add_argument("--each", action="store_true", help="place and distance of each load, too")
    options = parser.parse_args()

    chip = re.search(r"^\.target sm_(\d+)", options.ptx.read_text(), re.M)
    if not chip:
        sys.exit(f"sass_loads.py: '{options.ptx}' has no .target sm_NN; it wants a PTX file")
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "kernels.cubin"
        said = run([options.ptxas, "-v", f"-arch=sm_{chip[1]}", str(options.ptx), "-o", str(cubin)])
        cubin.write_bytes(as_older_abi(cubin.read_bytes(), int(chip[1])))
        sass = run([options.nvdisasm, "-c", str(cubin)])
    registers = dict(re.findall(r"Compiling entry function '(\w+)'.*?Used (\d+) registers", said, re.S))
    print(f"{'instructions':>12} {'registers':>9} {'loads':>5} {'near':>4}  kernel")
    for name, instructions in sorted(kernels(sass).items()):
        if not name.startswith(options.kernel):
            continue
        loads = distances(instructions)
        near = sum(distance <= options.near for _, distance in loads)
        print(f"{len(instructions):12} {registers.get(name, '?'):>9} {len(loads):5} {near:4}  {name}")
        if options.each:
            print("    " + " ".join(f"{place}:{distance}" for place, distance in loads))


if __name__ == "__main__":
    main()
