#!/usr/bin/env python3
"""Random-weight models of every format mix against the reference evaluator: f32 numerics with f32 and f16 KV, int8."""
import math
import re

from harness import Harness, nmse, read_logits

F32_LIMIT, F16_KV_LIMIT = 1e-9, 1e-6  # as for the goldens
TOKENS = 16
# Few layers, but every kind; sizes at which K-quants fit (256), and rows that do not fill a kernel's last tile.
SHAPES = {
    "qwen35": ["--arch", "qwen35", "--preset", "0.8b", "--hidden", 256, "--ffn", 768, "--heads", 4, "--kv-heads", 2, "--head-dim", 64,
               "--linear-key-heads", 2, "--linear-value-heads", 4, "--linear-head-dim", 64],
    "qwen3": ["--arch", "qwen3", "--preset", "0.6b", "--hidden", 512, "--ffn", 512, "--heads", 8, "--kv-heads", 2, "--head-dim", 64],
}
# (architecture, format mix, layers, further options). In q4_k_m and q5_k_m layers differ in their formats, so there are
# several blocks; eight layers have both kinds of each.
F32_CASES = [("qwen35", "q4_k_m", 8, []), ("qwen3", "q5_k_m", 8, ["--tied", 0]), ("qwen35", "f16", 4, ["--vocab", 1000]), ("qwen3", "q4_1", 2, [])]
INT8_CASES = [("qwen35", "q4_k_m", 8, []), ("qwen35", "q8_0", 4, ["--mtp"]), ("qwen35", "q6_k", 4, []), ("qwen35", "q4_1", 4, []), ("qwen35", "f32", 4, []),
              ("qwen3", "q5_k_m", 8, ["--tied", 0]), ("qwen3", "q4_0", 2, []), ("qwen3", "bf16", 2, [])]
# Every other mix that qcc synth lists, in int8: two layers of qwen3, which needs the fewest kernels, for a compile is most
# of the time. Mixes whose first layers differ need as many layers as make an eighth (or a sixteenth) of them one.
LAYERS = {8: ("q4_k_s", "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m", "iq3_xxs", "iq3_xs", "iq3_m", "iq4_nl", "iq4_xs"), 16: ("q3_k_m",)}
# int8 activations. The tight limits are the goldens'; here they tell rounding, which random delta nets amplify more
# than attention does, from a mistake in a format, a tile or a layer, which shows as 0.1 and more.
INT8_LIMIT = {"qwen35": 2e-2, "qwen3": 2e-3}


def spread(logits):
    """Standard deviation of the logits around each row's mean, over all rows."""
    rows, columns, values = logits
    total = 0.0
    for r in range(rows):
        row = values[r * columns:(r + 1) * columns]
        mean = math.fsum(row) / columns
        total += math.fsum((v - mean) ** 2 for v in row)
    return math.sqrt(total / (rows * columns))


class Models:
    """Each model once, with its reference logits."""

    def __init__(self, h):
        self.h, self.made = h, {}
        self.tokens = h.path("tokens.txt")
        with open(self.tokens, "w") as f:
            f.write(" ".join(str(7 + 53 * i) for i in range(TOKENS)))

    def get(self, arch, mix, layers, options):
        key = f"{arch}-{mix}-{layers}{''.join(map(str, options))}"
        if key not in self.made:
            gguf, out = self.h.path(key + ".gguf"), self.h.path(key + ".ref")
            vocabulary = [] if "--vocab" in options else ["--vocab", 1024]
            self.h.run("qcc", "synth", *SHAPES[arch], "--format", mix, "--layers", layers, "--seed", 11, *vocabulary, *options, "-o", gguf, "-q")
            self.h.run("qcc", "eval", gguf, "--tokens", self.tokens, "-o", out)
            reference = read_logits(out)
            self.made[key] = (gguf, reference)
            std = spread(reference)
            first, last = (reference[2][i * reference[1]:(i + 1) * reference[1]] for i in (0, TOKENS - 1))
            self.h.check(f"{key} is not degenerate", 0.1 <= std <= 20 and first != last and all(map(math.isfinite, reference[2])), f"deviation of the logits {std:.2f}")
        return (key, *self.made[key])


def main():
    h = Harness(__doc__)
    models = Models(h)
    listed = re.search(r"format mix: (.*)", h.run("qcc", "synth", "--help").decode()).group(1).split(", ")
    layers = {mix: n for n, mixes in LAYERS.items() for mix in mixes}
    own = {case[1] for case in F32_CASES + INT8_CASES}
    h.check("qcc synth lists the format mixes", own | set(layers) <= set(listed), f"listed {listed}")
    other_cases = [("qwen3", mix, layers.get(mix, 2), []) for mix in listed if mix not in own]

    def compare(case, label, limit, *options):
        key, gguf, reference = models.get(*case)
        qbin = h.compile(gguf, "m.qbin", "--cpu=native", *options)
        whole = h.logits(qbin, models.tokens)
        error = nmse(whole, reference)
        h.check(f"{key} {label}", error <= limit, f"NMSE {error:.2e}, limit {limit:.0e}")
        h.check(f"{key} {label}, one by one: equal bits", h.logits(qbin, models.tokens, "--split", "1") == whole)

    buckets = ("--decode=1", "--prefill=12")
    comparisons = [(case, "f32", F32_LIMIT, "--numerics=f32", "--kv=f32", *buckets) for case in F32_CASES]
    comparisons.append((F32_CASES[0], "f32, f16 KV", F16_KV_LIMIT, "--numerics=f32", "--kv=f16", *buckets))
    comparisons += [(case, "int8", INT8_LIMIT[case[0]], "--numerics=int8", *buckets) for case in INT8_CASES]
    # One size for both kinds of step: their kernels are the same, so there are half as many to compile.
    comparisons += [(case, "int8", INT8_LIMIT[case[0]], "--numerics=int8", "--decode=8", "--prefill=8") for case in other_cases]
    # Shared out by model: the reference evaluator takes longer than all else.
    of_model = {}
    for comparison in comparisons:
        of_model.setdefault(str(comparison[0]), []).append(comparison)
    for mine in h.share(of_model.values()):
        for comparison in mine:
            compare(*comparison)
    if h.first():
        seeds(h, models)
    h.finish()


def seeds(h, models):
    again = h.path("again.gguf")
    for seed, same in ((11, True), (12, False)):
        h.run("qcc", "synth", *SHAPES["qwen3"], "--format", "q4_0", "--layers", 2, "--vocab", 1024, "--seed", seed, "-o", again, "-q")
        with open(again, "rb") as a, open(models.get("qwen3", "q4_0", 2, [])[1], "rb") as b:
            h.check(f"synth: {'the same seed, the same' if same else 'another seed, other'} bytes", (a.read() == b.read()) == same)


if __name__ == "__main__":
    main()
