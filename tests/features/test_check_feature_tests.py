#!/usr/bin/env python3
"""check_feature_tests.py itself: a small tree whose page is right, and what is said of each change to it."""
import os
import sys
import tempfile

import check_feature_tests

HEAD = "# Page\n\n| row | what is asked | shown by |\n|---|---|---|\n"
ROWS = ("| A-1 | Something | `Suite.First`, `Other.*` |\n"
        "| A-2 | More | `test_it.py`, `test_it.py:part`, `tests/programs/steps.cc`, `tests/lit/case.mlir` |\n")
TREE = {
    check_feature_tests.PAGE: HEAD + ROWS,
    "tests/unit/room/CMakeLists.txt": "qcc_test(room_test SRCS it_test.cc)\nforeach(name other)\n  qcc_test(${name} SRCS ${name}_test.cc)\n",
    "tests/unit/room/it_test.cc": "TEST(Suite, First) {}\nTEST_F(Suite, Second) {}\n// TEST(Suite, Gone) {}\n",
    "tests/unit/room/other_test.cc": "TEST_P(Other,\n       Long) {}\n",
    "tests/unit/room/unbuilt_test.cc": "TEST(Unbuilt, Test) {}\n",
    "tests/e2e/CMakeLists.txt": "qcc_e2e(it 10)\n",
    "tests/e2e/test_it.py": "def part(h):\n    pass\n\ndef idle(h):\n    pass\n\npart(None)\n",
    "tests/e2e/test_left.py": "pass\n",
    "tests/programs/CMakeLists.txt": "foreach(program steps)\n",
    "tests/programs/steps.cc": "",
    "tests/programs/left.cc": "",
    "tests/lit/case.mlir": "",
}
# (name, what the page says instead, of which, what must be said; None: nothing)
CHANGES = [
    ("a page that is right", "Something", "Something", None),
    ("a gtest that is missing", "`Suite.First`", "`Suite.Third`", "A-1: `Suite.Third`: no gtest that is built has this name"),
    ("a suite that is missing", "`Other.*`", "`Others.*`", "A-1: `Others.*`: no gtest"),
    ("a gtest in a comment", "`Suite.First`", "`Suite.Gone`", "`Suite.Gone`: no gtest"),
    ("a gtest that is not built", "`Suite.First`", "`Unbuilt.Test`", "`Unbuilt.Test`: no gtest that is built"),
    ("a script that is missing", "`test_it.py`", "`test_no.py`", "`test_no.py`: there is no such script"),
    ("a script that nobody runs", "`test_it.py`", "`test_left.py`", "does not run it"),
    ("a function that is missing", ":part", ":parts", "`test_it.py:parts`: the script has no such function"),
    ("a function that nobody calls", ":part", ":idle", "`test_it.py:idle`: the script does not call it"),
    ("a file that is missing", "programs/steps.cc", "programs/step.cc", "there is no such file"),
    ("a program that is not built", "programs/steps.cc", "programs/left.cc", "tests/programs/CMakeLists.txt does not name it"),
    ("a case of lit that is missing", "case.mlir", "none.mlir", "there is no such file"),
    ("a row twice", "A-2", "A-1", "A-1: the row is there twice"),
    ("a row without tests", "`Suite.First`, `Other.*`", "", "A-1: expected a row, what is asked, and names of tests"),
    ("words instead of tests", "`Suite.First`,", "`Suite.First` and also", "A-1: expected a row"),
    ("a row of two cells", "| Something ", "", "A-1: expected a row"),
    ("no rows", ROWS, "", "no rows"),
]


def failed(root, change):
    """What is wrong with what is said of one change; None if nothing is."""
    _, of, instead, expected = change
    assert of in HEAD + ROWS, of
    with open(os.path.join(root, check_feature_tests.PAGE), "w", encoding="utf-8") as f:
        f.write((HEAD + ROWS).replace(of, instead, 1))
    _, _, findings = check_feature_tests.check(root)
    if (len(findings) == 1 and expected in findings[0]) if expected else not findings:
        return None
    return f"expected {expected!r}, found {findings}"


def main():
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="feature-tests-") as root:
        for name, text in TREE.items():
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        for change in CHANGES:
            failure = failed(root, change)
            wrong += failure is not None
            print(f"{'ok  ' if failure is None else 'FAIL'} {change[0]}{'' if failure is None else ': ' + failure}")
    print(f"{len(CHANGES) - wrong} passed, {wrong} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
