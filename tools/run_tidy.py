#!/usr/bin/env python3
"""clang-tidy with the repository's own list of checks (.clang-tidy).

    tools/run_tidy.py [--base REV] [--most FILES] [--limit SECONDS]   the lines that differ from REV, committed or not
    tools/run_tidy.py --all                            every line of every file
    tools/run_tidy.py FILE ...                         every line of these

Needs a built tree (--build, default build/release): its compile commands and generated headers. A changed header is seen
through one source file that includes it, a test's where no other does. REV is by default where this branch left origin/main,
or the commit before HEAD if it is there already.

Of the rooms only: tests repeat themselves and seed their generators on purpose. --limit: no file is begun after that many
seconds; those with the most changed lines come first, the ones that were not reached are named, and are no failure. --most:
a change of more files than that is not looked at, and says so; such a change (and a clone of one commit, where all is new)
wants --all, which takes a quarter of an hour. Exit code 1 for any finding, and for a file that clang cannot read.
"""
import argparse
import collections
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOOL = "clang-tidy-22"  # that of the MLIR headers: older ones do not read them
SOURCE = re.compile(r"^(dialects|frontends|passes|codegen|compiler|runtime)/.*\.(c|cc|cpp|h|hpp)$")
HEADER = re.compile(r"\.(h|hpp)$")
EVERY_LINE = [[1, 1 << 20]]
FINDING = re.compile(r"^(/[^:]+):(\d+):(\d+): (?:warning|error): (.*)$")
EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # git's tree without files: in a clone of one commit all is new
# Of g++ or of its precompiled headers.
FOREIGN = re.compile(r"^(-fpch-preprocess|-fno-gnu-unique|-Winvalid-pch|-Wno-(restrict|maybe-uninitialized|stringop-.*))$")


def git(*args):
    return subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True)


def default_base():
    head = git("rev-parse", "HEAD").stdout.strip()
    left = git("merge-base", "HEAD", "origin/main").stdout.strip()
    if left and left != head:
        return left
    return EMPTY if git("rev-parse", "--verify", "-q", "HEAD^").returncode else "HEAD^"


def changed_lines(base):
    """{path: [[first, last], ...]} of the lines that are in the working tree and not in `base`."""
    if git("rev-parse", "--verify", "-q", base + "^{tree}").returncode:
        sys.exit(f"run_tidy: there is no commit {base}; --base names one")
    changed, path = collections.defaultdict(list), None
    for line in git("diff", "-U0", "--no-color", "--no-ext-diff", "--diff-filter=d", base).stdout.splitlines():
        if line.startswith("+++ "):
            path = line[6:]
        elif m := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(m.group(1)), int(m.group(2) or 1)
            if count and SOURCE.search(path):
                changed[path].append([first, first + count - 1])
    for path in git("ls-files", "--others", "--exclude-standard").stdout.splitlines():
        if SOURCE.search(path):
            changed[path] = EVERY_LINE
    return changed


@functools.cache
def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def alone(entry):
    """The entries of the sources that a file of a unity build (option QCC_UNITY) includes, or the entry itself."""
    if f"{os.sep}Unity{os.sep}unity_" not in entry["file"]:
        return [entry]
    with open(entry["file"]) as f:
        joined = re.findall(r'^#include "(.*)"', f.read(), re.M)
    return [dict(entry, file=path, command=entry["command"].replace(entry["file"], path)) for path in joined]


class Database:
    """The build's compile commands, as clang understands them."""

    def __init__(self, build, folder):
        listed = os.path.join(build, "compile_commands.json")
        if not os.path.isfile(listed):
            sys.exit(f"run_tidy: no {listed}: build first (cmake --build --preset release)")
        with open(listed) as f:
            entries = [one for entry in json.load(f) for one in alone(entry)]
        self.sources, self.tests, kept = [], [], []
        for entry in entries:
            path = os.path.relpath(entry["file"], ROOT)
            known = self.sources if SOURCE.search(path) else self.tests if path.startswith("tests/") else None
            if known is None or path in known or not os.path.isfile(entry["file"]) or "CMakeFiles" in path:
                continue
            words = shlex.split(entry["command"])
            words = words[1:] if os.path.basename(words[0]) == "ccache" else words
            command, skip = [], False
            for word, after in zip(words, words[1:] + [""]):
                if skip or FOREIGN.match(word):
                    skip = False
                elif word == "-include" and "cmake_pch" in after:
                    skip = True
                else:
                    command.append(word)
            kept.append({"directory": entry["directory"], "file": entry["file"], "arguments": command})
            known.append(path)
        with open(os.path.join(folder, "compile_commands.json"), "w") as f:
            json.dump(kept, f)

    def through(self, path):
        """The source that clang reads to see `path`: itself, or for a header its own source, or one that includes it or what it is a
        part of."""
        if path in self.sources:
            return path
        if not HEADER.search(path):
            return None
        stem, folder = os.path.splitext(path)[0], os.path.dirname(path)
        including = re.compile(rf'#include "(?:{re.escape(path)}|{re.escape(os.path.basename(path))})"')
        near = sorted(self.sources, key=lambda s: (os.path.splitext(s)[0] != stem, os.path.dirname(s) != folder))
        beside = [os.path.join(folder, name) for name in sorted(os.listdir(os.path.join(ROOT, folder))) if HEADER.search(name)]
        for one in near + beside + self.tests:
            if one != path and including.search(text_of(one)):
                seen = self.through(one) if one in beside else one
                if seen:
                    return seen
        return None

    def seen_by_tests_alone(self):
        """{test: {header: every line}} of the headers of the rooms that no room's source includes."""
        found = collections.defaultdict(dict)
        for path in git("ls-files").stdout.splitlines():
            if SOURCE.search(path) and HEADER.search(path) and os.path.isfile(os.path.join(ROOT, path)):
                source = self.through(path)
                if source in self.tests:
                    found[source][path] = EVERY_LINE
        return found


def tidy(source, lines, folder):
    """(findings, why it could not be read or None) of one source; `lines`: {path: ranges} or None for all. What MLIR
    generates is not ours to mend."""
    command = [TOOL, "-p", folder, "--quiet", os.path.join(ROOT, source)]
    if lines is not None:
        command.append("--line-filter=" + json.dumps([{"name": os.path.join(ROOT, p), "lines": r} for p, r in lines.items()]))
    p = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = set()
    for line in p.stdout.splitlines():
        m = FINDING.match(line)
        if m and m.group(1).startswith(ROOT + os.sep) and not m.group(1).startswith(os.path.join(ROOT, "build") + os.sep):
            found.add(f"{os.path.relpath(m.group(1), ROOT)}:{m.group(2)}:{m.group(3)}: {m.group(4)}")
    failed = "error: " in p.stdout and not found or p.returncode < 0
    return found, (p.stderr.strip() or p.stdout.strip())[-400:] if failed else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--base", help="commit to compare with")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--limit", type=int)
    parser.add_argument("--most", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    if not shutil.which(TOOL):
        sys.exit(f"run_tidy: no {TOOL}: tools/install_deps.sh installs it")
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tidy-") as folder:
        database = Database(args.build, folder)
        work, unseen = collections.defaultdict(dict), []
        if args.all:
            work = {**dict.fromkeys(database.sources), **database.seen_by_tests_alone()}
        elif args.files:
            work = dict.fromkeys(args.files)
        else:
            for path, ranges in changed_lines(args.base or default_base()).items():
                source = database.through(path)
                if source is None:
                    unseen.append(path)
                else:
                    work[source][path] = ranges
        if args.most is not None and len(work) > args.most:
            print(f"run_tidy: {len(work)} files differ, more than {args.most}: nothing looked at; tools/run_tidy.py --all does")
            return 0
        order = sorted(work, key=lambda s: -sum(b - a + 1 for ranges in (work[s] or {}).values() for a, b in ranges))

        def one(source):
            if args.limit is not None and time.monotonic() - begin > args.limit:
                return None
            return tidy(source, work[source], folder)

        with ThreadPoolExecutor(args.jobs) as pool:
            results = dict(zip(order, pool.map(one, order)))
    findings = sorted(set().union(*(r[0] for r in results.values() if r)))
    failed = [f"{s}: {r[1]}" for s, r in results.items() if r and r[1]]
    left = [s for s, r in results.items() if r is None]
    for path in unseen:
        print(f"not compiled in {os.path.relpath(args.build, ROOT)}, not looked at: {path}")
    for path in left:
        print(f"not reached in {args.limit} s, not looked at: {path}")
    for line in findings + failed:
        print(line)
    print(f"run_tidy: {len(findings)} findings, {len(failed)} unreadable, {len(order) - len(left)} of {len(order)} files in {time.monotonic() - begin:.0f} s")
    return 1 if findings or failed else 0


if __name__ == "__main__":
    sys.exit(main())
