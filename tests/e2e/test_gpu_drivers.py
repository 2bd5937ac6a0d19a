#!/usr/bin/env python3
"""What a GPU's own compiler makes of our kernels: that of Mesa's driver for AMD's chips (RADV), which needs no GPU. Every kernel of
a dense hybrid and of one with experts, real shapes in few layers, compiles for chips with subgroups of 32 and of 64, and keeps its
values in registers."""
import glob
import os

from harness import Harness

MODELS = [("dense", ["--preset=0.8b", "--layers=4", "--vocab=2048"]),
          ("experts", ["--arch=qwen35moe", "--preset=35b-a3b", "--layers=4", "--vocab=2048", "--experts=16"])]
CHIPS = [("NAVI21", "sg32-dot"), ("VEGA20", "sg64-dot")]
REMOVED = b"RADV_FORCE_FAMILY=<family> has been removed"
NONE_OF = ["Spilled SGPRs", "Spilled VGPRs", "Scratch size"]


def compile_for(t, artifact, chip, driver):
    """(code variant, rows of the table): a row is what the driver says of a kernel."""
    env = {**os.environ, "RADV_FORCE_FAMILY": chip, "VK_ICD_FILENAMES": driver, "MESA_SHADER_CACHE_DISABLE": "1"}
    done = t.tool("device_vulkan_kernels", artifact, env=env, timeout=600)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr.decode(errors='replace')[-400:]}"
    first, names, *rows = done.stdout.decode().splitlines()
    names = [name.strip() for name in names.split("|")]
    return first.split()[-1], [dict(zip(names, (cell.strip() for cell in row.split("|")))) for row in rows]


def check(t, artifact, chip, variant, driver):
    if REMOVED in t.tool("qrun", "devices", env={**os.environ, "RADV_FORCE_FAMILY": chip, "VK_ICD_FILENAMES": driver}).stderr:
        return "skipped: this Mesa compiles only for chips that are there (from 26 on)"
    chosen, rows = compile_for(t, artifact, chip, driver)
    assert chosen == variant, f"the runtime chooses {chosen} for this chip, {variant} was expected"
    assert len(rows) > 50, f"{len(rows)} kernels; the artifact has more"
    missing = [name for name in NONE_OF if name not in rows[0]]
    assert not missing, f"the driver says nothing of {missing}; it tells {sorted(rows[0])}"
    wrong = [f"{row['Kernel']}: {name} {row[name]}" for row in rows for name in NONE_OF if row[name] != "0"]
    assert not wrong, "not all values are in registers: " + "; ".join(wrong)
    return f"{len(rows)} kernels, at most {max(int(row['VGPRs']) for row in rows)} registers"


def main():
    t = Harness(__doc__)
    drivers = glob.glob("/usr/share/vulkan/icd.d/radeon_icd*.json")
    for model, options in MODELS:
        gguf, artifact = t.path(model + ".gguf"), t.path(model + ".qbin")
        if not drivers:
            t.case(model, lambda: "skipped: Mesa's Vulkan driver for AMD is not installed (mesa-vulkan-drivers)")
            continue
        t.run("qcc", "synth", "--format=q4_k_m", *options, "-o", gguf)
        t.compile(gguf, model + ".qbin", "--target=vulkan")
        for chip, variant in CHIPS:
            t.case(f"{model}, {chip}: {variant} compiles, and nothing spills",
                   lambda artifact=artifact, chip=chip, variant=variant: check(t, artifact, chip, variant, drivers[0]))
    t.finish()


if __name__ == "__main__":
    main()
