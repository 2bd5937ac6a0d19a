#!/usr/bin/env python3
"""Whether two builds compute the same logits, bit for bit:

    tools/compare_bits.py --old DIR --new DIR [--models GGUF-or-folder ...] [--keep DIR]

DIR holds a build's qcc and qrun. Every model is compiled by each build, once per numerics for all targets and CPU levels,
and fed 48 tokens: 31 in one call, the rest one by one. Then each code variant of the artifact that this machine runs is
compared. A model that the old build refuses is named and left out; one that only the new build refuses is a difference.
Exit code 1 if anything differs or nothing was compared.
"""
import argparse
import collections
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STORED = (os.path.join(ROOT, "tests", "golden"), os.path.join(ROOT, "assets"))
# Both KV types, with the numerics that the tests of accuracy pair them with.
NUMERICS = {"int8": ("--numerics=int8", "--kv=f16"), "f32": ("--numerics=f32", "--kv=f32")}
PROGRAMS = ("--decode=1", "--prefill=32")
TOKENS, SPLIT = 48, "31,1"
DEVICE_ABSENT = 5  # exit code


def ids(vocabulary):
    """Token ids spread over the vocabulary; the same in every run."""
    return [(7 + 7919 * i * i + 104729 * i) % vocabulary for i in range(TOKENS)]


def error_of(process):
    """The first line that says what went wrong."""
    lines = process.stderr.decode(errors="replace").strip().splitlines()
    return (lines[0] if lines else "no message")[:160] + f" (exit {process.returncode})"


def digest(*paths):
    h = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as f:
            while block := f.read(1 << 20):
                h.update(block)
    return h.hexdigest()[:24]


class Build:
    def __init__(self, folder, keep, options):
        self.folder, self.keep, self.options = folder, keep, options
        self.identity = digest(*(os.path.join(folder, name) for name in ("qcc", "qrun")))

    def tool(self, name, *args):
        return subprocess.run([os.path.join(self.folder, name), *map(str, args)], capture_output=True)

    def results(self, gguf, numerics, work):
        """{"refused": why} or {"variants": {"cpu v3": hash of the logits, or why it did not run}, "code": {...}}; kept
        under the hashes of the build, the model and the options."""
        asked = json.dumps([self.options, PROGRAMS, NUMERICS[numerics], TOKENS, SPLIT])
        name = f"{self.identity}-{digest(gguf)}-{hashlib.sha256(asked.encode()).hexdigest()[:16]}.json"
        kept = self.keep and os.path.join(self.keep, name)
        if kept and os.path.isfile(kept):
            with open(kept) as f:
                return json.load(f)
        found = self.compute(gguf, numerics, work)
        if kept:
            with open(kept + ".part", "w") as f:
                json.dump(found, f)
            os.replace(kept + ".part", kept)
        return found

    def compute(self, gguf, numerics, work):
        with tempfile.TemporaryDirectory(dir=work) as folder:
            qbin, tokens, out = (os.path.join(folder, n) for n in ("m.qbin", "ids.txt", "logits.bin"))
            made = self.tool("qcc", "compile", gguf, "-q", "-o", qbin, *PROGRAMS, *NUMERICS[numerics], *self.options)
            if made.returncode != 0:
                return {"refused": error_of(made)}
            held = json.loads(self.tool("qcc", "inspect", qbin, "--json").stdout)
            with open(tokens, "w") as f:
                f.write(" ".join(map(str, ids(held["model"]["vocab_size"]))) + "\n")
            variants, code = {}, {}
            for target in held["targets"]:
                label = f"{target['target']} {target['isa']}"
                code[label] = next(s["hash"] for s in held["sections"] if s["index"] == target["section"])
                ran = self.tool("qrun", "logits", qbin, "--tokens", tokens, "-o", out, "--split", SPLIT,
                                "--device", target["target"], "--cpu", target["isa"],
                                *(() if target["target"] == "cpu" else ("--cache-dir", os.path.join(work, "kernels"))))
                if ran.returncode == 0:
                    variants[label] = digest(out)
                else:
                    variants[label] = ("absent: " if ran.returncode == DEVICE_ABSENT else "failed: ") + error_of(ran)
            return {"variants": variants, "code": code}


def models_of(paths):
    """GGUF files of the paths, each content once: a wider folder holds the stored models too."""
    found = {}
    for path in paths:
        files = [path] if os.path.isfile(path) else [os.path.join(path, f) for f in sorted(os.listdir(path)) if f.endswith(".gguf")]
        if not files:
            sys.exit(f"compare_bits: {path}: no GGUF files")
        for file in files:
            found.setdefault(digest(file), file)
    return sorted(found.values(), key=os.path.basename)


class Comparison:
    def __init__(self):
        self.equal, self.differ, self.absent = collections.Counter(), [], collections.Counter()
        self.left_out, self.same_code, self.codes = [], 0, 0

    def add(self, name, numerics, old, new):
        label = f"{name} {numerics}"
        if "refused" in old:
            self.left_out.append(f"{label}: {'both builds refuse' if 'refused' in new else 'only the new build takes'} it: {old['refused']}")
        elif "refused" in new:
            self.differ.append(f"{label}: only the new build refuses it: {new['refused']}")
        else:
            for variant in sorted(old["variants"].keys() | new["variants"].keys()):
                self.variant(f"{label} {variant}", (variant, numerics), *(b["variants"].get(variant) for b in (old, new)))
            shared = old["code"].keys() & new["code"].keys()
            self.codes += len(shared)
            self.same_code += sum(old["code"][v] == new["code"][v] for v in shared)

    def variant(self, label, group, old, new):
        if old is None:
            self.left_out.append(f"{label}: only the new build has it")
        elif new is None:
            self.differ.append(f"{label}: only the old build has it")
        elif old.startswith("absent") and new.startswith("absent"):
            self.absent[group[0]] += 1
        elif ":" in old or ":" in new:
            self.differ.append(f"{label}: old {old}; new {new}")
        elif old != new:
            self.differ.append(f"{label}: other bits")
        else:
            self.equal[group] += 1

    def report(self):
        for title, lines in (("left out", self.left_out), ("DIFFERENT", self.differ)):
            for line in lines:
                print(f"{title}: {line}")
        for variant, count in sorted(self.absent.items()):
            print(f"this machine does not run {variant}: {count} not compared")
        for (variant, numerics), count in sorted(self.equal.items()):
            print(f"equal bits: {variant} {numerics}: {count} models")
        print(f"code sections equal byte for byte: {self.same_code} of {self.codes}")
        print(f"compare_bits: {sum(self.equal.values())} equal, {len(self.differ)} different, {len(self.left_out)} left out")
        return 1 if self.differ or not self.equal else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True, help="folder with the qcc and qrun to compare with")
    parser.add_argument("--new", required=True, help="folder with those to judge")
    parser.add_argument("--models", nargs="+", default=list(STORED), help="GGUF files and folders of them (default: those of the repository)")
    parser.add_argument("--only", default="", help="only models whose file name this regular expression finds")
    parser.add_argument("--numerics", nargs="+", default=list(NUMERICS), choices=list(NUMERICS))
    parser.add_argument("--target", default="cpu,vulkan", help="as of qcc compile (default: %(default)s)")
    parser.add_argument("--cpu", help="as of qcc compile (default: every level)")
    parser.add_argument("--gpu-profiles", default="sg8-dot", help="as of qcc compile (default: %(default)s, the best that lavapipe runs)")
    parser.add_argument("--keep", help="folder that keeps results between runs, by build, model and options")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    options = [f"--target={args.target}"]
    if args.cpu:
        options.append(f"--cpu={args.cpu}")
    if args.target != "cpu":
        options.append(f"--gpu-profiles={args.gpu_profiles}")
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
    old, new = (Build(folder, args.keep, options) for folder in (args.old, args.new))
    models = [m for m in models_of(args.models) if re.search(args.only, os.path.basename(m))]
    comparison = Comparison()
    with tempfile.TemporaryDirectory(prefix="compare-bits-") as work, ThreadPoolExecutor(args.jobs) as pool:
        def both(case):
            return case, *(build.results(*case, work) for build in (old, new))
        for (gguf, numerics), *found in pool.map(both, [(m, n) for m in models for n in args.numerics]):
            comparison.add(os.path.basename(gguf), numerics, *found)
            print(f"{os.path.basename(gguf)} {numerics}: {'refused' if 'refused' in found[0] else len(found[0]['variants'])}", file=sys.stderr, flush=True)
    return comparison.report()


if __name__ == "__main__":
    sys.exit(main())
