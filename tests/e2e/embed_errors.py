"""For test_embed.py: every class of error that a product can meet, provoked from outside of the library, with what the example in C says
is to be done about it."""
import os
import re
import shutil
import struct

import gguf_edit
from harness import TINY, contents
from installed import EXAMPLES, clean_environment, must, run

HERE = os.path.dirname(os.path.abspath(__file__))
VK_ERROR_DEVICE_LOST, VK_ERROR_UNKNOWN = -4, -13
# Classes that nothing outside of the library can bring about: none. INTERNAL is a bug of the library, but also a pool of threads that
# does not run, and that the product gives. Where there is no Vulkan at all, those of a GPU that fails are left out (see gpu()).
NOT_PROVOKED = set()


def weights_changed(h, model, name, value):
    """A copy of an artifact with another number, a float, in place of the first ones of the weight `name`: opening it does not read weights."""
    held = h.inspect(model)
    weight = next(w for w in held["weights"] if w["name"] == name)
    at = held["sections"][weight["section"]]["offset"] + weight["offset"]
    out = h.path("changed-weights.qbin")
    shutil.copy(model, out)
    with open(out, "r+b") as f:
        f.seek(at)
        f.write(struct.pack("<f", value) * (weight["bytes"] // 4))
    return out


class ErrorClasses:
    def __init__(self, h, model, prefix, product):
        self.h, self.model, self.prefix, self.product = h, model, prefix, product
        with open(os.path.join(prefix, "include/qrt/qrt.h"), encoding="utf-8") as f:
            numbers = re.findall(r"^  QRT_([A-Z_]+) =\s*(\d+)", f.read().split("typedef struct qrt_error")[0], re.MULTILINE)
        self.status = {name: int(value) for name, value in numbers}
        assert len(self.status) >= 18, f"statuses read: {self.status}"
        self.provoked = set()

    def expect(self, name, words, command, env=None):
        """`command` ends with the status `name`, tells the error, and says `words`: what is done about it."""
        found, out, err = run(*command, env=env)
        code = self.status[name]
        told = re.search(rf"\[Q\d{{4}}, {name.lower().replace('_', ' ')}( error)?\]", err) and f"so: {words}" in err
        assert found == code and (told or name == "OK"), f"{name}: exit {found}, expected {code}: {err}{out[:200]!r}"
        self.provoked.add(name)

    def compiled(self, name, **metadata):
        """The tiny model with other metadata, for the CPU."""
        changed = gguf_edit.with_metadata(TINY, self.h.path(name + ".gguf"), {key.replace("__", "."): value for key, value in metadata.items()})
        return self.h.compile(changed, name + ".qbin", "--cpu=base", "--decode=1", "--prefill=32", "--goldens=off")

    def changed(self, name, data):
        with open(self.h.path(name), "wb") as f:
            f.write(data)
        return self.h.path(name)

    def by_the_product(self):
        """What examples/embed's main.c meets: other files, other arguments, other machines."""
        h, model = self.h, self.model
        good = contents(model)
        refusing = self.compiled("refusing", tokenizer__chat_template=gguf_edit.string_value("{{ raise_exception('not today') }}"))
        silent = self.compiled("silent", tokenizer__chat_template=None)
        for name, words, arguments in (
                ("OK", "", [model, "hello"]),
                ("NOT_FOUND", "choose another model file", [h.path("no.qbin"), "hello"]),
                ("IO_ERROR", "choose another model file", [h.work, "hello"]),
                ("ARTIFACT_CORRUPT", "choose another model file", [self.changed("cut.qbin", good[:-100]), "hello"]),
                ("ARTIFACT_INCOMPATIBLE", "choose another model file", [self.changed("later.qbin", good[:8] + b"\x63\x00" + good[10:]), "hello"]),
                ("UNAVAILABLE", "choose another model file", [silent, "hello"]),
                ("TEMPLATE_ERROR", "choose another model file", [refusing, "hello"]),
                ("NUMERIC_FAULT", "choose another model file", [weights_changed(h, model, "output_norm.weight", float("nan")), "hello"]),
                ("CONTEXT_FULL", "the conversation is too long: begin a new one", [model, "hello", 32, 8]),
                ("INVALID_ARGUMENT", "this program made a mistake: please report it", [model, "hello", 32, 0, "toaster"]),
                ("DEVICE_UNSUPPORTED", "choose another device", [model, "hello", 32, 0, "vulkan"]),
                ("CANCELLED", "stopped, as you asked", [model, "hello", 32, 0, "", 5])):
            self.expect(name, words, [self.product, *arguments])
        # A context that is allowed, and larger than what the process may have.
        self.expect("OUT_OF_MEMORY", "close something and try again", ["sh", "-c", 'ulimit -v 4194304; exec "$@"', "sh", self.product, model, "hello", 32, 2**31 - 65])

    def by_mistakes(self):
        """What a product meets that asks for what main.c does not ask for."""
        program = self.h.path("embed-errors")
        flags = must("pkg-config", "--static", "--cflags", "--libs", "qrt", env=clean_environment(PKG_CONFIG_PATH=f"{self.prefix}/lib/pkgconfig")).split()
        must("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{EXAMPLES}", os.path.join(HERE, "embed_errors.c"), os.path.join(EXAMPLES, "product.c"),
             "-o", program, *flags)
        env = clean_environment(LD_LIBRARY_PATH=os.path.join(self.prefix, "lib"))
        other = self.h.path("refusing.qbin")
        self.expect("BUFFER_TOO_SMALL", "this program made a mistake: please report it", [program, "buffer", self.model], env)
        self.expect("INTERNAL", "this program made a mistake: please report it", [program, "pool", self.model], env)
        self.expect("SNAPSHOT_MISMATCH", "the conversation begins anew", [program, "snapshot", self.model, other], env)

    def gpu(self):
        """A GPU that is lost, and one whose driver fails, in the middle of an answer. Returns why not, where there is none."""
        usable = [device for device in self.h.usable_devices() if device.startswith("vulkan:")]
        library = next((line.split()[-1] for line in must("/sbin/ldconfig", "-p").splitlines() if re.match(r"\s*libvulkan\.so\.1 .*x86-64", line)), None)
        if not usable or library is None:
            return "no Vulkan here to lose"
        model = self.h.compile(TINY, "gpu.qbin", "--target=vulkan", "--decode=1", "--prefill=32", "--goldens=off")
        folder = self.h.path("failing")
        os.makedirs(folder)
        must("cc", "-std=c11", "-shared", "-fPIC", os.path.join(HERE, "failing_vulkan.c"), "-o", os.path.join(folder, "libvulkan.so.1"), "-ldl")
        for name, words, result in (("DEVICE_LOST", "the device is started again", VK_ERROR_DEVICE_LOST),
                                    ("DEVICE_FAILED", "the conversation begins anew", VK_ERROR_UNKNOWN)):
            env = clean_environment(LD_LIBRARY_PATH=folder, REAL_VULKAN=library, FAIL_SUBMISSION="6", FAIL_RESULT=str(result))
            self.expect(name, words, [self.product, model, "hello", 32, 0, usable[0]], env)
        return ""

    def all(self):
        with open(os.path.join(EXAMPLES, "product.c"), encoding="utf-8") as f:
            handled = set(re.findall(r"case QRT_([A-Z_]+):", f.read()))
        assert handled == set(self.status), f"product.c and qrt.h differ in {sorted(handled ^ set(self.status))}"
        self.by_the_product()
        self.by_mistakes()
        skipped = self.gpu()
        left = set(self.status) - self.provoked - NOT_PROVOKED - ({"DEVICE_LOST", "DEVICE_FAILED"} if skipped else set())
        assert not left, f"not provoked: {sorted(left)}"
        return f"{len(self.provoked)} of {len(self.status)} provoked, all handled" + (f"; {skipped}" if skipped else "")
