#!/usr/bin/env python3
"""Products that embed a model: libqrt installed into an empty folder, the examples copied out of the tree and built there, with
find_package and with pkg-config, then run; what they link, how large they are; docs/embed.md."""
import os
import re
import shutil
import subprocess

from embed_errors import ErrorClasses
from harness import ROOT, TINY, Harness
from installed import EXAMPLES, clean_environment, files_of, install, mentions, must, needed_libraries, run

STANDALONE_BYTES = 1_900_000  # of examples/embed's main.c, static and stripped
RUNTIME_FILES = ["bin/qrun", "include/qrt/qrt.h", "include/qrt/qrt.hpp", "include/qrt/result.hpp", "include/qrt/session.h",
                 "include/qrt/text.h", "lib/cmake/qrt/qrtConfig.cmake",
                 "lib/cmake/qrt/qrtConfigVersion.cmake", "lib/libqrt.a", "lib/libqrt.so", "lib/libqrt.so.1",
                 "lib/pkgconfig/qrt.pc"]
OF_QCC = re.compile(r"(bin|share/.*)/_?qcc[^/]*$")


class Embed:
    def __init__(self, h):
        self.h = h
        self.build = os.path.dirname(os.path.abspath(h.args.bin))
        self.model = h.compile(TINY, "tiny.qbin", "--cpu=base")
        self.prefix = install(self.build, h.path("prefix"))
        self.libraries = clean_environment(LD_LIBRARY_PATH=os.path.join(self.prefix, "lib"))
        self.words = h.run("qrun", self.model, "-p", "hello", "-n", "32", "--temp", "0").decode().strip()
        assert len(self.words) > 10, f"the model has nothing to say: {self.words!r}"

    # ---- what is installed

    def installed_files(self):
        found = files_of(self.prefix)
        missing = [f for f in RUNTIME_FILES + ["bin/qcc"] if f not in found]
        assert not missing, f"not installed: {missing}"
        # LLVM's folder in qcc aside, nothing that a build or another program reads may name this tree.
        for folder in ("include", "lib/cmake", "lib/pkgconfig"):
            named = mentions(os.path.join(self.prefix, folder), ROOT)
            assert not named, f"{named} in {folder} name the source tree"
        code, out, err = run(os.path.join(self.prefix, "bin/qrun"), "--version", env=clean_environment())
        assert code == 0 and out.startswith("qrun "), f"the installed qrun: {err}"
        code, out, err = run(os.path.join(self.prefix, "bin/qcc"), "targets", env=clean_environment())
        assert code == 0 and "cpu" in out, f"the installed qcc: {err}"
        return f"{len(found)} files"

    def pages(self):
        """Every command of --help has its page, and shells find the completion, where they look for it."""
        said = {}
        for tool in ("qrun", "qcc"):
            said[tool] = re.findall(r"^  ([a-z]+) {2,}", self.h.run(tool, "--help").decode(), re.MULTILINE)
            for title, words in [(tool, ()), *((f"{tool}-{name}", (name,)) for name in said[tool])]:
                with open(os.path.join(self.prefix, "share/man/man1", title + ".1"), "rb") as f:
                    assert f.read() == self.h.run(tool, "man", *words), f"{title}.1 is not what `{tool} man` prints"
        assert "bench" in said["qrun"] and "compile" in said["qcc"], str(said)
        assert "share/man/man1/qcc-cache-prune.1" in files_of(self.prefix), "a command's own commands have no page"
        env = clean_environment(HOME=self.h.work, MANPATH=os.path.join(self.prefix, "share/man"), XDG_DATA_DIRS=os.path.join(self.prefix, "share"))
        env["PATH"] = os.path.join(self.prefix, "bin") + ":" + env["PATH"]  # fish completes what it finds
        asked = {"man": ("man", "-w", "{tool}", "{tool}-{command}"),
                 "bash": ("bash", "--norc", "-c", '. share/bash-completion/completions/{tool}; complete -p {tool}; COMP_WORDS=({tool} {part}); COMP_CWORD=1; _{tool}; echo "${{COMPREPLY[@]}}"'),
                 "zsh": ("zsh", "-f", "-c", "fpath=(share/zsh/vendor-completions $fpath); autoload -U compinit; compinit -D; echo $_comps[{tool}] {command}"),
                 "fish": ("fish", "-c", "complete -C '{tool} {part}'")}
        found = [shell for shell in asked if shutil.which(shell)]
        for shell in found:
            for tool, part, command in (("qrun", "ben", "bench"), ("qcc", "insp", "inspect")):
                p = subprocess.run([word.format(tool=tool, part=part, command=command) for word in asked[shell]], cwd=self.prefix, env=env, capture_output=True)
                out = p.stdout.decode()
                wanted = {"man": f"{tool}-{command}.1", "bash": command, "zsh": f"_{tool} ", "fish": command}[shell]
                assert p.returncode == 0 and p.stderr == b"" and wanted in out, f"{shell}, {tool}: exit {p.returncode}: {out}{p.stderr.decode()}"
        return f"asked {', '.join(found)}"

    def without_compiler(self):
        """QCC_BUILD_COMPILER=OFF: configured anew; its runtime would be made of the same files, which are put in place."""
        other = self.h.path("runtime-only")
        must("cmake", "-G", "Ninja", "-S", ROOT, "-B", other, "-DQCC_BUILD_COMPILER=OFF", "-DCMAKE_BUILD_TYPE=Release")
        for folder in ("lib", "bin"):
            os.makedirs(os.path.join(other, folder), exist_ok=True)
        for name in ("bin/qrun", "lib/libqrt.a"):
            shutil.copy(os.path.join(self.build, name), os.path.join(other, name))
        for folder in ("lib", "pages/qrun"):
            shutil.copytree(os.path.join(self.build, folder), os.path.join(other, folder), symlinks=True, dirs_exist_ok=True)
        prefix = install(other, self.h.path("runtime-prefix"))
        ours, theirs = files_of(prefix), files_of(self.prefix)
        assert ours == [f for f in theirs if not OF_QCC.search(f)], f"installed: {ours}"

    def exports(self):
        shown = must("nm", "-D", "--defined-only", "--format=posix", os.path.join(self.prefix, "lib/libqrt.so"))
        names = {line.split()[0].split("@")[0] for line in shown.splitlines() if line.split()[1] != "A"}
        others = sorted(n for n in names if not n.startswith("qrt_"))
        assert names and not others, f"libqrt.so shows {others[:10]}"
        archive = must("nm", "-g", "--defined-only", "--format=posix", os.path.join(self.prefix, "lib/libqrt.a"))
        others = [line for line in archive.splitlines() if " " in line and not line.startswith("qrt_")]
        assert not others, f"libqrt.a shows {others[:10]}"
        return f"{len(names)} symbols"

    # ---- the examples

    def with_find_package(self):
        source, out = self.h.path("cmake-product"), self.h.path("cmake-product-build")
        shutil.copytree(EXAMPLES, source)
        must("cmake", "-G", "Ninja", "-S", source, "-B", out, f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DMODEL={self.model}",
             env=clean_environment())
        must("cmake", "--build", out, "-j2", env=clean_environment())
        named = mentions(out, ROOT + "/")
        assert not named, f"the product's build saw the source tree: {named}"
        self.products = out
        for name in ("product_static", "product_standalone", "product_shared"):
            self.says(os.path.join(out, name), self.model, "hello", 32, env=clean_environment())
        self.says(os.path.join(out, "linked"), "hello", env=clean_environment())
        self.sessions(os.path.join(out, "sessions"), clean_environment())

    def with_pkg_config(self):
        source = self.h.path("make-product")
        shutil.copytree(EXAMPLES, source)
        os.remove(os.path.join(source, "CMakeLists.txt"))
        must("make", f"MODEL={self.model}", "CFLAGS=-O0 -Wall -Wextra -Werror", cwd=source,
             env=clean_environment(PKG_CONFIG_PATH=f"{self.prefix}/lib/pkgconfig"))
        self.says(os.path.join(source, "product_shared"), self.model, "hello", 32, env=self.libraries)
        self.says(os.path.join(source, "product_static"), self.model, "hello", 32, env=clean_environment())
        self.says(os.path.join(source, "linked"), "hello", env=clean_environment())
        self.sessions(os.path.join(source, "sessions"), self.libraries)
        needs = needed_libraries(os.path.join(source, "product_static"))
        assert not any(n.startswith("libqrt") for n in needs), f"linked with --static it needs {needs}"

    def private_libraries(self):
        """With the archive alone, `pkg-config --static` is enough and `pkg-config` is not."""
        prefix = self.h.path("archive-only")
        shutil.copytree(self.prefix, prefix, symlinks=True)
        for name in os.listdir(os.path.join(prefix, "lib")):
            if ".so" in name:
                os.remove(os.path.join(prefix, "lib", name))
        env = clean_environment(PKG_CONFIG_PATH=os.path.join(prefix, "lib/pkgconfig"))
        flags = {kind: must("pkg-config", *kind, "--cflags", "--libs", "qrt", env=env).split() for kind in ((), ("--static",))}
        sources = [os.path.join(EXAMPLES, name) for name in ("main.c", "product.c")]
        program = self.h.path("archive-product")
        must("cc", "-std=c11", *sources, "-o", program, *flags[("--static",)])
        self.says(program, self.model, "hello", 32)
        code, _, _ = run("cc", "-std=c11", *sources, "-o", program, *flags[()])
        assert code != 0, "linked without Libs.private: what is listed there is not needed"
        must("pkg-config", "--exact-version=1.3", "qrt", env=env)

    def says(self, program, *arguments, env=None):
        code, out, err = run(program, *arguments, env=env)
        assert code == 0 and out.strip() == self.words, f"{program}: exit {code}, {out!r}, qrun says {self.words!r}; {err}"

    def sessions(self, program, env):
        code, out, err = run(program, self.model, "hello", "The people", env=env)
        lines = out.splitlines()
        assert code == 0 and len(lines) == 3 and lines[2].endswith(": the same words"), f"{program}: exit {code}: {out}{err}"
        assert self.words.startswith(lines[0].strip()) and lines[0].strip() and lines[1] != lines[0], f"{program} says {lines[:2]}"

    def sizes(self):
        program = self.h.path("stripped")
        must("strip", "-o", program, os.path.join(self.products, "product_standalone"))
        self.says(program, self.model, "hello", 32, env=clean_environment())
        size, needs = os.path.getsize(program), needed_libraries(program)
        assert size <= STANDALONE_BYTES, f"the C example, static and stripped, has {size} bytes, at most {STANDALONE_BYTES} are allowed"
        assert needs <= {"libc.so.6", "libm.so.6"}, f"it needs {sorted(needs)}"
        static = needed_libraries(os.path.join(self.products, "product_static"))
        assert static <= {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1"}, f"product_static needs {sorted(static)}"
        shared = needed_libraries(os.path.join(self.products, "product_shared"))
        assert "libqrt.so.1" in shared, f"product_shared does not need libqrt.so.1: {sorted(shared)}"
        return f"{size} bytes, needs {' '.join(sorted(needs))}"

    # ---- errors

    def error_classes(self):
        program = os.path.join(self.products, "product_static")
        said = ErrorClasses(self.h, self.model, self.prefix, program).all()
        code, out, _ = run(program, self.model, "hello", 32, 0, "", 5)
        assert self.words.startswith(out.strip()) and 5 <= len(out.strip()) < len(self.words), f"stopped after 5 bytes, it said {out!r}"
        return said

    # ---- the page

    def page(self):
        """Every block of docs/embed.md that begins with `file NAME` is that file; those marked `sh` are run beside them."""
        folder = self.h.path("page")
        os.makedirs(folder)
        shutil.copy(self.model, os.path.join(folder, "model.qbin"))
        with open(os.path.join(ROOT, "docs", "embed.md"), encoding="utf-8") as f:
            blocks = re.findall(r"^```(\S*)(?: file=(\S+))?\n(.*?)^```$", f.read(), re.MULTILINE | re.DOTALL)
        env = clean_environment(CMAKE_PREFIX_PATH=self.prefix, PKG_CONFIG_PATH=f"{self.prefix}/lib/pkgconfig",
                                LD_LIBRARY_PATH=f"{self.prefix}/lib")
        env["PATH"] = os.path.join(self.prefix, "bin") + ":" + env["PATH"]
        ran = written = 0
        for kind, name, text in blocks:
            if name:
                with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                    f.write(text)
                written += 1
            elif kind == "sh":
                said = must("sh", "-euc", text, cwd=folder, env=env, why=f"docs/embed.md:\n{text}")
                ran += 1
                expected = re.findall(r"#=> (.*)", text)
                for line in expected:
                    assert line.strip() in said, f"docs/embed.md:\n{text}\nsays {said!r}, the page promises {line!r}"
        assert written == 5 and ran == 3, f"docs/embed.md: {written} files, {ran} commands"
        return f"{written} files, {ran} commands"


def main():
    h = Harness(__doc__)
    embed = Embed(h)
    h.case("what is installed", embed.installed_files)
    h.case("manual pages and completion are installed", embed.pages)
    h.case("QCC_BUILD_COMPILER=OFF installs the same without qcc", embed.without_compiler)
    h.case("only qrt_* is visible", embed.exports)
    h.case("find_package", embed.with_find_package)
    h.case("pkg-config", embed.with_pkg_config)
    h.case("qrt.pc names the private libraries", embed.private_libraries)
    h.case("size and libraries of a product", embed.sizes)
    h.case("a product handles every class of error", embed.error_classes)
    h.case("docs/embed.md", embed.page)
    h.finish()


if __name__ == "__main__":
    main()
