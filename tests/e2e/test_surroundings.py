#!/usr/bin/env python3
"""What happens to qcc and qrun from outside: little memory, few open files, one core, many at once, files that are none, that are
holes, or that change while they are used. Each run ends well or says why not, and leaves nothing half-written."""
import os
import re
import resource
import shutil
import socket
import struct
import subprocess
import time

import gguf_edit
from harness import GOLDEN, TINY, contents, own_code
from test_cli import quiet_harness, refused

MODEL = os.path.join(GOLDEN, "t3-f-BF16.gguf")
QUICK = ["--cpu=base", "--decode=8", "--prefill=8"]  # one size for both kinds of step: half as many kernels, and there are a hundred compiles
ERROR = re.compile(r"(qcc|qrun): error: .+ \[(Q\d{4})\]")
HANG = 1200  # seconds
TRIES = 5  # where a change that comes while a program works may come too late on a busy machine
TIB = 1 << 40


class Place:
    """A folder for outputs and one for temporary files, in which nothing may be left."""

    def __init__(self, h, name):
        self.h, self.out, self.temporary = h, h.path(name + ".out"), h.path(name + ".tmp")
        for folder in (self.out, self.temporary):
            os.makedirs(folder)

    def command(self, *args):
        return [os.path.join(self.h.args.bin, args[0]), *map(str, own_code(args[1:]) if args[0] == "qcc" else args[1:])]

    def start(self, *args, prepare=None, **options):
        return subprocess.Popen(self.command(*args), env=os.environ | {"TMPDIR": self.temporary}, preexec_fn=prepare, stdin=subprocess.DEVNULL,
                                stdout=options.pop("stdout", subprocess.PIPE), stderr=options.pop("stderr", subprocess.PIPE), **options)

    def run(self, *args, prepare=None):
        process = self.start(*args, prepare=prepare)
        out, err = process.communicate(timeout=HANG)
        return process.returncode, out, err.decode(errors="replace")

    def path(self, name):
        return os.path.join(self.out, name)

    def left(self):
        return sorted(os.listdir(self.out) + os.listdir(self.temporary))


def size(path):
    """0 where it is gone."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def changed_at_work(start, begun, change, output):
    """A change under a program that has begun: the process and what it said. Again where it had ended by then, which may be on a busy machine."""
    for _ in range(TRIES):
        process = start()
        try:
            said = begun(process)
            change()
            late = process.poll() is not None
            _, err = process.communicate(timeout=HANG)
        finally:
            process.kill()
        if not late or not os.path.exists(output):
            break
        os.remove(output)
    return process, (said + err).decode()


def limited(*limits):
    def prepare():
        for what, value in limits:
            resource.setrlimit(what, (value, value))
    return prepare


def said_why(code, err, tool, exits):
    """An exit code of these with one error of that form; or the loader's 127, which no program can do anything about."""
    if code == 127 and "error while loading shared libraries" in err:
        return True
    errors = [line for line in err.strip().split("\n") if not line.startswith(("  note: ", "  help: "))]
    return code in exits and len(errors) == 1 and bool(ERROR.match(errors[0])) and errors[0].startswith(tool)


def least(place, low, high, *command):
    """Bytes of address space with which a command works, to the nearest 1/256 between these."""
    step = (high - low) // 256
    while high - low > step:
        middle = (low + high) // 2
        code, _, _ = place.run(*command, prepare=limited((resource.RLIMIT_AS, middle)))
        low, high = (low, middle) if code == 0 else (middle, high)
    return high


def memory(h):
    """R7: every limit on memory, from hardly any to what a run needs."""
    if h.sanitized():
        print("skip limits of memory: a sanitizer's shadow memory does not fit under them")
        return
    place = Place(h, "memory")
    qbin, ids = place.path("out.qbin"), h.path("memory-ids.txt")
    with open(ids, "w") as f:
        f.write("1 2 3 4 5 6 7 8")
    compile = ["qcc", "compile", MODEL, "-o", qbin, "-q", *QUICK]
    assert place.run(*compile)[0] == 0
    want = contents(qbin)
    # What is loaded with the program takes most of it; below that only the loader speaks.
    loaded = least(place, 32 << 20, 2 << 30, "qcc", "--version")
    most = least(place, loaded, loaded + (256 << 20), *compile)
    # A thread's share of malloc takes 64 MB of addresses, or none where it finds another's free.
    limits = [200 << 20, *(loaded - (8 << 20) + (1 << 20) * i for i in range(8)), *(loaded + (most - loaded) * i // 15 for i in range(16)),
              most + (256 << 20)]
    codes = []
    for limit in limits:
        os.remove(qbin) if os.path.exists(qbin) else None
        code, _, err = place.run(*compile, prepare=limited((resource.RLIMIT_AS, limit)))
        codes.append(code)
        made = place.left()
        good = code == 0 and made == ["out.qbin"] and contents(qbin) == want
        # Where not even --version works, the loader may end as it likes.
        if not good and not ((limit < loaded or said_why(code, err, "qcc", (6,))) and made == []):
            h.check(f"qcc compile in {limit >> 10} KiB", False, f"exit {code}, left {made}: {err}")
    h.check("qcc compile: enough memory is enough", codes[-1] == 0, str(codes))
    h.check("qcc compile: too little memory is told", 6 in codes, str(codes))

    if not os.path.exists(qbin):
        return
    out = place.path("logits.bin")
    logits = ["qrun", "logits", qbin, "--tokens", ids, "-o", out, "-t", 1]
    assert place.run(*logits)[0] == 0
    want, codes = contents(out), []
    loaded = least(place, 4 << 20, 256 << 20, "qrun", "--version")
    most = least(place, loaded, loaded + (256 << 20), *logits)
    for i in range(25):
        os.remove(out) if os.path.exists(out) else None
        limit = loaded + (most - loaded) * i // 20
        code, _, err = place.run(*logits, prepare=limited((resource.RLIMIT_AS, limit)))
        codes.append(code)
        good = code == 0 and contents(out) == want
        if not good and not (said_why(code, err, "qrun", (5, 6)) and place.left() == ["out.qbin"]):
            h.check(f"qrun logits in {limit >> 10} KiB", False, f"exit {code}, left {place.left()}: {err}")
    h.check("qrun logits: enough memory is enough, too little is told", codes[-1] == 0 and 6 in codes, str(codes))


def limits(h):
    """R7: few open files, one core, small stacks."""
    place = Place(h, "limits")
    qbin = place.path("out.qbin")
    compile = ["qcc", "compile", MODEL, "-o", qbin, "-q", *QUICK]
    code, _, err = place.run(*compile)
    assert code == 0, err
    want = contents(qbin)
    cases = [(f"{files} open files", limited((resource.RLIMIT_NOFILE, files))) for files in (3, 4, 5, 6, 8, 12)]
    cases.append(("one core", lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})))
    if not h.sanitized():  # its frames are larger
        cases += [(f"{kib} KiB of stack", limited((resource.RLIMIT_STACK, kib << 10))) for kib in (512, 256)]
    for name, prepare in cases:
        os.remove(qbin)
        code, _, err = place.run(*compile, prepare=prepare)
        h.check(f"qcc compile with {name}", contents(qbin) == want if code == 0 else said_why(code, err, "qcc", (6,)), f"exit {code}: {err}")
        if name == "one core":
            h.check("one core is enough", code == 0, err)
        with open(qbin, "wb") as f:
            f.write(want)
        code, out, err = place.run("qrun", qbin, "--raw", "-p", "x", "-n", 2, "--greedy", prepare=prepare)
        h.check(f"qrun with {name}", code == 0 or said_why(code, err, "qrun", (5, 6)), f"exit {code}: {err}")
    if os.getuid() != 0:  # root has no such limit
        os.remove(qbin)
        code, _, err = place.run("qcc", "compile", MODEL, "-o", qbin, "-q", "--decode=1", "--prefill=32", prepare=limited((resource.RLIMIT_NPROC, 1)))
        h.check("qcc compile without more threads", code == 0, f"exit {code}: {err}")
    h.check("limits: nothing is left", place.left() == ["out.qbin"], str(place.left()))
    shards = gguf_edit.split(TINY, h.path("few"), 8)
    code, _, err = place.run("qcc", "compile", shards[0], "-o", qbin, "-q", *QUICK, prepare=limited((resource.RLIMIT_NOFILE, 8)))
    h.check("more shards than open files", code == 6 and "[Q6004]" in err and "ulimit -n" in err, f"exit {code}: {err}")


def together(h):
    """R5: compilers of one model to one output."""
    place = Place(h, "together")
    qbin = place.path("out.qbin")
    for count in (2, 20):
        processes = [place.start("qcc", "compile", MODEL, "-o", qbin, "-q", *QUICK) for _ in range(count)]
        ends = [(p.communicate(timeout=HANG), p.returncode) for p in processes]
        failures = [(code, err) for (_, err), code in ends if code != 0]
        h.check(f"{count} compilers of one output", failures == [] and place.left() == ["out.qbin"], f"{failures}, left {place.left()}")
        h.check(f"the output of {count} compilers is whole", h.tool("qcc", "verify", qbin).returncode == 0)
    alone = h.compile(MODEL, "alone.qbin", *QUICK)
    h.check("the output of 20 compilers is that of one", contents(qbin) == contents(alone))


def kinds(h):
    """G17: what is no regular file is refused at once, by name."""
    fifo, loop, sock = h.path("fifo"), h.path("loop"), h.path("sock")
    os.mkfifo(fifo)
    os.symlink(loop, loop)
    listener = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(h.work)  # names of sockets are short
    listener.bind("sock")
    os.chdir(here)
    ids, out = h.path("kinds-ids.txt"), h.path("kinds.out")
    with open(ids, "w") as f:
        f.write("1 2 3")
    qbin = h.compile(MODEL, "kinds.qbin", *QUICK)
    for path in (fifo, loop, sock, h.work, "/dev/zero"):
        name = os.path.basename(path)
        artifact = "Q4003" if path in (fifo, h.work, "/dev/zero") else "Q4002"
        for what, exit_code, code, command in (
                ("qcc compile", 3, "Q1001", ("qcc", "compile", path, "-o", out, "-q")),
                ("qcc eval", 3, "Q1001", ("qcc", "eval", path, "--tokens", ids, "-o", out)),
                ("qcc eval --tokens", 3, "Q2401", ("qcc", "eval", MODEL, "--tokens", path, "-o", out)),
                ("qcc inspect", 4, artifact, ("qcc", "inspect", path)),
                ("qcc verify", 4, artifact, ("qcc", "verify", path)),
                ("qrun", 4, artifact, ("qrun", path, "-p", "x")),
                ("qrun logits --tokens", 3, "Q8001", ("qrun", "logits", qbin, "--tokens", path, "-o", out)),
                ("qrun --load-session", 3, "Q8001", ("qrun", qbin, "--raw", "--load-session", path))):
            refused(h, f"{what} of {name if path != h.work else 'a folder'}", exit_code, code, [path], *command, timeout=HANG)
    # A text may come through a pipe; it is not read without end.
    refused(h, "qrun -f /dev/zero", 3, "Q8007", ["/dev/zero"], "qrun", "tokenize", qbin, "-f", "/dev/zero", timeout=HANG)
    h.check("no output of what was refused", not os.path.exists(out))
    listener.close()


def hole(h, name, head, size):
    path = h.path(name)
    with open(path, "wb") as f:
        f.write(head)
        f.truncate(size)
    return path


def holes(h):
    """G15: a few bytes in a terabyte of hole cost what the bytes cost."""
    strings = struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + gguf_edit.string("a.b") + struct.pack("<IIQ", gguf_edit.ARRAY, gguf_edit.STRING, 1 << 30)
    bools = struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + gguf_edit.string("a.b") + struct.pack("<IIQ", gguf_edit.ARRAY, 7, 1 << 30)
    for name, head, code, says in (("strings", strings, "Q1011", ["1073741824", "'a.b'"]), ("bools", bools, "Q1011", ["1073741824"]),
                                   ("entries", struct.pack("<4sIQQ", b"GGUF", 3, 0, 3000000), "Q1010", ["3000000", "65536"]),
                                   ("tensors", struct.pack("<4sIQQ", b"GGUF", 3, 3000000, 0), "Q1010", ["3000000", "262144"]),
                                   ("nothing", b"", "Q1003", []), ("empty key", struct.pack("<4sIQQ", b"GGUF", 3, 1, 1), "Q1101", [])):
        path = hole(h, "hole.gguf", head, TIB)
        for command in (("compile", path, "--compile-to=import"), ("eval", path, "--tokens", MODEL, "-o", h.path("hole.out")), ("inspect", path)):
            if command[0] == "eval" or (name == "nothing" and command[0] == "inspect"):
                continue
            refused(h, f"qcc {command[0]} of a hole with {name}", 3, code, says, "qcc", *command, timeout=HANG)
    path = hole(h, "hole.gguf", contents(MODEL), TIB)
    p = h.tool("qcc", "compile", path, "--compile-to=import", "-q", timeout=HANG)
    h.check("a model with a hole behind it", p.returncode == 0, p.stderr.decode())
    refused(h, "an artifact that is a hole", 4, "Q4005", [], "qrun", hole(h, "hole.qbin", b"", TIB), "-p", "x", timeout=HANG)
    qbin = h.compile(MODEL, "whole.qbin", *QUICK)
    refused(h, "an artifact with a hole behind it", 4, "Q4004", [str(TIB)], "qrun", hole(h, "hole.qbin", contents(qbin), TIB), "-p", "x", timeout=HANG)
    path = hole(h, "hole.gguf", b"", TIB)
    refused(h, "qcc eval of tokens that are a hole", 3, "Q2401", ["268435456"], "qcc", "eval", MODEL, "--tokens", path, "-o", h.path("hole.out"), timeout=HANG)
    refused(h, "qrun logits of tokens that are a hole", 3, "Q8007", ["268435456"], "qrun", "logits", qbin, "--tokens", path, "-o", h.path("hole.out"), timeout=HANG)
    os.remove(h.path("hole.gguf"))
    os.remove(h.path("hole.qbin"))


def until(process, stream, word):
    """Reads a stream up to what stands in it."""
    said = b""
    while word not in said:
        piece = os.read(stream.fileno(), 1 << 12)
        assert piece, f"ended before {word!r}, exit {process.wait()}: {said!r}"
        said += piece
    return said


def changing_model(h):
    """G16: a model that changes while it is compiled gives no artifact, and says so."""
    place = Place(h, "changing")
    gguf, qbin = h.path("changing.gguf"), place.path("out.qbin")
    whole = contents(MODEL)

    def cut():
        os.truncate(gguf, 4096)

    def write():
        with open(gguf, "r+b") as f:
            f.write(whole[:64])

    def append():
        with open(gguf, "ab") as f:
            f.write(b"x")

    def replace():
        shutil.copyfile(MODEL, gguf + ".new")
        os.rename(gguf + ".new", gguf)
    changes = (("cut short", cut, "is gone"), ("written to", write, "written to"), ("appended to", append, "now it has"), ("replaced", replace, "replaced"),
               ("removed", lambda: os.remove(gguf), "removed"))
    for name, change, says in changes:
        def compile_model():
            shutil.copyfile(MODEL, gguf)
            os.utime(gguf, (1, 1))
            return place.start("qcc", "compile", gguf, "-o", qbin, *QUICK)
        process, err = changed_at_work(compile_model, lambda process: until(process, process.stderr, b"] plan"), change, qbin)
        h.check(f"a model that is {name} while it is compiled", process.returncode == 3 and "[Q1009]" in err and says in err and
                os.path.basename(gguf) in err and place.left() == [], f"exit {process.returncode}, left {place.left()}: {err}")


def changing_artifact(h):
    """G16: an artifact that is cut short while it runs ends the run with an error, on whichever thread."""
    place = Place(h, "cut")
    qbin, ids, out = h.path("cut.qbin"), h.path("cut-ids.txt"), place.path("logits.bin")
    whole = contents(h.compile(MODEL, "cut-whole.qbin", *QUICK))
    with open(ids, "w") as f:
        f.write("1 2 3 4 5 6 7 8 " * 400)
    for threads in (1, 2, 4):
        def run():
            with open(qbin, "wb") as f:
                f.write(whole)
            return place.start("qrun", "logits", qbin, "--tokens", ids, "-o", out, "--split", 1, "-t", threads)

        def begun(process):
            limit = time.monotonic() + HANG
            while process.poll() is None and not any(size(place.path(name)) > 0 for name in place.left()):
                assert time.monotonic() < limit, "no output"
                time.sleep(0.001)
            return b""
        process, err = changed_at_work(run, begun, lambda: os.truncate(qbin, 4096), out)
        h.check(f"an artifact that is cut short under {threads} threads", process.returncode == 4 and "[Q4025]" in err and "cut.qbin" in err and
                place.left() == [], f"exit {process.returncode}, left {place.left()}: {err}")


def allocations(h):
    """Every exit has its error line, whichever allocation fails: alone or with all behind it, from the first of the process on."""
    library = os.path.join(h.args.bin, "fail_allocation.so")
    if h.sanitized() or not os.path.exists(library):
        print("skip allocations that fail: a sanitizer has a malloc of its own")
        return
    place = Place(h, "allocations")
    qbin, out = h.compile(MODEL, "allocations.qbin", *QUICK), place.path("out.qbin")
    compile = ["qcc", "compile", MODEL, "-o", out, "-q", *QUICK, "--no-cache"]
    run = ["qrun", qbin, "--raw", "-p", "My", "-n", 1, "-t", 2]
    for command, numbers in ((["qcc", "--version"], [*range(12), *range(12, 200, 17), 2000, 20000]), (compile, [*range(0, 3000, 211), 30000]),
                             (["qrun", "--version"], range(6)), (run, [*range(12), *range(12, 300, 13)])):
        codes = []
        for number in numbers:
            for behind in ({}, {"FAIL_ALLOCATIONS_AFTER": "1"}):
                environment = os.environ | {"TMPDIR": place.temporary, "LD_PRELOAD": os.path.abspath(library), "FAIL_ALLOCATION": str(number)} | behind
                p = subprocess.run(place.command(*command), env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=HANG)
                codes.append(p.returncode)
                err = p.stderr.decode(errors="replace")
                if p.returncode != 0 and not (said_why(p.returncode, err, command[0], (6,)) and place.left() == []):
                    h.check(f"{' '.join(map(str, command[:2]))}: allocation {number} fails{', and all behind it' if behind else ''}", False,
                            f"exit {p.returncode}, left {place.left()}: {err}")
                os.remove(out) if os.path.exists(out) else None
        h.check(f"{' '.join(map(str, command[:2]))}: allocations that fail are told", 6 in codes, str(codes))


def main():
    h = quiet_harness(__doc__)
    for part in h.share((allocations, memory, limits, together, kinds, changing_model, holes, changing_artifact)):
        part(h)
    h.finish()


if __name__ == "__main__":
    main()
