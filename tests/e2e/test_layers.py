#!/usr/bin/env python3
"""`qcc compile --layers`: a model's layers on several devices. The same bits as on one, one transfer a boundary and step."""
import json
import os

from harness import GOLDEN, Harness, TINY, nmse

IDS = [(i * 37 + 11) % 4000 for i in range(41)]
SMALL = ("--decode=1,4", "--prefill=16")  # a prompt of 41 takes 3 steps
PROMPT = ("-p", "KING RICHARD III:\n", "--raw", "--greedy")


class Models:
    """Artifacts of a model, in one piece and in parts, which share what code they have in common."""

    def __init__(self, h):
        self.h = h
        self.ids = h.path("ids.txt")
        with open(self.ids, "w") as f:
            f.write(" ".join(map(str, IDS)) + "\n")

    def compile(self, name, gguf, *options, buckets=SMALL):
        return self.h.compile(gguf, name, *buckets, "--goldens=8", *options)

    def logits(self, qbin, *options):
        return self.h.logits(qbin, self.ids, *options)


def cut_models(h, models):
    """Attention alone and experts, each cut in the middle: bytes of the logits, whole and split. Hybrids: tiny, and layer_parts_test."""
    for name in ("t3-q-Q4_K_M", "t3moe-q-Q4_K_M"):
        gguf = os.path.join(GOLDEN, name + ".gguf")
        ids = h.path("golden.txt")
        with open(ids, "w") as f:
            f.write(" ".join(str(i % 250) for i in IDS))
        whole = models.compile("whole.qbin", gguf, "--cpu=native")
        layers = h.inspect(gguf)["model"]["layers"]
        parts = models.compile("parts.qbin", gguf, "--cpu=native", f"--layers=cpu:0-{layers // 2 - 1},cpu:{layers // 2}-{layers - 1}")
        want = h.logits(whole, ids)
        for split in (None, "17,5"):
            got = h.logits(parts, ids, *(["--split", split] if split else []))
            h.expect(f"{name} --split {split}", got == want, f"other bits, NMSE {nmse(got, want):.1e}")


def tiny(h, models):
    whole = models.compile("tiny.qbin", TINY, "--cpu=native", "--functions=trunk")
    four = models.compile("four.qbin", TINY, "--cpu=native", "--functions=trunk", "--layers=cpu:0,cpu:1-3,cpu:4-6,cpu:7")
    want = models.logits(whole)
    for options in ((), ("-t", 1), ("-t", 3), ("--split", "1"), ("--split", "7")):
        h.expect(f"four parts {options}", models.logits(four, *options) == want, "other bits")
    text = h.run("qrun", whole, *PROMPT, "-n", 24, "-q")
    p = h.tool("qrun", four, *PROMPT, "-n", 24, "-q", "--timing=json")
    h.expect("four parts: the text", p.stdout == text, p.stdout, text)
    timing = json.loads(p.stderr.decode().splitlines()[-1])
    h.expect("three transfers a step", timing["decode_transfers"] == 3 * 24, timing)
    bench = json.loads(h.run("qrun", "bench", four, "-p", "0", "-n", "8", "-r", "1", "--json", "-q"))
    h.expect("bench counts them", bench["decode_transfers_per_token"] == 3, bench)
    h.expect("bench names the devices", bench["device"] == "cpu + cpu + cpu + cpu", bench)
    bench = json.loads(h.run("qrun", "bench", whole, "-p", "0", "-n", "1", "-r", "1", "--json", "-q"))
    h.expect("none in one piece", bench["decode_transfers_per_token"] == 0, bench)
    saved = h.path("four.session")
    begun = h.run("qrun", four, *PROMPT, "-n", 10, "-q", "--save-session", saved)
    rest = h.run("qrun", four, "--raw", "--greedy", "-n", 14, "-q", "--load-session", saved)
    h.expect("a saved session goes on", begun + rest == text, begun, rest, text)
    p = h.tool("qrun", whole, "--raw", "--greedy", "-n", 4, "--load-session", saved)
    h.expect("not in an artifact that is cut in another way", p.returncode != 0 and b"Q5313" in p.stderr, p.returncode, p.stderr)
    p = h.tool("qrun", "check", four)
    h.expect("qrun check", p.returncode == 0 and p.stdout.count(b"cpu ") == 1 and b"8 tokens" in p.stdout, p.stdout, p.stderr)
    if not any(device.startswith("cuda") for device in h.usable_devices()):
        elsewhere = models.compile("elsewhere.qbin", TINY, "--layers=cpu:0-3,cuda:4-7", "--cpu=native", "--gpu-profiles=sm80")
        p = h.tool("qrun", "check", elsewhere, "--json")
        told = json.loads(p.stdout)["code"]
        h.expect("qrun check without the device of a part: skipped, and why", p.returncode == 5 and b"[Q50" in p.stderr and len(told) == 2
                 and all(c["result"] == "skipped" and "cuda" in c["text"].lower() for c in told), p.stdout, p.stderr)
    h.expect("qcc verify", h.tool("qcc", "verify", four).returncode == 0)
    again = models.compile("again.qbin", TINY, "--no-cache", "--cpu=native", "--functions=trunk", "--layers=cpu:0,cpu:1-3,cpu:4-6,cpu:7")
    h.expect("the same bytes again", open(again, "rb").read() == open(four, "rb").read())
    return whole, four


def shown(h, whole, four):
    one, parts = (h.inspect(qbin) for qbin in (whole, four))
    h.expect("inspect: no parts in one piece", one["parts"] == [] and one["format"]["required_features"] & 2 == 0, one["parts"], one["format"])
    h.expect("inspect: the layers", [(p["target"], p["first_layer"], p["layers"]) for p in parts["parts"]]
          == [("cpu", 0, 1), ("cpu", 1, 3), ("cpu", 4, 3), ("cpu", 7, 1)], parts["parts"])
    h.expect("inspect: required", parts["format"]["required_features"] & 2 == 2, parts["format"])
    for key in ("state_bytes_per_sequence", "kv_bytes_per_token"):
        h.expect(f"inspect: {key}", sum(p[key] for p in parts["parts"]) == one["memory"][key] == parts["memory"][key], parts["memory"])
    h.expect("inspect: states are of the part with their layer", all(
        parts["parts"][s["part"]]["first_layer"] <= s["layer"] < parts["parts"][s["part"]]["first_layer"] + parts["parts"][s["part"]]["layers"]
        for s in parts["states"]), parts["states"])
    # Each layer's weights are stored once; the head is made of the embedding, which the first part has, too.
    names = [w["name"] for w in parts["weights"]]
    h.expect("weights are stored once", sorted(set(names)) == sorted(w["name"] for w in one["weights"])
          and {n for n in names if names.count(n) > 1} <= {"token_embd.weight"}, names)
    text = h.run("qcc", "inspect", four).decode()
    h.expect("inspect: the table", "parts   layers" in text and "1-3" in text and " part 3\n" in text, text)
    kernels = json.loads(h.run("qcc", "inspect", four, "--emit=kernels"))["targets"]
    h.expect("inspect: kernels of each part", [t["part"] for t in kernels] == [0, 1, 2, 3] and all(
        k["code_bytes"] > 0 for t in kernels for k in t["kernels"]), kernels)
    p = h.tool("qcc", "diff", whole, four)
    h.expect("diff says so", p.returncode == 1 and b"parts.0.layers: none -> 1" in p.stdout, p.stdout)


def refused(h, four):
    for layers, code, says in (("cpu:0-3,cpu:5-7", "Q0102", "expected 4"), ("cpu:0-3,tpu:4-7", "Q0102", "tpu"), ("cpu:0-3,cpu:4-6", "Q3009", "0 to 7"),
                               ("cpu:0-3,cpu:4-8", "Q3009", "0 to 7")):
        p = h.tool("qcc", "compile", TINY, "-o", h.path("x.qbin"), f"--layers={layers}")
        h.expect(f"--layers={layers}", p.returncode == (2 if code == "Q0102" else 3) and code.encode() in p.stderr and says.encode() in p.stderr, p.returncode, p.stderr)
    for device in ("cpu", "cpu,cpu,cpu", "cpu,cpu,cpu,vulkan"):
        p = h.tool("qrun", four, *PROMPT, "-n", 1, "--device", device)
        h.expect(f"--device {device}", p.returncode == 2 and b"Q5018" in p.stderr and b"cpu,cpu,cpu,cpu" in p.stderr, p.returncode, p.stderr)
    p = h.tool("qrun", four, *PROMPT, "-n", 1, "--cpu", "none-such")
    h.expect("--cpu of no part", p.returncode == 2 and b"Q5003" in p.stderr, p.returncode, p.stderr)


def from_gguf(h, models):
    """What qrun asks qcc for."""
    options = ("--goldens=off", "--layers=cpu:0-3,cpu:4-7", *SMALL, f"--cache-dir={h.path('aot')}")
    p = h.tool("qrun", TINY, *PROMPT, "-n", 4, "--draft=off", "--timing=json", *options)
    h.expect("of a GGUF", p.returncode == 0 and json.loads(p.stderr.decode().splitlines()[-1])["decode_transfers"] == 4, p.stderr)


def on_gpu(h, models):
    """Boundaries to a Vulkan device and from one. Between two of which the host sees neither: engine_parts_test."""
    f32 = ("--numerics=f32", "--kv=f32", "--cpu=native")
    gguf = os.path.join(GOLDEN, "t35-q-Q8_0.gguf")
    ids = h.path("gpu.txt")
    with open(ids, "w") as f:
        f.write(" ".join(str(i % 250) for i in IDS))
    buckets = ("--decode=1", "--prefill=16")
    want = h.logits(models.compile("f32.qbin", gguf, *f32, buckets=buckets), ids)
    qbin = models.compile("gpu.qbin", gguf, "--layers=vulkan:0,cpu:1,vulkan:2-3", *f32, "--gpu-profiles=none", buckets=buckets)
    p = h.tool("qrun", "bench", qbin, "-p", "0", "-n", "4", "-r", "1", "--json", "-q")
    if p.returncode == 5:
        why = p.stderr.decode(errors="replace")
        print(f"skip GPU: {why.splitlines()[0]}")
        h.check("without a GPU it is said why, and for which layers", "Q5" in why and "layers 0 to 0" in why, why)
        return
    bench = json.loads(p.stdout)
    h.expect("GPU: transfers", bench["decode_transfers_per_token"] == 2, bench)
    h.expect("GPU: devices", [d.split(":")[0] for d in bench["device"].split(" + ")] == ["vulkan", "cpu", "vulkan"], bench["device"])
    got = h.logits(qbin, ids)
    off = nmse(got, want)
    h.expect("GPU: logits", off <= 1e-6, f"NMSE {off:.1e}")
    cut = h.logits(qbin, ids, "--split", "17,5", "--device", "vulkan:0,cpu,vulkan:0")
    h.expect("GPU: cuts, devices by name", cut == got, "other bits")
    p = h.tool("qrun", "logits", qbin, "--tokens", ids, "-o", h.path("x.bin"), "--device", "vulkan:0,cpu,vulkan:7")
    h.expect("no such GPU", p.returncode == 2 and b"Q5014" in p.stderr and b"layers 2 to 3" in p.stderr, p.returncode, p.stderr)


def main():
    h = Harness(__doc__)
    models = Models(h)
    for share in h.share(("models", "tiny", "gpu")):
        if share == "models":
            cut_models(h, models)
        elif share == "gpu":
            on_gpu(h, models)
        else:
            whole, four = tiny(h, models)
            shown(h, whole, four)
            refused(h, four)
            from_gguf(h, models)
    h.finish()


if __name__ == "__main__":
    main()
