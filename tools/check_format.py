#!/usr/bin/env python3
"""clang-format over every C and C++ file of the tree; lists the files that differ. --fix rewrites them."""
import re
import subprocess
import sys
import os

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main():
    out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                         capture_output=True, text=True, check=True).stdout
    files = [f for f in out.splitlines() if re.search(r"\.(c|cc|cpp|h)$", f) and os.path.isfile(os.path.join(ROOT, f))]
    if "--fix" in sys.argv[1:]:
        return subprocess.run(["clang-format", "-i", *files], cwd=ROOT).returncode
    bad = 0
    for f in files:
        want = subprocess.run(["clang-format", f], cwd=ROOT, capture_output=True, check=True).stdout
        with open(os.path.join(ROOT, f), "rb") as have:
            if have.read() != want:
                print(f"{f}: not formatted (tools/check_format.py --fix)")
                bad += 1
    print(f"check_format: {bad} of {len(files)} files differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
