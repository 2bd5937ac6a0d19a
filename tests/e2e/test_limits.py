#!/usr/bin/env python3
"""Shapes that the CPU's kernels take and shapes that they do not: the former compute, the latter fail the compile, by the op's name and the limit."""
import json
import math
import os
import subprocess

import gguf_edit
from harness import nmse, read_logits
from test_cli import quiet_harness, refused

# The limits of codegen/cpu/kernels/limits.h.
HEAD_DIM, DELTA_DIM, QUERY_GROUP, TAPS = 512, 256, 64, 16
# One layer with a delta rule and one with attention, as small as it gets.
SHAPE = {"arch": "qwen35", "preset": "0.8b", "layers": 2, "full-attention-interval": 2, "hidden": 32, "ffn": 32, "vocab": 300, "format": "f32",
         "heads": 1, "kv-heads": 1, "head-dim": 32, "rope-dims": 8, "linear-key-heads": 1, "linear-value-heads": 1, "linear-head-dim": 32}
CODE = ["--cpu=native", "--decode=1", "--prefill=8", "--numerics=f32", "--kv=f32"]


def noise(count, around=0.0):
    return gguf_edit.f32_data(around + (i * 7919 % 211 - 105) / 300 for i in range(count))


def synth(h, name, taps=4, value_dim=None, **changes):
    """A model of SHAPE with these changes. `taps` of the convolution, which qcc synth always makes 4, and `value_dim` of the delta rule, which it
    makes equal to the key's, are put into the file's tensors."""
    shape = SHAPE | {key.replace("_", "-"): value for key, value in changes.items()}
    gguf = h.path(name + ".gguf")
    h.run("qcc", "synth", *(word for key, value in shape.items() for word in ("--" + key, value)), "-o", gguf, "-q")
    if taps == 4 and value_dim is None:
        return gguf
    heads, dim, hidden = shape["linear-value-heads"], value_dim or shape["linear-head-dim"], shape["hidden"]
    channels = 2 * shape["linear-key-heads"] * shape["linear-head-dim"] + heads * dim
    tensors = {"attn_qkv": [hidden, channels], "attn_gate": [hidden, heads * dim], "ssm_conv1d": [taps, channels], "ssm_norm": [dim], "ssm_out": [heads * dim, hidden]}
    return gguf_edit.with_metadata(
        gguf, h.path(name + "-edited.gguf"), {"qwen35.ssm.conv_kernel": gguf_edit.u32_value(taps), "qwen35.ssm.inner_size": gguf_edit.u32_value(heads * dim)},
        {f"blk.0.{tensor}.weight": (extents, gguf_edit.F32, noise(math.prod(extents), tensor == "ssm_norm")) for tensor, extents in tensors.items()})


def beyond(h):
    """One step beyond each limit. Q3004: the kernel's own limit; Q3003: rows that a kernel would read where a linear did not write them."""
    for name, shape, code, says in (
            ("head_dim", {"head_dim": HEAD_DIM + 16}, "Q3004", ["'qk_norm_rope_store'", "head_dim = 528", "up to 512", "attn_k.weight"]),
            ("head_dim that is no multiple of 8", {"heads": 4, "kv_heads": 4, "head_dim": 12}, "Q3004", ["'qk_norm_rope_store'", "head_dim = 12", "multiples of 8", "attn_k.weight"]),
            ("query heads per kv head", {"heads": QUERY_GROUP + 1}, "Q3004", ["'attention'", "65 query heads per kv head", "up to 64", "attn_q.weight"]),
            ("key_dim", {"linear_head_dim": DELTA_DIM + 16}, "Q3004", ["'gated_delta'", "key_dim = 272", "up to 256", "ssm_a"]),
            ("key_dim that is no multiple of 8", {"linear_key_heads": 4, "linear_value_heads": 4, "linear_head_dim": 12}, "Q3004",
             ["'gated_delta'", "key_dim = 12", "multiples of 8", "ssm_a"]),
            ("value_dim", {"value_dim": DELTA_DIM + 16}, "Q3004", ["'gated_delta'", "value_dim = 272", "up to 256", "ssm_a"]),
            ("value_dim that is no multiple of 8", {"linear_value_heads": 4, "value_dim": 12}, "Q3004", ["'gated_delta'", "value_dim = 12", "multiples of 8", "ssm_a"]),
            ("taps", {"taps": TAPS + 1}, "Q3004", ["'gated_delta'", "taps = 17", "2 to 16", "ssm_a"]),
            ("k rows that are no multiple of 16", {"heads": 2, "head_dim": 8}, "Q3003", ["'hir.fused.qk_norm_rope_store'", "8 values: it takes multiples of 16", "attn_k.weight"]),
            ("delta-rule rows that are no multiple of 16", {"linear_value_heads": 3, "linear_head_dim": 8}, "Q3003", ["'hir.fused.gated_delta'", "40 values: it takes multiples of 16", "ssm_a"])):
        gguf = synth(h, "beyond", **shape)
        refused(h, f"beyond the limit: {name}", 3, code, ["on target cpu", *says], "qcc", "compile", gguf, "-o", h.path("beyond.qbin"), "-q", *CODE)


def within(h):
    """A model at every limit at once, one of the smallest multiples, one whose keys and values differ: they compute what the evaluator does."""
    tokens = h.path("tokens.txt")
    with open(tokens, "w") as f:
        f.write(" ".join(str(7 + 23 * i) for i in range(12)))
    for name, shape in (("largest", {"heads": QUERY_GROUP, "head_dim": HEAD_DIM, "linear_head_dim": DELTA_DIM, "taps": TAPS}),
                        ("smallest", {"heads": 2, "kv_heads": 2, "head_dim": 8, "linear_value_heads": 2, "linear_head_dim": 8, "taps": 2}),
                        ("uneven", {"linear_value_heads": 3, "value_dim": 48, "taps": 3})):
        gguf = synth(h, name, **shape)
        h.run("qcc", "eval", gguf, "--tokens", tokens, "-o", h.path("want.bin"))
        want = read_logits(h.path("want.bin"))
        qbin = h.compile(gguf, "within.qbin", *CODE)
        whole = h.logits(qbin, tokens)
        error = nmse(whole, want)
        h.check(f"the {name} shape computes", error <= 1e-9, f"NMSE {error:.2e}")
        h.check(f"the {name} shape: splits change no bit", h.logits(qbin, tokens, "--split", "5,1,6", "-t", 2) == whole)


def scratch(h):
    """Programs whose rows are wide, for their number of columns: they run. What an artifact cannot hold is refused when it is planned."""
    small = ["--layers", 2, "--hidden", 64, "--heads", 2, "--kv-heads", 1, "--head-dim", 32, "--rope-dims", 32, "--context", 512, "--vocab", 512, "--format", "q8_0", "-q"]
    wide, many = h.path("wide.gguf"), h.path("many.gguf")
    h.run("qcc", "synth", "--arch", "qwen3", "--preset", "0.6b", "--ffn", 65536, *small, "-o", wide)
    code = ["--cpu=native", "--decode=1", "--prefill=1024", "--goldens=off"]
    qbin = h.compile(wide, "wide.qbin", *code)
    arena = max(p["scratch_bytes"] for p in h.inspect(qbin)["programs"])
    tokens = h.path("wide.txt")
    with open(tokens, "w") as f:
        f.write(" ".join(str(i % 500) for i in range(300)))
    rows, width, logits = h.logits(qbin, tokens)
    h.check("a feed-forward part of 65536 columns behind 64", arena > 200 << 20 and rows == 300 and all(map(math.isfinite, logits)), f"{arena} bytes of scratch, {rows} rows of {width}")
    h.run("qcc", "synth", "--arch", "qwen3moe", "--preset", "30b-a3b", "--experts", 512, "--experts-used", 512, "--expert-ffn", 64, *small, "-o", many)
    refused(h, "512 experts for each of 1024 rows", 3, "Q3003", ["program 'prefill_1024' needs ", " bytes of scratch, at most 83886080", "--prefill"],
            "qcc", "compile", many, "-o", h.path("many.qbin"), "-q", *code)
    h.check("and there is no artifact", not os.path.exists(h.path("many.qbin")))
    h.compile(many, "many.qbin", "--cpu=native", "--decode=1", "--prefill=64", "--goldens=off")


def long_context(h):
    """256 planes of keys and of values, 2 MiB each: a token writes a row of each, and that is what becomes resident."""
    if h.sanitized():
        print("skip long_context: a sanitizer takes its own memory")
        return
    gguf = h.path("planes.gguf")
    h.run("qcc", "synth", "--arch", "qwen3", "--preset", "0.6b", "--layers", 16, "--hidden", 64, "--ffn", 64, "--heads", 8, "--kv-heads", 8, "--head-dim", 64, "--vocab", 512,
          "--context", 32768, "--format", "f32", "-o", gguf, "-q")
    qbin = h.compile(gguf, "planes.qbin", "--cpu=native")
    kv = h.inspect(qbin)["memory"]["kv_bytes_per_token"] * 16384
    # By a shell that is not replaced: a process starts with the peak of the one that it is made from.
    command = ["sh", "-c", '"$@"; exit $?', "sh", os.path.join(h.args.bin, "qrun"), qbin, "-p", "hi", "-n", "1", "--greedy", "-c", "16384", "-t", "1", "--timing=json", "-q"]
    peak = json.loads(subprocess.run(command, check=True, capture_output=True).stderr)["peak_rss_bytes"]
    h.check("a long context costs what of it is filled", kv >= 256 << 20 and peak < kv / 4, f"peak {peak} bytes, KV of the context {kv}")


def main():
    h = quiet_harness(__doc__)
    long_context(h)
    beyond(h)
    within(h)
    scratch(h)
    h.finish()


if __name__ == "__main__":
    main()
