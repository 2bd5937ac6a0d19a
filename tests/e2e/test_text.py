#!/usr/bin/env python3
"""Text and the choice of tokens from the command line: normalization against Python's for every character, rows of the vocabulary that stand
for no token, logits that no model gives, tools in a chat. Costs about 20 s."""
import json
import random
import unicodedata

from gguf_edit import f32_data, i32_array_value, string_array_value, string_value, strings, tensor, with_metadata
from harness import Harness

SHAPE = ["--arch", "qwen3", "--preset", "0.6b", "--hidden", 256, "--ffn", 256, "--heads", 4, "--kv-heads", 2, "--head-dim", 64, "--layers", 2]
VOCABULARY = 1200
TEMPLATE = ("{% for t in tools or [] %}{{ t.function.name ~ (t|tojson) }}{% endfor %}"
            "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}{% endfor %}")


def devices(h):
    """The kinds of those on which an artifact for CPU and Vulkan runs here."""
    return sorted({device.split(":")[0] for device in h.usable_devices()} & {"cpu", "vulkan"})


def ids(h, qbin, text, *options):
    with open(h.path("text.txt"), "wb") as f:
        f.write(text.encode("utf-8", "surrogatepass"))
    return h.run("qrun", "tokenize", qbin, "-f", h.path("text.txt"), *options)


def same(h, qbin, lines, join):
    """The first of `lines` (each may be joined to others without changing them) that is tokenized otherwise than its NFC, or None."""
    text = join.join(lines)
    if ids(h, qbin, text) == ids(h, qbin, unicodedata.normalize("NFC", text), "--no-normalize"):
        return None
    if len(lines) == 1:
        return lines[0]
    half = len(lines) // 2
    return same(h, qbin, lines[:half], join) or same(h, qbin, lines[half:], join) or "only together"


def normalization(h, qbin):
    characters = [chr(c) for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000 and c != 0x0D]
    for at in range(0, len(characters), len(characters) // 4 + 1):
        part = characters[at:at + len(characters) // 4 + 1]
        wrong = same(h, qbin, part, "\n")
        h.check(f"every character from U+{ord(part[0]):04X}", wrong is None, f"{wrong!r} differs" if wrong else "")
    pick = random.Random(5)
    marks = [c for c in characters if unicodedata.combining(c)]
    parts = [c for c in characters if unicodedata.decomposition(c) or 0x1100 <= ord(c) < 0x1200 or 0xAC00 <= ord(c) < 0xAE00]
    kinds = [marks, parts, parts, "ae o", [c for p in parts for c in unicodedata.normalize("NFD", p)]]
    strings = ["".join(pick.choice(pick.choice(kinds)) for _ in range(pick.randrange(1, 9))) for _ in range(60000)]
    wrong = same(h, qbin, strings, "\n")
    h.check("random strings", wrong is None, f"{[hex(ord(c)) for c in wrong]} differs" if wrong else "")
    apart = "e\u0301"
    h.check("--no-normalize keeps text", ids(h, qbin, apart, "--no-normalize") != ids(h, qbin, apart) == ids(h, qbin, "\u00e9"))


def padding(h, qbin, where):
    """Random weights make what stands for no token as likely as the rest, and that is most of the vocabulary."""
    for device in where:
        for options in (("--temp", "30"), ("--temp", "5", "--top-k", "1000", "--repeat-penalty", "1.3"), ("--greedy",)):
            text = h.run("qrun", qbin, "--raw", "-p", "Hello", "-n", "60", "--seed", "3", "--device", device, *options)
            h.check(f"{device} {' '.join(options)} writes no padding", b"[PAD" not in text, "" if b"[PAD" not in text else repr(text[:200]))


def faults(h, gguf):
    """A model whose last norm is zero gives logits that are all equal."""
    extents, kind, data = tensor(gguf, "output_norm.weight")
    assert kind == 0, "the norm is f32"
    zero = with_metadata(gguf, h.path("zero.gguf"), {}, {"output_norm.weight": (extents, kind, f32_data([0.0] * extents[0]) + data[4 * extents[0]:])})
    qbin = h.compile(zero, "zero.qbin", "--cpu=native", "--target=cpu,vulkan", "--gpu-profiles=none,sg8-dot", "--prefill=16", "--goldens=off")
    for device in devices(h):
        for options in (("--greedy",), ("--temp", "1")):
            p = h.tool("qrun", qbin, "--raw", "-p", "Hello", "-n", "3", "--device", device, *options)
            said = p.stderr.decode()
            h.check(f"{device} {' '.join(options)}: equal logits are a fault",
                    p.returncode == 4 and "all logits are equal after the token at position" in said and "[Q5325]" in said and "program " in said, "" if p.returncode == 4 else said)


def tools(h, qbin):
    with open(h.path("tools.json"), "w") as f:
        json.dump([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}], f)
    size = [json.loads(h.tool("qrun", qbin, "-p", "hi", "-n", "1", "--greedy", "--timing=json", *options).stderr.decode().splitlines()[-1])["prompt_tokens"]
            for options in ((), ("--tools", h.path("tools.json")))]
    h.check("--tools reaches the prompt", size[1] > size[0] + 20, str(size))
    with open(h.path("bad.json"), "w") as f:
        f.write('{"type": "function"}')
    p = h.tool("qrun", qbin, "-p", "hi", "-n", "1", "--tools", h.path("bad.json"))
    h.check("tools that are no array", p.returncode == 3 and b"[Q7005]" in p.stderr, p.stderr.decode())
    p = h.tool("qrun", qbin, "--raw", "-p", "hi", "-n", "1", "--tools", h.path("tools.json"))
    h.check("tools without a template", p.returncode == 2, p.stderr.decode())


def main():
    h = Harness(__doc__)
    gguf = h.path("m.gguf")
    h.run("qcc", "synth", *SHAPE, "--format", "f16", "--seed", 11, "--vocab", VOCABULARY, "-o", gguf, "-q")
    # Bytes and special tokens stay; what is between them, most of the vocabulary, becomes padding, and so do its last rows.
    names = strings(gguf, "tokenizer.ggml.tokens")
    first = names.index("<|endoftext|>")
    names = [name if i < 256 or i >= first else f"[PAD{i}]" for i, name in enumerate(names)][:-7]
    types = [5 if name.startswith("[PAD") else 1 if i < 256 else 3 for i, name in enumerate(names)]
    padded = with_metadata(gguf, h.path("padded.gguf"), {
        "tokenizer.ggml.tokens": string_array_value(names), "tokenizer.ggml.token_type": i32_array_value(types),
        "tokenizer.ggml.merges": string_array_value([]), "tokenizer.chat_template": string_value(TEMPLATE)})
    h.check("most of the vocabulary is padding", types.count(5) > VOCABULARY // 2, str(types.count(5)))
    qbin = h.compile(padded, "m.qbin", "--cpu=native", "--target=cpu,vulkan", "--gpu-profiles=none,sg8-dot", "--prefill=16", "--goldens=off")
    where = devices(h)
    normalization(h, qbin)
    padding(h, qbin, where)
    faults(h, gguf)
    tools(h, qbin)
    h.finish()


if __name__ == "__main__":
    main()
