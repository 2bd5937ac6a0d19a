#!/usr/bin/env python3
"""docs/reference/feature-tests.md against the tests: every test that the page names is there, and is built or run.

    check_feature_tests.py [--root DIR]

Exit code 1 and one line for each name that stands for nothing, and each row that is there twice or names no test.
"""
import argparse
import fnmatch
import os
import re
import sys

PAGE = "docs/reference/feature-tests.md"
GTEST = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def registered(path, name):
    """Whether the CMakeLists.txt beside a file says `name`."""
    lists = os.path.join(os.path.dirname(path), "CMakeLists.txt")
    return os.path.isfile(lists) and re.search(rf"\b{re.escape(name)}\b", read(lists)) is not None


def gtests(root):
    """Suite.Name of every gtest in a file that is built."""
    found = set()
    for folder, _, files in os.walk(os.path.join(root, "tests")):
        for file in files:
            path = os.path.join(folder, file)
            # Lists name a file, or the part of its name ahead of _test.cc.
            if file.endswith("_test.cc") and (registered(path, file) or registered(path, file[:-len("_test.cc")])):
                found.update(f"{suite}.{name}" for suite, name in GTEST.findall(read(path)))
    return found


def script_fault(root, name):
    """What is wrong with `test_x.py` or `test_x.py:function`; None: nothing."""
    script, _, function = name.partition(":")
    path = os.path.join(root, "tests", "e2e", script)
    if not os.path.isfile(path):
        return "there is no such script in tests/e2e"
    if not registered(path, "qcc_e2e(" + script[len("test_"):-len(".py")]):
        return "tests/e2e/CMakeLists.txt does not run it"
    text = read(path)
    if function and not re.search(rf"^def {re.escape(function)}\(", text, re.MULTILINE):
        return "the script has no such function"
    if function and len(re.findall(rf"\b{re.escape(function)}\b", text)) < 2:
        return "the script does not call it"
    return None


def file_fault(root, name):
    """What is wrong with a path; None: nothing."""
    path = os.path.join(root, name)
    if not os.path.isfile(path):
        return "there is no such file"
    # lit finds its cases itself.
    if not name.startswith("tests/lit/") and not registered(path, os.path.splitext(os.path.basename(name))[0]):
        return f"{os.path.dirname(name)}/CMakeLists.txt does not name it"
    return None


def fault_of(root, tests, name):
    if name.startswith("test_"):
        return script_fault(root, name)
    if "/" in name:
        return file_fault(root, name)
    return None if fnmatch.filter(tests, name) else "no gtest that is built has this name"


def check(root):
    """(rows, tests that are named, findings)."""
    findings, rows, named, tests = [], set(), 0, gtests(root)
    for n, line in enumerate(read(os.path.join(root, PAGE)).splitlines(), 1):
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells or cells[0] == "row" or set(cells[0]) == {"-"}:
            continue
        where = f"{PAGE}:{n}: {cells[0]}"
        if cells[0] in rows:
            findings.append(f"{where}: the row is there twice")
        rows.add(cells[0])
        names = re.findall(r"`([^`]+)`", cells[2]) if len(cells) == 3 else []
        if len(cells) != 3 or not names or re.sub(r"`[^`]+`", "", cells[2]).strip(" ,"):
            findings.append(f"{where}: expected a row, what is asked, and names of tests")
        for name in names:
            fault = fault_of(root, tests, name)
            if fault:
                findings.append(f"{where}: `{name}`: {fault}")
        named += len(names)
    if not rows:
        findings.append(f"{PAGE}: no rows")
    return len(rows), named, findings


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), help="of the source tree")
    rows, named, findings = check(parser.parse_args().root)
    for finding in findings:
        print(finding)
    print(f"check_feature_tests: {len(findings)} findings in {rows} rows with {named} names of tests")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
