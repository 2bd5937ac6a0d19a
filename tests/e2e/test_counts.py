#!/usr/bin/env python3
"""What speed is made of, without a clock: instructions of a token and of a prompt's row (callgrind), dispatches, barriers and bytes of a
step. Within 3 % of what is written here: a change that costs more, or gains more, says so by changing these numbers."""
import os
import re
import subprocess

from harness import Harness

# Instructions on level v3, one thread: a token at depths 8 to 24, a row of a prompt of 32 to 64. Of SMALL in each format.
SMALL = ["--arch", "qwen35", "--preset", "0.8b", "--layers", "4", "--hidden", "256", "--ffn", "512", "--vocab", "512",
         "--linear-key-heads", "2", "--linear-value-heads", "2", "--heads", "2", "--kv-heads", "1"]
INSTRUCTIONS = {"q8_0": (1085000, 711700), "q4_k_m": (1019000, 524500)}

# Of 8 layers of the preset, Q4_K_M: dispatches and barriers of a decoded token and of a prefill step.
STEPS = {preset: {"decode_1": (100, 76), "prefill_512": (94, 70)} for preset in ("0.8b", "2b")}

# The same on GPUs: launches, and waits between them. All profiles alike; a decoded token has 5 launches a delta net,
# 6 an attention layer, and 4 besides: 130 of 24 layers.
GPU_STEPS = {preset: {"decode_1": (46, 44), "head_1": (5, 4)} for preset in ("0.8b", "2b")}
# Of eight sequences at once. Where rows are made by the linears that read them is a question of workgroup memory, of which
# Vulkan promises 16 KiB, and devices with subgroups of 32 have twice as much.
GPU_STEPS_OF_EIGHT = {"0.8b": {"none": (68, 66), "sg32-dot": (62, 60), "sm80": (54, 52)}, "2b": {"none": (76, 74), "sg32-dot": (62, 60), "sm80": (62, 60)}}
# Launches behind them that choose a token: the likeliest, one of top-k, any; and the most of 24 layers with the first two.
GPU_CHOICES = {"greedy": 1, "draw_few": 2, "draw": 10}
GPU_GUESS = {"guess": 1}  # of a draft
# Launches that sort slots by expert, in programs of 1, 8 and 32 rows of 2 layers: few rows read no such lists, and the last
# layer's experts run for the chosen rows alone.
GPU_SORTS = 1
MOST_OF_A_TOKEN = 160


def near(found, expected):
    return abs(found - expected) <= 0.03 * expected


def synth(h, name, *options):
    gguf = h.path(name + ".gguf")
    h.run("qcc", "synth", "--seed", 1, "-o", gguf, "-q", *options)
    return gguf


def collected(h, qbin, prompt, tokens):
    """Instructions of a whole `qrun bench`."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", os.path.join(h.args.bin, "qrun"), "bench", qbin, "-t", 1, "-r", 1, "-p", prompt, "-n", tokens]
    p = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", p.stderr)
    assert p.returncode == 0 and found, f"exit {p.returncode}: {p.stderr[-300:]}"
    return int(found[1])


def instructions(h, mix, expected):
    qbin = h.compile(synth(h, mix, *SMALL, "--format", mix), mix + ".qbin", "--cpu=v3", "--goldens=off", "--decode=1", "--prefill=128")
    # Each of the bench's two rounds feeds the prompt; the first decodes 4 tokens at most.
    token = (collected(h, qbin, 0, 24) - collected(h, qbin, 0, 8)) / 16
    row = (collected(h, qbin, 64, 0) - collected(h, qbin, 32, 0)) / 64
    found = f"{token:.0f} a token, {row:.0f} a row"
    assert near(token, expected[0]) and near(row, expected[1]), f"{found}; expected {expected[0]} and {expected[1]}"
    return found


def steps(h, preset, expected):
    gguf = synth(h, preset, "--arch", "qwen35", "--preset", preset, "--layers", "8", "--vocab", "4096", "--format", "q4_k_m")
    report = h.inspect(h.compile(gguf, preset + ".qbin", "--cpu=base", "--goldens=off", "--decode=1", "--prefill=512"))
    programs = {p["name"]: p for p in report["programs"]}
    found = {name: (programs[name]["dispatches"], programs[name]["barriers"]) for name in expected}
    assert all(near(a, b) for name in expected for a, b in zip(found[name], expected[name])), f"{found}, expected {expected}"
    # The embedding is the output matrix here: a token reads every weight once, and one row of it twice.
    once, read = report["memory"]["weights_bytes"], programs["decode_1"]["weight_bytes"]
    assert 0.99 * once <= read <= 1.01 * once, f"a token reads {read} bytes of weights, the artifact has {once}"
    return str(found)


def gpu_steps(h, preset, expected):
    gguf = synth(h, preset, "--arch", "qwen35", "--preset", preset, "--layers", "8", "--vocab", "4096", "--format", "q4_k_m")
    profiles = ("none", "sg32-dot", "sm80")
    report = h.inspect(h.compile(gguf, preset + "-gpu.qbin", "--target=cuda,vulkan", f"--gpu-profiles={','.join(profiles)}", "--goldens=off", "--decode=1,8",
                                 "--prefill=32"))
    once, found = report["memory"]["weights_bytes"], {}
    assert {t["isa"] for t in report["targets"]} == set(profiles), report["targets"]
    for t in report["targets"]:
        programs = {p["name"]: p for p in t["gpu"]["programs"]}
        found = {name: (programs[name]["dispatches"], programs[name]["barriers"]) for name in expected}
        assert found == expected, f"{t['isa']}: {found}, expected {expected}"
        eight = (programs["decode_8"]["dispatches"], programs["decode_8"]["barriers"])
        assert eight == GPU_STEPS_OF_EIGHT[preset][t["isa"]], f"{t['isa']}: {eight}, expected {GPU_STEPS_OF_EIGHT[preset][t['isa']]}"
        choices = {p["kind"]: p["dispatches"] for p in t["gpu"]["sample_programs"] if p["rows"] == 1}
        assert choices == GPU_CHOICES, f"{t['isa']}: {choices}, expected {GPU_CHOICES}"
        layers = 24 // 8 * sum(p * n for p, n in ((programs["decode_1"]["dispatches_per_gdn_layer"], 6), (programs["decode_1"]["dispatches_per_attention_layer"], 2)))
        token = layers + programs["decode_1"]["dispatches"] - layers // 3 + max(choices["greedy"], choices["draw_few"])
        assert token <= MOST_OF_A_TOKEN, f"{t['isa']}: {token} launches of a token of 24 layers, at most {MOST_OF_A_TOKEN}"
        read = programs["decode_1"]["weight_bytes"]
        assert 0.99 * once <= read <= 1.01 * once, f"{t['isa']}: a token reads {read} bytes of weights, the artifact has {once}"
    return str(found)


def guesses(h):
    gguf = synth(h, "draft", "--arch", "qwen35", "--preset", "0.8b", "--layers", "4", "--hidden", "256", "--ffn", "512", "--vocab", "4096", "--mtp", "--format", "q4_k_m")
    options = ("--target=cuda,vulkan", "--gpu-profiles=sg32-dot,sm80", "--goldens=off", "--decode=1", "--prefill=32")
    for target in h.inspect(h.compile(gguf, "draft.qbin", *options))["targets"]:
        choices = {p["kind"]: p["dispatches"] for p in target["gpu"]["sample_programs"] if p["rows"] == 1}
        assert choices == GPU_CHOICES | GPU_GUESS, f"{target['isa']}: {choices}, expected {GPU_CHOICES | GPU_GUESS}"


def experts(h):
    gguf = synth(h, "experts", "--arch", "qwen3moe", "--preset", "30b-a3b", "--layers", "2", "--hidden", "256", "--heads", "4", "--kv-heads", "2", "--head-dim", "64", "--vocab", "1024",
                 "--experts", "12", "--experts-used", "3", "--expert-ffn", "256", "--format", "q4_k_m")
    options = ("--target=vulkan", "--gpu-profiles=sg32-dot", "--goldens=off", "--decode=1,8", "--prefill=32")
    target, = h.inspect(h.compile(gguf, "experts.qbin", *options))["targets"]
    found = sum(k["dispatches"] for k in target["gpu"]["kernels"] if k["name"].startswith("moe_group"))
    assert found == GPU_SORTS, f"{found} launches sort slots by expert, expected {GPU_SORTS}"


def main():
    h = Harness(__doc__)
    for preset, expected in GPU_STEPS.items():
        h.case(f"{preset}: launches and waits of a token on a GPU, bytes of its weights", lambda: gpu_steps(h, preset, expected))
    h.case("launches of a draft's guess", lambda: guesses(h))
    h.case("slots are sorted by expert where that is read", lambda: experts(h))
    for preset, expected in STEPS.items():
        h.case(f"{preset}: dispatches and barriers of a step, bytes of a token", lambda: steps(h, preset, expected))
    needs, = re.findall(r"^cpu +v3 [* ] +(.*)", h.run("qcc", "targets").decode(), re.MULTILINE)
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        has = set(re.search(r"^flags\s*: (.*)", f.read(), re.MULTILINE)[1].split())
    lacking = set(needs.split()) - has
    if not lacking:
        for mix, expected in INSTRUCTIONS.items():
            h.case(f"{mix}: instructions", lambda: instructions(h, mix, expected))
    else:
        print(f"skip instructions: this machine lacks {', '.join(sorted(lacking))} of level v3", flush=True)
    h.finish()


if __name__ == "__main__":
    main()
