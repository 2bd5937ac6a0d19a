#!/usr/bin/env python3
"""The command lines of qcc and qrun as scripts and people meet them: streams, exit codes, errors, options, signals."""
import collections
import fcntl
import itertools
import json
import math
import os
import pty
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

import gguf_edit
from harness import GOLDEN, Harness, TINY, nmse, read_logits, until_caught

COMMANDS = {
    "qcc": ["compile", "cache", "inspect", "diff", "verify", "targets", "explain", "eval", "synth", "completion", "man"],
    "qrun": ["chat", "logits", "perplexity", "tokenize", "bench", "check", "devices", "completion", "man"],
}
ERROR = re.compile(r"(qcc|qrun): error: .+ \[(Q\d{4})\]$")
# Nearly uniform over the vocabulary: long answers, with bytes that are no UTF-8 by themselves.
WILD = ["--raw", "--temp", "100", "--top-k", "0", "--top-p", "1", "--min-p", "0"]
QUICK = ["--cpu=native", "--decode=1", "--prefill=32"]
THINKING_TEMPLATE = (
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
    "{%- endif %}")


def refused(h, name, exit_code, code, says, tool, *args, **options):
    """A case: the tool refuses with this exit code and error code, says all of `says`, prints nothing on stdout."""
    def body():
        p = h.tool(tool, *args, **options)
        err = p.stderr.decode()
        lines = err.strip("\n").split("\n")
        assert p.returncode == exit_code, f"exit {p.returncode}, want {exit_code}: {err}"
        assert p.stdout == b"", f"stdout is not empty: {p.stdout[:200]!r}"
        form = ERROR.match(lines[0])
        assert form and form.group(1) == tool, f"not of the form '{tool}: error: ... [Qnnnn]': {err!r}"
        assert form.group(2) == code, f"code {form.group(2)}, want {code}: {err}"
        for line in lines[1:]:
            assert line.startswith(("  note: ", "  help: ")), f"neither note nor help: {line!r}"
        for word in says:
            assert word in err, f"does not say {word!r}: {err}"
        known = h.tool("qcc", "explain", code)
        assert known.returncode == 0 and code in known.stdout.decode(), f"qcc explain does not know {code}"
    h.case(name, body)


def conventions(h):
    for tool, commands in COMMANDS.items():
        for command in [[]] + [[c] for c in commands]:
            p = h.tool(tool, *command, "--help")
            text = p.stdout.decode()
            h.check(f"{' '.join([tool, *command])} --help", p.returncode == 0 and not p.stderr and "usage" in text.lower(),
                    "" if p.returncode == 0 else p.stderr.decode())
            if not command:
                missing = [c for c in commands if f"  {c} " not in text]
                h.check(f"{tool} --help lists every command", not missing, ", ".join(missing))
        p = h.tool(tool, "--version")
        h.check(f"{tool} --version", p.returncode == 0 and re.match(rf"{tool} \d+\.\d+\.\d+", p.stdout.decode()), p.stdout.decode().strip())
    p = h.tool("qcc", "explain", "Q1206")
    h.check("qcc explain", p.returncode == 0 and p.stdout.startswith(b"Q1206: "))
    refused(h, "qcc explain of no code", 2, "Q0104", ["Q0999"], "qcc", "explain", "Q0999")
    p = h.tool("qcc", "targets")
    h.check("qcc targets", p.returncode == 0 and all(n in p.stdout.decode() for n in ("base", "v3", "v3vnni", "avx_vnni", "v4vnni", "avx512_vnni", "v4amx", "amx_int8", "xtiledata")))


def usage(h, model):
    refused(h, "qcc without a command", 2, "Q0101", ["qcc --help"], "qcc")
    refused(h, "qcc unknown command", 2, "Q0101", ["bogus"], "qcc", "bogus")
    refused(h, "qcc unknown option", 2, "Q0101", ["--bogus", "qcc compile --help"], "qcc", "compile", TINY, "--bogus")
    out = h.path("never.qbin")
    for option, value, accepted in (("--numerics", "int9", "int8, f32"), ("--kv", "f8", "f16, f32"), ("--l2-norm", "mean", "sum, max"),
                                    ("--cpu", "v9", "native, base, v3, v3vnni, v4vnni, v4amx"), ("--target", "tpu", "cpu, vulkan, cuda"), ("--gpu-profiles", "sg7", "sg32-dot"),
                                    ("--decode", "0", "from 1 to"), ("--prefill", "x", "from 1 to"),
                                    ("--compile-to", "lunch", "import, fuse, plan, code, artifact"), ("--report", "x", "fusion")):
        refused(h, f"qcc compile {option}={value}", 2, "Q0102", [value, accepted], "qcc", "compile", TINY, f"{option}={value}", "-o", out)
    refused(h, "qcc synth --format", 2, "Q0102", ["q9", "q4_k_m"], "qcc", "synth", "--format", "q9", "-o", out)
    refused(h, "qcc synth --preset", 2, "Q0102", ["900b", "0.8b"], "qcc", "synth", "--preset", "900b", "-o", out)
    refused(h, "qcc synth --arch", 2, "Q0102", ["llama", "qwen35", "qwen3"], "qcc", "synth", "--arch", "llama", "-o", out)
    h.check("a usage error leaves no file", not os.path.exists(out))

    refused(h, "qrun without a model", 2, "Q0101", ["qrun --help"], "qrun")
    refused(h, "qrun unknown option", 2, "Q0101", ["--bogus", "--help"], "qrun", model, "--bogus")
    for option, value, accepted in (("--temp", "-1", "from 0"), ("--temp", "warm", "from 0"), ("--top-k", "-1", "from 0"),
                                    ("--top-p", "1.5", "from 0 to 1"), ("--min-p", "nan", "from 0 to 1"), ("--repeat-penalty", "0", "from"),
                                    ("--presence-penalty", "inf", "from"), ("--seed", "-3", "from 0"), ("--think", "maybe", "on|off"),
                                    ("--timing", "xml", "text|json"), ("--ctx", "0", "from 1"), ("-t", "0", "from 1"), ("-n", "x", "from 0")):
        joined = [option, value] if option != "--timing" else [f"{option}={value}"]
        refused(h, f"qrun {option} {value}", 2, "Q0101", [option, value, accepted], "qrun", model, "-p", "x", *joined)
    refused(h, "qrun -p and -f", 2, "Q0101", ["-p and -f"], "qrun", model, "-p", "x", "-f", "y")
    refused(h, "qrun --dump --load-session", 2, "Q0101", ["--load-session"], "qrun", model, "-p", "x", "--load-session", "s", "--dump", "l_out")
    refused(h, "qrun --raw --system", 2, "Q0101", ["--raw"], "qrun", model, "-p", "x", "--raw", "--system", "y")
    native = h.tool("qrun", model, "-p", "x", "-n", 1, "--greedy", "--cpu", "native")
    h.check("qrun --cpu=native takes the best of an artifact", native.returncode == 0, native.stderr.decode())
    refused(h, "qrun --cpu", 2, "Q5003", ["v9", "it holds: "], "qrun", model, "-p", "x", "--cpu", "v9")


def without_effect(h, model):
    """An option that changes nothing here is named, once, and the command goes on."""
    run = ["qrun", model, "--raw", "-p", "My", "-n", "1", "--device=cpu"]
    for name, command, warned in (
            ("qcc --compile-to", ["qcc", "compile", TINY, "-q", "--compile-to=import", "--decode=1"], []),
            ("qcc --decode behind --compile-to", ["qcc", "compile", TINY, "--compile-to=import", "--decode=1"], ["--decode"]),
            ("qcc without such an option", ["qcc", "compile", TINY, "--compile-to=import", "--kv=f32"], []),
            ("qrun: GPU options on the CPU", [*run, "--max-dispatch-ms", "5", "--cache-dir", h.work], ["--max-dispatch-ms"]),
            ("qrun: tokens ahead on the CPU", [*run, "--tokens-ahead", "3"], ["--tokens-ahead"]),
            ("qrun bench: tokens ahead on the CPU", ["qrun", "bench", model, "--device=cpu", "-p", "0", "-n", "1", "-r", "1", "--tokens-ahead", "3"], ["--tokens-ahead"]),
            ("qrun bench: a draft of nothing", ["qrun", "bench", model, "-p", "8", "-n", "0", "-r", "1", "--draft", "lookup"], ["--draft"]),
            ("qrun: sampling options without sampling", [*run, "--greedy", "--seed", "3", "--top-p", "0.5"], ["--top-p", "--seed"]),
            ("qrun without such an option", [*run, "-t", "1", "--seed", "3"], [])):
        p = h.tool(*command)
        said = re.findall(r"^(?:qcc|qrun): warning: (\S+) has no effect: .+", p.stderr.decode(), re.M)
        h.check(f"without effect: {name}", p.returncode == 0 and said == warned, f"warned of {said}, want {warned}: {p.stderr.decode()}")


def input_refused(h):
    """Exit 3, one error that names what was found and what is accepted, and no output file."""
    out = h.path("refused.qbin")
    compile = ["qcc", "compile"]
    llama = gguf_edit.with_metadata(TINY, h.path("llama.gguf"), {"general.architecture": gguf_edit.string_value("llama")})
    cases = [
        ("a file of another architecture", llama, "Q2001", ["llama", "qwen35", "qwen3"]),
        ("a small file of another architecture", gguf_edit.one_tensor(h.path("one.gguf"), "llama", 0, 64, 256), "Q2001", ["llama", "qwen35", "qwen3"]),
        ("a format that the table lacks", gguf_edit.one_tensor(h.path("q8k.gguf"), "qwen35", 15, 256, 96), "Q1206", ["Q8_K", "token_embd.weight", "q8_0"]),
        ("an unknown type", gguf_edit.one_tensor(h.path("type.gguf"), "qwen35", 999, 256, 1024), "Q1207", ["999", "token_embd.weight"]),
        ("a missing key", gguf_edit.with_metadata(TINY, h.path("key.gguf"), {"qwen35.block_count": None}), "Q2002", ["qwen35.block_count"]),
        ("no file", h.path("none.gguf"), "Q1001", ["none.gguf"]),
        ("a folder", h.work, "Q1001", [h.work]),
    ]
    with open(TINY, "rb") as f:
        data = f.read()
    for name, content, code, says in (("cut.gguf", data[:1000000], "Q1212", ["cut.gguf"]), ("text.gguf", b"no model, just text\n" * 10, "Q1003", ["GGUF"]),
                                      ("empty.gguf", b"", "Q1002", ["24"]), ("v9.gguf", data[:4] + b"\x09" + data[5:], "Q1004", ["9"])):
        with open(h.path(name), "wb") as f:
            f.write(content)
        cases.append((name, h.path(name), code, says))
    for name, path, code, says in cases:
        refused(h, f"compile of {name}", 3, code, says, *compile, path, "-o", out, "-q")
    with open(h.path("made.qbin"), "wb") as f:
        f.write(b"\x89QBIN\r\n" + bytes(64))
    refused(h, "compile of an artifact, which would be the output, too", 3, "Q1003", ["made.qbin", "GGUF"], *compile, h.path("made.qbin"), "-q")
    h.check("a refused model leaves no file", not [f for f in os.listdir(h.work) if f.startswith("refused")])


def inspect_model(h, model):
    """`qcc inspect` of a GGUF: sizes counted from its tensors, and every refusal of a compile at once."""
    def report(path):
        return h.inspect(path)

    def codes(path):
        return sorted(refusal["code"] for refusal in report(path)["refusals"])

    dims = {}
    edited = gguf_edit.with_metadata(TINY, h.path("same.gguf"), {}, spelled=lambda name, extents: (name, dims.setdefault(name, extents)))
    r, artifact = report(edited), h.inspect(model)
    parameters = sum(math.prod(extents) for extents in dims.values())
    h.check("inspect of a GGUF: parameters equal an independent count", r["model"]["parameters"] == parameters, f"{r['model']['parameters']}, counted {parameters}")
    h.check("inspect of a GGUF: parts and formats are all of it", all(sum(share["parameters"] for share in r[key]) == parameters and
            sum(share["bytes"] for share in r[key]) == r["model"]["weight_bytes"] for key in ("parts", "formats")), json.dumps(r["parts"]))
    bits = {share["name"]: share["bits_per_weight"] for share in r["formats"]}
    h.check("inspect of a GGUF: bits per weight", bits["q8_0"] == 8.5 and bits["f32"] == 32, str(bits))
    h.check("inspect of a GGUF: tensors", {t["name"]: t["shape"] for t in r["tensors"]} == dims)
    trunk = [s for s in artifact["states"] if s["layer"] < r["model"]["layers"]]  # the report is of it alone
    kinds = [(s["kind"], s["layer"]) for s in trunk]
    h.check("inspect of a GGUF: layers", (r["model"]["attention_layers"], r["model"]["delta_net_layers"]) ==
            (sum(k == "kv" for k, _ in kinds), sum(k == "delta" for k, _ in kinds)), str(r["model"]))
    h.check("inspect of a GGUF: memory as in the artifact", r["memory"]["kv_bytes_per_token"] == sum(s["bytes"] for s in trunk if s["kind"] == "kv") and
            r["memory"]["state_bytes_per_sequence"] == sum(s["bytes"] for s in trunk if s["kind"] != "kv"), f"{r['memory']}, {artifact['memory']}")
    h.check("inspect of a GGUF: vocabulary and context", r["vocabulary"]["rows"] == artifact["model"]["vocab_size"] and r["vocabulary"]["pre"] == artifact["tokenizer"]["pre"] and
            r["model"]["context_length"] == artifact["model"]["context_length"])
    h.check("inspect of a GGUF: nothing is refused", r["refusals"] == [] and not r["model"]["vision"] and r["shards"]["count"] is None, str(r["refusals"]))
    text = h.run("qcc", "inspect", edited).decode()
    h.check("inspect of a GGUF as text", all(word in text for word in ("GGUF", "qwen35", "q8_0", "8.500", "delta net", "qcc compile takes this file", str(parameters))), text)
    blocks = r["model"]["layers"] + 1  # and the NextN block
    some_kv = [r["model"]["kv_heads"][0] if ("kv", layer) in kinds else 0 for layer in range(blocks)]
    for name, key, counts in (("heads by layer", "head_count", [r["model"]["heads"]] * blocks), ("KV heads by layer", "head_count_kv", some_kv)):
        same = report(gguf_edit.with_metadata(TINY, h.path("counts.gguf"), {f"qwen35.attention.{key}": gguf_edit.u32_array_value(counts)}))
        h.check(f"inspect of a GGUF: {name}", same["model"]["heads"] == r["model"]["heads"] and same["memory"] == r["memory"] and same["refusals"] == [], f"{same['model']} {same['memory']}, as one number {r['memory']}")

    number = gguf_edit.u32_value
    several = gguf_edit.with_metadata(TINY, h.path("several.gguf"), {
        "qwen35.expert_count": number(8), "qwen35.attn_logit_softcapping": gguf_edit.f32_value(30), "split.count": number(2), "split.no": number(1),
        "split.tensors.count": number(1)},
        spelled=lambda name, extents: (name.replace("blk.0.ffn_up.weight", "blk.0.ffn_up.lora_a").replace("output_norm.weight", "output_norm.other"), extents))
    h.check("inspect of a GGUF: every refusal", codes(several) == ["Q1401", "Q2005", "Q2005", "Q2008", "Q2008", "Q2008"], str(report(several)["refusals"]))
    h.check("inspect of a GGUF: the shard", report(several)["shards"] == {"number": 1, "count": 2})
    text = h.run("qcc", "inspect", several).decode()
    h.check("inspect of a GGUF as text: refusals", "refuses this file" in text and "Q1401" in text and "number 2 of 2" in text, text)
    for name, path, want in (
            ("another architecture", gguf_edit.with_metadata(TINY, h.path("llama.gguf"), {"general.architecture": gguf_edit.string_value("llama")}), ["Q2001"]),
            ("an unknown type", gguf_edit.one_tensor(h.path("type.gguf"), "qwen35", 999, 256, 1024), ["Q1207", "Q2002"]),
            ("missing keys", gguf_edit.with_metadata(TINY, h.path("keys.gguf"), {"qwen35.block_count": None, "qwen35.embedding_length": None}), ["Q2002", "Q2002"]),
            ("a foreign tokenizer", gguf_edit.with_metadata(TINY, h.path("pre.gguf"), {"tokenizer.ggml.pre": gguf_edit.string_value("llama-bpe")}), ["Q2302"])):
        found = codes(path)
        h.check(f"inspect of a GGUF with {name}", [code for code in want if code not in found] == [] and "refuses this file" in h.run("qcc", "inspect", path).decode(), str(found))
    with open(TINY, "rb") as f, open(h.path("cut.gguf"), "wb") as out:
        out.write(f.read(1000000))
    refused(h, "qcc inspect of a cut GGUF", 3, "Q1212", ["cut.gguf"], "qcc", "inspect", h.path("cut.gguf"))


def output_refused(h):
    """The output is checked before any work: nothing was read or compiled."""
    p = h.tool("qcc", "compile", TINY, "-o", h.path("no/such/folder.qbin"))
    h.check("no work before the output is checked", p.returncode == 2 and b"read model" not in p.stderr, p.stderr.decode()[:200])
    refused(h, "output folder missing", 2, "Q0103", ["folder does not exist", "-o"], "qcc", "compile", TINY, "-o", h.path("no/such/folder.qbin"))
    refused(h, "output is a folder", 2, "Q0103", ["folder"], "qcc", "compile", TINY, "-o", h.work)
    copy = gguf_edit.with_metadata(TINY, h.path("copy.gguf"), {})
    refused(h, "output is the input", 2, "Q0103", ["input"], "qcc", "compile", copy, "-o", copy)
    refused(h, "output is a device", 2, "Q0103", ["not a regular file"], "qcc", "compile", TINY, "-o", "/dev/full")

    def limited():
        out = h.path("limited.qbin")
        command = [os.path.join(h.args.bin, "qcc"), "compile", TINY, "-o", out, "-q", "--no-cache", *QUICK]
        # The code fits under the limit, weights and code together do not.
        p = subprocess.run(command, capture_output=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20)))
        err = p.stderr.decode()
        assert p.returncode == 6 and "[Q6003]" in err, f"exit {p.returncode}: {err}"
        assert not [f for f in os.listdir(h.work) if f.startswith("limited")], os.listdir(h.work)
        # Not even the code fits: the disk of temporary files is full.
        p = subprocess.run(command, capture_output=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50 << 10, 50 << 10)))
        err = p.stderr.decode()
        assert p.returncode == 6 and "[Q6003]" in err, f"temporary files: exit {p.returncode}: {err}"
    h.case("a full disk", limited)


def artifact_refused(h, model):
    refused(h, "qrun no artifact", 4, "Q4001", ["none.qbin"], "qrun", h.path("none.qbin"), "-p", "x")
    refused(h, "qrun of a folder", 4, "Q4003", [h.work], "qrun", h.work, "-p", "x")
    refused(h, "qrun of a GGUF without a cache", 6, "Q6002", ["--cache-dir", "qcc compile"], "qrun", TINY, "-p", "x", "--no-cache")
    refused(h, "qcc verify of a GGUF", 4, "Q4005", ["qcc compile"], "qcc", "verify", TINY)
    with open(h.path("text.qbin"), "w") as f:
        f.write("no artifact, just text\n")
    refused(h, "qcc inspect of a text", 4, "Q4005", ["qcc compile"], "qcc", "inspect", h.path("text.qbin"))
    refused(h, "qrun devices of a GGUF without a cache", 6, "Q6002", ["--cache-dir", "qcc compile"], "qrun", "devices", TINY, "--no-cache")
    if h.sanitized():
        print("skip qrun without memory: a sanitizer's shadow memory does not fit under the limit")
    else:
        refused(h, "qrun without memory", 6, "Q6001", ["smaller context"], "qrun", model, "-p", "x", "-q", "--ctx", "2000000000", "-t", "1",
                limits={resource.RLIMIT_AS: 1 << 29})
    bare = gguf_edit.with_metadata(TINY, h.path("bare.gguf"), {"tokenizer.chat_template": None})
    qbin = h.compile(bare, "bare.qbin", *QUICK)
    refused(h, "chat without a template", 4, "Q5331", ["--raw"], "qrun", qbin, "-p", "x")
    h.check("raw without a template", h.tool("qrun", qbin, "--raw", "-p", "My", "-n", "2").returncode == 0)


def tokenize(h, model):
    with open(os.path.join(GOLDEN, "tiny", "known.json")) as f:
        known = json.load(f)["models"]["tiny-qwen35-q8_0"]
    for case in known["greedy"]:
        if "prompt_ids" in case:
            out = h.run("qrun", "tokenize", model, "-p", case["prompt"])
            h.check(f"tokenize {case['prompt']!r}", list(map(int, out.split())) == case["prompt_ids"], out.decode().strip())
    text = os.path.join(GOLDEN, "tiny", "text.txt")
    with open(os.path.join(GOLDEN, "tiny", "text.ids.txt"), "rb") as f:
        want = f.read().split()
    h.check("tokenize -f", h.run("qrun", "tokenize", model, "-f", text).split() == want)
    with open(text, "rb") as f:
        h.check("tokenize -f -", h.run("qrun", "tokenize", model, "-f", "-", stdin=f.read()).split() == want)
    plain, special = (h.run("qrun", "tokenize", model, "-p", "a<|im_end|>b", *o).split() for o in ([], ["--special"]))
    h.check("tokenize --special", len(special) == 3 and special[1] == b"4088", b" ".join(special).decode())
    h.check("special tokens in user text stay text", b"4088" not in plain and len(plain) > 3, b" ".join(plain).decode())
    refused(h, "tokenize without text", 2, "Q0101", ["-p and -f"], "qrun", "tokenize", model)
    refused(h, "tokenize of no file", 3, "Q8001", ["none.txt"], "qrun", "tokenize", model, "-f", h.path("none.txt"))


def timing(p):
    return json.loads(p.stderr.decode().strip().split("\n")[-1])


def write_prompt(h):
    with open(h.path("prompt.txt"), "w") as f:
        f.write("What is the state of the union?")
    return h.path("prompt.txt")


def prompts(h, model):
    options = ["-n", "8", "--seed", "3"]
    prompt_file = write_prompt(h)
    by_option = h.run("qrun", model, "-p", "What is the state of the union?", *options)
    h.check("-p answers", len(by_option) > 8, repr(by_option))
    h.check("-f equals -p", h.run("qrun", model, "-f", prompt_file, *options) == by_option)
    h.check("stdin equals -p", h.run("qrun", model, *options, stdin=b"What is the state of the union?") == by_option)
    h.check("`qrun chat` equals `qrun`", h.run("qrun", "chat", model, "-p", "What is the state of the union?", *options) == by_option)
    refused(h, "empty prompt", 3, "Q8002", ["-p TEXT"], "qrun", model, "--raw", "-p", "")
    refused(h, "prompt file missing", 3, "Q8001", ["none.txt"], "qrun", model, "-f", h.path("none.txt"))
    p = h.tool("qrun", TINY, "-f", h.path("none.txt"), "--cache-dir", h.path("fresh"))
    h.check("of a prompt file that is missing nothing is compiled", b"Q8001" in p.stderr and not os.path.exists(h.path("fresh")), p.stderr.decode())
    with open(h.path("no.session"), "wb") as f:
        f.write(b"QRUNSES")
    for command, exit_code, code, *options in (([], 3, "Q8001", "--load-session", h.path("none.session")), ([], 3, "Q8004", "--load-session", h.path("no.session")),
                                               ([], 4, "Q4001", "--draft", h.path("none.qbin")), (["bench"], 4, "Q4001", "--draft", h.path("none.qbin")),
                                               ([], 4, "Q4005", "--draft", TINY), ([], 2, "Q5008", "--device=tpu"),
                                               ([], 2, "Q0101", "--greedy", "--temp", "0.7"), ([], 2, "Q0101", "--stop", ""),
                                               ([], 2, "Q0101", "--draft", "off", "--draft-len", "2"), (["bench"], 2, "Q5008", "--device=cpu:0"),
                                               (["check"], 2, "Q5008", "--device=cpu,vulkan:x"), ([], 2, "Q5018", "--device=cpu,vulkan")):
        prompt = [] if command in (["bench"], ["check"]) else ["-p", "x"]
        p = h.tool("qrun", *command, TINY, *prompt, *options, "--cache-dir", h.path("fresh"))
        h.check(f"nothing is compiled: {' '.join([*command, *options])}",
                p.returncode == exit_code and code.encode() in p.stderr and not os.path.exists(h.path("fresh")), f"exit {p.returncode}: {p.stderr.decode()}")
    checkout = h.path("checkout")
    os.makedirs(os.path.join(checkout, "qcc"))  # a folder beside qrun is no compiler
    shutil.copy(os.path.join(h.args.bin, "qrun"), checkout)
    p = subprocess.run([os.path.join(checkout, "qrun"), "tokenize", TINY, "-p", "My", "--cache-dir", h.path("tokenizes")], capture_output=True,
                       env={**os.environ, "PATH": os.path.abspath(h.args.bin)})
    h.check("qcc is a program, not a folder of that name", p.returncode == 0 and p.stdout, p.stderr.decode())
    for device in ("vulkan:99", "cuda:99"):  # no such number, or no driver at all
        p = h.tool("qrun", TINY, "-p", "x", f"--device={device}", "--cache-dir", h.path("fresh"))
        h.check(f"nothing is compiled for device {device}", (p.returncode, p.stderr.decode().split("[")[-1][:5]) in ((2, "Q5014"), (5, "Q5013"))
                and not os.path.exists(h.path("fresh")), f"exit {p.returncode}: {p.stderr.decode()}")

    for n in (0, 1, 5):
        p = h.tool("qrun", model, *WILD, "-p", "My", "-n", n, "--seed", "1", "--timing=json")
        t = timing(p)
        h.check(f"-n {n}", p.returncode == 0 and t["generated_tokens"] == n and t["reason"] == "length" and (n > 0 or not p.stdout), p.stderr.decode())
    texts = [h.run("qrun", model, *WILD, "-p", "My", "-n", 12, "--seed", s) for s in (1, 1, 2, 3)]
    h.check("the same seed gives the same text", texts[0] == texts[1])
    h.check("other seeds give other texts", len(set(texts)) == 3)
    h.check("without a seed texts differ", len({h.run("qrun", model, *WILD, "-p", "My", "-n", 12) for _ in range(3)}) == 3)
    p = h.tool("qrun", model, *WILD, "-p", "My", "-n", 12, "--timing=json")
    h.check("the seed that was chosen gives the text again", h.run("qrun", model, *WILD, "-p", "My", "-n", 12, "--seed", timing(p)["seed"]) == p.stdout)
    greedy = h.run("qrun", model, "--raw", "--temp", "0", "-p", "My fellow", "-n", 8)
    h.check("--greedy is --temp 0", h.run("qrun", model, "--raw", "--greedy", "-p", "My fellow", "-n", 8) == greedy)
    h.check("--top-k 1 is greedy", h.run("qrun", model, "--raw", "--temp", "1", "--top-k", "1", "-p", "My fellow", "-n", 8) == greedy)
    h.check("--top-p 0 is greedy", h.run("qrun", model, "--raw", "--temp", "1", "--top-k", "0", "--top-p", "0", "-p", "My fellow", "-n", 8) == greedy)
    h.check("--min-p 1 is greedy", h.run("qrun", model, "--raw", "--temp", "1", "--top-k", "0", "--top-p", "1", "--min-p", "1", "-p", "My fellow", "-n", 8) == greedy)
    h.check("--repeat-penalty changes the text", h.run("qrun", model, "--raw", "--greedy", "--repeat-penalty", "3", "-p", "the the the the", "-n", 12)
            != h.run("qrun", model, "--raw", "--greedy", "--repeat-penalty", "1", "-p", "the the the the", "-n", 12))
    h.check("--presence-penalty changes the text", h.run("qrun", model, "--raw", "--greedy", "--presence-penalty", "20", "-p", "the the the the", "-n", 12)
            != h.run("qrun", model, "--raw", "--greedy", "--presence-penalty", "0", "-p", "the the the the", "-n", 12))

    p = h.tool("qrun", model, *WILD, "-p", "My fellow citizens", "--ctx", "16", "--seed", "1", "--timing=json")
    t = timing(p)
    h.check("a full context ends with reason length, tokens kept", p.returncode == 0 and t["reason"] == "length" and t["context"] == t["position"] == 16
            and t["generated_tokens"] == 17 - t["prompt_tokens"] and p.stdout, p.stderr.decode())
    refused(h, "a prompt larger than the context", 3, "Q5310", ["context"], "qrun", model, "--raw", "-p", "a b c d e f g h", "--ctx", "4")
    p = h.tool("qrun", model, "-p", "x", "-n", 1)
    h.check("no --timing, no output on stderr", p.returncode == 0 and p.stderr == b"", p.stderr.decode())
    p = h.tool("qrun", model, "-p", "x", "-n", 1, "--timing")
    h.check("--timing as text", p.returncode == 0 and b"prompt" in p.stderr and b"/s" in p.stderr, p.stderr.decode())
    p = subprocess.run(f"'{os.path.join(h.args.bin, 'qrun')}' '{model}' {' '.join(WILD)} -p My -n 300 --seed 1 | head -c 5; echo ${{PIPESTATUS[0]}}",
                       shell=True, executable="/bin/bash", capture_output=True)
    h.check("a reader that leaves ends it without an error", p.stdout.endswith(b"0\n") and not p.stderr, repr((p.stdout, p.stderr)))
    with open("/dev/full", "wb") as full:
        p = subprocess.run([os.path.join(h.args.bin, "qrun"), model, "-p", "x", "-n", "3"], stdout=full, stderr=subprocess.PIPE)
    h.check("a full disk under stdout", p.returncode == 6 and b"[Q6003]" in p.stderr, p.stderr.decode())


def sampling(h, model):
    """general.sampling.* of the GGUF are the defaults of qrun; what the command line says goes before them."""
    values = {"temp": gguf_edit.f32_value(0), "top_k": gguf_edit.i32_value(7), "top_p": gguf_edit.f32_value(0.5), "min_p": gguf_edit.f32_value(0.25),
              "penalty_repeat": gguf_edit.f32_value(3), "penalty_last_n": gguf_edit.i32_value(-1)}

    def compiled(name, **values):
        keys = {"general.sampling." + key: value for key, value in values.items()}
        return h.compile(gguf_edit.with_metadata(TINY, h.path(name + ".gguf"), keys), name + ".qbin", *QUICK)

    def text(qbin, *options):
        return h.run("qrun", qbin, "--raw", "-p", "the the the the", "-n", 12, *options)
    greedy, penalized = (text(model, "--temp", "0", "--repeat-penalty", p) for p in ("1", "3"))
    h.check("sampling: the penalty of these cases matters", greedy != penalized, repr(greedy))
    qbin = compiled("greedy", **values)
    found = h.inspect(qbin)["sampling"]
    want = {"temperature": 0, "top_k": 7, "top_p": 0.5, "min_p": 0.25, "repeat_penalty": 3, "penalty_window": -1, "presence_penalty": None, "frequency_penalty": None}
    h.check("sampling: inspect shows the file's values", found == want, str(found))
    got = [text(qbin, "--seed", s) for s in (1, 2)]
    h.check("sampling: temp 0 and penalty_repeat 3 of the file are the defaults", got == [penalized] * 2, f"{got}, want {penalized!r}")
    h.check("sampling: --repeat-penalty goes before the file's", text(qbin, "--repeat-penalty", "1") == greedy)
    # top_p 0 leaves the highest; a window of 0 tokens makes any penalty harmless. Where one stood for another, texts would be wild or penalized.
    qbin = compiled("top", temp=gguf_edit.f32_value(100), top_k=gguf_edit.i32_value(0), top_p=gguf_edit.f32_value(0), penalty_repeat=gguf_edit.f32_value(3),
                    penalty_last_n=gguf_edit.i32_value(0))
    got = [text(qbin, "--seed", s) for s in (1, 2)]
    h.check("sampling: top_p 0 and penalty_last_n 0 of the file are the defaults", got == [greedy] * 2, f"{got}, want {greedy!r}")
    wild = {text(qbin, "--seed", s, "--top-p", "1") for s in (1, 2)}
    h.check("sampling: --top-p goes before the file's, its temp 100 stays", len(wild) == 2 and greedy not in wild, str(wild))


def template(h):
    """--system and --think change the prompt, as far as the file's template has them."""
    qbin = h.compile(gguf_edit.with_metadata(TINY, h.path("think.gguf"), {"tokenizer.chat_template": gguf_edit.string_value(THINKING_TEMPLATE)}), "think.qbin", *QUICK)

    def prompt_tokens(*options):
        return timing(h.tool("qrun", qbin, "-p", "Hello", "-n", "1", "--timing=json", *options))["prompt_tokens"]
    def count(text):
        return len(h.run("qrun", "tokenize", qbin, "--special", "-p", text).split())
    user = "<|im_start|>user\nHello<|im_end|>\n"
    opened, thought = "<|im_start|>assistant\n", "<think>\n\n</think>\n\n"
    for name, options, text in (("default", [], user + opened), ("--think on", ["--think", "on"], user + opened),
                                ("--think off", ["--think", "off"], user + opened + thought),
                                ("--system", ["--system", "Be brief."], "<|im_start|>system\nBe brief.<|im_end|>\n" + user + opened)):
        got, want = prompt_tokens(*options), count(text)
        h.check(f"prompt of {name}", got == want, f"{got} tokens, want {want}")


def utf8(h, model):
    """Whole UTF-8 at every moment: what has arrived by any time decodes, and so does all of it."""
    for seed in range(4):
        out = h.run("qrun", model, *WILD, "-p", "Grüße, 世界! ", "-n", 200, "--seed", seed)
        try:
            text = out.decode()
            h.check(f"valid UTF-8, seed {seed}", len(text) > 100)
        except UnicodeDecodeError as e:
            h.check(f"valid UTF-8, seed {seed}", False, f"{e}: {out[max(0, e.start - 8):e.start + 8]!r}")
    reader, writer = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)  # each write is a read of its own, however late
    process = start(h, model, *WILD, "-p", "My", "-n", 200, "--seed", "5", stdout=writer)
    os.close(writer)
    pieces = 0
    while True:
        piece = os.read(reader, 1 << 16)
        if not piece:
            break
        pieces += 1
        try:
            piece.decode()
        except UnicodeDecodeError as e:
            h.check("streamed pieces are whole UTF-8", False, str(e))
            break
    os.close(reader)
    h.check("output is streamed", process.wait() == 0 and pieces > 10, f"{pieces} pieces")
    process.stderr.close()


def start(h, *args, **options):
    return subprocess.Popen([os.path.join(h.args.bin, "qrun"), *map(str, args)], stdin=options.pop("stdin", subprocess.DEVNULL),
                            stdout=options.pop("stdout", subprocess.PIPE), stderr=subprocess.PIPE, **options)


def interrupt(h, model):
    def heard():  # also where nohup(1) started the tests
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)

    def ended(number, prepare, *options):
        process = start(h, model, *WILD, "-p", "My", "--seed", "1", "--timing=json", *options, preexec_fn=prepare)
        first = os.read(process.stdout.fileno(), 1 << 16)
        process.send_signal(number)
        rest, err = process.communicate(timeout=300)
        text = (first + rest).decode()
        assert text, "no text"
        return process.returncode, json.loads(err.decode())["reason"]

    def body():
        code, reason = ended(signal.SIGINT, heard, "--ignore-eos")
        assert (code, reason) == (130, "interrupted"), f"exit {code}, reason {reason}"
    h.case("Ctrl-C stops a generation: exit 130, whole UTF-8", body)

    def ignored():  # as a shell has it for what a script runs in the background, and nohup(1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            code, reason = ended(number, lambda number=number: signal.signal(number, signal.SIG_IGN))
            assert code == 0 and reason != "interrupted", f"{number.name}: exit {code}, reason {reason}"
    h.case("a signal that was ignored stays ignored", ignored)

    def unread():
        ids, session = h.path("unread-ids.txt"), h.path("unread.session")
        with open(ids, "w") as f:
            f.write("940 1209 937")
        commands = (("qrun", model, *WILD, "-p", "My", "--ignore-eos", "-n", 40, "-q", "--save-session", session),
                    ("qrun", "logits", model, "--tokens", ids, "-o", "-"), ("qcc", "inspect", model))
        # Late: it waits for its reader by then. Else it begins to, maybe, when the signal has come already.
        for (tool, *arguments), late in itertools.product(commands, (True, False)):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                reader, writer = os.pipe()
                os.set_blocking(writer, False)
                try:
                    while True:
                        os.write(writer, bytes(4096))
                except BlockingIOError:
                    os.set_blocking(writer, True)
                process = subprocess.Popen([os.path.join(h.args.bin, tool), *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE,
                                           preexec_fn=heard)
                os.close(writer)
                until_caught(process, number)
                time.sleep(1 if late else 0)
                process.send_signal(number)
                try:
                    err = process.communicate(timeout=300)[1]
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                    raise AssertionError(f"{tool} {arguments[0]} goes on after {number.name}") from None
                finally:
                    os.close(reader)
                want = 130 if tool == "qcc" or number == signal.SIGINT else 128 + number
                assert process.returncode == want and b"error" not in err, f"{tool} {arguments[0]}, {number.name}: exit {process.returncode}, {err}"
        assert os.path.exists(session), "the session was not saved"
    h.case("a signal ends what waits for a reader", unread)


class Screen:
    """qrun on a terminal of its own; stdout and stderr are read apart."""

    def __init__(self, h, *args):
        self.terminal, slave = pty.openpty()

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        self.process = start(h, *args, stdin=slave, preexec_fn=own_terminal)
        os.close(slave)
        self.out, self.err = b"", b""

    def type(self, text):
        os.write(self.terminal, text)

    def until(self, done, what):
        limit = time.monotonic() + 300
        while not done():
            assert time.monotonic() < limit, f"waited for {what}: stdout {self.out!r}, stderr {self.err!r}"
            ready, _, _ = select.select([self.process.stdout, self.process.stderr], [], [], 0.2)
            for stream in ready:
                data = os.read(stream.fileno(), 1 << 16)
                if stream is self.process.stdout:
                    self.out += data
                else:
                    self.err += data
                assert data or self.process.poll() is None or done(), f"ended before {what}: exit {self.process.poll()}, stderr {self.err!r}"

    def prompts(self, n):
        self.until(lambda: self.err.count(b"> ") >= n, f"prompt {n}")

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()
        os.close(self.terminal)


def chat(h, model):
    def body():
        screen = Screen(h, model, "--temp", "0", "-n", "24", "--timing=json")
        try:
            screen.prompts(1)
            screen.type(b"Who are you?\n")
            screen.prompts(2)
            first = len(screen.out)
            assert first > 2 and screen.out.endswith(b"\n"), f"first answer {screen.out!r}"
            screen.type(b"Why?\n")
            screen.prompts(3)
            assert len(screen.out) > first + 2, f"second answer {screen.out[first:]!r}"
            turns = [json.loads(line) for line in screen.err.decode().replace("> ", "").split("\n") if line.startswith("{")]
            assert len(turns) == 2 and turns[0]["reused_tokens"] == 0 and turns[1]["reused_tokens"] > 0, f"the second turn feeds the first again: {turns}"
            alone = h.run("qrun", model, "--temp", "0", "-n", "24", "-p", "Who are you?")
            assert screen.out[:first].rstrip(b"\n") == alone.rstrip(b"\n"), f"{screen.out[:first]!r}, with -p {alone!r}"
            screen.type(b"\x04")
            screen.until(lambda: screen.process.poll() is not None, "the end")
            assert screen.process.returncode == 0, f"exit {screen.process.returncode}: {screen.err!r}"
        finally:
            screen.end()
    h.case("chat on a terminal: two turns, Ctrl-D ends", body)

    def stopped():
        screen = Screen(h, model, "--temp", "100", "--top-k", "0", "--top-p", "1", "--ignore-eos", "--seed", "1", "--timing=json")
        try:
            screen.prompts(1)
            screen.type(b"Talk\n")
            screen.until(lambda: len(screen.out) > 20, "the answer")
            screen.type(b"\x03")
            screen.prompts(2)
            assert b'"reason": "interrupted"' in screen.err, screen.err
            screen.out.decode()
            screen.type(b"/exit\n")
            screen.until(lambda: screen.process.poll() is not None, "the end")
            assert screen.process.returncode == 0, f"exit {screen.process.returncode}"
        finally:
            screen.end()
    h.case("Ctrl-C stops an answer, the chat goes on", stopped)


def suspended(h, model):
    """Ctrl-Z at the prompt, in a shell that leaves the terminal as it finds it."""
    state = h.path("suspended-state")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe("sh", ["sh", "-i"], {**os.environ, "TERM": "xterm", "PS1": "SH$ ", "ENV": "", "XDG_STATE_HOME": state})
    seen = b""

    def until(text):
        nonlocal seen
        limit = time.monotonic() + 300
        while text not in seen:
            assert time.monotonic() < limit, f"waited for {text}: {seen!r}"
            if select.select([terminal], [], [], 0.2)[0]:
                seen += os.read(terminal, 1 << 16)
        seen = seen[seen.index(text) + len(text):]

    def type_line(text):
        os.write(terminal, text + b"\n")

    def body():
        until(b"SH$ ")
        type_line(b" ".join([os.path.abspath(os.path.join(h.args.bin, "qrun")).encode(), model.encode(), b"--greedy -n 4 -q"]))
        until(b"\x1b[?2004h> ")
        for typed in (b"abc", b"def"):
            os.write(terminal, typed)
            until(typed)
            os.write(terminal, b"\x1a")
            until(b"\x1b[?2004l")
            until(b"SH$ ")
            type_line(b"stty -a")
            until(b" icanon")
            until(b" echo ")
            until(b"SH$ ")
            type_line(b"fg")
            until(b"\x1b[?2004h")
            until(b"> abc" if typed == b"abc" else b"> abcdef")
        type_line(b"")
        until(b"\x1b[?2004h> ")
        type_line(b"/exit")
        until(b"SH$ ")
        with open(os.path.join(state, "qcc", "history"), encoding="utf-8") as f:
            assert f.read().endswith("abcdef\n/exit\n"), "another line was taken"
    h.case("Ctrl-Z gives the shell its terminal, fg goes on with the line", body)
    os.close(terminal)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def keys(h, model):
    """Keys of a terminal that move, that delete, and that mean nothing here."""
    state = h.path("keys-state")
    pid, terminal = pty.fork()
    if pid == 0:
        qrun = os.path.abspath(os.path.join(h.args.bin, "qrun"))
        os.execve(qrun, [qrun, model, "--greedy", "-n", "2", "-q"], {**os.environ, "TERM": "xterm-256color", "XDG_STATE_HOME": state})
    seen, asked = b"", 0

    def until_asked():
        nonlocal seen, asked
        asked += 1
        limit = time.monotonic() + 300
        while seen.count(b"\x1b[?2004h> ") < asked:
            assert time.monotonic() < limit, f"waited for prompt {asked}: {seen!r}"
            if select.select([terminal], [], [], 0.2)[0]:
                seen += os.read(terminal, 1 << 16)

    def body():
        cases = [(b"ab cd\x1b[1;5DX", "ab Xcd"), (b"ab cd\x1b[1;5D\x1b[1;5D\x1b[1;5CY", "abY cd"), (b"ab cd\x1b[1;3DX", "ab Xcd"),
                 (b"ab\x1b[1~X\x1b[4~Y", "XabY"), (b"ab\x1b[HX\x1b[FY", "XabY"), (b"ab\x1bOHX\x1bOFY", "XabY"), (b"ac\x1b[Db", "abc"),
                 (b"ab\x1b[5~\x1b[6~\x1b[24~\x1b[15~\x1b[1;2A\x1b[1;5A\x1b[[A\x1bOPc", "abc"), (b"ab cd\x1bbX", "ab Xcd"),
                 (b"abcd\x1b[D\x1b[D\x1b[3~", "abd"), (b"ab\x00c", "abc"), (b"\x00d\xc3\xa9", "d\u00e9"),
                 (b"\x1b[200~/usr/bin/x: \x1b[1;5D error\x1b[201~", "/usr/bin/x: \x1b[1;5D error"), (b"   ", None),
                 (b"\x1b[200~/system Be\rshort.\x1b[201~", "/system Be\\nshort."), (b"\x1b[200~/new\rwords\x1b[201~", "/new\\nwords")]
        for typed, _ in cases:
            until_asked()
            os.write(terminal, typed + b"\r")
        until_asked()
        os.write(terminal, b"\x04")
        limit = time.monotonic() + 300
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            assert time.monotonic() < limit, "Ctrl-D does not end it"
            time.sleep(0.05)
        assert b"there is no command" not in seen, f"a path is taken for a command: {seen!r}"
        with open(os.path.join(state, "qcc", "history"), encoding="utf-8") as f:
            lines = f.read().split("\n")
        want = [line for _, line in cases if line is not None]
        got = [line for line in lines if line]
        assert got == want, f"lines {got}, expected {want}"
    h.case("keys of a terminal", body)
    os.close(terminal)


def logits(h, model):
    ids = h.path("ids.txt")

    def write(text):
        with open(ids, "w") as f:
            f.write(text)
        return ids
    write("940 1209\n937\t44 32 451 1266\n")
    want = h.logits(model, ids)
    h.check("logits: rows and columns", want[:2] == (7, 4096), str(want[:2]))
    for split in ("1", "2", "3,1", "7", "100", "1,1,1,1,1,1,1,5"):
        h.check(f"logits --split {split}", h.logits(model, ids, "--split", split) == want)
    out = h.run("qrun", "logits", model, "--tokens", ids, "-o", "-")
    with open(h.path("dash.bin"), "wb") as f:
        f.write(out)
    h.check("logits -o -", read_logits(h.path("dash.bin")) == want)
    long = h.path("l" * 250)  # a name that the file system takes
    h.run("qrun", "logits", model, "--tokens", ids, "-o", long)
    h.check("logits into a long name", read_logits(long) == want)
    refused(h, "logits into a name that is too long", 2, "Q0103", ["too long"], "qrun", "logits", model, "--tokens", ids, "-o", long + "tooooo")
    none = h.path("none.bin")
    for split in ("0", "1,", "a", "-1", "1,,2", ""):
        refused(h, f"logits --split {split!r}", 2, "Q0101", ["--split"], "qrun", "logits", model, "--tokens", ids, "-o", none, "--split", split)
    for name, text, code in (("a word", "1 2 banana", "Q8003"), ("no ids", "", "Q8003"), ("a number too large", "1 99999999999", "Q8003"),
                             ("an id outside the vocabulary", "1 4096", "Q5304"), ("a negative id", "1 -1", "Q5304")):
        refused(h, f"ids with {name}", 3, code, [], "qrun", "logits", model, "--tokens", write(text), "-o", none)
    write("1 2 3")
    refused(h, "logits without ids", 3, "Q8001", ["no-ids.txt"], "qrun", "logits", model, "--tokens", h.path("no-ids.txt"), "-o", none)
    refused(h, "logits without -o", 2, "Q0101", ["-o"], "qrun", "logits", model, "--tokens", ids)
    refused(h, "logits into no folder", 2, "Q0103", ["no/such"], "qrun", "logits", model, "--tokens", ids, "-o", h.path("no/such.bin"))
    refused(h, "logits onto a full disk", 6, "Q6003", ["/dev/full"], "qrun", "logits", model, "--tokens", ids, "-o", "/dev/full")
    with open("/dev/full", "wb") as full:
        p = subprocess.run([os.path.join(h.args.bin, "qrun"), "logits", model, "--tokens", ids, "-o", "-"], stdout=full, stderr=subprocess.PIPE)
    said = p.stderr.decode()
    h.check("logits onto a full disk under stdout", p.returncode == 6 and "cannot write to stdout" in said and "folder" not in said, said)
    h.check("a refused run leaves no file", not [f for f in os.listdir(h.work) if f.startswith("none.bin")])


def closed_streams(h):
    """A tool that is started with a standard stream closed (`2>&-`) writes the same file: nothing else gets the stream's number."""
    ids, good = h.path("closed-ids.txt"), h.compile(TINY, "open.qbin", *QUICK)
    with open(ids, "w") as f:
        f.write("940 1209 937")

    def bytes_of(path, *command, closed=()):
        p = h.tool(*command, path, closed=closed)
        assert p.returncode == 0, f"exit {p.returncode}: {p.stderr.decode()}"
        with open(path, "rb") as f:
            return f.read()

    def same(name, *command):
        want = bytes_of(h.path("open." + name), *command)
        for closed in ((0,), (1,), (2,), (0, 1, 2)):
            def body():
                held = bytes_of(h.path("closed." + name), *command, closed=closed)
                assert held == want, f"{len(held)} bytes, want {len(want)}, or others"
            h.case(f"{command[0]} with {closed} closed: the same {name}", body)
    same("qbin", "qcc", "compile", TINY, "-v", *QUICK, "-o")
    same("logits", "qrun", "logits", good, "-v", "-t", 1, "--tokens", ids, "-o")
    # What was to be read or written there is missed, not lost without a word.
    refused(h, "the product on a closed stdout", 6, "Q6002", ["stdout"], "qrun", "tokenize", good, "-p", "My", closed=(1,))
    refused(h, "qcc's product on a closed stdout", 6, "Q6002", ["standard output"], "qcc", "inspect", good, closed=(1,))
    refused(h, "the prompt on a closed stdin", 3, "Q8001", ["standard input"], "qrun", good, "-f", "-", closed=(0,))


def small_stack(h, model):
    """Steps take little of a thread's stack (QRT_STEP_STACK_BYTES): the main thread and qrun's own have as much as the system gives, here hardly any."""
    if h.sanitized():
        print("skip small stacks: a sanitizer's frames are larger")
        return
    ids, out = h.path("stack-ids.txt"), h.path("stack.bin")
    with open(ids, "w") as f:
        f.write(" ".join(str(7 + 23 * i) for i in range(40)))
    want = h.logits(model, ids, "-t", 2)
    for kib in (384, 192):
        p = h.tool("qrun", "logits", model, "--tokens", ids, "-o", out, "-t", 2, limits={resource.RLIMIT_STACK: kib << 10})
        h.check(f"logits on {kib} KiB of stack", p.returncode == 0 and read_logits(out) == want, f"exit {p.returncode}: {p.stderr.decode()}")
        p = h.tool("qrun", model, "-p", "My", "-n", 2, "-t", 2, limits={resource.RLIMIT_STACK: kib << 10})
        h.check(f"chat on {kib} KiB of stack", p.returncode == 0 and p.stdout, f"exit {p.returncode}: {p.stderr.decode()}")


def l2_norm(h):
    """--l2-norm selects the form, in the artifact as in the evaluator, and the artifact says which. A large eps keeps the forms apart."""
    gguf = gguf_edit.with_metadata(TINY, h.path("eps.gguf"), {"qwen35.attention.layer_norm_rms_epsilon": gguf_edit.f32_value(0.25)})
    ids = h.path("l2-ids.txt")
    with open(ids, "w") as f:
        f.write("940 1209 937 44 32 451")
    want = {}
    for form in ("sum", "max"):
        h.run("qcc", "eval", gguf, "--tokens", ids, "-o", h.path("eval.bin"), f"--l2-norm={form}")
        want[form] = read_logits(h.path("eval.bin"))
    apart = nmse(want["sum"], want["max"])
    h.check("qcc eval --l2-norm: the forms differ", apart > 1e-4, f"NMSE {apart:.2e}")
    for options, form in (([], "sum"), (["--l2-norm=max"], "max")):
        qbin = h.compile(gguf, "l2.qbin", *QUICK, "--numerics=f32", "--kv=f32", *options)
        error = nmse(h.logits(qbin, ids), want[form])
        h.check(f"an artifact of {' '.join(options) or 'no option'} computes the form {form}", error < 1e-9, f"NMSE {error:.2e}")
        recorded = h.inspect(qbin)["provenance"]["options"]
        text = h.run("qcc", "inspect", qbin).decode()
        h.check(f"inspect shows the form {form}", recorded.get("l2_norm") == form and re.search(rf"^  l2_norm +{form}$", text, re.M), str(recorded))
        h.check(f"check of the form {form}", h.tool("qrun", "check", qbin).returncode == 0)
    refused(h, "qcc eval --l2-norm=mean", 2, "Q0102", ["mean", "sum, max"], "qcc", "eval", gguf, "--tokens", ids, "-o", h.path("none.bin"), "--l2-norm=mean")


def measures(h, model):
    b = json.loads(h.run("qrun", "bench", model, "-p", 16, "-n", 4, "-d", 8, "-r", 3, "-t", 1, "--json"))
    expected = {"model": str, "architecture": str, "cpu": str, "threads": int, "mean_threads": float, "depth": int, "load_seconds": float, "first_token_seconds": float,
                "peak_rss_bytes": int, "weight_bytes": int, "prefill": dict, "decode": dict}
    wrong = [k for k, t in expected.items() if not isinstance(b.get(k), t)]
    h.check("bench --json keys", not wrong, ", ".join(wrong))
    h.check("bench --json values", b["threads"] == 1 and b["depth"] == 8 and b["prefill"]["tokens"] == 16 and b["decode"]["tokens"] == 4, str(b))
    for part in ("prefill", "decode"):
        samples = sorted(b[part]["samples"])
        h.check(f"bench --json {part}: every sample, and the median", len(samples) == 3 and samples[0] > 0 and abs(b[part]["median"] - samples[1]) < 1e-3, str(b[part]))
    refused(h, "bench of nothing", 2, "Q0101", ["nothing"], "qrun", "bench", model, "-p", "0", "-n", "0")
    out = h.run("qrun", "perplexity", model, "-f", write_prompt(h)).decode()
    h.check("perplexity prints one figure", re.match(r"perplexity \d+\.\d+", out), out.strip())
    extents, kind, data = gguf_edit.tensor(TINY, "output_norm.weight")
    norm = struct.unpack(f"<{extents[0]}f", data[:4 * extents[0]])
    wild = gguf_edit.with_metadata(TINY, h.path("wild.gguf"), {}, {"output_norm.weight": (extents, kind, struct.pack(f"<{extents[0]}f", *(1e5 * x for x in norm)) + data[4 * extents[0]:])})
    found = json.loads(h.run("qrun", "perplexity", wild, "-f", write_prompt(h), "--json", "--cache-dir", h.path("wild")))
    h.check("of one beyond all numbers JSON has none", found["perplexity"] is None and found["scored"] > 0, str(found))
    out = h.run("qrun", "devices").decode()
    h.check("devices", out.startswith("cpu"), out.split("\n")[0])
    out = h.run("qrun", "devices", model).decode()
    h.check("devices of an artifact", "runs here" in out, out)
    out = h.run("qrun", "check", model).decode()
    h.check("check", "hashes: ok" in out, out)
    h.check("verify", h.run("qcc", "verify", model).decode().split()[1] == "ok")


def progress(h):
    p = h.tool("qcc", "compile", TINY, "-o", h.path("progress.qbin"), *QUICK)
    err = p.stderr.decode()
    h.check("compile: stdout is empty, one line per stage on stderr",
            p.returncode == 0 and p.stdout == b"" and re.findall(r"^\[ ?(\d)/6\] ", err, re.M) == list("123456") and "\r" not in err and "\x1b" not in err, err)
    p = h.tool("qcc", "compile", TINY, "-o", h.path("progress.qbin"), *QUICK, "--progress=json")
    events = [json.loads(line) for line in p.stderr.decode().splitlines()] if p.returncode == 0 else [p.stderr.decode()]
    ends = [(e["index"], e["count"], e["percent"]) for e in events if e["event"] == "end"]
    of_weights = [e["percent"] for e in events if e["event"] == "progress" and e["stage"] == "pack weights"]
    h.check("--progress=json: every stage begins and ends", p.stdout == b"" and ends == [(i, 6, 100) for i in range(1, 7)]
            and [e["stage"] for e in events if e["event"] == "begin"] == [e["stage"] for e in events if e["event"] == "end"], str(events))
    h.check("--progress=json: percent of a stage rises to 100", of_weights and of_weights == sorted(set(of_weights)) and of_weights[-1] == 100, str(of_weights))
    p = h.tool("qcc", "compile", h.path("none.gguf"), "--progress=json")
    behind = p.stderr.decode().split("\n", 1)[-1]
    h.check("--progress=json: an error is text behind the events", p.returncode == 3 and behind.startswith("qcc: error: ") and "\n{" not in behind, p.stderr.decode())
    p = h.tool("qcc", "compile", TINY, "-q", "--compile-to=plan", "--functions=trunk", "--report=fusion")
    h.check("compile -q --report=fusion: nothing on stderr", p.returncode == 0 and p.stderr == b"", repr(p.stderr[:200]))
    report = re.findall(r"^(fused|missed|moved) (\w+): (.+?)  at (\S+)$", p.stdout.decode(), re.M)
    # One line for each group of a distinct block and of the head.
    fused = collections.Counter(kind for what, kind, _, _ in report if what == "fused")
    want = {"gated_delta": 1, "qk_norm_rope_store": 1, "gated_attention": 1, "linear_swiglu": 2, "linear_residual": 4, "merged_linear": 2, "norm_quant": 5}
    h.check("--report=fusion: what was fused", fused == want, f"{dict(fused)}, want {want}")
    places = [("gated_delta", "18 ops", "blk.*.ssm_a"), ("merged_linear", "4 ops", "blk.*.attn_qkv.weight"), ("merged_linear", "3 ops", "blk.*.attn_q.weight")]
    h.check("--report=fusion: sizes and places", all(("fused", *place) in report for place in places), str(report))
    # What these linears take is rounded by a kernel of its own: there is no norm in front of them to do it.
    missed = sorted((kind, reason, place) for what, kind, reason, place in report if what == "missed")
    want = sorted(("norm_quant", "the rounded value does not come from a norm", place) for place in
                  ("blk.*.ssm_out.weight", "blk.*.attn_output.weight", "blk.*.ffn_down.weight", "blk.*.ffn_down.weight"))
    h.check("--report=fusion: what was missed, and why", missed == want, f"{missed}, want {want}")
    moved = [found for found in report if found[0] == "moved"]
    h.check("--report=fusion: what was moved", moved == [("moved", "last_ffn", "4 ops behind the choice of rows", "blk.7")], str(moved))
    h.check("compile --compile-to=plan writes no artifact", not os.path.exists("tiny-qwen35-q8_0.qbin"))


def warnings(h):
    """What the file leaves open is warned of, recorded in the artifact, and refused with --strict."""
    keys = {"qwen35.vocab_size": gguf_edit.u32_value(7), "qwen35.rope.dimension_sections": None, "qwen35.of_tomorrow": gguf_edit.u32_value(1)}
    gguf, qbin = gguf_edit.with_metadata(TINY, h.path("open.gguf"), keys), h.path("open.qbin")
    says = ("qwen35.vocab_size is 7, token_embd.weight has", "key qwen35.rope.dimension_sections is missing", "key qwen35.of_tomorrow is not used")
    p = h.tool("qcc", "compile", gguf, "-o", qbin, *QUICK, "--goldens=off", "--strict=off")
    h.check("a contradiction, a default and a key that is not used: warnings", p.returncode == 0 and all(f"warning: {s}" in p.stderr.decode() for s in says), p.stderr.decode())
    recorded = [value for key, value in h.inspect(qbin)["provenance"]["options"].items() if key.startswith("warning ")]
    told = h.inspect(gguf)["warnings"]
    h.check("warnings are in the artifact's provenance, and what inspect says of the model", sorted(recorded) == sorted(told) and len(told) == 3, f"{recorded}, {told}")
    refused(h, "--strict: a warning is an error", 3, "Q3008", [says[1]], "qcc", "compile", "-q", "--strict", gguf, "-o", h.path("strict.qbin"))
    refused(h, "--strict: an option without effect is an error", 3, "Q3008", ["--decode has no effect"], "qcc", "compile", "-q", "--strict", TINY, "--compile-to=import", "--decode=1")
    h.check("--strict leaves no artifact", not os.path.exists(h.path("strict.qbin")))
    p = h.tool("qcc", "compile", "--strict", TINY, "--compile-to=import")
    h.check("--strict of a file without warnings", p.returncode == 0, p.stderr.decode())


def runtime_limits(h):
    """What qcc takes from a GGUF the runtime takes from qcc: what goes beyond its limits is cut with a warning, or refused."""
    long = {"general.name": gguf_edit.string_value("n" + "\u00e9" * 35000), "general.sampling.penalty_last_n": gguf_edit.u32_value((1 << 20) + 1),
            "general.sampling.penalty_repeat": gguf_edit.f32_value(1.1)}
    gguf, qbin = gguf_edit.with_metadata(TINY, h.path("long.gguf"), long), h.path("long.qbin")
    p = h.tool("qcc", "compile", gguf, "-o", qbin, *QUICK)
    err = p.stderr.decode()
    h.check("a long name and penalty window: warnings", p.returncode == 0 and "general.name" in err and "penalty_last_n is 1048577" in err, err)
    told = json.loads(h.tool("qcc", "inspect", gguf, "--json").stdout)["warnings"]
    h.check("a long name and penalty window: qcc inspect tells the same", all(any(key in w for w in told) for key in ("general.name", "penalty_last_n is 1048577")), str(told))
    p = h.tool("qrun", qbin, "--raw", "-p", "My", "-n", 2)
    h.check("a long name and penalty window: runs", p.returncode == 0, p.stderr.decode())
    kept = h.inspect(qbin)
    h.check("a long name and penalty window: what is kept", kept["model"]["name"] == "n" + "\u00e9" * 32767 and kept["sampling"]["penalty_window"] == 1 << 20,
            f"{len(kept['model']['name'])} characters, {kept['sampling']}")
    large = gguf_edit.with_metadata(TINY, h.path("large.gguf"), {"tokenizer.chat_template": gguf_edit.string_value("x" * ((1 << 20) + 1))})
    refused(h, "a chat template over 1 MiB", 3, "Q2301", ["1048577", "1048576"], "qcc", "compile", large, "-o", h.path("never.qbin"), "-q", *QUICK)


def wide_heads(h):
    """Keys of a token that are larger than a page: the artifact opens and computes what its check values say."""
    model = h.path("wide.gguf")
    h.run("qcc", "synth", "-q", "-o", model, "--arch=qwen3", "--preset=0.6b", "--format=q8_0", "--layers=1", "--hidden=256", "--ffn=256", "--heads=16", "--kv-heads=16",
          "--head-dim=128", "--vocab=512", "--context=512")
    p = h.tool("qrun", "check", h.compile(model, "wide.qbin", "--cpu=native", "--kv=f32", "--decode=1", "--prefill=16"))
    h.expect("qrun check with wide heads and --kv=f32", p.returncode == 0, p.stdout.decode() + p.stderr.decode())


def quiet_harness(description):
    """A harness that prints details of failures only, and whose tools take resource limits, and streams to close."""
    h = Harness(description)
    plain_tool, plain_check = h.tool, h.check

    def tool(name, *args, limits=None, closed=None, **options):
        if limits is None and closed is None:
            return plain_tool(name, *args, **options)

        def prepare():
            for r, v in (limits or {}).items():
                resource.setrlimit(r, (v, v))
            for stream in closed or ():
                os.close(stream)
        return subprocess.run([os.path.join(h.args.bin, name), *map(str, args)], capture_output=True, stdin=subprocess.DEVNULL, preexec_fn=prepare)
    h.tool = tool
    h.check = lambda name, ok, detail="": plain_check(name, ok, "" if ok else detail)
    return h


def main():
    h = quiet_harness(__doc__)
    model = h.compile(TINY, "model.qbin", "--cpu=native")
    parts = [(conventions,), (usage, model), (without_effect, model), (input_refused,), (inspect_model, model), (output_refused,),
             (artifact_refused, model), (tokenize, model), (prompts, model), (sampling, model), (template,), (utf8, model),
             (interrupt, model), (chat, model), (suspended, model), (keys, model), (logits, model), (closed_streams,), (small_stack, model), (l2_norm,), (measures, model), (progress,), (warnings,), (runtime_limits,), (wide_heads,)]
    for part, *model_of_part in h.share(parts):
        part(h, *model_of_part)
    h.finish()


if __name__ == "__main__":
    main()
