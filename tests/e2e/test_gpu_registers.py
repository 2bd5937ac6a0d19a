#!/usr/bin/env python3
"""What ptxas makes of whole CUDA artifacts: every kernel of every program keeps its values in registers, also those that became one launch. Kernels
of one family by themselves, and how many registers they may have, are tests/unit/gpu_cuda/ptx_registers_test.cc."""
import os
import re
import shutil
import subprocess

from harness import Harness

# What the kernels' bounds were found with. Another one shares registers out in its own way: a few bytes are no fault of ours.
RELEASE = "13.0"
CHIPS = {"sm80": "sm_80", "sm90": "sm_90"}
# Shapes, formats and kinds of layers; the vocabulary is that of the kernels that choose a token. Experts are few, as their number is in no loop.
MODELS = {
    "qwen35 0.8b Q4_K_M": ["--arch", "qwen35", "--preset", "0.8b", "--format", "q4_k_m", "--layers", "8"],
    "qwen35 2b Q8_0": ["--arch", "qwen35", "--preset", "2b", "--format", "q8_0", "--layers", "4", "--vocab", "8192"],
    "qwen35 2b Q4_K_M": ["--arch", "qwen35", "--preset", "2b", "--format", "q4_k_m", "--layers", "8", "--vocab", "8192"],
    "qwen3 1.7b Q4_K_M": ["--arch", "qwen3", "--preset", "1.7b", "--format", "q4_k_m", "--layers", "8", "--vocab", "8192"],
    "qwen35moe 35b-a3b Q4_K_M": ["--arch", "qwen35moe", "--preset", "35b-a3b", "--format", "q4_k_m", "--layers", "4", "--vocab", "8192", "--experts", "64"],
}
KERNEL = re.compile(r"Function properties for (\w+)\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores, \d+ bytes spill loads\n")


def registers(h, ptxas, options):
    gguf, dump = h.path("model.gguf"), h.path("dump")
    h.run("qcc", "synth", *options, "--seed", 1, "-o", gguf, "-q")
    h.run("qcc", "compile", gguf, "--target=cuda", f"--gpu-profiles={','.join(CHIPS)}", "--compile-to=code", f"--dump-kernels={dump}", "-q")
    os.remove(gguf)
    for profile, chip in CHIPS.items():
        folder = os.path.join(dump, f"cuda-{profile}")
        made = {f[:-len(".mlir")] for f in os.listdir(folder) if f.endswith(".mlir")}
        p = subprocess.run([ptxas, "-v", f"-arch={chip}", os.path.join(folder, "kernels.ptx"), "-o", h.path("all.cubin")],
                           capture_output=True, text=True, check=False)
        assert p.returncode == 0, f"{profile}: {p.stderr[-600:]}"
        found = KERNEL.findall(p.stderr)
        assert made and {kernel for kernel, _, _ in found} == made, f"{profile}: ptxas -v speaks of {len(found)} of {len(made)} kernels"
        spilled = [f"{kernel}: {stack} bytes of stack, {stored} stored there" for kernel, stack, stored in found if int(stack) or int(stored)]
        assert not spilled, f"{profile}: {'; '.join(spilled)}"
    shutil.rmtree(dump)


def main():
    h = Harness(__doc__)
    ptxas = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")
    if ptxas is None:
        h.check("skip: ptxas is not installed", True)
        h.finish()
    release = re.search(r"release ([\d.]+)", subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True).stdout)
    if release is None or release[1] != RELEASE:
        h.check(f"skip: this ptxas is release {release and release[1]}, not {RELEASE}", True)
        h.finish()
    for name, options in MODELS.items():
        h.case(f"{name}: no kernel spills", lambda options=options: registers(h, ptxas, options))
    h.finish()


if __name__ == "__main__":
    main()
