#!/usr/bin/env python3
"""check_abi.py itself: headers that were changed on purpose, each with what must be said of it."""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HEADER = os.path.join(ROOT, "runtime", "include", "qrt", "qrt.h")
CHECK = [sys.executable, os.path.join(HERE, "check_abi.py")]

# (name, pattern, replacement, what the output must have, whether --update may write it)
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
    ("a field at the end", r"(  uint64_t context_tokens; /\* capacity[^\n]*\n)", r"\1  uint64_t more;\n", "new:    qrt_session_options.more", True),
    ("a field at the end of what a batch holds", r"(  int32_t\* next;[^\n]*\n)", r"\1  void* more;\n", "new:    qrt_append_options.more", True),
    ("a function more", r"(QRT_API const char\* qrt_version\(void\);)", r"\1\nQRT_API int32_t qrt_more(void);", "new:    function qrt_more", True),
]


def check(header, listed, *more):
    p = subprocess.run([*CHECK, "--header", header, "--list", listed, *more], capture_output=True, text=True)
    return p.returncode, p.stdout + p.stderr


def main():
    with open(HEADER, encoding="utf-8") as f:
        text = f.read()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="qrt-abi-") as folder:
        header, listed = os.path.join(folder, "qrt.h"), os.path.join(folder, "qrt.abi")
        if check(HEADER, listed, "--update")[0] != 0 or check(HEADER, listed)[0] != 0:
            sys.exit("FAIL a list that was just written differs")
        with open(listed, encoding="utf-8") as f:
            as_written = f.read()
        for name, pattern, replacement, expected, may_update in CHANGES:
            changed, count = re.subn(pattern, replacement, text, count=1)
            with open(header, "w", encoding="utf-8") as f:
                f.write(changed)
            with open(listed, "w", encoding="utf-8") as f:
                f.write(as_written)
            code, said = check(header, listed)
            updated = check(header, listed, "--update")[0] == 0
            advice = "Take it back" if not may_update else "--update"
            ok = count == 1 and code == 1 and expected in said and advice in said and updated == may_update
            failed += not ok
            print(f"{'ok  ' if ok else 'FAIL'} {name}" + ("" if ok else f": changed {count} places, exit {code}, updated {updated}, expected {expected!r}:\n{said}"))
    print(f"{len(CHANGES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
