"""Sessions that step back, return to checkpoints and begin with kept prefixes: logits and snapshots are those of a session that never saw the rest.
tests/programs/step_back.cc does random sequences of it through the public API; here are the models. On a GPU: test_drafts.py, device_gated_delta_test."""
import os
import subprocess

import harness

MODELS = {"t35-q-Q8_0": "delta rule and attention", "t3next-f-F32": "grouped value heads", "t3-q-Q4_K_M": "attention alone"}


def main():
    h = harness.Harness(__doc__)
    for model, what in MODELS.items():
        gguf = os.path.join(harness.GOLDEN, model + ".gguf")
        artifact = h.compile(gguf, model + ".qbin", "--cpu=native", "--decode=1,4", "--prefill=16,64", "--goldens=off")
        for seed in range(1, 4):
            p = subprocess.run([os.path.join(h.args.bin, "step_back"), artifact, "cpu", str(seed)], capture_output=True, check=False)
            h.check(f"{model} ({what}), seed {seed}: {p.stdout.decode().strip()}", p.returncode == 0, p.stderr.decode(errors="replace"))
    h.finish()


if __name__ == "__main__":
    main()
