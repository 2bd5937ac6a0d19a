#!/usr/bin/env python3
"""Logits against the float64 goldens: f32 numerics with f32 and f16 KV, int8 numerics. Prints the whole table."""
from harness import Harness, goldens, nmse, read_logits

F32_LIMIT = 1e-9      # f32 numerics, f32 KV
F16_KV_LIMIT = 1e-6   # f32 numerics, f16 KV
# Of at most 128 tokens: two steps of a prompt, the second of fewer rows. One size for both kinds of step: their kernels are the same, so there are half
# as many to compile. Those of one row, in int8, are run too; test_invariance.py compares buckets.
ONE_SIZE, DECODES = ("--decode=64", "--prefill=64"), ("--decode=1", "--prefill=128")
STORED = 11           # models of tests/golden


def main():
    h = Harness(__doc__)
    print(f"{'model':<18}{'f32':>10}{'f32/kv16':>10}{'int8':>10}{'limit':>10}{'llama.cpp':>11}{'ik':>10}")
    models = goldens()
    h.check("every model of tests/golden or more", len(models) >= STORED, f"{len(models)} models, {STORED} are stored")
    for name, gguf, tokens, reference, row in h.share(models):
        want = read_logits(reference)
        got = []
        for numerics, kv, programs in (("f32", "f32", ONE_SIZE), ("f32", "f16", ONE_SIZE), ("int8", "f16", DECODES)):
            qbin = h.compile(gguf, "m.qbin", f"--numerics={numerics}", f"--kv={kv}", f"--cpu={h.args.cpu}", *programs)
            logits = h.logits(qbin, tokens)
            got.append(nmse(logits, want))
        same = h.logits(qbin, tokens, "-t", 1, "--split", "1") == logits
        h.expect(f"{name} int8, token by token: equal bits", same)
        llama, ik = (row.get("peers_nmse", {}).get(peer) or float("nan") for peer in ("llama.cpp", "ik_llama.cpp"))  # null: it does not run the file
        print(f"{name:<18}{got[0]:>10.2e}{got[1]:>10.2e}{got[2]:>10.2e}{row['int8_limit']:>10.2e}"
              f"{llama:>11.2e}{ik:>10.2e}")
        for label, value, limit in (("f32", got[0], F32_LIMIT), ("f32, f16 KV", got[1], F16_KV_LIMIT),
                                    ("int8", got[2], row["int8_limit"])):
            if not value <= limit:
                h.check(f"{name} {label}", False, f"NMSE {value:.3e} above {limit:.3e}")
            else:
                h.passed += 1
    h.finish()


if __name__ == "__main__":
    main()
