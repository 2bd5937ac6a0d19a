#!/usr/bin/env python3
"""clang-format over every C and C++ file of the tree; lists the files that differ. --fix rewrites them."""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def differing(files):
    """Those that clang-format would change. One process for all: most of its time on one file is its start."""
    p = subprocess.run(["clang-format", "--dry-run", "--Werror", *files], cwd=ROOT, capture_output=True, text=True)
    found = set(re.findall(r"^(.*?):\d+:\d+: error: code should be clang-formatted", p.stderr, re.MULTILINE))
    if bool(found) != bool(p.returncode):
        sys.exit(f"clang-format: exit {p.returncode}\n{p.stderr}")
    return found


def main():
    out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                         capture_output=True, text=True, check=True).stdout
    files = [f for f in out.splitlines() if re.search(r"\.(c|cc|cpp|h|hpp)$", f) and os.path.isfile(os.path.join(ROOT, f))]
    if "--fix" in sys.argv[1:]:
        return subprocess.run(["clang-format", "-i", *files], cwd=ROOT).returncode
    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        bad = sorted(set().union(*pool.map(differing, (files[i::workers] for i in range(workers)))))
    for f in bad:
        print(f"{f}: not formatted (tools/check_format.py --fix)")
    print(f"check_format: {len(bad)} of {len(files)} files differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
