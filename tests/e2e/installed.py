"""What tests of the installed product share: a prefix that `cmake --install` filled, what a binary needs, other copies of the tree."""
import os
import re
import shutil
import subprocess

from harness import ROOT

EXAMPLES = os.path.join(ROOT, "examples", "embed")


def run(*command, cwd=None, env=None, stdin=b""):
    """A command that may fail: its exit code, standard output and standard error."""
    p = subprocess.run([str(c) for c in command], capture_output=True, cwd=cwd, env=env, input=stdin, timeout=1200)
    return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")


def must(*command, cwd=None, env=None, why=""):
    """Runs a command that must succeed; returns its output, both streams."""
    p = subprocess.run([str(c) for c in command], cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = p.stdout.decode(errors="replace")
    assert p.returncode == 0, f"{why or ' '.join(map(str, command))}: exit {p.returncode}:\n{text[-1500:]}"
    return text


def install(build, prefix, component=None):
    """`cmake --install` of a build folder into a prefix, which is then moved: what is installed must not know where."""
    first = prefix + "-first"
    shutil.rmtree(first, ignore_errors=True)
    must("cmake", "--install", build, "--prefix", first, *(["--component", component] if component else []))
    shutil.rmtree(prefix, ignore_errors=True)
    os.rename(first, prefix)
    return prefix


def files_of(prefix):
    return sorted(os.path.relpath(os.path.join(folder, name), prefix) for folder, _, names in os.walk(prefix) for name in names)


def needed_libraries(binary, env=None):
    """What ldd lists, without the loader and the kernel's own page: {"libc.so.6", ...}."""
    p = subprocess.run(["ldd", binary], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
    text = p.stdout.decode()
    if "not a dynamic executable" in text or "statically linked" in text:
        return set()
    assert p.returncode == 0 and "not found" not in text, f"ldd {binary}: {text}"
    names = {os.path.basename(n) for n in re.findall(r"^\s*(\S+)", text, re.MULTILINE)}
    return {n for n in names if not n.startswith(("linux-vdso", "ld-linux"))}


def clean_environment(**more):
    """No variable of the caller's build reaches a product's: only where programs are, and what is named."""
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **more}


def mentions(folder, text):
    """Files under `folder` that hold `text`."""
    found = []
    for path in (os.path.join(folder, name) for name in files_of(folder)):
        with open(path, "rb") as f:
            if text.encode() in f.read():
                found.append(os.path.relpath(path, folder))
    return found
