#!/usr/bin/env python3
"""What CPack makes: a .deb of the runtime, one of the compiler, a tarball. Unpacked into an empty root that gets only the
libraries that ldd names (those of the packages' Depends, which is checked), qcc compiles and qrun runs there, in a chroot."""
import os
import re
import shutil
import subprocess
import tarfile

from harness import TINY, Harness
from installed import clean_environment, must


def fields(package):
    """The control fields of a .deb."""
    text = must("dpkg-deb", "--field", package)
    return dict(re.findall(r"^([A-Z][\w-]*): (.*)$", text, re.MULTILINE))


def contents(package):
    return [line.split(None, 5)[5] for line in must("dpkg-deb", "--contents", package).splitlines()]


class Packages:
    def __init__(self, h):
        self.h = h
        self.build = os.path.dirname(os.path.abspath(h.args.bin))
        out = h.path("packages")
        must("cpack", "--config", os.path.join(self.build, "CPackConfig.cmake"), "-B", out)
        made = {name: os.path.join(out, name) for name in os.listdir(out) if not name.startswith("_")}
        self.runtime, self.compiler, self.tarball = (self.only(made, pattern) for pattern in (r"qrt_.*\.deb", r"qcc_.*\.deb", r".*\.tar\.gz"))

    @staticmethod
    def only(made, pattern):
        found = [path for name, path in made.items() if re.fullmatch(pattern, name)]
        assert len(found) == 1, f"packages like {pattern}: {found} of {sorted(made)}"
        return found[0]

    def control(self):
        runtime, compiler = fields(self.runtime), fields(self.compiler)
        assert (runtime["Package"], compiler["Package"]) == ("qrt", "qcc"), f"{runtime} {compiler}"
        for field in ("Version", "Architecture", "Maintainer", "Description"):
            assert runtime.get(field) and compiler.get(field), f"no {field}: {runtime} {compiler}"
        needs = {d.split()[0] for d in runtime["Depends"].split(", ")}
        assert "libc6" in needs and needs <= {"libc6", "libgcc-s1", "libstdc++6"}, f"the runtime depends on {sorted(needs)}"
        needs = {d.split()[0] for d in compiler["Depends"].split(", ")}
        assert {"libc6", "libmlir-22"} <= needs, f"shlibdeps found {sorted(needs)}"
        assert f"qrt (= {runtime['Version']})" in compiler["Depends"], compiler["Depends"]
        scripts = must("dpkg-deb", "--info", self.runtime)
        assert "ldconfig" in must("dpkg-deb", "--info", self.runtime, "postinst"), f"the loader does not learn of the library: {scripts}"

    def files(self):
        runtime, compiler = contents(self.runtime), contents(self.compiler)
        for tool, command, package in (("qrun", "bench", runtime), ("qcc", "compile", compiler)):
            for name in (f"man/man1/{tool}.1", f"man/man1/{tool}-{command}.1", f"bash-completion/completions/{tool}", f"zsh/vendor-completions/_{tool}",
                         f"fish/vendor_completions.d/{tool}.fish"):
                assert "./usr/share/" + name in package, f"the package of {tool} lacks {name}: {package}"
        for name in ("./usr/bin/qrun", "./usr/include/qrt/qrt.h", "./usr/include/qrt/qrt.hpp", "./usr/lib/libqrt.a", "./usr/lib/libqrt.so.1 ->",
                     "./usr/lib/pkgconfig/qrt.pc", "./usr/lib/cmake/qrt/qrtConfig.cmake"):
            assert any(f.startswith(name) for f in runtime), f"the runtime lacks {name}: {runtime}"
        assert "./usr/bin/qcc" in compiler and not set(f for f in runtime if not f.endswith("/")) & set(compiler), "the packages overlap"
        with tarfile.open(self.tarball) as tar:
            names = tar.getnames()
        for name in ("bin/qcc", "bin/qrun", "lib/libqrt.so.1", "include/qrt/qrt.h"):
            assert any(n.endswith("/usr/" + name) for n in names), f"the tarball lacks {name}: {names}"

    def unpack(self):
        root = self.h.path("root")
        for package in (self.runtime, self.compiler):
            must("dpkg-deb", "--extract", package, root)
        return root

    def in_a_clean_root(self):
        root = self.unpack()
        os.makedirs(os.path.join(root, "tmp"))
        shutil.copy(TINY, os.path.join(root, "model.gguf"))
        libraries = set()
        for name in ("qcc", "qrun"):
            libraries |= set(re.findall(r"(/\S+) \(0x", must("ldd", os.path.join(root, "usr/bin", name), env=clean_environment())))
        for path in libraries:
            os.makedirs(root + os.path.dirname(path), exist_ok=True)
            try:
                os.link(os.path.realpath(path), root + path)
            except OSError:  # another file system
                shutil.copy(path, root + path)
        enter = ["chroot", root] if os.getuid() == 0 else ["unshare", "--map-root-user", f"--root={root}"]
        env = {"PATH": "/usr/sbin:/sbin:/usr/bin:/bin", "HOME": "/tmp"}

        def inside(*command):
            p = subprocess.run([*enter, *command], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
            return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")

        code, out, err = inside("/usr/bin/qrun", "--version")
        if code != 0 and "Operation not permitted" in err:
            return f"skipped: {err.strip()}"
        assert code == 0 and out.startswith("qrun "), f"qrun: exit {code}: {err}"
        code, out, err = inside("/usr/bin/qcc", "compile", "/model.gguf", "-o", "/model.qbin", "--cpu=base", "--no-cache", "-q")
        assert code == 0, f"qcc: exit {code}: {err}"
        code, out, err = inside("/usr/bin/qrun", "/model.qbin", "-p", "hello", "-n", "16", "--greedy")
        assert code == 0 and len(out.strip()) > 5, f"qrun: exit {code}: {out!r} {err}"
        return f"qcc and qrun with {len(libraries)} libraries and no /proc"

    def built_against(self):
        """A product builds against the unpacked package, which does not lie where it would be installed."""
        root = self.h.path("root")
        program = self.h.path("version")
        source = self.h.path("version.c")
        with open(source, "w", encoding="utf-8") as f:
            f.write("#include <qrt/qrt.h>\n#include <stdio.h>\nint main(void) { return puts(qrt_version()) < 0; }\n")
        env = clean_environment(PKG_CONFIG_PATH=os.path.join(root, "usr/lib/pkgconfig"))
        flags = must("pkg-config", "--cflags", "--libs", "qrt", env=env).split()
        must("cc", "-std=c11", source, "-o", program, *flags, env=env)
        said = must(program, env=clean_environment(LD_LIBRARY_PATH=os.path.join(root, "usr/lib")))
        assert re.fullmatch(r"\d+\.\d+\.\d+\n", said), said


def main():
    h = Harness(__doc__)
    packages = Packages(h)
    h.case("control fields", packages.control)
    h.case("files", packages.files)
    h.case("in a clean root", packages.in_a_clean_root)
    h.case("a product is built against the package", packages.built_against)
    h.finish()


if __name__ == "__main__":
    main()
