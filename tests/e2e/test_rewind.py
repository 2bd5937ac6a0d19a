"""Sessions that step back: whatever was appended and taken back, logits and snapshots are those of a session that never saw it.
tests/programs/step_back.cc does random sequences of it through the public API; here are the models and devices."""
import os
import subprocess

import harness

MODELS = {"t35-q-Q8_0": "delta rule and attention", "t3next-f-F32": "grouped value heads", "t3-q-Q4_K_M": "attention alone"}


def main():
    h = harness.Harness(__doc__)
    for model, what in MODELS.items():
        gguf = os.path.join(harness.GOLDEN, model + ".gguf")
        artifact = h.compile(gguf, model + ".qbin", "--target=cpu,vulkan" if model == "t35-q-Q8_0" else "--target=cpu", "--decode=1,4", "--prefill=16,64", "--goldens=off")
        # Of one model on a GPU: where a processor plays it, this takes 12 s. test_drafts.py steps back on it, too.
        for device in ("cpu", "vulkan") if model == "t35-q-Q8_0" else ("cpu",):
            if device not in (d.split(":")[0] for d in h.usable_devices()):
                print(f"skip {device}: cannot be used here")
                continue
            for seed in range(1, 4 if device == "cpu" else 2):
                p = subprocess.run([os.path.join(h.args.bin, "step_back"), artifact, device, str(seed)], capture_output=True, check=False)
                h.check(f"{model} ({what}) on {device}, seed {seed}: {p.stdout.decode().strip()}", p.returncode == 0, p.stderr.decode(errors="replace"))
    h.finish()


if __name__ == "__main__":
    main()
