"""GPU artifacts from the command line: what is in them, what `qcc inspect` says, kernels of the user's own."""
import os
import re
import shutil
import subprocess

from harness import ROOT, TINY, GOLDEN, Harness

BUCKETS = ["--decode=1,2", "--prefill=8", "--functions=trunk"]
KERNELS = os.path.join(ROOT, "tests", "e2e", "kernels")
# Launches of one layer, of a dense model and of one with experts: a launch costs microseconds whatever it does.
MOST_PER_LAYER = {"dense": 11, "experts": 16}


def read(path, mode="rb"):
    with open(path, mode) as f:
        return f.read()


def contents(h):
    fat = h.compile(TINY, "fat.qbin", "--target=cuda,vulkan,cpu", "--cpu=v3", "--gpu-profiles=none,sg8-dot,sm61", *BUCKETS)
    again = h.compile(TINY, "again.qbin", "--target=cpu,vulkan,cuda", "--cpu=v3", "--gpu-profiles=sm61,sg8-dot,none", "--no-cache", *BUCKETS)
    h.check("the same targets in another order: the same bytes", read(fat) == read(again))
    report = h.inspect(fat)
    targets = [(t["target"], t["isa"]) for t in report["targets"]]
    h.check("cpu, vulkan, cuda, each best first",
            targets == [("cpu", "v3"), ("vulkan", "sg8-dot"), ("vulkan", "none"), ("cuda", "sm61")], str(targets))
    h.check("one weight section for all", len({t["weights_section"] for t in report["targets"]}) == 1
            and sum(s["kind"] == "weights" for s in report["sections"]) == 1)
    options = report["provenance"]["options"]
    h.check("provenance names targets and profiles", options["target"] == "cpu,vulkan,cuda" and options["gpu_profiles"] == "sg8-dot,none,sm61", str(options))
    h.check("qcc verify", h.tool("qcc", "verify", fat).returncode == 0)
    weights = report["memory"]["weights_bytes"]
    for t in report["targets"]:
        if t["target"] == "cpu":
            h.check(f"cpu {t['isa']} has no GPU report", "gpu" not in t)
            continue
        name, gpu = f"{t['target']} {t['isa']}", t["gpu"]
        attention = max(p["dispatches_per_attention_layer"] for p in gpu["programs"])
        delta = max(p["dispatches_per_gdn_layer"] for p in gpu["programs"])
        h.check(f"{name}: dispatches of a layer", 0 < min(attention, delta) and max(attention, delta) <= MOST_PER_LAYER["dense"],
                f"{attention} with attention, {delta} with a delta net, at most {MOST_PER_LAYER['dense']}")
        decode = next(p for p in gpu["programs"] if p["name"] == "decode_1")
        # The tied embedding is the head, too: a token reads every weight about once.
        h.check(f"{name}: a token reads the weights once", 0.95 * weights <= decode["weight_bytes"] <= 1.05 * weights,
                f"{decode['weight_bytes']} of {weights}")
        h.check(f"{name}: a token reads weights, states and little else", decode["weight_bytes"] + report["memory"]["state_bytes_per_sequence"] * 0.9
                <= decode["read_bytes"] <= 1.5 * (weights + report["memory"]["state_bytes_per_sequence"]), f"{decode['read_bytes']}")
        h.check(f"{name}: KV read per token of context", decode["kv_bytes_per_context_token"] == report["memory"]["kv_bytes_per_token"],
                f"{decode['kv_bytes_per_context_token']} of {report['memory']['kv_bytes_per_token']}")
        h.check(f"{name}: 4 bytes to the host per token", gpu["host_bytes_per_token"] == {"sampled": 4, "logits": 4 * report["model"]["vocab_size"]})
        code = gpu["ptx_bytes"] if t["target"] == "cuda" else gpu["spirv_bytes"]
        h.check(f"{name}: the code is in the section", 0 < code < t["code_bytes"], f"{code} of {t['code_bytes']}")
        h.check(f"{name}: every kernel is ours", gpu["kernels"] and {k["source"] for k in gpu["kernels"]} == {"gpu"})
    text = h.run("qcc", "inspect", fat).decode()
    h.check("inspect as text", all(word in text for word in ("vulkan sg8-dot", "cuda sm61", "of SPIR-V", "of PTX", "decode_1")))
    return report


def experts(h):
    """What a step of a model with experts costs, on profiles of every kind: launches and barriers of a layer, and bytes of the
    weights: of the experts, those that its rows can use."""
    model = os.path.join(GOLDEN, "t35moe-f-F16.gguf")  # 16 experts, of which a token uses 4
    profiles = "none,sg8-dot,sg32-dot,sm80,sm61"
    qbin = h.compile(model, "experts.qbin", "--target=cuda,vulkan", f"--gpu-profiles={profiles}", "--decode=1,8", "--prefill=64")
    tensors = h.inspect(model)["tensors"]
    of_experts = sum(t["bytes"] for t in tensors if "_exps." in t["name"])
    for t in h.inspect(qbin)["targets"]:
        programs = {p["name"]: p for p in t["gpu"]["programs"]}
        for name, p in programs.items():
            if name.startswith("head"):
                continue
            attention, delta, most = p["dispatches_per_attention_layer"], p["dispatches_per_gdn_layer"], MOST_PER_LAYER["experts"]
            h.check(f"{t['isa']} {name}: dispatches of a layer with experts", 0 < min(attention, delta) and max(attention, delta) <= most,
                    f"{attention} with attention, {delta} with a delta net, at most {most}")
            h.check(f"{t['isa']} {name}: barriers", 0 < p["barriers"] < p["dispatches"], f"{p['barriers']} between {p['dispatches']} dispatches")
        one, many = programs["decode_1"]["weight_bytes"], programs["decode_8"]["weight_bytes"]
        # Rows of the embedding, and zeros behind the widths, come on top; decode_1 counts the row's own values as weights.
        h.check(f"{t['isa']}: a token reads the experts that it uses", 0.98 * of_experts * 12 / 16 <= many - one <= of_experts * 12 / 16 * 1.1 + 2 ** 14,
                f"decode_1 {one}, decode_8 {many} bytes; the file has {of_experts} of experts")


def alone(h):
    qbin = h.compile(TINY, "vulkan.qbin", "--target=vulkan", "--gpu-profiles=sg8-dot,none", *BUCKETS)
    report = h.inspect(qbin)
    h.check("--target=vulkan has no CPU code", {t["target"] for t in report["targets"]} == {"vulkan"} and "cpu" not in report["provenance"]["options"])
    p = h.tool("qrun", qbin, "--device=cpu", "--raw", "-n", "1", "-p", "x")
    h.check("it does not run on the CPU, and says so", p.returncode not in (0, 1) and b"cpu" in p.stderr.lower(), f"exit {p.returncode}: {p.stderr.decode()[:200]}")
    return qbin


def phases(h):
    dump = h.path("dump")
    ir = h.run("qcc", "compile", TINY, "--target=vulkan,cuda", "--gpu-profiles=none,sm61", "--compile-to=code", f"--dump-kernels={dump}", f"--dump-ir={h.path('ir')}", "-q", *BUCKETS)
    h.check("--compile-to=code prints the kernels", ir.count(b"gpu.func") > 20 and b"// kernel norm." in ir)
    h.check("--dump-ir has them by profile", {"4-code-none.mlir", "4-code-sm61.mlir"} <= set(os.listdir(h.path("ir"))))
    vulkan, cuda = os.listdir(os.path.join(dump, "vulkan-none")), os.listdir(os.path.join(dump, "cuda-sm61"))
    mlir = {f[:-5] for f in vulkan if f.endswith(".mlir")}
    h.check("--dump-kernels: MLIR and SPIR-V of each", mlir and mlir == {f[:-7] for f in vulkan if f.endswith(".spvasm")})
    # Which kernels there are may depend on the profile.
    entries = {f[:-5] for f in cuda if f.endswith(".mlir")}
    ptx = read(os.path.join(dump, "cuda-sm61", "kernels.ptx"), "r")
    h.check("--dump-kernels: the PTX has an entry for each", entries and entries == set(re.findall(r"\.entry (\w+)\(", ptx)))
    ptxas = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")
    if ptxas is None:
        print("skip ptxas takes all kernels as one module: ptxas is not installed")
        return
    assemble(h, ptxas, "tiny sm61", os.path.join(dump, "cuda-sm61", "kernels.ptx"))
    if h.sanitized():  # of qcc there is nothing new in it
        return
    # Head sizes, widths and epilogues of real models, with matrix units and launches that overlap.
    for arch, preset, wanted in (("qwen35", "0.8b", ["sm61", "sm80", "sm90"]), ("qwen3", "0.6b", ["sm61", "sm80"])):
        gguf = h.path("real.gguf")
        h.run("qcc", "synth", "--arch", arch, "--preset", preset, "--format", "q4_k_m", "--layers", "4", "--vocab", "1000", "--seed", "1", "-o", gguf, "-q")
        dump = h.path(f"dump-{arch}")
        h.run("qcc", "compile", gguf, "--target=cuda", f"--gpu-profiles={','.join(wanted)}", "--compile-to=code", f"--dump-kernels={dump}", "-q",
              "--decode=1,8", "--prefill=32")
        os.remove(gguf)
        profiles = sorted(os.listdir(dump))
        h.check(f"{arch} {preset}: its profiles", profiles == [f"cuda-{p}" for p in wanted], str(profiles))
        for profile in profiles:
            assemble(h, ptxas, f"{arch} {preset} {profile}", os.path.join(dump, profile, "kernels.ptx"))
            waits(h, f"{arch} {preset} {profile}", read(os.path.join(dump, profile, "kernels.ptx"), "r"), profile == "cuda-sm90")


def waits(h, name, ptx, overlap):
    """Whether every kernel lets the next begin and waits itself for those before it, or none does."""
    kernels = ptx.split(".entry ")[1:]
    found = [(k.count("griddepcontrol.launch_dependents"), min(k.count("griddepcontrol.wait"), 1)) for k in kernels]
    wanted = (1, 1) if overlap else (0, 0)
    h.check(f"{name}: kernels that wait", found and all(f == wanted for f in found), f"{[f for f in found if f != wanted][:5]}, expected {wanted} of each")


def assemble(h, ptxas, name, ptx):
    # For a chip that is newer than that of the text, because ptxas forgets old ones.
    chip = "sm_90" if "griddepcontrol" in read(ptx, "r") else "sm_80"
    p = subprocess.run([ptxas, f"-arch={chip}", ptx, "-o", h.path("all.cubin")], capture_output=True, check=False)
    h.check(f"{name}: ptxas takes all kernels as one module", p.returncode == 0, p.stderr.decode(errors="replace") if p.returncode else "")


def own_kernels(h, plain):
    page = read(os.path.join(ROOT, "docs", "replace-a-kernel.md"), "r")
    example = read(os.path.join(KERNELS, "quantize.*.comp"), "r")
    h.check("the docs show the example that is tested", example in page)
    qbin = h.compile(TINY, "own.qbin", "--target=vulkan", "--gpu-profiles=sg8-dot,none", f"--kernels={KERNELS}", *BUCKETS)
    report = h.inspect(qbin)
    for t in report["targets"]:
        sources = {k["name"]: k["source"] for k in t["gpu"]["kernels"]}
        glsl = {n for n, s in sources.items() if s == "glsl"}
        h.check(f"{t['isa']}: every quantize kernel is replaced, no other", glsl and glsl == {n for n in sources if n.startswith("quantize.")}, str(sorted(glsl)))
    h.check("provenance has the kernel's hash", re.fullmatch("[0-9a-f]{32}", report["provenance"]["options"].get("kernel quantize.*.comp", "")) is not None)

    peak = "float peak = 0;"
    line = example[:example.index(peak)].count("\n") + 1
    for what, name, change, says in (
            ("a kernel that does not exist", "select_row.v4.comp", lambda s: s, "near names: select_rows.v4"),
            ("a syntax error", "quantize.*.comp", lambda s: s.replace(peak, "float peak = ;"), f"comp:{line}: error"),
            ("another workgroup size", "quantize.*.comp", lambda s: s.replace("local_size_x = QCC_WORKGROUP_SIZE", "local_size_x = 3"), "3 x 1 x 1")):
        folder = h.path("broken")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        with open(os.path.join(folder, name), "w") as f:
            f.write(change(example))
        p = h.tool("qcc", "compile", TINY, "-o", h.path("never.qbin"), "--target=vulkan", "--gpu-profiles=none", f"--kernels={folder}", "-q", *BUCKETS)
        h.check(f"--kernels with {what}", p.returncode == 3 and b"[Q3005]" in p.stderr and says.encode() in p.stderr and not os.path.exists(h.path("never.qbin")),
                p.stderr.decode()[:300] if says.encode() not in p.stderr else "")

    if not any(device.startswith("vulkan:") for device in h.usable_devices()):
        print("skip the example's logits: no Vulkan device", flush=True)
        return
    tokens = os.path.join(GOLDEN, "tokens-288.txt")
    few = h.path("tokens.txt")
    with open(few, "w") as f:
        f.write("\n".join(read(tokens, "r").split()[:24]) + "\n")
    a, b = h.logits(plain, few, "--device=vulkan"), h.logits(qbin, few, "--device=vulkan")
    h.check("the example's logits are those of our kernel, bit for bit", a == b)
    h.check("the example's golden values", h.tool("qrun", "check", qbin, "--device=vulkan").returncode == 0)


def main():
    h = Harness(__doc__)
    contents(h)
    experts(h)
    plain = alone(h)
    phases(h)
    own_kernels(h, plain)
    h.finish()


if __name__ == "__main__":
    main()
