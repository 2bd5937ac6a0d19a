#!/usr/bin/env python3
"""Models with experts: synth's against the reference evaluator in both numerics, bits that do not depend on splits, buckets,
threads and formats' company, experts that lie in their places, files at the edges of what routing can be, scales, and memory."""
import array
import json
import math
import os
import re
import struct
import subprocess

import gguf_edit
from harness import Harness, nmse, read_logits

SIZES = ["--layers", 4, "--hidden", 256, "--heads", 4, "--kv-heads", 2, "--head-dim", 64, "--vocab", 1024, "--experts", 12, "--experts-used", 3, "--expert-ffn", 256]
HYBRID = ["--linear-key-heads", 2, "--linear-value-heads", 4, "--linear-head-dim", 64, "--shared-ffn", 256]
MODELS = {"qwen35moe": ["--preset", "35b-a3b", *HYBRID, "--mtp"], "qwen3moe": ["--preset", "30b-a3b"], "qwen3next": ["--preset", "80b-a3b", *HYBRID]}
# As test_synth.py: the second tells rounding from a mistake. It is for f16 KV, too: where routing is close, rounding of keys
# can change an expert.
F32_LIMIT, INT8_LIMIT = 1e-9, 2e-2
TOKENS = 40
F16, Q8_0 = 1, 8  # type ids; Q8_0: 34 bytes for 32 values
# One block of four layers, all of whose matrices have whole blocks of 32.
SMALL_HYBRID = ["--layers", 4, "--hidden", 64, "--heads", 2, "--kv-heads", 1, "--head-dim", 32, "--vocab", 512, "--experts", 3, "--experts-used", 2, "--expert-ffn", 64,
                "--linear-key-heads", 2, "--linear-value-heads", 4, "--linear-head-dim", 32, "--shared-ffn", 64]
MIB = 1 << 20
QUICK = ("--decode=1", "--prefill=16", "--cpu=native")
# One size for both kinds of step: their kernels are the same, so there are half as many to compile.
QUICKER = ("--decode=8", "--prefill=8", "--cpu=native", "--goldens=off")


def program(report, name):
    return [p for p in report["programs"] if p["name"] == name][0]


def expert_bytes(gguf, h):
    """Bytes of all experts, as the GGUF has them."""
    tensors = h.inspect(gguf)["tensors"]
    return sum(t["bytes"] for t in tensors if "_exps." in t["name"] and not t["name"].startswith("blk.4."))


def random_models(h, tokens):
    for arch, options in MODELS.items():
        gguf, reference = h.path(arch + ".gguf"), h.path("reference.bin")
        h.run("qcc", "synth", "--arch", arch, *SIZES, *options, "--format", "q4_k_m", "--seed", 5, "-o", gguf, "-q")
        report = h.inspect(gguf)
        h.check(f"{arch}: inspect", report["refusals"] == [] and report["model"]["experts"] == 12, str(report["refusals"]))
        sizes(h, arch, report)
        h.run("qcc", "eval", gguf, "--tokens", tokens, "-o", reference)
        want = read_logits(reference)
        mean = math.fsum(want[2]) / len(want[2])
        deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in want[2]) / len(want[2]))
        h.check(f"{arch}: logits of a usual size", 0.1 <= deviation <= 20, f"deviation {deviation:.2f}")
        for numerics, kv, limit in (("f32", "f32", F32_LIMIT), ("f32", "f16", INT8_LIMIT), ("int8", "f16", INT8_LIMIT)):
            qbin = h.compile(gguf, "m.qbin", f"--numerics={numerics}", f"--kv={kv}", "--require-fused=moe", "--decode=1,4", "--prefill=16,64", "--cpu=native")
            got = h.logits(qbin, tokens, "-t", 1)
            error = nmse(got, want)
            h.check(f"{arch} {numerics}, {kv} KV", error <= limit, f"NMSE {error:.2e}, accepted {limit:.0e}")
            if kv == "f32":
                continue
            for split in ("1", "3,5", "4", "7,9", "16", f"1,{TOKENS - 1}"):
                for threads in (1, 3):
                    h.check(f"{arch} {numerics} -t {threads} --split {split}: equal bits", h.logits(qbin, tokens, "-t", threads, "--split", split) == got)
        inspected = h.inspect(qbin)
        # What attention makes ahead of a router is rounded to two terms: the cache is not of integers.
        caches = [s["element"] for s in inspected["states"] if s["kind"] == "kv"]
        h.check(f"{arch}: the cache of int8 attention ahead of a router stays f16", caches and set(caches) == {"f16"}, str(caches))
        one, four = (program(inspected, f"decode_{rows}")["weight_bytes"] for rows in (1, 4))
        # 4 rows can use all of 12 experts, of which one row uses 3. The artifact's experts have up to a tenth more bytes than
        # the file's; rows of the embedding come on top.
        experts = expert_bytes(gguf, h)
        h.check(f"{arch}: a token reads the experts that it is routed to", experts * 9 // 12 <= four - one <= experts * 9 // 12 * 1.1 + 2 ** 13,
                f"one row {one}, four rows {four} bytes; the file has {experts} of experts")


def sizes(h, arch, report):
    """What stands for a size label is counted: the parameters, and those that a token goes through."""
    model, all_of, active = report["model"], 0, 0
    for t in report["tensors"]:
        parameters = math.prod(t["shape"])
        all_of += parameters
        draft = t["name"].startswith("blk.4.")
        active += 0 if draft else parameters * 3 // 12 if "_exps." in t["name"] else parameters
    h.check(f"{arch}: parameters, and those of a token", (model["parameters"], model["active_parameters"], model["experts_used"]) == (all_of, active, 3),
            f"{model}, counted {all_of} and {active}")


def changed_rows(before, after):
    rows, columns, a = before
    return [r for r in range(rows) if a[r * columns:(r + 1) * columns] != after[2][r * columns:(r + 1) * columns]]


def placement(h, tokens):
    """With another down matrix for one expert of the last layer, the logits of exactly the tokens routed to it move. Which those
    are the reference evaluator says, on the same file."""
    gguf, other = h.path("placed.gguf"), h.path("poisoned.gguf")
    experts, hidden, width = 256, 64, 32
    h.run("qcc", "synth", "--arch", "qwen3moe", "--preset", "30b-a3b", "--layers", 2, "--hidden", hidden, "--heads", 2, "--kv-heads", 1, "--head-dim", 32,
          "--vocab", 512, "--experts", experts, "--experts-used", 8, "--expert-ffn", width, "--format", "f32", "--seed", 9, "-o", gguf, "-q")
    options = (*QUICK, "--numerics=f32", "--kv=f32")
    plain = h.logits(h.compile(gguf, "p.qbin", *options), tokens)
    h.run("qcc", "eval", gguf, "--tokens", tokens, "-o", h.path("eval.bin"))
    reference = read_logits(h.path("eval.bin"))
    name = "blk.1.ffn_down_exps.weight"
    extents, kind, data = gguf_edit.tensor(gguf, name)
    moved = 0
    for expert in (0, 1, 100, 127, 128, 255):
        poisoned = bytearray(data)
        size = 4 * hidden * width
        poisoned[expert * size:(expert + 1) * size] = array.array("f", [0.25] * (hidden * width)).tobytes()
        gguf_edit.with_metadata(gguf, other, {}, {name: (extents, kind, bytes(poisoned))})
        h.run("qcc", "eval", other, "--tokens", tokens, "-o", h.path("eval.bin"))
        expected = changed_rows(reference, read_logits(h.path("eval.bin")))
        got = changed_rows(plain, h.logits(h.compile(other, "p.qbin", *options), tokens))
        h.check(f"expert {expert} of {experts}: the tokens routed to it", got == expected, f"{got}, expected {expected}")
        moved += len(got)
    h.check("some tokens were routed to these experts", moved > 0)


def edges(h, tokens):
    """A router that ties, one expert, as many used as there are, no shared expert: computed as the reference does it."""
    def same(name, gguf):
        h.run("qcc", "eval", gguf, "--tokens", tokens, "-o", h.path("eval.bin"))
        want = read_logits(h.path("eval.bin"))
        for numerics, kv, limit in (("f32", "f32", F32_LIMIT), ("int8", "f16", INT8_LIMIT)):
            error = nmse(h.logits(h.compile(gguf, "e.qbin", f"--numerics={numerics}", f"--kv={kv}", *QUICK), tokens), want)
            h.check(f"{name}, {numerics}", error <= limit, f"NMSE {error:.2e}, accepted {limit:.0e}")

    small = ["--layers", 2, "--hidden", 256, "--heads", 4, "--kv-heads", 2, "--head-dim", 64, "--vocab", 512, "--expert-ffn", 256, "--format", "q8_0", "--seed", 3, "-q"]
    for name, experts, used in (("one expert", 1, 1), ("as many used as there are", 5, 5)):
        gguf = h.path("edge.gguf")
        h.run("qcc", "synth", "--arch", "qwen3moe", "--preset", "30b-a3b", "--experts", experts, "--experts-used", used, *small, "-o", gguf)
        same(name, gguf)
    h.run("qcc", "synth", "--arch", "qwen3moe", "--preset", "30b-a3b", "--experts", 6, "--experts-used", 2, *small, "-o", h.path("edge.gguf"))
    extents, kind, _ = gguf_edit.tensor(h.path("edge.gguf"), "blk.0.ffn_gate_inp.weight")
    tied = gguf_edit.with_metadata(h.path("edge.gguf"), h.path("tied.gguf"), {}, {"blk.0.ffn_gate_inp.weight": (extents, kind, bytes(4 * math.prod(extents)))})
    same("a router that ties", tied)
    # Matrices are cut at 16 rows and 32 columns: here zeros stand behind each expert's.
    h.run("qcc", "synth", "--arch", "qwen35moe", "--preset", "35b-a3b", "--layers", 4, "--hidden", 64, "--heads", 2, "--kv-heads", 1, "--head-dim", 32, "--vocab", 512,
          "--experts", 3, "--experts-used", 2, "--expert-ffn", 40, "--linear-key-heads", 2, "--linear-value-heads", 4, "--linear-head-dim", 32, "--shared-ffn", 72,
          "--format", "f16", "-o", h.path("edge.gguf"), "-q")
    same("experts of 40 and a shared one of 72 hidden values", h.path("edge.gguf"))
    shared = [f"blk.{i}.ffn_{role}_shexp.weight" for i in range(2) for role in ("gate_inp", "gate", "up", "down")]
    h.run("qcc", "synth", "--arch", "qwen35moe", "--preset", "35b-a3b", "--experts", 6, "--experts-used", 2, *small, *HYBRID, "-o", h.path("edge.gguf"))
    stated = gguf_edit.with_tensors(h.path("edge.gguf"), h.path("stated.gguf"), shared)
    refused = h.tool("qcc", "compile", stated, "-o", h.path("stated.qbin"))
    h.check("a shared expert that the keys state and the file lacks", refused.returncode == 3 and b"Q2005" in refused.stderr, refused.stderr.decode())
    same("no shared expert", gguf_edit.with_metadata(stated, h.path("alone.gguf"), {"qwen35moe.expert_shared_feed_forward_length": None}))


def multiplied(kind, data, factor):
    """A tensor's bytes with every weight times a power of two."""
    if kind == Q8_0:
        out = bytearray(data)
        for at in range(0, len(data) - len(data) % 34, 34):
            out[at:at + 2] = struct.pack("<e", struct.unpack_from("<e", data, at)[0] * factor)
        return bytes(out)
    form = {gguf_edit.F32: "f", F16: "e"}[kind]
    count = len(data) // struct.calcsize(form)
    return struct.pack(f"<{count}{form}", *(v * factor for v in struct.unpack_from(f"<{count}{form}", data)))


def routing(h, tokens):
    """How experts are weighted: the factor of their weights is not the shared expert's, sigmoids may stay as they are, and where all
    of a token's gates underflow they are divided by the floor."""
    gguf, layers = h.path("routed.gguf"), 4
    h.run("qcc", "synth", "--arch", "qwen35moe", "--preset", "35b-a3b", *SMALL_HYBRID, "--format", "f32", "--seed", 4, "-o", gguf, "-q")

    def of_every_layer(role, change):
        names = [f"blk.{i}.{role}.weight" for i in range(layers)]
        return {name: (extents, kind, change(data)) for name in names for extents, kind, data in [gguf_edit.tensor(gguf, name)]}

    def times(factor):
        return lambda data: gguf_edit.f32_data([v * factor for v in array.array("f", data)])

    # A rotation and scores of the file's own besides, which compiled attention has to take, too.
    attention = {"qwen35moe.rope.scaling.type": gguf_edit.string_value("yarn"), "qwen35moe.rope.scaling.factor": gguf_edit.f32_value(4),
                 "qwen35moe.rope.scaling.original_context_length": gguf_edit.u32_value(64), "qwen35moe.attention.scale": gguf_edit.f32_value(0.5)}

    def keyed(target, tensors=None, **keys):
        return gguf_edit.with_metadata(gguf, h.path(target), {**attention, **{f"qwen35moe.expert_{key}": value for key, value in keys.items()}}, tensors)

    def compiled(file):
        return h.logits(h.compile(file, "e.qbin", "--numerics=f32", "--kv=f32", *QUICKER), tokens)

    def compare(name, file, reference):
        h.run("qcc", "eval", reference, "--tokens", tokens, "-o", h.path("eval.bin"))
        error = nmse(compiled(file), read_logits(h.path("eval.bin")))
        h.check(name, error <= F32_LIMIT, f"NMSE {error:.2e}, accepted {F32_LIMIT:.0e}")

    scaled = keyed("scaled.gguf", weights_scale=gguf_edit.f32_value(2.5))
    by_hand = keyed("by_hand.gguf", of_every_layer("ffn_down_exps", times(2.5)))
    compare("weights times 2.5 are routed experts times 2.5", scaled, by_hand)
    sigmoid = {"gating_func": gguf_edit.u32_value(2)}
    as_they_are = keyed("sigmoid.gguf", weights_norm=gguf_edit.bool_value(False), **sigmoid)
    compare("sigmoids that are not normalised", as_they_are, as_they_are)
    # Embeddings that are large in one place, at which the router looks: every gate is a sigmoid of some -1e5, which is 0.
    hidden = 64
    extents, kind, data = gguf_edit.tensor(gguf, "token_embd.weight")
    embedding, router = array.array("f", data), array.array("f", [-1e5 if i % hidden == 0 else 0 for i in range(3 * hidden)])
    for i in range(0, len(embedding), hidden):
        embedding[i] = 30
    tensors = {"token_embd.weight": (extents, kind, embedding.tobytes()), **of_every_layer("ffn_gate_inp", lambda data: router.tobytes())}
    none = {**tensors, **of_every_layer("ffn_down_exps", times(0))}
    underflown, without = (compiled(keyed("under.gguf", t, weights_norm=gguf_edit.bool_value(True), **sigmoid)) for t in (tensors, none))
    h.check("gates that underflow are experts that give nothing", all(map(math.isfinite, underflown[2])) and underflown == without,
            f"finite: {all(map(math.isfinite, underflown[2]))}, NMSE {nmse(underflown, without):.1e}")


# Powers of two, so that nothing is rounded; another for each matrix of a layer, so that none can stand in for another.
SCALES = {"attn_qkv": 0.5, "attn_gate": 0.25, "ssm_alpha": 2, "ssm_beta": 4, "ssm_out": 0.5, "attn_q": 0.5, "attn_k": 0.25, "attn_v": 2, "attn_output": 0.5,
          "ffn_gate_exps": 0.5, "ffn_up_exps": 2, "ffn_down_exps": 0.25, "ffn_gate_shexp": 0.25, "ffn_up_shexp": 0.5, "ffn_down_shexp": 2}


def scales(h, tokens):
    """Scales beside all matrices of a model: the bits of a file whose weights are multiplied by them."""
    gguf = h.path("bare.gguf")
    h.run("qcc", "synth", "--arch", "qwen35moe", "--preset", "35b-a3b", *SMALL_HYBRID, "--tied", 0, "--format", "q8_0", "--seed", 6, "-o", gguf, "-q")
    names = [t["name"] for t in h.inspect(gguf)["tensors"]]
    beside, weights, kinds = {}, {}, set()
    for name in names:
        role = re.sub(r"^blk\.\d+\.|\.weight$", "", name)
        factor = 0.5 if name == "output.weight" else SCALES.get(role)
        if factor is None:
            continue
        kinds.add(role)
        # Those of the experts' gates one for each, the others one for all.
        each = [factor, 2 * factor, factor / 2] if role == "ffn_gate_exps" else [factor]
        beside[name[:-len("weight")] + "scale"] = ([len(each)], gguf_edit.F32, gguf_edit.f32_data(each))
        extents, kind, data = gguf_edit.tensor(gguf, name)
        size = math.prod(extents) * {gguf_edit.F32: 4, F16: 2, Q8_0: 34 / 32}[kind] / len(each)
        parts = [data[int(i * size):int((i + 1) * size)] for i in range(len(each))]
        weights[name] = (extents, kind, b"".join(multiplied(kind, part, f) for part, f in zip(parts, each)))
    h.check("every kind of matrix has a scale", kinds == {*SCALES, "output"}, str(kinds ^ {*SCALES, "output"}))
    scaled = gguf_edit.with_tensors(gguf, h.path("scaled.gguf"), [], beside)
    by_hand = gguf_edit.with_metadata(gguf, h.path("by_hand.gguf"), {}, weights)
    a, b = (h.logits(h.compile(f, "s.qbin", *QUICKER), tokens) for f in (scaled, by_hand))
    h.check("scales beside all matrices: the bits of weights times them", a == b, f"NMSE {nmse(a, b):.1e}")


def memory(h, tokens):
    """What runs takes the artifact's bytes, its state and little more: neither experts nor the embedding are decoded, which here would be 100 MiB."""
    if h.sanitized():
        print("skip memory: a sanitizer takes its own")
        return
    gguf = h.path("large.gguf")
    h.run("qcc", "synth", "--arch", "qwen35moe", "--preset", "35b-a3b", "--layers", 4, "--hidden", 256, "--heads", 4, "--kv-heads", 2, "--head-dim", 64, "--vocab", 32768,
          "--experts", 16, "--experts-used", 4, "--expert-ffn", 256, *HYBRID, "--format", "q4_0", "--seed", 8, "-o", gguf, "-q")
    qbin = h.compile(gguf, "large.qbin", *QUICKER)
    os.remove(gguf)
    # By a shell that is not replaced: a process starts with the peak of the one that it is made from.
    command = ["sh", "-c", '"$@"; exit $?', "sh", os.path.join(h.args.bin, "qrun"), "bench", qbin, "-p", "64", "-n", "8", "-r", "1", "-t", "1", "--json"]
    peak = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["peak_rss_bytes"]
    report = h.inspect(qbin)
    m = report["memory"]
    plan = m["scratch_bytes"] + m["state_bytes_per_sequence"] + m["kv_bytes_per_token"] * 72 + max(t["thread_scratch_bytes"] + t["shared_scratch_bytes"] for t in report["targets"])
    bound = 1.05 * (os.path.getsize(qbin) + plan) + 6 * MIB  # the process itself takes 5
    h.check("peak of a running model: file, state, and a twentieth", peak <= bound,
            f"{peak / MIB:.1f} MiB, accepted {bound / MIB:.1f}; the file has {os.path.getsize(qbin) / MIB:.1f}, the plan {plan / MIB:.1f}")
    os.remove(qbin)


def rows_of(gguf, name, rows):
    """Dimensions, type and the tensor's rows, cut into equal pieces, as many as `rows`."""
    extents, kind, data = gguf_edit.tensor(gguf, name)
    assert kind == Q8_0 and math.prod(extents) % (32 * rows) == 0, f"{name}: {extents}, type {kind}"
    size = math.prod(extents) // 32 * 34 // rows
    return extents, kind, [data[i * size:(i + 1) * size] for i in range(rows)]


def other_forms(h, tokens):
    """The same weights under other names give the same bits: gate and up in one tensor, and the projections of a delta net by key
    head as older conversions have them (ssm_in)."""
    layers, experts, options = 4, 12, (*QUICK, "--numerics=int8")
    gguf = h.path("plain.gguf")
    h.run("qcc", "synth", "--arch", "qwen3next", *SIZES, *MODELS["qwen3next"], "--format", "q8_0", "--seed", 5, "-o", gguf, "-q")
    want = h.logits(h.compile(gguf, "f.qbin", *options), tokens)
    without, added = [], {}
    for layer in range(layers):
        (extents, kind, gate), (_, _, up) = (rows_of(gguf, f"blk.{layer}.ffn_{role}_exps.weight", experts) for role in ("gate", "up"))
        without += [f"blk.{layer}.ffn_{role}_exps.weight" for role in ("gate", "up")]
        both = b"".join(half for pair in zip(gate, up) for half in pair)
        added[f"blk.{layer}.ffn_gate_up_exps.weight"] = ([extents[0], 2 * extents[1], experts], kind, both)
    merged = gguf_edit.with_tensors(gguf, h.path("merged.gguf"), without, added)
    h.check("gate and up in one tensor: equal bits", h.logits(h.compile(merged, "f.qbin", *options), tokens) == want)

    heads, key_dim, values = 2, 64, 2 * 64  # per key head: a query, a key, the values of two heads and their z
    without, added = [], {}
    for layer in (i for i in range(layers) if (i + 1) % 4 != 0):
        (extents, kind, qkv), (_, _, z) = (rows_of(gguf, f"blk.{layer}.attn_{role}.weight", rows) for role, rows in (("qkv", heads * (2 * key_dim + values)), ("gate", heads * values)))
        without += [f"blk.{layer}.attn_{role}.weight" for role in ("qkv", "gate")]
        keys, first = heads * key_dim, 2 * heads * key_dim
        rows = [row for h_ in range(heads) for row in qkv[h_ * key_dim:(h_ + 1) * key_dim] + qkv[keys + h_ * key_dim:keys + (h_ + 1) * key_dim] +
                qkv[first + h_ * values:first + (h_ + 1) * values] + z[h_ * values:(h_ + 1) * values]]
        added[f"blk.{layer}.ssm_in.weight"] = ([extents[0], len(rows)], kind, b"".join(rows))
    legacy = gguf_edit.with_tensors(gguf, h.path("legacy.gguf"), without, added)
    h.check("projections by key head in one tensor: equal bits", h.logits(h.compile(legacy, "f.qbin", *options), tokens) == want)

    # Half of a shared expert has codes, the other none.
    extents, kind, data = gguf_edit.tensor(gguf, "blk.0.ffn_up_shexp.weight")
    assert kind == Q8_0, kind
    values = b"".join(struct.pack("<32e", *(scale * code for code in codes)) for scale, *codes in struct.iter_unpack("<e32b", data))
    mixed = gguf_edit.with_metadata(gguf, h.path("mixed.gguf"), {}, {"blk.0.ffn_up_shexp.weight": (extents, F16, values)})
    exact = h.path("mixed.bin")
    h.run("qcc", "eval", mixed, "--tokens", tokens, "-o", exact)
    off = nmse(h.logits(h.compile(mixed, "f.qbin", *options), tokens), read_logits(exact))
    h.check("a shared expert of f16 and q8_0", off < INT8_LIMIT, f"NMSE {off:.2e}")


def refusals(h):
    dense = h.path("m.gguf")
    h.run("qcc", "synth", "--arch", "qwen3", "--preset", "0.6b", "--layers", 1, "--hidden", 64, "--ffn", 64, "--heads", 2, "--kv-heads", 1, "--head-dim", 32, "--vocab", 512,
          "--format", "f32", "-o", dense, "-q")
    p = h.tool("qcc", "compile", dense, "-o", h.path("none.qbin"), "--require-fused=moe", "--cpu=base")
    h.check("--require-fused of what the model has not", p.returncode == 3 and "[Q3007]" in p.stderr.decode() and "no such group" in p.stderr.decode(), p.stderr.decode())
    plan = h.run("qcc", "compile", dense, "--compile-to=plan", "-q").decode()
    h.check("a dense model's plan has nothing of experts", "linear" in plan and "moe" not in plan, "\n".join(re.findall(r".*moe.*", plan)[:3]))
    lying = gguf_edit.with_metadata(dense, h.path("lying.gguf"), {"general.size_label": gguf_edit.string_value("397B-A17B")})
    told, counted = (h.inspect(f)["model"] for f in (lying, dense))
    h.check("a size label changes no number, and its absence makes none", counted["size_label"] == "" and {**told, "size_label": ""} == counted
            and counted["active_parameters"] == counted["parameters"], f"{told}, {counted}")
    h.check("the text says whose a size label is", b"by its label 397B-A17B" in h.run("qcc", "inspect", lying))
    p = h.tool("qcc", "compile", dense, "-o", h.path("none.qbin"), "--require-fused=mow")
    h.check("--require-fused of what no pass makes", p.returncode == 2 and "gdn" in p.stderr.decode() and "moe" in p.stderr.decode(), p.stderr.decode())


def near_ties(h, _):
    """Where two experts are nearly as good, some tokens get the other one: right answers, which `qrun check` must accept."""
    model, qbin = h.path("ties.gguf"), h.path("ties.qbin")
    for seed in (2, 8):
        h.run("qcc", "synth", "--arch", "qwen3moe", "--preset", "30b-a3b", "--format", "iq2_xxs", "--seed", seed, "--layers", 8, "--hidden", 256, "--heads", 4, "--kv-heads", 2,
              "--head-dim", 64, "--context", 4096, "--vocab", 2048, "--experts", 32, "--experts-used", 4, "--expert-ffn", 256, "-o", model, "-q")
        h.run("qcc", "compile", model, "-o", qbin, "--cpu=native", "-q")
        p = h.tool("qrun", "check", qbin)
        h.check(f"qrun check of experts that are nearly as good, seed {seed}", p.returncode == 0, p.stdout.decode() + p.stderr.decode())


def main():
    h = Harness(__doc__)
    tokens = h.path("ids.txt")
    with open(tokens, "w") as f:
        f.write(" ".join(str((7 + 53 * i) % 251) for i in range(TOKENS)))
    parts = (random_models, placement, edges, other_forms, memory, routing, scales, near_ties)
    for part in h.share(parts):
        part(h, tokens)
    if h.first():
        refusals(h)
    h.finish()


if __name__ == "__main__":
    main()
