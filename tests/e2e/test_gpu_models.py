#!/usr/bin/env python3
"""Whole models on a GPU (--device), from artifacts that hold code for the CPU too: the float64 goldens, the CPU's
answers, cuts of a prompt, qrun's reports. Without a device that can be used every case is skipped, by name."""
import json
import os

from harness import GOLDEN, Harness, TINY, goldens, nmse, read_logits

F32_LIMIT = 1e-6   # f32 numerics, f32 KV, against float64
INT8_FACTOR = 1.2  # int8 numerics: at most this many times the CPU's NMSE on the same file
# What a kernel does with a format is tested one by one (tests/device); a whole model of each takes half a minute.
FORMATS = ("F32", "F16", "Q8_0", "Q4_K_M")
# In f32 integer dot products, which sg8 lacks, are not used.
PROFILES = {"vulkan": ("sg8-dot", "none"), "cuda": ("sm80", "sm61")}


def devices(h):
    """The devices of the kind that `qrun devices` lists."""
    return [line for line in h.run("qrun", "devices").decode().splitlines() if line.startswith(h.args.device + ":")]


def usable(h):
    """The code variant that the GPU runs, or None and why no GPU can be used."""
    only = [f"--gpu-profiles={h.args.profile}"] if h.args.profile else []
    qbin = h.compile(os.path.join(GOLDEN, "t3-f-F16.gguf"), "probe.qbin", f"--target={h.args.device}", *only, "--decode=1", "--prefill=16")
    ids = h.path("probe.txt")
    with open(ids, "w") as f:
        f.write("1 2 3\n")
    p = h.tool("qrun", "logits", qbin, "--tokens", ids, "-o", h.path("probe.bin"), "--device", h.args.device)
    if p.returncode == 0:
        bench = h.run("qrun", "bench", qbin, "-p", "0", "-n", "1", "-r", "1", "--json", "--device", h.args.device)
        return json.loads(bench)["cpu"], None
    why = p.stderr.decode(errors="replace")
    there = [line for line in devices(h) if "cannot be used" not in line]
    assert p.returncode == 5 and not there, f"exit {p.returncode} with {there}: {why}"
    return None, why.splitlines()[0] if why else "no reason given"


def accuracy(h, profile, models):
    """NMSE against float64 on both devices, from one artifact each, which holds the one GPU profile that is run."""
    print(f"{'model':<16}{'f32':>10}{'int8':>10}{'int8 cpu':>10}")
    for name, gguf, tokens, reference, _ in models:
        want = read_logits(reference)
        # A program that nothing here runs would cost as much as one that something does: most of the time is the driver's,
        # which compiles every kernel of an artifact. One call runs prefill_64; the cuts also decode_1, and decode_8 for 5 rows.
        decode = "--decode=1,8" if name.endswith("Q4_K_M") else "--decode=1"
        options = (f"--target=cpu,{h.args.device}", f"--gpu-profiles={profile}", "--cpu=native", decode, "--prefill=64")
        f32 = h.compile(gguf, "f32.qbin", *options, "--numerics=f32", "--kv=f32")
        int8 = h.compile(gguf, "int8.qbin", *options)
        exact = nmse(h.logits(f32, tokens, "--device", h.args.device), want)
        gpu, cpu = (nmse(h.logits(int8, tokens, "--device", d), want) for d in (h.args.device, "cpu"))
        print(f"{name:<16}{exact:>10.2e}{gpu:>10.2e}{cpu:>10.2e}")
        h.check(f"{name} f32", exact <= F32_LIMIT, f"NMSE {exact:.3e}, limit {F32_LIMIT:.0e}")
        limit = INT8_FACTOR * max(cpu, 1e-9)  # formats without int8 kernels: both are all but exact
        h.check(f"{name} int8", gpu <= limit, f"NMSE {gpu:.3e}, the CPU's {cpu:.3e}")
        if name == "t35-q-Q4_K_M":
            every = h.compile(gguf, "all.qbin", *options, "--last-ffn=all")
            same = h.logits(every, tokens, "--device", h.args.device) == h.logits(int8, tokens, "--device", h.args.device)
            h.check(f"{name} int8, the last feed-forward part of all rows", same, "" if same else "other bits than of the chosen ones")
        if name.endswith("Q4_K_M"):
            cuts(h, name, "f32", f32, tokens)
            cuts(h, name, "int8", int8, tokens)


def cuts(h, name, numerics, qbin, tokens):
    """Equal bits wherever a prompt is cut: decode and prefill kernels sum in one order. In int8 device_engine_test cuts the same models in more places."""
    whole = h.logits(qbin, tokens, "--device", h.args.device)
    for split in ("1", "17,5") if numerics == "int8" else ("1", "33", "1,64", "17,5"):
        got = h.logits(qbin, tokens, "--device", h.args.device, "--split", split)
        h.check(f"{name} {numerics} --split {split}", got == whole,
                f"other bits, NMSE {nmse(got, whole):.1e}" if got != whole else "")
    again = h.logits(qbin, tokens, "--device", h.args.device)
    h.check(f"{name} {numerics} twice the same", again == whole)


def trained(h, profiles):
    """Greedy tokens of the trained model, 256 in the best profile and 64 in the other, a quarter of that where a processor plays the
    GPU, a tenth of a second a token: those of the CPU, in those of these profiles that run here. In f32 with f32 KV: int8 codes follow the last bit of float sums, whose order differs between devices, and a near tie then ends the agreement."""
    for profile in profiles:
        qbin = h.compile(TINY, "tiny.qbin", f"--target=cpu,{h.args.device}", "--cpu=native", "--decode=1", "--prefill=32",
                         f"--gpu-profiles={profile}", "--numerics=f32", "--kv=f32")
        count = (256 if profile == PROFILES[h.args.device][0] else 64) // (4 if h.emulated(h.args.device) else 1)
        greedy = ("--raw", "--greedy", "--repeat-penalty", "1", "--presence-penalty", "0", "-n", count, "--draft", "off",
                  "-p", "KING RICHARD III:\n")
        gpu, texts = h.args.device, {}
        for device in ("cpu", h.args.device):
            p = h.tool("qrun", qbin, *greedy, "--device", device)
            if p.returncode == 5 and "Q5001" in p.stderr.decode(errors="replace"):  # the device lacks what the profile needs
                break
            texts[device] = p.stdout if p.returncode == 0 else p.stderr
        if h.args.device not in texts:
            print(f"skip tiny greedy {profile}: {p.stderr.decode(errors='replace').splitlines()[0]}")
            continue
        h.check(f"tiny greedy {profile}", texts["cpu"] == texts[gpu], f"{texts['cpu'][-200:]!r} and {texts[gpu][-200:]!r}" if texts["cpu"] != texts[gpu] else "")
        if profile in (h.args.profile, PROFILES[gpu][0]):
            check(h, qbin)


def check(h, qbin):
    """qrun check runs the artifact's own golden prompt on every variant that this machine can run."""
    p = h.tool("qrun", "check", qbin)
    text = p.stdout.decode()
    h.check("qrun check", p.returncode == 0 and h.args.device in text and "WRONG" not in text, text if p.returncode else "")


def main():
    h = Harness(__doc__)
    profile, why = usable(h)
    if profile is None:
        print(f"skip all: {why}")
        h.share(range(h.shards))  # each process says so
        h.check("without a GPU it is said why", "Q5" in why, why)
        h.finish()
    h.check("qrun devices names it", bool(devices(h)))
    asked = h.args.formats
    # A processor that plays a GPU takes half a minute for a model, most of which its driver compiles.
    models = goldens(None if asked == "all" else asked.split(",") if asked else FORMATS, wider=bool(asked) or not h.emulated(h.args.device))
    profiles = (profile,) if h.args.profile else PROFILES[h.args.device]
    h.check("there are models", bool(models))
    if h.sanitized():  # the tools, not numbers
        models, profiles = [m for m in models if m[0] == "t35-q-Q4_K_M"], profiles[:1]
    mine = h.share([("model", m) for m in models] + [("profile", p) for p in profiles])
    accuracy(h, profile, [m for kind, m in mine if kind == "model"])
    trained(h, [p for kind, p in mine if kind == "profile"])
    h.finish()


if __name__ == "__main__":
    main()
