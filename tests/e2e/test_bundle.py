#!/usr/bin/env python3
"""`qcc bundle`: one executable of qrun and an artifact, run as its user would, in an empty root too, and what it refuses."""
import os
import shutil
import stat
import struct
import subprocess
import time

from harness import TINY, Harness
from installed import must, needed_libraries, run

TRAILER = struct.Struct("<QQII8s")  # runtime/abi/bundle.h
NOTE = b"qrun\0\0\0\0" + struct.pack("<I", 1)  # its owner and version; what follows says whether there is a trailer


class Bundle:
    def __init__(self, h):
        self.h = h
        self.qcc, self.qrun = (os.path.join(os.path.abspath(h.args.bin), name) for name in ("qcc", "qrun"))
        self.model = h.compile(TINY, "tiny.qbin", "--cpu=base")
        self.app = h.path("app")
        self.words = h.run("qrun", self.model, "-p", "hello", "-n", "16", "--greedy").decode()
        self.sanitized = h.sanitized()

    def made(self):
        os.umask(0o022)
        h = self.h
        h.run("qcc", "bundle", self.model, "-o", self.app, "-q")
        mode = stat.S_IMODE(os.stat(self.app).st_mode)
        assert mode == 0o755, f"its mode is {mode:o}"
        with open(self.app, "rb") as f, open(self.model, "rb") as g, open(self.qrun, "rb") as q:
            data, artifact, qrun = f.read(), g.read(), q.read()
        offset, size, version, reserved, _ = TRAILER.unpack(data[-TRAILER.size:])
        assert offset % 4096 == 0 and (version, reserved) == (1, 0), f"trailer: {offset}, {version}, {reserved}"
        mark = qrun.index(NOTE) + len(NOTE)
        assert data[mark:mark + 4] == struct.pack("<I", 1), "the copy of qrun is not marked as one that carries an artifact"
        copy = data[:mark] + qrun[mark:mark + 4] + data[mark + 4:len(qrun)]
        assert data[offset:offset + size] == artifact and copy == qrun, "it does not hold what was given"
        assert len(data) == offset + size + TRAILER.size and not any(data[len(qrun):offset]), "there is more in it"
        again = h.path("again")
        h.run("qcc", "bundle", self.model, "-o", again, "--qrun", self.qrun, "-q")
        with open(again, "rb") as f:
            assert f.read() == data, "the same input gives another file"
        left = [n for n in os.listdir(h.work) if ".tmp" in n]
        assert not left, f"left behind: {left}"

    def serves(self):
        """What qrun does with a model's name, without it, from anywhere, by any name."""
        elsewhere = self.h.path("elsewhere")
        os.makedirs(elsewhere)
        named = os.path.join(elsewhere, "assistant")
        os.link(self.app, named)
        env = {"PATH": elsewhere + ":" + os.environ["PATH"], "HOME": elsewhere}
        for command, cwd in ((self.app, "/"), ("./assistant", elsewhere), ("assistant", "/")):
            code, out, err = run(command, "-p", "hello", "-n", "16", "--greedy", cwd=cwd, env=env)
            assert code == 0 and out == self.words, f"{command}: exit {code}: {out!r}, expected {self.words!r}; {err}"
        code, out, err = run(self.app, "-n", "16", "--greedy", stdin=b"hello")
        assert code == 0 and out == self.words, f"the prompt from stdin: exit {code}: {out!r} {err}"
        code, out, err = run(self.app, "chat", "-p", "hello", "-n", "16", "--greedy")
        assert code == 0 and out == self.words, f"chat: exit {code}: {out!r} {err}"
        for arguments, expected in ((("bench", "-p", "8", "-n", "2", "-r", "1"), "decode"), (("check",), "hashes: ok"),
                                    (("tokenize", "-p", "hello"), " "), (("devices",), "cpu base"), (("--version",), "qrun "),
                                    (("--help",), "usage: app ")):
            code, out, err = run(self.app, *arguments)
            assert code == 0 and expected in out + err, f"{arguments}: exit {code}: {out}{err}"
        code, out, err = run(self.app, self.model, "-p", "hello", "-n", "16", "--greedy")
        assert code == 0 and out == self.words, f"another model: exit {code}: {out!r} {err}"
        for arguments in (("-p", "x", __file__), ("-p", "x", "-m", __file__), ("check", __file__), ("devices", __file__)):
            code, out, err = run(self.app, *arguments)
            assert code == 4 and __file__ in err, f"{arguments}: exit {code}: {out}{err}"
        code, out, err = run(self.app, self.model, self.model)
        assert code == 2 and "unexpected argument" in err, f"two models: exit {code}: {err}"
        code, out, err = run(self.app, "benhc")
        assert code == 2 and "did you mean bench?" in err, f"a mistyped command: exit {code}: {err}"
        code, out, err = run(self.app, "completoin")  # of qrun alone
        assert "did you mean" not in err, f"a bundle proposes what it has not: exit {code}: {err}"
        code, out, err = run(self.app, "-p", "hello", "--save-session", self.app)
        assert code == 2 and "Q0103" in err, f"saving over itself: exit {code}: {err}"
        code, out, err = run(self.qrun, "check", self.app)
        assert code == 0 and "hashes: ok" in out + err, f"qrun does not read a bundle: {err}"
        code, out, err = run(self.qrun)
        assert code == 2 and "no model is named" in err, f"qrun itself: exit {code}: {err}"

    def mapped_in_place(self):
        """The artifact is used where it lies in the file: nothing of its size is read into memory."""
        largest, deadline = 0, time.monotonic() + 300
        with subprocess.Popen([self.app, "--greedy"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
            while largest < os.path.getsize(self.model) and time.monotonic() < deadline and p.poll() is None:
                with open(f"/proc/{p.pid}/maps", encoding="utf-8") as maps:
                    lines = [line.split() for line in maps if line.rstrip().endswith(self.app) and " r--p " in line]
                spans = [line[0].split("-") for line in lines]
                largest = max((int(end, 16) - int(begin, 16) for begin, end in spans), default=0)
                time.sleep(0.01)
            p.stdin.close()
            p.wait()
        assert largest >= os.path.getsize(self.model), f"the largest read-only mapping of the file has {largest} bytes"

    def in_an_empty_root(self):
        if self.sanitized:
            return "skipped: a sanitizer build needs its libraries and /proc"
        needs = needed_libraries(self.app)
        assert needs <= {"libc.so.6", "libm.so.6"}, f"it needs {sorted(needs)}"
        root = self.h.path("root")
        os.makedirs(root)
        listed = must("ldd", self.app)
        for path in [word for line in listed.splitlines() for word in line.split() if word.startswith("/")]:
            os.makedirs(root + os.path.dirname(path), exist_ok=True)
            shutil.copy(path, root + path)
        shutil.copy(self.app, os.path.join(root, "app"))
        enter = ["chroot", root] if os.getuid() == 0 else ["unshare", "--map-root-user", f"--root={root}"]
        if shutil.which(enter[0], path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
            return f"skipped: there is no {enter[0]} here"
        env = {"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
        code, out, err = run(*enter, "/app", "-p", "hello", "-n", "16", "--greedy", env=env)
        if code != 0 and "Operation not permitted" in err:
            return f"skipped: {err.strip()}"
        assert code == 0 and out == self.words, f"exit {code}: {out!r} {err}"
        code, out, err = run(*enter, "/app", "check", env=env)
        assert code == 0 and "hashes: ok" in out + err, f"check: exit {code}: {out}{err}"
        return f"with {' '.join(sorted(needs))} and the loader, without /proc"

    def refusals(self):
        h, out = self.h, self.h.path("refused")

        def write(name, data):
            with open(h.path(name), "wb") as f:
                f.write(data)
            os.chmod(h.path(name), 0o755)
            return h.path(name)

        with open(self.model, "rb") as f:
            artifact = f.read()
        with open(self.qrun, "rb") as f:
            qrun = f.read()
        at = qrun.index(NOTE) + len(NOTE) - 4
        other_release = write("other-qrun", qrun[:at] + struct.pack("<I", 7) + qrun[at + 4:])
        cut = len(artifact) // 2
        damaged = write("damaged.qbin", artifact[:cut] + bytes([artifact[cut] ^ 1]) + artifact[cut + 1:])
        cases = [
            ("another program", [self.model, "--qrun", "/bin/sh"], "Q0105", 2),
            ("qcc itself", [self.model, "--qrun", self.qcc], "Q0105", 2),
            ("a text", [self.model, "--qrun", __file__], "Q0105", 2),
            ("an empty file", [self.model, "--qrun", write("empty", b"")], "Q0105", 2),
            ("half a qrun", [self.model, "--qrun", write("half", qrun[:200])], "Q0105", 2),
            ("a qrun of another release", [self.model, "--qrun", other_release], "version 7", 2),
            ("no such qrun", [self.model, "--qrun", h.path("none")], "Q0105", 2),
            ("a bundle as qrun", [self.model, "--qrun", self.app], "carries an artifact already", 2),
            ("a model", [TINY], "Q4005", 4),
            ("half an artifact", [write("half.qbin", artifact[:-5])], "Q4004", 4),
            ("an artifact with a wrong bit", [damaged], "Q401", 4),
            ("no such artifact", [h.path("none.qbin")], "Q4001", 4),
        ]
        for name, arguments, words, expected in cases:
            p = h.tool("qcc", "bundle", *arguments, "-o", out)
            err = p.stderr.decode()
            assert p.returncode == expected and words in err, f"{name}: exit {p.returncode}, expected {expected} and {words}: {err}"
            assert not os.path.exists(out), f"{name}: an output was written"
        inputs = [("the artifact", self.model), ("the qrun", self.qrun)]
        os.symlink(self.model, h.path("by-another-name"))
        inputs.append(("the artifact by another name", h.path("by-another-name")))
        for name, output in inputs:
            before = os.stat(output)
            p = h.tool("qcc", "bundle", self.model, "-o", output)
            after = os.stat(output)
            assert p.returncode == 2 and "Q0103" in p.stderr.decode(), f"over {name}: exit {p.returncode}: {p.stderr.decode()}"
            assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns), f"{name} was changed"
        for output in ("-", h.work, h.path("none/app")):
            p = h.tool("qcc", "bundle", self.model, "-o", output)
            assert p.returncode == 2 and "Q0103" in p.stderr.decode(), f"-o {output}: exit {p.returncode}: {p.stderr.decode()}"
        alone = h.path("alone")
        os.makedirs(alone)
        os.symlink(self.qcc, os.path.join(alone, "qcc"))  # is found where it really is
        code, _, err = run(os.path.join(alone, "qcc"), "bundle", self.model, "-o", os.path.join(alone, "app"))
        assert code == 0, f"qcc by a link does not find its qrun: {err}"
        return f"{len(cases) + len(inputs) + 3} refused"

    def read_by_qcc(self):
        """What qcc says of an artifact it says of the bundle that carries it."""
        def same(*words):
            of_bundle, of_model = (run(self.qcc, *[path if w == "IT" else w for w in words]) for path in (self.app, self.model))
            assert of_bundle[0] == 0, f"{words}: exit {of_bundle[0]}: {of_bundle[2]}"
            assert of_bundle[1].replace(self.app, self.model) == of_model[1], f"{words}: {of_bundle[1]!r}, of the artifact {of_model[1]!r}"

        same("inspect", "IT")
        same("inspect", "IT", "--json")
        same("inspect", "IT", "--emit", "manifest")
        same("verify", "IT", "-q")
        same("diff", "IT", self.model)
        again = self.h.path("of-a-bundle")
        self.h.run("qcc", "bundle", self.app, "-o", again, "-q")
        with open(self.app, "rb") as f, open(again, "rb") as g:
            assert f.read() == g.read(), "a bundle made of a bundle is another file"
        os.remove(again)

    def damaged_bundles(self):
        with open(self.app, "rb") as f:
            data = f.read()
        offset, size, version, reserved, magic = TRAILER.unpack(data[-TRAILER.size:])
        path = self.h.path("damaged-app")

        def says(what, content, words, expected=4):
            with open(path, "wb") as f:
                f.write(content)
            os.chmod(path, 0o755)
            code, out, err = run(path, "-p", "hello")
            assert code == expected and words in err, f"{what}: exit {code}, expected {expected} and {words}: {err}"
            code, _, err = run(self.qcc, "verify", path)
            assert code == 4, f"{what}: qcc verify: exit {code}: {err}"
            os.remove(path)

        def trailer(*fields):
            return data[:-TRAILER.size] + TRAILER.pack(*fields, magic)

        says("another version", trailer(offset, size, 2, reserved), "Q4027")
        says("an offset off the page", trailer(offset + 64, size - 64, version, reserved), "Q4027")
        says("a size too large", trailer(offset, size + 1, version, reserved), "Q4027")
        says("no size", trailer(offset, 0, version, reserved), "Q4027")
        says("an offset behind the end", trailer(1 << 62, size, version, reserved), "Q4027")
        says("a byte of the artifact", data[:offset] + b"\0" + data[offset + 1:], "Q4005")
        for what, bytes_left in (("a byte", len(data) - 1), ("half of the artifact", offset + size // 2), ("the artifact", offset)):
            says(f"cut short by {what}", data[:bytes_left], "Q4027")
        if shutil.which("strip"):
            must("strip", "-o", path, self.app)
            with open(path, "rb") as f:
                says("stripped", f.read(), "Q4027")
        elsewhere = self.h.path("cut-model")
        with open(elsewhere, "wb") as f:
            f.write(data[:offset + size // 2])
        code, _, err = run(self.qrun, elsewhere, "-p", "hello")
        assert code == 4, f"qrun of a bundle that was cut short: exit {code}: {err}"


def main():
    h = Harness(__doc__)
    bundle = Bundle(h)
    h.case("one file holds both", bundle.made)
    h.case("it does what qrun does", bundle.serves)
    h.case("the artifact is mapped in place", bundle.mapped_in_place)
    h.case("in an empty root", bundle.in_an_empty_root)
    h.case("what qcc bundle refuses", bundle.refusals)
    h.case("qcc reads what it carries", bundle.read_by_qcc)
    h.case("a damaged bundle says so", bundle.damaged_bundles)
    h.finish()


if __name__ == "__main__":
    main()
