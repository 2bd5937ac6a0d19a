"""qrun --prompt-cache: what prompts begin with is kept in a folder and found again, with the bits of a cold start, whatever other processes, kills and
damage do to the folder."""
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import harness

# Of recurrent state, and of attention alone.
MODELS = {"tiny": harness.TINY, "attention": os.path.join(harness.GOLDEN, "t3-q-Q4_K_M.gguf")}
BLOCK = 16
LONG, CACHED = 2000, 1900


class Runner:
    """One model and one folder of prefixes."""

    def __init__(self, h, model, folder):
        self.h, self.model, self.folder = h, model, h.path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, prompt, *options, cached=True, context=2100):
        cache = [f"--prompt-cache={self.folder}"] if cached else []
        return [self.model, "--raw", "-p", prompt, "-n", "8", "--greedy", "--ctx", str(context), "--timing=json", *cache, *options]

    def run(self, prompt, *options, cached=True):
        """(text and saved session, tokens that were reused, stderr)."""
        saved = self.h.path("saved.session")
        p = self.h.tool("qrun", *self.command(prompt, "--save-session", saved, *options, cached=cached))
        err = p.stderr.decode(errors="replace")
        assert p.returncode == 0, f"exit {p.returncode}: {err[-600:]}"
        timing = json.loads(err[err.index("{\"load_seconds"):].splitlines()[0])
        assert not timing["reused_tokens"] or timing["reuse_seconds"] > 0, f"what it took to restore {timing['reused_tokens']} tokens is not told: {timing}"
        return (p.stdout, harness.contents(saved)), timing["reused_tokens"], err

    def start(self, prompt):
        return subprocess.Popen([os.path.join(self.h.args.bin, "qrun"), *self.command(prompt)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def files(self, pattern="*.prefix"):
        return sorted(glob.glob(os.path.join(self.folder, pattern)))


def text_of(h, model, count, seed):
    """A text of exactly `count` tokens that goes on from no other seed's."""
    chance = random.Random(seed)
    words = ["the", "old", "river", "ran", "by", "a", "mill", "and", "nobody", "knew", "why", "it", "stopped", "in", "June", "of", "that", "year"]
    text = ""
    while True:
        more = text + (" " if text else "") + chance.choice(words)
        tokens = ids(h, model, more)
        if len(tokens) > count:
            return text
        text = more
        missing = count - len(tokens)
        if missing > 200:
            text += "".join(" " + chance.choice(words) for _ in range(missing // 8))


def ids(h, model, text):
    return h.run("qrun", "tokenize", model, "-p", text).decode().split()


def common(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def reuse(h, name, model, anywhere):
    """A prompt that others began alike. `anywhere`: a session steps back to any place of a kept one."""
    r = Runner(h, model, f"reuse-{name}")
    begin = text_of(h, model, CACHED, 1)
    prompt = begin + " " + text_of(h, model, LONG - CACHED, 2)
    other = begin + " " + text_of(h, model, LONG - CACHED, 3)
    tokens = {text: ids(h, model, text) for text in (begin, prompt, other)}
    cold, none, _ = r.run(prompt, cached=False)
    r.run(begin)
    warm, reused, err = r.run(prompt, "-v")
    h.expect(f"{name}: {len(tokens[prompt])} tokens of which {len(tokens[begin])} are kept: text and session as cold", warm == cold and none == 0, err[-400:])
    least = (len(tokens[begin]) - 1) // BLOCK * BLOCK
    h.expect(f"{name}: {reused} tokens are reused", common(tokens[begin], tokens[prompt]) >= least and reused >= min(least, CACHED // BLOCK * BLOCK - BLOCK),
             f"expected {least}; {r.files()}")
    again, reused, _ = r.run(prompt)
    last = (len(tokens[prompt]) - 1) // BLOCK * BLOCK
    h.expect(f"{name}: the same prompt again", again == cold and reused == last, f"{reused} reused, expected {last}")
    # Of two that branch off each other the third finds where.
    shutil.rmtree(r.folder)
    r.run(prompt)
    _, first, _ = r.run(other)
    third = begin + " " + text_of(h, model, 40, 4)
    right, _, _ = r.run(third, cached=False)
    got, reused, err = r.run(third, "-v")
    branch = common(tokens[prompt], tokens[other]) // BLOCK * BLOCK
    h.expect(f"{name}: the third of those that begin alike", got == right and (first > 0) == anywhere and reused >= branch - BLOCK and reused > 1000,
             f"{first}, then {reused} reused, expected about {branch}: {err[-400:]}")


def together(h, model, prompts, cold):
    """Two processes that write and read at once."""
    r = Runner(h, model, "together")
    wrong = 0
    for i in range(3):
        running = [(prompt, r.start(prompt)) for prompt in (prompts[0], prompts[i % 2])]
        wrong += sum(process.communicate()[0] != cold[prompt] or process.returncode != 0 for prompt, process in running)
    _, reused, _ = r.run(prompts[0])
    h.expect("two processes at once", wrong == 0 and reused > 0 and not r.files("*.tmp-*"), f"{wrong} wrong, {reused} reused, {r.files('*')}")


def killed(h, model, prompts, cold):
    """kill -9 at any moment, and where a file is being written: what is there afterwards is whole, or no part of the cache."""
    r = Runner(h, model, "killed")
    start = time.monotonic()
    r.run(prompts[0])
    whole = time.monotonic() - start
    chance, wrong, left = random.Random(3), [], 0
    for i in range(8):
        if i % 2 == 0:
            shutil.rmtree(r.folder)
        process = r.start(prompts[0])
        if i % 2 == 0:
            while process.poll() is None and not r.files("*.tmp-*"):
                pass
        else:
            time.sleep(chance.uniform(0.3, 1.0) * whole)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        left += len(r.files("*.tmp-*"))
        text, _, err = r.run(prompts[0], "-v")
        if text[0] != cold[prompts[0]] or "damaged" in err:
            wrong.append(err[-300:])
    # One that was killed while it wrote, as it lies there afterwards: that moment is short.
    prefix = r.files()[0]
    with open(prefix + ".tmp-1", "wb") as f:
        f.write(harness.contents(prefix)[:1000])
    r.run(prompts[1])
    h.expect(f"kill -9 at any moment, {left} times while a file was written", not wrong and not r.files("*.tmp-*"), wrong[:2], r.files("*"))


def damaged(h, model, prompts, cold):
    """Files that are not what was written, or nobody's of ours."""
    r = Runner(h, model, "damaged")
    r.run(prompts[0])
    file = r.files()[0]
    good = harness.contents(file)
    chance = random.Random(4)
    other = h.compile(harness.TINY, "prompt-cache-other.qbin", "--cpu=native", "--decode=1,4", "--prefill=16,64", "--name=other")

    def flipped(begin, end):
        at = chance.randrange(begin, end)
        return good[:at] + bytes([good[at] ^ 1 << chance.randrange(8)]) + good[at + 1:]

    head, tokens = 56, (len(ids(h, model, prompts[0])) - 1) // BLOCK * BLOCK * 4
    faults = {
        "a bit of the hash": (flipped(8, 24), True),
        "a bit of the tokens": (flipped(head, head + tokens), False),
        "a bit of the snapshot": (flipped(head + tokens, len(good)), True),
        "a count without end": (good[:40] + b"\xff" * 8 + good[48:], True),
        "a size without end": (good[:48] + b"\xff" * 8 + good[56:], True),
        "cut off": (good[:len(good) // 2], True),
        "cut off in its head": (good[:30], True),
        "longer": (good + b"x", True),
        "of another release": (good[:7] + b"9" + good[8:], False),
        "another file": (b"hello", False),
        "empty": (b"", False),
    }
    for fault, (contents, removed) in faults.items():
        with open(file, "wb") as f:
            f.write(contents)
        prompt = prompts[0] if removed else prompts[1]  # which asks for that file; which only meets it
        text, reused, err = r.run(prompt, "-v")
        gone = not os.path.exists(file) or harness.contents(file) != contents
        h.expect(f"damaged: {fault}", text[0] == cold[prompt] and reused == 0 and gone == removed and ("removed: it is damaged" in err) == removed,
                 f"{reused} reused, {'removed' if gone else 'there'}: {err[-400:]}")
        shutil.rmtree(r.folder)
        os.mkdir(r.folder)
    for name in ("notes.txt", "0" * 32 + ".prefix"):
        with open(os.path.join(r.folder, name), "wb") as f:
            f.write(good)
    os.symlink("/etc/passwd", file)
    text, reused, _ = r.run(prompts[1])
    h.expect("what is nobody's of ours stays", text[0] == cold[prompts[1]] and reused == 0 and len(r.files("*")) == 4, r.files("*"))
    os.remove(file)
    with open(file, "wb") as f:
        f.write(good)
    swapped = Runner(h, other, "damaged-other")
    swapped.folder = r.folder
    _, reused, _ = swapped.run(prompts[1])
    h.expect("the prefixes of another artifact are not ours", reused == 0 and os.path.exists(file), f"{reused} reused")
    if os.path.isdir("/sys/kernel"):
        p = h.tool("qrun", *r.command(prompts[0]), "--prompt-cache=/sys/kernel/qcc/prompts")
        h.expect("a folder that may not be made is not said to be missing", p.returncode != 0 and b"No such file" not in p.stderr, p.stderr.decode())
    p = h.tool("qrun", *r.command(prompts[0]), f"--prompt-cache={os.path.join(file, 'folder')}")
    h.expect("--prompt-cache twice is an error of use", p.returncode == 2, p.stderr.decode())
    r.folder = os.path.join(file, "folder")
    text, reused, err = r.run(prompts[0])
    h.expect("a folder that cannot be made is a warning", text[0] == cold[prompts[0]] and "warning: no prompts are kept" in err, err)


def capped(h, model, prompts, cold):
    r = Runner(h, model, "capped")
    r.run(prompts[0])
    size = os.path.getsize(r.files()[0])
    most = f"--prompt-cache-bytes={5 * size // 2}"
    first = r.files()[0]
    for i, prompt in enumerate(prompts[1:5]):
        time.sleep(0.02)
        _, reused, _ = r.run(prompts[0], most)
        h.expect(f"what is used stays, {i}", reused > 0 and os.path.exists(first), r.files())
        time.sleep(0.02)
        text, _, _ = r.run(prompt, most)
        h.expect(f"the folder stays below its cap, {i}", text[0] == cold[prompt] and len(r.files()) == 2, r.files())
    r.run(prompts[4], most)
    before = r.files()
    asked = [os.path.join(h.args.bin, "qrun"), *r.command(prompts[3], most)]
    asked[asked.index("-n") + 1] = "200"
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as slow:
        slow.stdout.read(1)  # what the folder has of the prompt was looked for
        slow.send_signal(signal.SIGSTOP)
        r.run(prompts[3], most)
        between = r.files()
        slow.send_signal(signal.SIGCONT)
        slow.stdout.read()
    h.expect("a file that takes the place of its like needs no room of another's", slow.returncode == 0 and len(between) == 2 and r.files() == between,
             before, between, r.files())
    text, _, _ = r.run(prompts[0], f"--prompt-cache-bytes={size // 2}")
    h.expect("a smaller cap is one for what lies there already", text[0] == cold[prompts[0]] and not r.files("*"), r.files("*"))
    r = Runner(h, model, "capped-small")
    text, _, _ = r.run(prompts[0], f"--prompt-cache-bytes={size // 2}")
    h.expect("what is larger than the cap is not kept", text[0] == cold[prompts[0]] and not r.files("*"), r.files("*"))
    p = h.tool("qrun", model, "-p", "x", "--prompt-cache-bytes=1")
    h.expect("a cap without a folder is an error of use", p.returncode == 2 and b"--prompt-cache DIR" in p.stderr, p.stderr.decode())


def too_long(h, model):
    """A prompt that the context has no room for is refused as without the folder, ahead of anything that is kept."""
    def body():
        runner = Runner(h, model, "too-long")
        prompt = text_of(h, model, 40, 20)
        tokens = len(ids(h, model, prompt))
        for cached in (False, True):
            p = h.tool("qrun", *runner.command(prompt, cached=cached, context=tokens - 1))
            err = p.stderr.decode(errors="replace")
            assert p.returncode == 3 and f"{tokens} tokens do not fit" in err, f"cached {cached}: exit {p.returncode}: {err}"
        assert not runner.files(), f"it was read all the same: {runner.files()}"
    h.case("a prompt too long for the context", body)


def other_code(h):
    """A session that another code variant made goes on, and nothing of it is kept: a cold start has other bits."""
    model = h.compile(harness.TINY, "prompt-cache-levels.qbin", "--cpu=base,v3", "--decode=1", "--prefill=16", "--goldens=off")
    if not re.search(r"cpu v3\b.*runs here", h.run("qrun", "devices", model).decode()):
        print("skip a session of another code variant: this machine runs no level but base")
        return

    def body():
        begin, rest = text_of(h, model, 40, 30), text_of(h, model, 40, 31)
        for level, kept in (("v3", True), ("base", False)):
            folder, saved = h.path(f"levels-{level}"), h.path(f"levels-{level}.session")
            h.run("qrun", model, "--raw", "--cpu", level, "-p", begin, "-n", "0", "--save-session", saved)
            p = h.tool("qrun", model, "--raw", "--cpu", "v3", "--load-session", saved, "-p", rest, "-n", "1", f"--prompt-cache={folder}", "-v")
            err = p.stderr.decode(errors="replace")
            assert p.returncode == 0, err
            files = glob.glob(os.path.join(folder, "*.prefix"))
            assert bool(files) == kept and ("another device or code variant" in err) != kept, f"saved by {level}: {files}, {err}"
    h.case("a session of another code variant is not kept", body)


def main():
    h = harness.Harness(__doc__)
    artifacts = {name: h.compile(gguf, f"prompt-cache-{name}.qbin", "--cpu=native", "--decode=1,4", "--prefill=16,64", "--goldens=off")
                 for name, gguf in MODELS.items()}
    for name, artifact in artifacts.items():
        reuse(h, name, artifact, anywhere=name == "attention")
    model = artifacts["tiny"]
    prompts = [text_of(h, model, 40 + BLOCK * 2, seed) for seed in range(10, 15)]
    cold = {prompt: Runner(h, model, "cold").run(prompt, cached=False)[0][0] for prompt in prompts}
    for part in (together, killed, damaged, capped):
        part(h, model, prompts, cold)
    too_long(h, model)
    other_code(h)
    h.finish()


if __name__ == "__main__":
    main()
