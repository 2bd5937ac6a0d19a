#!/usr/bin/env python3
"""Whole models on a GPU through Vulkan, from artifacts that hold code for the CPU too: the float64 goldens, the CPU's
answers, cuts of a prompt, qrun's reports. Without a Vulkan device that can be used every case is skipped, by name."""
import json
import os

from harness import GOLDEN, Harness, TINY, nmse, read_logits

F32_LIMIT = 1e-6   # f32 numerics, f32 KV, against float64
INT8_FACTOR = 1.2  # int8 numerics: at most this many times the CPU's NMSE on the same file
CUT_LIMIT = 1e-10  # NMSE between two cuts of a prompt
MODELS = ("t35-q-Q4_K_M", "t35-q-Q8_0", "t35-mtp-F32", "t3-q-Q4_K_M", "t3-f-F16")


def devices(h):
    """What `qrun devices` says about Vulkan."""
    return [line for line in h.run("qrun", "devices").decode().splitlines() if "vulkan" in line.lower()]


def usable(h):
    """None, or why no GPU can be used."""
    qbin = h.compile(os.path.join(GOLDEN, "t3-f-F16.gguf"), "probe.qbin", "--target=vulkan", "--decode=1", "--prefill=16")
    ids = h.path("probe.txt")
    with open(ids, "w") as f:
        f.write("1 2 3\n")
    p = h.tool("qrun", "logits", qbin, "--tokens", ids, "-o", h.path("probe.bin"), "--device", "vulkan")
    if p.returncode == 0:
        return None
    why = p.stderr.decode(errors="replace")
    assert p.returncode == 5, f"exit {p.returncode}: {why}"
    return why.splitlines()[0] if why else "no reason given"


def goldens(h):
    """NMSE against float64 on both devices, from one artifact each."""
    with open(os.path.join(GOLDEN, "golden.json")) as f:
        table = json.load(f)
    print(f"{'model':<16}{'f32':>10}{'int8':>10}{'int8 cpu':>10}")
    for name in MODELS:
        gguf, tokens = os.path.join(GOLDEN, name + ".gguf"), os.path.join(GOLDEN, table[name]["tokens"])
        want = read_logits(os.path.join(GOLDEN, name + ".f64.bin"))
        f32 = h.compile(gguf, "f32.qbin", "--target=cpu,vulkan", "--cpu=native", "--numerics=f32", "--kv=f32", "--prefill=64")
        int8 = h.compile(gguf, "int8.qbin", "--target=cpu,vulkan", "--cpu=native", "--prefill=64")
        exact = nmse(h.logits(f32, tokens, "--device", "vulkan"), want)
        gpu, cpu = (nmse(h.logits(int8, tokens, "--device", d), want) for d in ("vulkan", "cpu"))
        print(f"{name:<16}{exact:>10.2e}{gpu:>10.2e}{cpu:>10.2e}")
        h.check(f"{name} f32", exact <= F32_LIMIT, f"NMSE {exact:.3e}, limit {F32_LIMIT:.0e}")
        limit = INT8_FACTOR * max(cpu, 1e-9)  # formats without int8 kernels: both are all but exact
        h.check(f"{name} int8", gpu <= limit, f"NMSE {gpu:.3e}, the CPU's {cpu:.3e}")
        if name.endswith("Q4_K_M"):
            cuts(h, name, int8, tokens)


def cuts(h, name, qbin, tokens):
    whole = h.logits(qbin, tokens, "--device", "vulkan")
    for split in ("33", "1,64", "17,5"):
        got = h.logits(qbin, tokens, "--device", "vulkan", "--split", split)
        h.check(f"{name} --split {split}", nmse(got, whole) <= CUT_LIMIT, f"NMSE {nmse(got, whole):.1e}")
    again = h.logits(qbin, tokens, "--device", "vulkan")
    h.check(f"{name} twice the same", again == whole)


def trained(h):
    """256 greedy tokens of the trained model: those of the CPU, in every profile that runs here."""
    for profile in ("none", "sg8-dot", "sg8"):
        qbin = h.compile(TINY, "tiny.qbin", "--target=cpu,vulkan", "--cpu=native", "--prefill=32", f"--gpu-profiles={profile}")
        greedy = ("--raw", "--greedy", "--repeat-penalty", "1", "--presence-penalty", "0", "-n", "256", "--seed", "1",
                  "-p", "KING RICHARD III:\n")
        texts = {}
        for device in ("cpu", "vulkan"):
            p = h.tool("qrun", qbin, *greedy, "--device", device)
            if p.returncode == 5:
                break
            texts[device] = p.stdout if p.returncode == 0 else p.stderr
        if "vulkan" not in texts:
            print(f"skip tiny greedy {profile}: {p.stderr.decode(errors='replace').splitlines()[0]}")
            continue
        h.check(f"tiny greedy {profile}", texts["cpu"] == texts["vulkan"], f"{texts['cpu'][-200:]!r} and {texts['vulkan'][-200:]!r}" if texts["cpu"] != texts["vulkan"] else "")
        if profile == "none":
            check(h, qbin)


def check(h, qbin):
    """qrun check runs the artifact's own golden prompt on every variant that this machine can run."""
    p = h.tool("qrun", "check", qbin)
    text = p.stdout.decode()
    h.check("qrun check", p.returncode == 0 and "vulkan" in text and "WRONG" not in text, text if p.returncode else "")


def main():
    h = Harness(__doc__)
    why = usable(h)
    if why is not None:
        print(f"skip all: {why}")
        h.check("without a GPU it is said why", "Q5" in why, why)
        h.finish()
    h.check("qrun devices names it", bool(devices(h)))
    goldens(h)
    trained(h)
    h.finish()


if __name__ == "__main__":
    main()
