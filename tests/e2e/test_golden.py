#!/usr/bin/env python3
"""Logits against the float64 goldens: f32 numerics with f32 and f16 KV, int8 numerics. Prints the whole table."""
from harness import Harness, goldens, nmse, read_logits

F32_LIMIT = 1e-9      # f32 numerics, f32 KV
F16_KV_LIMIT = 1e-6   # f32 numerics, f16 KV
PROGRAMS = ("--decode=1", "--prefill=128")  # one call of at most 128 tokens runs no other; test_invariance.py compares buckets
STORED = 11           # models of tests/golden


def main():
    h = Harness(__doc__)
    print(f"{'model':<18}{'f32':>10}{'f32/kv16':>10}{'int8':>10}{'limit':>10}{'llama.cpp':>11}{'ik':>10}")
    models = goldens()
    h.check("every model of tests/golden or more", len(models) >= STORED, f"{len(models)} models, {STORED} are stored")
    for name, gguf, tokens, reference, row in h.share(models):
        want = read_logits(reference)
        got = []
        for numerics, kv in (("f32", "f32"), ("f32", "f16"), ("int8", "f16")):
            qbin = h.compile(gguf, "m.qbin", f"--numerics={numerics}", f"--kv={kv}", f"--cpu={h.args.cpu}", *PROGRAMS)
            got.append(nmse(h.logits(qbin, tokens), want))
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
