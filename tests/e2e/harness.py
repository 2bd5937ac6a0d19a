"""What the end-to-end tests share: running the tools, reading logits files, comparing them, counting failures.

Every test is a script `test_*.py --bin DIR [--work DIR] [--shard I/N]` that prints one line per case and ends with
`N passed, N failed`; its exit code is 1 if any failed.
"""
import argparse
import array
import functools
import json
import operator
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN = os.path.join(ROOT, "tests", "golden")
TINY = os.path.join(ROOT, "assets", "tiny-qwen35-q8_0.gguf")
# A wider set of models with known answers may lie beside the repository; the tests then run over all of it.
WIDER = os.path.join(os.path.dirname(ROOT), "shared")


def until_caught(process, number):
    """Waits until a program has set up what it does at this signal."""
    limit = time.monotonic() + 300
    while True:
        with open(f"/proc/{process.pid}/status", encoding="utf-8") as f:
            mask = next(line.split()[1] for line in f if line.startswith("SigCgt:"))
        if int(mask, 16) >> (number - 1) & 1:
            return
        assert process.poll() is None and time.monotonic() < limit, f"{process.args} does nothing at {number.name}"
        time.sleep(0.001)


class Harness:
    def __init__(self, description):
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--bin", required=True, help="folder with qcc and qrun")
        parser.add_argument("--work", help="folder for artifacts (default: a temporary one)")
        parser.add_argument("--code", metavar="DIR", help="folder of compiled code that scripts share (default: one of this script's own)")
        parser.add_argument("--cpu", default="native", help="test_golden.py: ISA level that is compiled for and runs (default: %(default)s)")
        parser.add_argument("--device", default="vulkan", choices=("vulkan", "cuda"), help="tests of GPUs: which (default: %(default)s)")
        parser.add_argument("--profile", help="tests of GPUs: code of this profile (default: the best of the usual ones)")
        parser.add_argument("--formats", metavar="F,...", help="tests of GPUs: goldens of these formats, or all; default: a few of each kind")
        parser.add_argument("--shard", default="1/1", metavar="I/N", help="only the I-th of N shares of the cases (default: %(default)s)")
        self.args = parser.parse_args()
        self.index, self.shards = (int(n) for n in self.args.shard.split("/"))
        if not 1 <= self.index <= self.shards:
            parser.error(f"--shard {self.args.shard}: I is 1 to N")
        self.temporary = self.args.work is None
        self.work = self.args.work or tempfile.mkdtemp(prefix="qcc-e2e-")
        os.makedirs(self.work, exist_ok=True)
        self.passed = self.failed = 0
        # In the background of a script it is ignored, which what is started here would leave so.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.shared = self.shards == 1  # whether share() was asked

    def share(self, items):
        """Those of `items` that this process has to do: every N-th, so that neighbours, which are of a kind, are spread."""
        items = list(items)
        assert len(items) >= self.shards, f"{len(items)} cases do not make {self.shards} shares"
        self.shared = True
        return items[self.index - 1::self.shards]

    def first(self):
        """Whether what is not about one of the shared cases is for this process."""
        return self.index == 1

    def path(self, name):
        return os.path.join(self.work, name)

    def tool(self, name, *args, stdin=None, env=None, timeout=None):
        """Runs a tool; returns the completed process with text streams. Never raises on a non-zero exit; a tool that takes longer than
        `timeout` seconds is a failure. A compile makes its code itself: what it should be tested for, and in what time, does not
        depend on what others have left in the user's cache."""
        if name == "qcc":
            args = own_code(args)
        try:
            return subprocess.run([os.path.join(self.args.bin, name), *map(str, args)], capture_output=True,
                                  input=stdin if stdin is not None else b"", env=env, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} {' '.join(map(str, args))}: still running after {timeout} s") from None

    def run(self, name, *args, stdin=None):
        """Runs a tool that must succeed; returns its stdout as bytes."""
        p = self.tool(name, *args, stdin=stdin)
        if p.returncode != 0:
            raise AssertionError(f"{name} {' '.join(map(str, args))}: exit {p.returncode}: {p.stderr.decode(errors='replace')[-600:]}")
        return p.stdout

    @functools.cached_property
    def levels(self):
        """The CPU's ISA levels, worst first, as `qcc targets` lists them: `cpu     v3 *    ...`."""
        names = re.findall(r"^cpu +(\S+)", self.run("qcc", "targets").decode(), re.MULTILINE)
        assert names and names[0] == "base", f"qcc targets lists {names}"
        return names

    def sanitized(self):
        """Whether the tools are a sanitizer build: its shadow memory rules out limits on the address space."""
        with open(os.path.join(self.args.bin, "qrun"), "rb") as binary:
            text = binary.read()
        return b"__asan_init" in text or b"__tsan_init" in text

    def compile(self, gguf, name, *options):
        """An artifact, for those whose subject is another: kernels that were compiled before, here or by another script, are not compiled again."""
        out = self.path(name)
        cache = [] if names_cache(options) else [f"--cache-dir={self.cache}"]
        self.run("qcc", "compile", gguf, "-o", out, "-q", *cache, *options)
        return out

    @functools.cached_property
    def cache(self):
        """A cache whose code is everybody's (--code): what is in it says by its name all that it was made of, the whole compiler among it, and is
        verified when read. Whole artifacts are this script's own: others change theirs and remove them."""
        cache = self.path("cache-of-code")
        if self.args.code:
            os.makedirs(cache, exist_ok=True)
            os.makedirs(self.args.code, exist_ok=True)
            code = os.path.join(cache, "code")
            if not os.path.islink(code):  # left in --work
                os.symlink(os.path.abspath(self.args.code), code)
        return cache

    def logits(self, qbin, tokens, *options):
        out = self.path("logits.bin")
        self.run("qrun", "logits", qbin, "--tokens", tokens, "-o", out, *options)
        return read_logits(out)

    def inspect(self, file):
        """What `qcc inspect --json` says of an artifact or a model."""
        return json.loads(self.run("qcc", "inspect", file, "--json"))

    def usable_devices(self):
        """The ids of the devices that can be used here: "cpu", "vulkan:0"."""
        return [d["id"] for d in json.loads(self.run("qrun", "devices", "--json"))["devices"] if d["usable"]]

    def emulated(self, kind):
        """Whether every usable device of a kind ("vulkan") is a processor that plays one."""
        listed = json.loads(self.run("qrun", "devices", "--json"))["devices"]
        return all(d["facts"].startswith("cpu,") for d in listed if d["id"].startswith(kind + ":") and d["usable"])

    def check(self, name, ok, detail=""):
        self.passed += bool(ok)
        self.failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {name}{': ' + detail if detail else ''}", flush=True)

    def expect(self, name, ok, *found):
        """As check, but says what was found only where it is wrong."""
        self.check(name, ok, "" if ok else " ".join(map(str, found)))

    def case(self, name, body):
        """Runs `body`; an AssertionError is a failure of this case, not of the script."""
        try:
            detail = body()
            self.check(name, True, detail or "")
        except AssertionError as e:
            self.check(name, False, str(e))

    def finish(self):
        if not self.shared:
            self.check("--shard", False, "this test has nothing to share out")
        if self.temporary:
            shutil.rmtree(self.work, ignore_errors=True)
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(1 if self.failed or not self.passed else 0)


def contents(path):
    with open(path, "rb") as f:
        return f.read()


def names_cache(options):
    return any(str(option).startswith(("--cache-dir", "--no-cache")) for option in options)


def own_code(args):
    """The arguments of qcc, without the cache of compiled code unless they say something about it."""
    args = list(args)
    return args + ["--no-cache"] if args[:1] == ["compile"] and not names_cache(args) else args


def read_logits(path):
    """(rows, columns, array of float) of an LGT1 file."""
    with open(path, "rb") as f:
        magic, rows, cols = struct.unpack("<4sii", f.read(12))
        assert magic == b"LGT1", f"{path}: not a logits file"
        values = array.array("f")
        values.frombytes(f.read())
    assert len(values) == rows * cols, f"{path}: {len(values)} values for {rows} x {cols}"
    return rows, cols, values


def nmse(logits, reference):
    """sum (x - ref)^2 / sum ref^2 over the whole file."""
    assert logits[:2] == reference[:2], f"{logits[:2]} logits, reference has {reference[:2]}"
    # Millions of values in dozens of files: without a generator this is five times as fast.
    apart = list(map(operator.sub, logits[2], reference[2]))
    return sum(map(operator.mul, apart, apart)) / sum(map(operator.mul, reference[2], reference[2]))


def goldens(formats=None, wider=True):
    """[(name, gguf, tokens, reference, table row)] of the models of these formats (None: every one), of the wider set where it is
    present and `wider`."""
    folder = os.path.join(WIDER, "golden")
    if not wider or not os.path.isfile(os.path.join(folder, "golden.json")):
        folder = GOLDEN
    with open(os.path.join(folder, "golden.json")) as f:
        table = json.load(f)
    found = []
    for name, row in table.items():
        gguf = os.path.join(folder, name + ".gguf")
        if (formats is None or name.split("-")[-1] in formats) and os.path.isfile(gguf):
            found.append((name, gguf, os.path.join(folder, row["tokens"]), os.path.join(folder, name + ".f64.bin"), row))
    return found
