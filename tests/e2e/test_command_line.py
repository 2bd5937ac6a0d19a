#!/usr/bin/env python3
"""What qcc makes of its words, and of what surrounds it: values behind "=", names of outputs, full disks, ignored signals, terminals."""
import json
import os
import pty
import resource
import shutil
import signal
import subprocess
import time

from harness import GOLDEN, Harness, TINY, contents, until_caught
from test_cli import refused

MODEL = os.path.join(GOLDEN, "t3-f-BF16.gguf")
SMALL = ["--arch=qwen3", "--preset=0.6b", "--layers=1", "--hidden=64", "--ffn=64", "--heads=2", "--kv-heads=1", "--head-dim=32", "--vocab=512", "--format=f32"]
QUICK = ["--cpu=base", "--decode=1", "--prefill=32"]


def values(h):
    """An option's value is what stands behind its "=", and never the next word."""
    compile_ = ["qcc", "compile", MODEL, "--compile-to=import"]
    for word in ("--name=", "--cache-dir=", "--kernels=", "--mtp=", "--functions=", "--decode=", "--draft=", "--dump-ir="):
        refused(h, f"{word} without a value", 2, "Q0102", ["empty", word[:-1]], *compile_, word, "--kv=f32", "-o", h.path("none.qbin"))
    refused(h, "an empty word", 2, "Q0102", ["empty", "--name"], *compile_, "--name", "", "-o", h.path("none.qbin"))
    refused(h, "-o= without a value", 2, "Q0102", ["empty", "-o"], *compile_, "-qo=")
    for value in ("1,,2", "1,", ",1"):
        refused(h, f"--decode={value}", 2, "Q0102", ["empty", "--decode", value], *compile_, f"--decode={value}")
    for word, meant in (("-output=x", "--output"), ("-output", "--output"), ("-name=x", "--name"), ("-quiet", "--quiet")):
        refused(h, f"{word} for {meant}", 2, "Q0101", [f"did you mean {meant}?"], *compile_, word)
    refused(h, "-version for --version", 2, "Q0101", ["did you mean --version?"], "qcc", "-version")
    for word, name in (("-o={}", "equals.gguf"), ("-qo={}", "letters.gguf"), ("-o{}", "joined.gguf"), ("-qo{}", "both.gguf"), ("--output={}", "long.gguf")):
        p = h.tool("qcc", "synth", *SMALL, word.format(h.path(name)))
        h.expect(f"synth {word.format('FILE')}", p.returncode == 0 and os.path.isfile(h.path(name)), p.stderr.decode())
    for words in (["-o", h.path("before.qbin"), MODEL], ["--kv", "f32", "--decode", "1", MODEL, "-o", h.path("before.qbin")]):
        p = h.tool("qcc", "compile", *words, "--compile-to=import", "-q")
        h.expect(f"the model behind {' '.join(words[:-1])[:8]}...", p.returncode == 0, p.stderr.decode())
    p = h.tool("qcc", "eval", "--split", "1,2", h.path("equals.gguf"), "--tokens", "none.txt", "-o", h.path("none.bin"))
    h.expect("eval: the model behind --split 1,2", p.returncode != 2 and b"none.txt" in p.stderr, p.stderr.decode())
    p = h.tool("qcc", "inspect", "--json", "--", h.path("equals.gguf"))
    h.expect("words behind --", p.returncode == 0, p.stderr.decode())
    refused(h, "cache prune --max-bytes -1", 2, "Q0101", ["--max-bytes", "-1"], "qcc", "cache", "prune", "--max-bytes", "-1", "--cache-dir", h.path("no-cache"))
    refused(h, "synth --seed=-1", 2, "Q0101", ["--seed", "-1"], "qcc", "synth", *SMALL, "--seed=-1", "-o", h.path("none.gguf"))
    synth = ["qcc", "synth", *[word for word in SMALL if not word.startswith("--layers")], "-q", "-o", h.path("numbers.gguf")]
    for option, value, most in (("--layers", "0x2", 2**63 - 1), ("--layers", "1.5", 2**63 - 1), ("--layers", "1G", 2**63 - 1), ("--hidden", "-64", 2**63 - 1),
                                ("--layers", str(2**63), 2**63 - 1), ("--seed", "9" * 29, 2**64 - 1), ("--seed", "0b1", 2**64 - 1)):
        refused(h, f"synth {option}={value}", 2, "Q0101", [option, f"'{value}'", f"decimal digits, 0 to {most}"], *synth, f"{option}={value}")
    for value in ("1G", "9" * 23):
        refused(h, f"cache prune --max-bytes={value}", 2, "Q0101", ["--max-bytes", f"'{value}'", f"decimal digits, 0 to {2**64 - 1}"],
                "qcc", "cache", "prune", f"--max-bytes={value}", "--cache-dir", h.path("no-cache"))
    refused(h, "eval --split", 2, "Q0101", ["--split", "9" * 22, "decimal digits"], "qcc", "eval", MODEL, "--tokens=x", "--split=1," + "9" * 22, "-o", h.path("none"))
    p = h.tool("qcc", *synth[1:], "--layers=010", f"--seed={2**64 - 1}")
    h.expect("synth --layers=010 is ten layers", p.returncode == 0 and b" 10: 10 attention" in h.tool("qcc", "inspect", h.path("numbers.gguf")).stdout, p.stderr.decode())
    for words in (["diff", "--", "a.qbin"], ["diff", "--"], ["explain", "--"]):
        p = h.tool("qcc", *words)
        h.expect(f"qcc {' '.join(words)} lacks an argument", p.returncode == 2 and b"is required [Q0101]" in p.stderr and b"unknown" not in p.stderr, p.stderr.decode())
    for options, says in ((["--draft", "--last-ffn=all"], "--last-ffn has no effect: no program is made"), (["--no-cache", f"--cache-dir={h.path('unused')}"], "--cache-dir has no effect: --no-cache")):
        p = h.tool("qcc", "compile", TINY, "--compile-to=fuse", *options)
        h.expect(f"{options[1].split('=')[0]} with {options[0]} is named in a warning", p.returncode == 0 and p.stderr.decode().count("has no effect") == 1 and says in p.stderr.decode(), p.stderr.decode())
    refused(h, "synth --tied 2", 2, "Q0101", ["--tied", "2"], "qcc", "synth", *SMALL, "--tied", "2", "-o", h.path("none.gguf"))


def functions(h):
    """Names of functions are the user's, and those that give no logits need no golden values."""
    out = h.path("functions.qbin")
    refused(h, "--functions=foo", 2, "Q0102", ["'foo'", "'trunk', 'mtp'", "--functions"], "qcc", "compile", TINY, "--functions=foo", "-o", out, "-q")
    refused(h, "--functions=mtp --goldens=4", 2, "Q0102", ["--goldens", "logits"], "qcc", "compile", TINY, "--functions=mtp", "--goldens=4", "-o", out, "-q")
    h.expect("a refused choice leaves no file", not os.path.exists(out))
    p = h.tool("qcc", "compile", TINY, "--functions=mtp", f"--cache-dir={h.cache}", *QUICK, "-o", out)
    h.expect("--functions=mtp has no golden values, and says so", p.returncode == 0 and b"no goldens" in p.stderr and
            "goldens" not in [s["kind"] for s in h.inspect(out)["sections"]], p.stderr.decode())


def outputs(h, tokens):
    """A name of any length that a file may have; nothing that is read is replaced."""
    longest = h.path("n" * 255)
    for command in (["synth", *SMALL], ["eval", h.path("equals.gguf"), "--tokens", tokens],
                    ["compile", h.path("equals.gguf"), f"--cache-dir={h.cache}", *QUICK]):
        p = h.tool("qcc", *command, "-q", "-o", longest)
        h.expect(f"{command[0]}: a name of 255 letters", p.returncode == 0 and os.path.getsize(longest) > 0, p.stderr.decode())
        os.unlink(longest)
        refused(h, f"{command[0]}: one of 256", 2, "Q0103", ["name too long"], "qcc", *command, "-q", "-o", longest + "n")
    kernels = h.path("kernels")
    os.mkdir(kernels)
    kernel = os.path.join(kernels, "norm.comp")
    with open(kernel, "w") as f:
        f.write("void main() {}")
    refused(h, "a kernel of the user's is no output", 2, "Q0103", [kernel], "qcc", "compile", MODEL, "--target=vulkan", f"--kernels={kernels}", "-o", kernel)
    h.expect("and stays as it is", contents(kernel) == b"void main() {}")


def versions(h):
    text = h.tool("qcc", "--version").stdout.decode()
    for words in (["--version", "--json"], ["--json", "--version"]):
        p = h.tool("qcc", *words)
        v = json.loads(p.stdout)
        h.expect(" ".join(words), list(v) == ["program", "version", "llvm", "commit", "targets"] and
                 text.startswith(f"{v['program']} {v['version']} (LLVM {v['llvm']}) (") and text.endswith("targets: " + " ".join(v["targets"]) + "\n"), p.stdout.decode())


def models(h):
    """What a shell makes of a pattern that all files of a split model match."""
    p = h.tool("qcc", "compile", MODEL, "m-00002-of-00002.gguf", "-o", h.path("two.qbin"))
    h.expect("two models", p.returncode == 2 and b"more than one model is named: m-00002-of-00002.gguf [Q0101]" in p.stderr and b"name the first" in p.stderr, p.stderr.decode())


def names(h):
    """Names of files that would steer a terminal are escaped, in what is told of work as in errors."""
    folder = h.path("e\x1b[31m\nf")
    os.mkdir(folder)
    out = os.path.join(folder, "m.qbin")
    made = h.tool("qcc", "compile", MODEL, "-v", f"--cache-dir={h.cache}", *QUICK, "-o", out)
    h.expect("compile tells what it wrote", made.returncode == 0 and made.stderr.count(b"e\\x1b[31m\\x0af/m.qbin") == 2, made.stderr.decode())
    other = h.compile(MODEL, "other.qbin", *QUICK, "--name=other")
    for words in (["verify", out], ["inspect", out], ["diff", out, other], ["cache", "list", f"--cache-dir={folder}"]):
        p = h.tool("qcc", *words)
        h.expect(f"{words[0]} shows the name", b"e\\x1b[31m\\x0af" in p.stdout and b"\x1b" not in made.stderr + p.stdout + p.stderr, f"exit {p.returncode}: {p.stdout!r} {p.stderr!r}")


def folders(h):
    """What an error of a folder advises can be done."""
    for words, without in ((["cache", "list"], False), (["cache", "artifact", MODEL], False), (["compile", MODEL, "-o", h.path("none.qbin"), *QUICK], True)):
        p = h.tool("qcc", *words, "--cache-dir=/dev/null")
        h.expect(f"{' '.join(words[:2])} --cache-dir=/dev/null", p.returncode == 6 and b"[Q6002]" in p.stderr and b"another folder with --cache-dir" in p.stderr and
                 (b"--no-cache" in p.stderr) == without, p.stderr.decode())
    dumps = h.path("taken")
    os.mkdir(dumps)
    with open(os.path.join(dumps, "base"), "w"):
        pass
    p = h.tool("qcc", "compile", MODEL, f"--dump-kernels={dumps}", "--compile-to=code", "--no-cache", *QUICK)
    h.expect("--dump-kernels where a file has the name of its folder", p.returncode == 6 and f"{dumps} (--dump-kernels)".encode() in p.stderr, p.stderr.decode())
    for option in ("--dump-ir", "--dump-kernels", "--cache-dir"):
        refused(h, f"the output is the folder of {option}", 2, "Q0103", [option], "qcc", "compile", MODEL, f"{option}={h.path('same')}", "-o", os.path.join(h.path("."), "same"), *QUICK)
    model = os.path.join(dumps, "1-import.mlir")
    shutil.copyfile(MODEL, model)
    refused(h, "a model is no IR dump", 2, "Q0103", [model, "--dump-ir"], "qcc", "compile", model, f"--dump-ir={dumps}", "--compile-to=import", "-q")
    h.expect("and stays as it is", contents(model) == contents(MODEL))


def full(h):
    """A full disk is told as one, whatever was being written."""
    qcc = os.path.join(h.args.bin, "qcc")
    with open("/dev/full", "wb") as out:
        for command in (["inspect", MODEL], ["man", "compile"], ["targets", "--json"]):
            p = subprocess.run([qcc, *command], stdout=out, stderr=subprocess.PIPE)
            h.expect(f"{command[0]} > /dev/full", p.returncode == 6 and b"[Q6003]" in p.stderr, f"exit {p.returncode}: {p.stderr.decode()}")
    few = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    for option, target in (("--dump-ir", []), ("--dump-kernels", []), ("--dump-kernels", ["--target=vulkan", "--gpu-profiles=none"])):
        words = [f"{option}={h.path('dumps')}", "--compile-to=code", "--no-cache", *(target or QUICK)]
        p = subprocess.run([qcc, "compile", MODEL, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=few)
        h.expect(" ".join([option, *target, "to a full disk"]), p.returncode == 6 and b"[Q6003]" in p.stderr, f"exit {p.returncode}: {p.stderr.decode()}")


def signals(h, tokens):
    """nohup(1) ignores SIGHUP for what it starts, which goes on then."""
    endless = h.path("endless.txt")
    with open(endless, "w") as f:
        f.write("1 " * 20000)

    def ended(ignore):
        def prepare():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_IGN if ignore else signal.SIG_DFL)

        process = subprocess.Popen([os.path.join(h.args.bin, "qcc"), "eval", TINY, "--tokens", tokens if ignore else endless, "-o", h.path("hangup.bin")], preexec_fn=prepare,
                                   stderr=subprocess.DEVNULL)
        until_caught(process, signal.SIGTERM if ignore else signal.SIGHUP)
        time.sleep(0.02)  # where it is ignored, SIGHUP is next
        process.send_signal(signal.SIGHUP)
        return process.wait()

    h.expect("SIGHUP ends it", ended(False) == 130)
    h.expect("one that is ignored does not", ended(True) == 0)


def terminals(h):
    def shown(kind):
        ours, theirs = pty.openpty()
        subprocess.run([os.path.join(h.args.bin, "qcc"), "synth", *SMALL, "-o", h.path("shown.gguf")], stderr=theirs, env={**os.environ, "TERM": kind}, check=True)
        os.close(theirs)
        out = b""
        try:
            while piece := os.read(ours, 4096):
                out += piece
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        return out.replace(b"\r\n", b"\n")

    h.expect("a terminal's line is drawn anew", b"\x1b" in shown("xterm"))
    out = shown("dumb")
    h.expect("TERM=dumb: plain lines", b"write random weights" in out and b"\x1b" not in out and b"\r" not in out, repr(out))


def main():
    h = Harness(__doc__)
    tokens = h.path("ids.txt")
    with open(tokens, "w") as f:
        f.write(" ".join(map(str, range(1, 33))))
    values(h)
    functions(h)
    outputs(h, tokens)
    versions(h)
    models(h)
    names(h)
    folders(h)
    full(h)
    signals(h, tokens)
    terminals(h)
    h.finish()


if __name__ == "__main__":
    main()
