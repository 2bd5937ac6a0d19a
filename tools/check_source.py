#!/usr/bin/env python3
"""Checks of the source tree that no compiler makes: who includes whom, how long a file may be, left-overs.

The table below is that of docs/DESIGN.md, "Rooms, and who may know whom": check_design compares the two. A room may
include itself, the rooms listed for it, and the outside libraries listed for it. Exit code 1 and one line per finding
otherwise.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOFT_CAP, HARD_CAP = 600, 1000

DIALECTS = ["dialects/formats", "dialects/layouts", "dialects/hir", "dialects/plan"]
MLIR = ["mlir/", "llvm/", "lld/"]
ABSL = ["absl/"]
# room: (rooms it may include, outside headers it may include besides the C and C++ standard library)
TABLE = {
    "dialects/formats": ([], []),
    "dialects/layouts": (["dialects/formats"], []),
    "dialects/hir": (["dialects/formats"], MLIR),
    "dialects/plan": (["dialects/formats", "dialects/layouts", "dialects/hir"], MLIR),
    "frontends/base": ([], ABSL),
    "frontends/gguf": (["dialects/formats", "frontends/base", "runtime/base"], ABSL),
    "frontends/models": (["dialects/formats", "dialects/hir", "frontends/base", "frontends/gguf"], MLIR + ABSL),
    "passes": (DIALECTS, MLIR),
    "codegen/cpu": (DIALECTS + ["runtime/abi", "runtime/base"], MLIR),
    "codegen/gpu": (DIALECTS + ["runtime/abi"], MLIR + ["shaderc/", "spirv-tools/"]),
    "compiler": (DIALECTS + ["frontends/base", "frontends/gguf", "frontends/models", "passes", "codegen/cpu", "codegen/gpu",
                             "runtime/abi", "runtime/base", "runtime/aot", "runtime/artifact", "runtime/command_pages", "runtime/text"],
                 MLIR + ABSL + ["CLI/", "nlohmann/", "flatbuffers/"]),
    "runtime/abi": ([], []),
    "runtime/include": ([], []),
    "runtime/base": (["runtime/abi", "runtime/include"], ["xxhash.h"]),
    "runtime/command_pages": ([], []),
    "runtime/aot": (["runtime/base"], []),
    "runtime/artifact": (["runtime/abi", "runtime/base"], ["flatbuffers/"]),
    "runtime/device": (["runtime/abi", "runtime/base", "runtime/artifact"], ["vulkan/"]),
    "runtime/engine": (["runtime/abi", "runtime/base", "runtime/artifact", "runtime/device", "runtime/include", "runtime/text"], []),
    "runtime/text": (["runtime/abi", "runtime/base", "runtime/artifact"], ["pcre2.h"]),
    "runtime/capi": (["runtime/abi", "runtime/include", "runtime/base", "runtime/artifact", "runtime/device",
                      "runtime/engine", "runtime/text"], []),
    "runtime/qrun": (["runtime/abi", "runtime/include", "runtime/base", "runtime/aot", "runtime/command_pages"],
                     ["CLI/", "nlohmann/", "histedit.h"]),
    "examples": (["runtime/include"], []),
}
FREE = ("tests/", "benchmarks/")  # may include everything
# What docs/DESIGN.md calls the outside libraries.
LIBRARIES = {"MLIR": MLIR, "Abseil": ABSL, "shaderc": ["shaderc/"], "SPIRV-Tools": ["spirv-tools/"], "CLI11": ["CLI/"],
             "nlohmann-json": ["nlohmann/"], "FlatBuffers": ["flatbuffers/"], "xxHash": ["xxhash.h"],
             "Vulkan": ["vulkan/"], "PCRE2": ["pcre2.h"], "libedit": ["histedit.h"]}
DESIGN = "docs/DESIGN.md"
# The standard libraries of C++ and C, whole, and what the tree uses of POSIX, Linux and the compiler. By name: <zlib.h> looks no
# different, and is a library that a room would have to be allowed.
CXX = """
    algorithm any array atomic barrier bit bitset charconv chrono codecvt compare complex concepts condition_variable coroutine
    deque exception execution expected filesystem flat_map flat_set format forward_list fstream functional future generator
    initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map mdspan memory memory_resource
    mutex new numbers numeric optional ostream print queue random ranges ratio regex scoped_allocator semaphore set shared_mutex
    source_location span spanstream sstream stack stacktrace stdexcept stdfloat stop_token streambuf string string_view strstream
    syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant
    vector version
    cassert cctype cerrno cfenv cfloat cinttypes climits clocale cmath csetjmp csignal cstdarg cstddef cstdint cstdio cstdlib
    cstring ctime cuchar cwchar cwctype
""".split()
C = """
    assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic stdbool
    stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype
""".split()
SYSTEM = """
    cpuid dirent dlfcn elf fcntl immintrin link linux/futex poll pthread sched spawn stdio_ext sys/auxv sys/file sys/ioctl
    sys/mman sys/random sys/resource sys/stat sys/statvfs sys/syscall sys/types sys/wait termios unistd xmmintrin
""".split()
STANDARD = {*CXX, *(name + ".h" for name in C + SYSTEM)}
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
SOURCE = re.compile(r"\.(c|cc|cpp|h|hpp|td|inc|def)$")
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX)\b")
MACHINE = re.compile(r"(^|[^A-Za-z0-9_.])/(work|farm)/")


def tracked():
    out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                         capture_output=True, text=True, check=True).stdout
    return [f for f in out.splitlines() if os.path.isfile(os.path.join(ROOT, f))]


def room_of(path):
    rooms = [r for r in TABLE if path.startswith(r + "/")]
    return max(rooms, key=len) if rooms else None


def check_include(path, line_no, quoted, header):
    if path.startswith(FREE):
        return None
    room = room_of(path)
    if room is None:
        return f"{path}: lies in no room of the table in tools/check_source.py"
    allowed_rooms, outside = TABLE[room]
    if header.startswith("qrt/"):
        header = "runtime/include/" + header
    target = room_of(header)
    where = f"{path}:{line_no}"
    if target:
        if target == room or target in allowed_rooms:
            return None
        return f"{where}: {room} must not include {target} ({header})"
    if any(header.startswith(p) for p in outside):
        return None
    if quoted == "<" and header in STANDARD:
        return None
    # An example is copied out of the tree, and a header's parts lie beside it under whatever name it was found.
    if quoted == '"' and room in ("examples", "runtime/include") and os.path.isfile(os.path.join(ROOT, os.path.dirname(path), header)):
        return None
    return f"{where}: {room} may not include '{header}'"


def check_design():
    """One finding for each row of DESIGN's table that says something else than TABLE and FREE."""
    findings, named = [], set()
    with open(os.path.join(ROOT, DESIGN), encoding="utf-8") as f:
        rows = [(n, line.strip().strip("|").split("|")) for n, line in enumerate(f, 1) if line.startswith("| `")]
    for n, cells in rows:
        said = re.sub(r" \([^)]*\)|`", "", cells[-1]).strip()
        for room in re.findall(r"`([^`]+)/`", cells[0]):
            named.add(room)
            where = f"{DESIGN}:{n}: row `{room}/`"
            if (room + "/" in FREE) != (said == "everything"):
                findings.append(f"{where}: {' and '.join(FREE)} may include everything, no other room may")
            elif room not in TABLE and said != "everything":
                findings.append(f"{where}: there is no such room in tools/check_source.py")
            if room not in TABLE or said == "everything":
                continue
            allowed = set()
            for name in said.split(", ") if said != "nothing" else []:
                found = LIBRARIES.get(name) or [r for r in TABLE if r == name or r.startswith(name + "/")]
                if not found:
                    findings.append(f"{where}: '{name}' is neither a room nor a library")
                allowed.update(found)
            checked = set(TABLE[room][0] + TABLE[room][1])
            for more, who in ((allowed - checked, "only the page"), (checked - allowed, "only tools/check_source.py")):
                if more:
                    findings.append(f"{where}: {who} allows {', '.join(sorted(more))}")
    findings += [f"{DESIGN}: no row for `{room}/`" for room in TABLE if room not in named]
    return findings


def main():
    findings, long_files = check_design(), []
    for path in tracked():
        full = os.path.join(ROOT, path)
        if path.startswith("assets/") or "/corpus/" in path or path.endswith((".gguf", ".bin", ".qbin")):
            continue
        try:
            with open(full, encoding="utf-8") as f:
                lines = f.read().splitlines()
        except UnicodeDecodeError:
            continue
        for n, line in enumerate(lines, 1):
            if path != "tools/check_source.py":
                if LEFTOVER.search(line):
                    findings.append(f"{path}:{n}: left-over note: {line.strip()[:80]}")
                if MACHINE.search(line):
                    findings.append(f"{path}:{n}: a path of one machine: {line.strip()[:80]}")
            if SOURCE.search(path):
                m = INCLUDE.match(line)
                if m:
                    problem = check_include(path, n, m.group(1), m.group(2))
                    if problem:
                        findings.append(problem)
        if SOURCE.search(path):
            base = os.path.basename(path)
            if re.match(r"(utils?|common|helpers?)\.", base):
                findings.append(f"{path}: a file is named after what it is about, not '{base}'")
            if len(lines) > HARD_CAP:
                findings.append(f"{path}: {len(lines)} lines, the cap is {HARD_CAP}")
            elif len(lines) > SOFT_CAP:
                long_files.append(f"{path}: {len(lines)} lines (soft cap {SOFT_CAP})")
    for note in long_files:
        print("note: " + note)
    for finding in findings:
        print(finding)
    print(f"check_source: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
