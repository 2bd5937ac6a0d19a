#!/usr/bin/env python3
"""`qrun model.gguf`: compiled at first use, from then on from the cache; a right answer or a clear error, whatever happens to the
cache, to qcc and to the model. And compiles that are not done twice.

With --tries N each random fault is made N times (default: 3), and the last line counts what came of it."""
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import gguf_edit
from harness import GOLDEN, Harness, contents

MODEL = os.path.join(GOLDEN, "t3-f-BF16.gguf")  # of few kernels: it is compiled thirty times
QUICK = ["--decode=1", "--prefill=32"]
ANSWER = ["-p", "The state of", "--raw", "-n", "6", "--greedy"]
TRIES = 2


class Runner:
    """qrun on a copy of the model with a cache of its own."""

    def __init__(self, h, name, model=None):
        self.h, self.cache = h, h.path(name)
        self.model = model or h.path(name + ".gguf")
        if model is None:
            shutil.copyfile(MODEL, self.model)
        self.artifacts = os.path.join(self.cache, "artifacts")

    def command(self, *options, tool="qrun"):
        return [os.path.join(self.h.args.bin, tool), self.model, *ANSWER, "--cache-dir", self.cache, *QUICK, *options]

    def run(self, *options, **settings):
        return subprocess.run(self.command(*options), capture_output=True, stdin=subprocess.DEVNULL, **settings)

    def files(self, *suffixes):
        return sorted(os.path.join(self.artifacts, n) for n in os.listdir(self.artifacts) if n.endswith(suffixes or ""))

    def qcc(self, *arguments):
        return subprocess.run([os.path.join(self.h.args.bin, "qcc"), *arguments], capture_output=True)


def compiled(p):
    """Whether this run had the code generated."""
    return b"generate cpu code" in p.stderr


def said(p):
    return f"exit {p.returncode}: {p.stdout[-200:]!r} {p.stderr.decode(errors='replace')[-600:]}"


class Count:
    """What came of the tries of a fault."""

    def __init__(self):
        self.rows = []

    def add(self, fault, outcomes):
        self.rows.append((fault, len(outcomes), outcomes.count("right"), outcomes.count("error"), outcomes.count("wrong")))
        return outcomes.count("wrong") == 0

    def show(self):
        print("| fault | tries | right artifact | clear error | wrong |\n|---|--:|--:|--:|--:|")
        for row in self.rows:
            print("| " + " | ".join(map(str, row)) + " |")


def outcome(p, right):
    """Right text, an error that says which, or neither."""
    if p.returncode == 0:
        return "right" if p.stdout == right else "wrong"
    return "error" if p.returncode in (2, 3, 4, 5, 6) and re.search(rb"error: .*\[Q\d{4}\]", p.stderr) else "wrong"


def everyday(h, right):
    r = Runner(h, "everyday")
    time.sleep(2.1)  # a younger file may change without its time showing it, so nothing is remembered of it
    p = r.run()
    h.expect("the first use compiles, and answers as the artifact does", p.returncode == 0 and p.stdout == right and compiled(p), said(p))
    p = r.run()
    h.expect("the second starts without qcc, and says nothing of it", p.returncode == 0 and p.stdout == right and p.stderr == b"", said(p))
    os.symlink(r.model, h.path("link.gguf"))
    p = Runner.run(Runner(h, "everyday", h.path("link.gguf")))
    h.expect("by another name of the file, too", p.returncode == 0 and p.stdout == right and p.stderr == b"", said(p))
    p = r.run("--kv=f32")
    h.expect("another option of qcc is another artifact", p.returncode == 0 and compiled(p) and len(r.files(".qbin")) == 2, said(p))
    p = r.run("--kvv=f32")
    h.expect("an option that neither knows", p.returncode == 2 and b"--kvv" in p.stderr, said(p))
    p = r.run("--tempp=0.5")
    h.expect("a mistyped option of qrun's", p.returncode == 2 and b"did you mean --temp?" in p.stderr and b"qcc" not in p.stderr, said(p))
    for option in ("--strict", "--report=memory"):
        p = r.run(option)
        h.expect(f"{option} is qcc's where an artifact is made", p.returncode == 2 and b"qrun: error: unknown option " + option.split("=")[0].encode() in p.stderr
                 and b"qcc cache artifact --help" in p.stderr, said(p))
    p = Runner(h, "of two\nlines", r.model).run()
    h.expect("a cache whose name has a newline", p.returncode == 0 and p.stdout == right, said(p))
    p = r.run("--no-cache")
    h.expect("--no-cache leaves no place for it", p.returncode == 6 and b"[Q6002]" in p.stderr, said(p))
    alone = h.path("alone")
    os.makedirs(alone)
    shutil.copy(os.path.join(h.args.bin, "qrun"), alone)
    p = subprocess.run([os.path.join(alone, "qrun"), r.model, *ANSWER, "--cache-dir", r.cache], capture_output=True, env={"PATH": ""})
    h.expect("without a qcc", p.returncode == 3 and b"[Q8008]" in p.stderr, said(p))
    listed = r.qcc("cache", "list", "--cache-dir", r.cache).stdout.decode()
    h.expect("cache list", "2 artifacts" in listed and listed.count("everyday.gguf for cpu") == 2, listed)
    p = r.qcc("cache", "verify", "--cache-dir", r.cache)
    h.expect("cache verify", p.returncode == 0 and b"damaged" not in p.stdout, p.stdout.decode())


def in_use(h, right):
    r = Runner(h, "use")
    r.run()
    long = subprocess.Popen([os.path.join(h.args.bin, "qrun"), "bench", r.model, "--cache-dir", r.cache, *QUICK, "-p", "0", "-n", "8000", "-r", "1000"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    fds = f"/proc/{long.pid}/fd"
    while not any(os.path.realpath(os.path.join(fds, fd)).endswith(".qbin") for fd in os.listdir(fds)):
        assert long.poll() is None, "it ended before it was of use"
        time.sleep(0.01)
    p = r.qcc("cache", "prune", "--all", "--cache-dir", r.cache)
    h.expect("what is in use is not pruned", b"in use" in p.stdout and len(r.files(".qbin")) == 1, p.stdout.decode())
    long.kill()
    long.wait()
    p = r.qcc("cache", "prune", "--all", "--cache-dir", r.cache)
    h.expect("afterwards it is", len(r.files(".qbin", ".seal", ".request")) == 0, ", ".join(r.files()))
    p = r.run()
    h.expect("and made again", p.stdout == right and compiled(p), said(p))


def changed_model(h, right):
    """The same name, size and time, other bytes."""
    r = Runner(h, "changed")
    time.sleep(2.1)
    r.run()
    before = os.stat(r.model)
    data = bytearray(contents(r.model))
    data[-100:] = bytes(100)
    with open(r.model, "r+b") as f:
        f.write(data)
    os.utime(r.model, ns=(before.st_atime_ns, before.st_mtime_ns))
    p = r.run()
    h.expect("a model that changed is compiled anew", p.returncode == 0 and compiled(p) and len(r.files(".qbin")) == 2, said(p))
    with open(r.model, "wb") as f:
        f.write(contents(MODEL))
    p = r.run()
    h.expect("and as it was before, taken from the cache", p.stdout == right and not compiled(p) and len(r.files(".qbin")) == 2, said(p))


def damage(h, right, count, tries):
    """A bit of any file of the cache, its end cut off, a file of another version, a time of another clock."""
    r = Runner(h, "damage")
    time.sleep(2.1)
    r.run()
    chance = random.Random(1)

    def write(path, data):
        with open(path, "wb") as f:
            f.write(data)

    def flip(path):
        data = bytearray(contents(path))
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        write(path, data)

    def other_version(path):
        data = contents(path)
        write(path, data.replace(b" 1\n", b" 2\n", 1) if not path.endswith(".qbin") else data[:8] + b"\x09" + data[9:])

    faults = {
        "a flipped bit": flip,
        "a file cut short": lambda path: write(path, contents(path)[:chance.randrange(os.path.getsize(path))]),
        "another version's file": other_version,
        "a clock that jumped": lambda path: os.utime(path, (time.time() + chance.uniform(-1e9, 1e9),) * 2),
        "a file that is gone": os.unlink,
        "another artifact in its place": lambda path: shutil.copyfile(other, path),
    }
    other = h.path("other.qbin")
    shutil.copyfile(h.compile(MODEL, "other-f32.qbin", "--cpu=native", "--kv=f32", "--name=other", *QUICK), other)
    for fault, do in faults.items():
        outcomes = []
        for _ in range(tries):
            files = r.files(".qbin") if fault.startswith("another artifact") else r.files(".qbin", ".seal", ".request", ".source")
            do(chance.choice(files))
            outcomes.append(outcome(r.run(), right))
        h.expect(f"{fault}: {tries} tries", count.add(fault, outcomes) and "error" not in outcomes, ", ".join(outcomes))


def killed(h, right, count, tries):
    r = Runner(h, "killed")
    start = time.monotonic()
    r.run()
    whole = time.monotonic() - start
    chance, outcomes = random.Random(2), []
    for i in range(tries):
        shutil.rmtree(r.cache)
        process = subprocess.Popen(r.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        time.sleep(chance.uniform(0.05, 1.1) * whole)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        outcomes.append(outcome(r.run(), right))
    h.expect(f"kill -9 at any moment: {tries} tries", count.add("kill -9 at a random moment", outcomes) and "error" not in outcomes, ", ".join(outcomes))
    for _ in range(5):  # on a busy machine it may come too late
        shutil.rmtree(r.cache)
        process = subprocess.Popen(r.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for line in process.stderr:
            if b"read model" in line:  # qcc is at work
                break
        ended = process.poll() is not None
        process.send_signal(signal.SIGTERM)
        process.communicate()
        if not ended:
            break
    h.expect("SIGTERM ends qcc, too", process.returncode == 143 and not r.files(".qbin") and not [f for f in r.files() if ".tmp-" in f],
            f"exit {process.returncode}, {r.files()}")


def together(h, right, count, tries):
    outcomes, artifacts = [], []
    for i in range(tries):
        r = Runner(h, f"together{i}")
        processes = [subprocess.Popen(r.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) for _ in range(4)]
        ended = [(p, *p.communicate()) for p in processes]
        outcomes += [outcome(subprocess.CompletedProcess([], p.returncode, out, err), right) for p, out, err in ended]
        artifacts.append((len(r.files(".qbin")), sum(b"generate cpu code" in err for _, _, err in ended)))
        h.expect("nothing temporary is left", not [f for f in r.files() if ".tmp-" in f], ", ".join(r.files()))
    h.expect(f"four at once, {tries} times: one compiles, all answer", count.add("four first uses at once", outcomes) and all(a == (1, 1) for a in artifacts),
            f"{outcomes}, (artifacts, compiles): {artifacts}")


def folders(h, right, count, tries):
    """A cache that cannot be used: a clear error. One that can be read only: what is there runs."""
    outcomes = []
    for i in range(tries):
        r = Runner(h, f"folder{i}")
        with open(r.cache, "w") as f:
            f.write("a file")
        outcomes.append(outcome(r.run(), right))
        h.expect("a file for a folder is named", r.cache.encode() in r.run().stderr)
    h.expect("no folder: a clear error", count.add("a folder that cannot be made", outcomes) and "right" not in outcomes, ", ".join(outcomes))
    outcomes = []
    chance = random.Random(3)
    artifact = os.path.getsize(h.path("right.qbin"))
    for i in range(tries):
        r = Runner(h, f"full{i}")
        most = chance.randrange(20 << 10, artifact * 3 // 4)
        outcomes.append(outcome(r.run(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))), right))
        p = r.run()
        h.expect("with room again it is right", p.stdout == right, said(p))
    h.expect("a full disk: a clear error", count.add("a full disk", outcomes) and "right" not in outcomes, ", ".join(outcomes))
    if os.getuid() != 0:
        print("skip a read-only cache: the test makes one by becoming another user, for which it must be root")
        return
    r = Runner(h, "readonly")
    time.sleep(2.1)
    r.run()
    os.chmod(h.work, 0o755)
    for folder, _, files in os.walk(r.cache):
        os.chmod(folder, 0o555)
        for name in files:
            os.chmod(os.path.join(folder, name), 0o444)
    r.run()  # modes are part of a file's stamp: the artifact is sealed again, and what is known of it written anew
    os.chmod(r.artifacts, 0o555)
    for name in r.files(".seal", ".request", ".source"):
        os.chmod(name, 0o444)
    nobody = lambda: os.setuid(65534)
    if subprocess.run([*r.command()[:1], "--version"], capture_output=True, preexec_fn=nobody).returncode != 0:
        print("skip a read-only cache: other users cannot run the tools where they lie")
        return
    outcomes = [outcome(r.run(preexec_fn=nobody), right) for _ in range(tries)]
    h.expect("a cache that can only be read is used", count.add("a read-only cache", outcomes) and "error" not in outcomes, ", ".join(outcomes))
    p = r.run("--kv=f32", preexec_fn=nobody)
    h.expect("what is not there is a clear error", p.returncode == 6 and b"[Q6002]" in p.stderr, said(p))


def twice(h):
    """qcc compile: what was done before is not done again."""
    cache, one, two = h.path("twice"), h.path("one.qbin"), h.path("two.qbin")
    model = h.path("twice.gguf")
    shutil.copyfile(MODEL, model)
    time.sleep(2.1)
    compile_to = lambda out, *options: subprocess.run([os.path.join(h.args.bin, "qcc"), "compile", model, "-o", out, "--cpu=native", "--cache-dir", cache,
                                                       *QUICK, *options], capture_output=True)
    p = compile_to(one)
    first = contents(one)
    h.expect("the first compile", p.returncode == 0 and compiled(p), said(p))
    p = compile_to(one)
    h.expect("the second finds its artifact up to date", p.returncode == 0 and b"up to date" in p.stderr and b"import" not in p.stderr and contents(one) == first, said(p))
    p = compile_to(two)
    h.expect("elsewhere it is copied", p.returncode == 0 and b"copied" in p.stderr and b"import" not in p.stderr and contents(two) == first, said(p))
    for option in ("--progress=plain", "--emit=off"):
        p = compile_to(one, option)
        h.expect(f"{option} asks for nothing else", p.returncode == 0 and b"up to date" in p.stderr, said(p))
    command = [os.path.abspath(os.path.join(h.args.bin, "qcc")), "compile", "twice.gguf", "--cpu=native", *QUICK]
    usual = {**os.environ, "XDG_CACHE_HOME": h.path("usual")}
    for options, there in ((("-o", "twice.qbin", "--cache-dir", h.path("usual/qcc")), False), ((), True)):
        p = subprocess.run([*command, *options], capture_output=True, cwd=h.work, env=usual)
        h.expect(f"by their defaults: {options}", p.returncode == 0 and (b"up to date" in p.stderr) == there, said(p))
    p = compile_to(one, "--l2-norm=sum")
    h.expect("an option without effect is said", p.returncode == 0 and b"--l2-norm has no effect" in p.stderr, said(p))
    h.expect("--report asks for more than the artifact", compiled(compile_to(two, "--report=fusion")))
    h.expect("--strict asks for the warnings", compiled(compile_to(two, "--strict")))
    with open(one, "r+b") as f:
        f.seek(-5000, os.SEEK_END)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 1]))
    os.unlink(two)
    p = compile_to(two)
    h.expect("a damaged one is not copied", p.returncode == 0 and contents(two) == first, said(p))
    p = compile_to(one)
    h.expect("and is replaced", p.returncode == 0 and contents(one) == first, said(p))


def links(h):
    """Two revisions of a split model as a download cache lays them out: folders of links to files, and the first shard is the same file."""
    folder, tokens, out = h.path("hub"), h.path("links.txt"), h.path("links.bin")
    for name in ("a", "b"):
        os.makedirs(os.path.join(folder, name))
    first, second = (contents(path) for path in gguf_edit.split(MODEL, h.path("split"), 2))
    other = bytearray(second)
    other[-8192:-4096] = bytes(4096)
    for name, data in (("first", first), ("second", second), ("other", other)):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)
    shard = lambda revision, no: os.path.join(folder, revision, f"m-{no:05d}-of-00002.gguf")
    for revision, name in (("a", "second"), ("b", "other")):
        os.symlink("../first", shard(revision, 1))
        os.symlink("../" + name, shard(revision, 2))
    with open(tokens, "w") as f:
        f.write("1 2 3 4 5 6 7 8")
    time.sleep(2.1)

    def logits(revision, cache):
        p = subprocess.run([os.path.join(h.args.bin, "qrun"), "logits", shard(revision, 1), "--tokens", tokens, "-o", out, "--cache-dir", h.path(cache), *QUICK], capture_output=True)
        assert p.returncode == 0, said(p)
        return contents(out), p.stderr == b""

    a, _ = logits("a", "shared")
    want, _ = logits("b", "alone")
    assert a != want
    b, _ = logits("b", "shared")
    h.check("another model whose first shard is the same file", b == want, "" if b == want else "the logits are the first model's" if b == a else "other logits")
    h.expect("each of them starts without qcc from then on", [logits(name, "shared") for name in ("a", "b")] == [(a, True), (want, True)])
    os.unlink(shard("a", 2))
    os.symlink("../other", shard("a", 2))
    h.expect("a shard's link that leads elsewhere now is another model", logits("a", "shared")[0] == want)


def same_key(h, processes=8):
    """An artifact's name is made anew where nothing is remembered of it: in every process the same, in whatever order the options come."""
    cache, model = h.path("key"), h.path("key.gguf")
    shutil.copyfile(MODEL, model)
    options, chance, places, made = ["--cpu=native", "--kv=f32", "--goldens=off", *QUICK], random.Random(4), set(), 0
    for i in range(processes):
        for name in os.listdir(os.path.join(cache, "artifacts")) if i else ():
            if name.endswith((".request", ".source")):
                os.unlink(os.path.join(cache, "artifacts", name))
        p = subprocess.run([os.path.abspath(os.path.join(h.args.bin, "qcc")), "cache", "artifact", model, "--cache-dir", cache, *chance.sample(options, len(options))],
                           capture_output=True, cwd=chance.choice(["/", h.work]), env={**os.environ, "LC_ALL": "C", "RUN": "x" * i})
        assert p.returncode == 0, said(p)
        places.add(p.stdout)
        made += compiled(p)
    h.expect(f"{processes} processes: one name, one compile", len(places) == 1 and made == 1, f"{made} compiles, {sorted(places)}")


def main():
    tries = TRIES
    if "--tries" in sys.argv:
        at = sys.argv.index("--tries")
        tries = int(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    h = Harness(__doc__)
    right = h.run("qrun", h.compile(MODEL, "right.qbin", "--cpu=native", *QUICK), *ANSWER)
    count = Count()
    everyday(h, right)
    in_use(h, right)
    changed_model(h, right)
    damage(h, right, count, tries)
    killed(h, right, count, tries)
    together(h, right, count, 1 if tries == TRIES else tries)
    folders(h, right, count, tries)
    twice(h)
    links(h)
    same_key(h)
    count.show()
    h.finish()


if __name__ == "__main__":
    main()
