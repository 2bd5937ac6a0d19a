#!/usr/bin/env python3
"""check_abi.py itself: headers that were changed on purpose, each with what must be said of it."""
import os
import re
import subprocess
import sys
import tempfile

import check_abi

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HEADER = os.path.join(ROOT, "runtime", "include", "qrt", "qrt.h")
CHECK = [sys.executable, os.path.join(HERE, "check_abi.py")]

# (name, pattern, replacement, what must be said, whether older programs go on running)
CHANGES = [
    ("a field in the middle", r"(uint32_t vocab_size;[^\n]*\n)(  uint32_t embedding_length;)", r"\1  uint32_t more;\n\2",
     "BREAKS: qrt_artifact_info.embedding_length moved", False),
    ("a field that is gone", r"  uint32_t has_goldens;[^\n]*\n", "", "BREAKS: qrt_artifact_info.has_goldens is gone", False),
    ("another type of one size", r"float top_p;", "uint32_t top_p;", "BREAKS: qrt_sampler_options.top_p was float of 4 bytes, is uint32_t", False),
    ("two fields that change places", r"(  float top_p;[^\n]*\n)(  float min_p;[^\n]*\n)", r"\2\1", "BREAKS: qrt_sampler_options.top_p moved", False),
    ("a field in what was padding", r"(  uint32_t verify_weights;[^\n]*\n)", r"\1  uint32_t more;\n",
     "inside the 32 bytes that older programs call theirs", False),
    ("growth without struct_size", r"(const char\* reasoning;[^\n]*\n)", r"\1  const char* name;\n",
     "BREAKS: qrt_chat_message.name is new, in a struct without struct_size", False),
    ("a text that became longer", r"char message\[512\];", "char message[600];", "BREAKS: qrt_error.message was char[512] of 512 bytes", False),
    ("a status with another value", r"QRT_CANCELLED = 10,", "QRT_CANCELLED = 20,", "BREAKS: constant QRT_CANCELLED was 10, is 20", False),
    ("more stack than was promised", r"\(128u << 10\)", "(256u << 10)", "BREAKS: constant QRT_CALL_STACK", False),
    ("a function that is gone", r"QRT_API const char\* qrt_version\(void\);", "", "BREAKS: function qrt_version is gone", False),
    ("a function with another argument", r"qrt_version\(void\)", "qrt_version(int32_t kind)", "BREAKS: function qrt_version was", False),
    ("a callback with another argument", r"(\(\*qrt_progress_fn\)\(void\* ctx, )uint64_t done", r"\1uint32_t done",
     "BREAKS: callback qrt_progress_fn was", False),
    ("a handle type that became another", r"typedef int32_t qrt_status;", "typedef int64_t qrt_status;", "BREAKS: type qrt_status was int32_t", False),
    ("a field at the end", r"(  uint64_t tokens_ahead;[^\n]*\n)", r"\1  uint64_t more;\n", "new:    qrt_session_options.more", True),
    ("a field at the end of what a batch holds", r"(  int32_t\* next;[^\n]*\n)", r"\1  void* more;\n", "new:    qrt_append_options.more", True),
    ("a function more", r"(QRT_API const char\* qrt_version\(void\);)", r"\1\nQRT_API int32_t qrt_more(void);", "new:    function qrt_more", True),
]


def check(header, listed, *more):
    p = subprocess.run([*CHECK, "--header", header, "--list", listed, *more], capture_output=True, text=True)
    return p.returncode, p.stdout + p.stderr


def change_failed(folder, before, text, change):
    """What is wrong with what is said of one change; None if nothing is."""
    _, pattern, replacement, expected, harmless = change
    changed, count = re.subn(pattern, replacement, text, count=1)
    header = os.path.join(folder, "qrt.h")
    with open(header, "w", encoding="utf-8") as f:
        f.write(changed)
    breaks, added = check_abi.compare(before, check_abi.interface_of(header, "cc"))
    said = [f"BREAKS: {b}" for b in breaks] + [f"new:    {a}" for a in added]
    if count == 1 and any(expected in line for line in said) and bool(breaks) != harmless:
        return None
    return f"changed {count} places, expected {expected!r}, found {said}"


def command_failed(folder, text):
    """What is wrong with the command itself, over one change that breaks and one that does not."""
    header, listed = os.path.join(folder, "qrt.h"), os.path.join(folder, "qrt.abi")
    if check(HEADER, listed, "--update")[0] != 0 or check(HEADER, listed)[0] != 0:
        return "a list that was just written differs"
    for _, pattern, replacement, expected, harmless in (CHANGES[0], CHANGES[-1]):
        with open(header, "w", encoding="utf-8") as f:
            f.write(re.sub(pattern, replacement, text, count=1))
        code, said = check(header, listed)
        advice = "write the list anew" if harmless else "Take it back"
        if code != 1 or expected not in said or advice not in said:
            return f"exit {code}, expected {expected!r} and {advice!r}: {said}"
        if (check(header, listed, "--update")[0] == 0) != harmless:
            return f"--update {'refuses' if harmless else 'takes'} this: {said}"
    return None


def main():
    text = check_abi.read_header(HEADER)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="qrt-abi-") as folder:
        before = check_abi.interface_of(HEADER, "cc")
        results = [(change[0], change_failed(folder, before, text, change)) for change in CHANGES]
        results.append(("the command and its advice", command_failed(folder, text)))
        for name, failure in results:
            failed += failure is not None
            print(f"{'ok  ' if failure is None else 'FAIL'} {name}{'' if failure is None else ': ' + failure}")
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
