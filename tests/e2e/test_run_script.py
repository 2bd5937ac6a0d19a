#!/usr/bin/env python3
"""run.sh hands qrun what it was given, each once, with its own defaults for the rest."""
import os
import shutil
import subprocess

from harness import ROOT, TINY
from test_cli import quiet_harness

PROMPT = "The state of the union is"


def script(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)


def place(h, model):
    """A tree in which the steps of run.sh that build are done already, and qcc has the artifact at hand."""
    root = h.path("tree")
    tools = os.path.join(root, "build", "release", "bin")
    for folder in (tools, os.path.join(root, "tools"), os.path.join(root, "path")):
        os.makedirs(folder)
    shutil.copy(os.path.join(ROOT, "run.sh"), root)
    script(os.path.join(root, "tools", "install_deps.sh"), "")
    script(os.path.join(root, "path", "cmake"), "")
    script(os.path.join(tools, "qcc"), f'echo "$@" >"{root}/compiled"\ncp "{model}" "{root}/build/tiny.qbin"\n')
    os.symlink(os.path.abspath(os.path.join(h.args.bin, "qrun")), os.path.join(tools, "qrun"))
    return root


def main():
    h = quiet_harness(__doc__)
    model = h.compile(TINY, "tiny.qbin", "--cpu=base")
    root = place(h, model)
    text_file = h.path("prompt.txt")
    with open(text_file, "w", encoding="utf-8") as f:
        f.write("Once upon a time")

    def run(*arguments):
        return subprocess.run([os.path.join(root, "run.sh"), *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env=os.environ | {"PATH": os.path.join(root, "path") + ":" + os.environ["PATH"]})

    def answer(*options, prompt=PROMPT, raw=True):
        return h.run("qrun", model, "--device=cpu", *(["--raw"] if raw else []), *(["-p", prompt] if prompt else []), *options).decode(errors="replace")
    short = ["-n", "8"]
    cases = [
        (["-n8"], PROMPT + answer("-s1", *short)),
        (["--predict", "8"], PROMPT + answer("-s1", *short)),
        (["-s", "5", *short], PROMPT + answer("-s5", *short)),
        (["--seed=5", "--temp=1", *short], PROMPT + answer("-s5", "--temp=1", *short)),
        (["-p", "Hi", *short], "Hi" + answer("-s1", *short, prompt="Hi")),
        (["--prompt=Hi", *short], "Hi" + answer("-s1", *short, prompt="Hi")),
        (["--prompt", "-- Hi", *short], "-- Hi" + answer("-s1", *short, prompt="-- Hi")),
        (["--raw", *short], PROMPT + answer("-s1", *short)),
        (["-f", text_file, *short], answer("-s1", "-f", text_file, *short, prompt=None)),
        (["-sys", "Be brief.", *short], answer("-s1", "-sys", "Be brief.", *short, raw=False)),
        (["--device=cpu", *short], PROMPT + answer("-s1", *short)),
        (["-ngl", "0", *short], PROMPT + answer("-s1", *short)),
    ]
    for arguments, want in cases:
        p = run(*arguments)
        h.expect(f"run.sh {' '.join(arguments)}", p.returncode == 0 and p.stdout == want + "\n", f"exit {p.returncode}: {p.stdout!r}, expected {want!r}; {p.stderr}")
    for arguments in (["--target", "cpu", *short], ["--target=cpu,vulkan", *short]):
        p = run(*arguments)
        with open(os.path.join(root, "compiled"), encoding="utf-8") as f:
            compiled = f.read()
        target = arguments[1] if arguments[0] == "--target" else arguments[0].partition("=")[2]
        h.expect(f"run.sh {' '.join(arguments)} compiles for that", p.returncode == 0 and f"--target={target} " in compiled, p.stderr, compiled)
    for option in ("-p", "--prompt", "--target"):
        p = run(option)
        h.expect(f"run.sh {option} alone is told", p.returncode == 2 and p.stdout == "" and f"{option} needs a value" in p.stderr, p.stdout, p.stderr)
    h.finish()


if __name__ == "__main__":
    main()
