#!/usr/bin/env python3
"""The cache of compiled code from the command line: equal artifacts with and without it, whatever happens to its folder."""
import fcntl
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import time

import gguf_edit
from harness import GOLDEN, ROOT, Harness, contents

MODEL = os.path.join(GOLDEN, "t3-f-BF16.gguf")  # of few kernels: it is compiled thirty times
QUICK = ["--cpu=native", "--decode=1", "--prefill=32"]
TRIES = 3  # of each random fault
KEPT = re.compile(rb"(\d+) of (\d+) pieces were kept")


class Cache:
    def __init__(self, h, name):
        self.h, self.folder, self.out = h, h.path(name), h.path(name + ".qbin")
        self.code = os.path.join(self.folder, "code")

    def command(self, *options):
        return ["compile", MODEL, "-o", self.out, "--cache-dir", self.folder, *(options or QUICK)]

    def compile(self, *options):
        """The artifact, and of how many pieces how many were kept; None where nothing is said of it."""
        # Where an earlier compile left its artifact is known, too (test_aot.py); here code is to be made again.
        shutil.rmtree(os.path.join(self.folder, "artifacts"), ignore_errors=True)
        p = self.h.tool("qcc", *self.command(*options))
        assert p.returncode == 0, f"exit {p.returncode}: {p.stderr.decode(errors='replace')}"
        kept = [tuple(map(int, match)) for match in KEPT.findall(p.stderr)]
        return contents(self.out), (sum(k for k, _ in kept), sum(n for _, n in kept)) if kept else None

    def entries(self):
        return sorted(os.listdir(self.code))

    def say(self, command, *options):
        return self.h.run("qcc", "cache", command, "--cache-dir", self.folder, *options).decode()


def reuse(h, plain):
    cache = Cache(h, "reuse")
    first, kept = cache.compile()
    h.check("the first compile keeps", first == plain and kept is None and cache.entries(), f"{kept}, {len(os.listdir(cache.code))} files")
    again, kept = cache.compile()
    h.check("the second takes all of it, and gives the same bytes", again == plain and kept is not None and kept[0] == kept[1] > 5, str(kept))
    other, kept = cache.compile("--cpu=native", "--decode=1,2", "--prefill=32")
    h.check("another bucket: what is the same is taken", other != plain and kept is not None and 5 < kept[0] < kept[1], str(kept))
    before = cache.entries()
    alone, kept = cache.compile(*QUICK, "--no-cache")
    h.check("--no-cache takes and keeps nothing", alone == plain and kept is None and cache.entries() == before)
    gpu = ["--target=cpu,vulkan,cuda", "--gpu-profiles=none,sm61", *QUICK]
    one, _ = cache.compile(*gpu)
    two, kept = cache.compile(*gpu)
    h.check("kernels of GPUs, too", one == two and kept is not None and kept[0] == kept[1] > 20, str(kept))
    h.check("cache list", re.search(r"\d+ pieces of code, .* of at most", cache.say("list")) is not None, cache.say("list"))
    h.check("cache verify", "are whole" in cache.say("verify") and "damaged" not in cache.say("verify"), cache.say("verify"))
    cache.say("prune", "--max-bytes", 200000)
    left = sum(os.path.getsize(os.path.join(cache.code, name)) for name in cache.entries())
    h.check("cache prune --max-bytes", 0 < left <= 200000, f"{left} bytes are left")
    h.check("cache prune --all", "removed" in cache.say("prune", "--all") and not cache.entries())
    h.check("and the next compile is right", cache.compile()[0] == plain)


def damage(h, plain, tries=TRIES):
    """A bit anywhere in any file, a file cut short, a file of another version: a right artifact each time."""
    cache = Cache(h, "damage")
    cache.compile()
    wrong, taken = 0, []
    chance = random.Random(1)
    for i in range(tries):
        path = os.path.join(cache.code, chance.choice(cache.entries()))
        data = bytearray(contents(path))
        if i % 4 == 3:
            data = data[:chance.randrange(len(data))]
        elif i % 4 == 2:
            data[:8] = b"QCCCODE9"
        else:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        with open(path, "wb") as f:
            f.write(data)
        if i == 0:
            h.check("cache verify names what is damaged", f"{path} is damaged" in cache.say("verify"), cache.say("verify"))
        got, kept = cache.compile()
        wrong += got != plain
        taken.append(kept)
    h.check(f"damaged files: {tries} tries, right artifacts", wrong == 0, f"{wrong} wrong")
    h.check("one piece was made again each time", all(kept and kept[1] - kept[0] == 1 for kept in taken), str(taken))


def writers(h, plain, count=4):
    cache = Cache(h, "writers")
    outs = [h.path(f"writer{i}.qbin") for i in range(count)]
    command = lambda out: [os.path.join(h.args.bin, "qcc"), "compile", MODEL, "-q", "-o", out, "--cache-dir", cache.folder, *QUICK]
    for process in [subprocess.Popen(command(out)) for out in outs]:
        process.wait()
    h.check(f"{count} writers at once: right artifacts", all(contents(out) == plain for out in outs))
    h.check("nothing temporary is left", not [n for n in cache.entries() if ".tmp-" in n], ", ".join(n for n in cache.entries() if ".tmp-" in n))
    got, kept = cache.compile()
    h.check("what they kept is whole", got == plain and kept is not None and kept[0] == kept[1], str(kept))


def killed(h, plain, tries=TRIES):
    cache = Cache(h, "killed")
    chance = random.Random(2)
    start = time.monotonic()
    subprocess.run([os.path.join(h.args.bin, "qcc"), *cache.command(), "-q"], check=True)
    whole, wrong = time.monotonic() - start, 0
    for _ in range(tries):
        shutil.rmtree(cache.folder, ignore_errors=True)
        process = subprocess.Popen([os.path.join(h.args.bin, "qcc"), *cache.command(), "-q"])
        time.sleep(chance.uniform(0.2, 1) * whole)
        process.send_signal(signal.SIGKILL)
        process.wait()
        wrong += cache.compile()[0] != plain
    h.check(f"kill -9 at random moments: {tries} tries, right artifacts", wrong == 0, f"{wrong} wrong")


def folders(h, plain):
    """Where the folder cannot be used: named by the user it is an error, the usual one is done without."""
    blocked = h.path("blocked")
    with open(blocked, "w") as f:
        f.write("a file")
    p = h.tool("qcc", "compile", MODEL, "-q", "-o", h.path("never.qbin"), "--cache-dir", blocked, *QUICK)
    h.check("--cache-dir that is a file", p.returncode == 6 and b"[Q6002]" in p.stderr and blocked.encode() in p.stderr, p.stderr.decode())
    command = [os.path.join(h.args.bin, "qcc"), "compile", MODEL, "-q", "-o", h.path("usual.qbin"), *QUICK]
    for name, env in (("cannot be made", {"XDG_CACHE_HOME": blocked}), ("has no name", {"XDG_CACHE_HOME": "", "HOME": ""})):
        p = subprocess.run(command, env=os.environ | env, capture_output=True)
        h.check(f"a usual folder that {name}: done without", p.returncode == 0 and contents(h.path("usual.qbin")) == plain, p.stderr.decode())
    home = h.path("home")
    subprocess.run(command, env=os.environ | {"XDG_CACHE_HOME": home}, check=True)
    h.check("$XDG_CACHE_HOME/qcc is the usual folder", os.listdir(home) == ["qcc"] and os.listdir(os.path.join(home, "qcc", "code")))
    # Nothing fits: the code cannot be kept, and neither can the artifact be written.
    p = subprocess.run([*command, "--cache-dir", h.path("full")], capture_output=True,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50 << 10, 50 << 10)))
    h.check("a full disk is said", p.returncode == 6 and b"[Q6003]" in p.stderr, p.stderr.decode())
    got = Cache(h, "full")
    h.check("and what is kept of it is whole", got.compile()[0] == plain and "damaged" not in got.say("verify"))


def edited(h):
    """A kernel of --kernels is edited while a compile runs: no artifact of the old one is ever taken for the new one's, nor the other way round."""
    folder, qbin, caching = h.path("kernels"), h.path("edited.qbin"), [f"--cache-dir={h.path('edited')}", "--progress=json"]
    kernel = os.path.join(folder, "quantize.*.comp")
    os.makedirs(folder)
    one = contents(os.path.join(ROOT, "tests", "e2e", "kernels", "quantize.*.comp"))
    two = one.replace(b"peak / 127.0", b"peak / 100.0")
    assert one != two
    model = os.path.join(GOLDEN, "t3-q-Q4_K_M.gguf")
    options = [model, "--target=vulkan", "--gpu-profiles=sg8-dot", "--decode=1", "--prefill=16", "--goldens=off", f"--kernels={folder}"]

    def lay(text):
        with open(kernel + ".new", "wb") as f:
            f.write(text)
        os.rename(kernel + ".new", kernel)

    def kernel_of(path):
        return h.inspect(path)["provenance"]["options"]["kernel quantize.*.comp"]

    def race(command, until, *more):
        """`command` while the first kernel lies there, and the second one from the event `until` on."""
        lay(one)
        process = subprocess.Popen([os.path.join(h.args.bin, "qcc"), *command, *options, *caching, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        read = b""
        while not until.search(line := process.stderr.readline()) and line:
            read += line
        lay(two)
        out, err = process.communicate()
        assert process.returncode == 0, (read + line + err).decode()
        return out.decode().strip()

    own = []
    for text in (one, two):
        lay(text)
        h.run("qcc", "compile", *options, "--no-cache", "-o", qbin)
        own.append(kernel_of(qbin))
    first, second = own
    assert first != second
    race(["compile"], re.compile(rb'"unit":"kernels"'), "-o", qbin)
    h.expect("a kernel edited while a compile runs: that has one of both", kernel_of(qbin) in own, kernel_of(qbin))
    h.run("qcc", "compile", *options, *caching, "-o", qbin)
    h.expect("the next compile has the second", kernel_of(qbin) == second, f"{kernel_of(qbin)}, want {second}")
    got = kernel_of(race(["cache", "artifact"], re.compile(rb'"stage":"read model"')))
    h.expect("cache artifact: one of both", got in own, got)
    for name, text, want in (("second", two, second), ("first", one, first)):
        lay(text)
        got = kernel_of(h.run("qcc", "cache", "artifact", *options, *caching).decode().strip())
        h.expect(f"cache artifact for the {name} has it", got == want, f"{got}, want {want}")


def repeated(h, count=40):
    """A compile that is not done again warns as the first one did, or says that there was more."""
    model = gguf_edit.with_metadata(MODEL, h.path("warned.gguf"), {f"qwen3.unread_{i}": gguf_edit.u32_value(i) for i in range(count)})
    time.sleep(2.1)  # a younger file may change without its time showing it, so nothing is remembered of it
    said = []
    for _ in range(2):
        p = h.tool("qcc", "compile", model, "-o", h.path("warned.qbin"), f"--cache-dir={h.path('warned')}", "--goldens=off", *QUICK)
        assert p.returncode == 0, p.stderr.decode()
        said.append(re.findall(r"warning: (.*)", p.stderr.decode()))
    h.expect("the second compile is none", b"up to date" in p.stderr, p.stderr.decode())
    h.expect(f"{count} warnings", len(said[0]) == count, len(said[0]))
    h.expect("the first 16 again, in their order", said[1][:-1] == said[0][:16], said[1])
    h.expect("and how many more there were", said[1][-1].startswith(f"{count - 16} more warnings"), said[1][-1])


def unfinished(h):
    """What somebody is about to finish is not damaged; without anybody it is."""
    cache = h.path("unfinished")
    made = h.run("qcc", "cache", "artifact", MODEL, "--goldens=off", f"--cache-dir={cache}", "--decode=1", "--prefill=32").decode().strip()
    other = os.path.join(os.path.dirname(made), 32 * "a" + ".qbin")
    shutil.copyfile(made, other)
    verify = lambda: h.run("qcc", "cache", "verify", f"--cache-dir={cache}").decode()
    h.check("an artifact that nobody seals is damaged", f"{other} is damaged" in verify(), verify())
    with open(os.path.join(os.path.dirname(made), "lock"), "r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        text = verify()
        h.check("one that is being made is not", "damaged" not in text and "are whole" in text, text)
    help_text = h.run("qcc", "cache", "artifact", "--help").decode()
    h.check("the default of --cpu is what is made", re.search(r"native \(see qcc targets\);\s+default:\s+native", help_text) is not None, help_text)


def main():
    h = Harness(__doc__)
    plain = contents(h.compile(MODEL, "plain.qbin", *QUICK))
    reuse(h, plain)
    damage(h, plain)
    writers(h, plain)
    killed(h, plain)
    folders(h, plain)
    edited(h)
    repeated(h)
    unfinished(h)
    h.finish()


if __name__ == "__main__":
    main()
