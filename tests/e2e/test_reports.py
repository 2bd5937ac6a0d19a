#!/usr/bin/env python3
"""What qcc says about models and artifacts: its reports as tables and as JSON, beside what the artifact then holds; `qcc diff`; parts of
an artifact by `qcc inspect --emit`; dumps that do not fit on the disk; manual pages and completion."""
import json
import os
import re
import shutil
import subprocess

from harness import GOLDEN
from test_cli import quiet_harness, refused

MODEL = os.path.join(GOLDEN, "t35-q-Q4_K_M.gguf")
OTHER = os.path.join(GOLDEN, "t35-q-Q8_0.gguf")
QUICK = ["--cpu=base", "--decode=1", "--prefill=32", "--goldens=off"]


def reports(h):
    """Numbers of the reports are those of the artifact, and both forms say the same."""
    qbin = h.path("reports.qbin")
    out = h.run("qcc", "compile", MODEL, "-o", qbin, "-q", *QUICK, "--report=formats,memory,fusion", "--report-form=json").decode()
    lines = [json.loads(line) for line in out.splitlines()]
    h.check("a line of JSON for each report", [line["report"] for line in lines] == ["fusion", "formats", "memory"], out[:300])
    fusion, formats, memory = lines
    held = h.inspect(qbin)

    def fused():
        kinds = {group["kind"] for group in fusion["fused"]}
        assert {"gated_delta", "merged_linear", "norm_quant"} <= kinds, f"fused kinds: {kinds}"
        assert all(group["text"] and group["place"] for group in fusion["fused"] + fusion["missed"]), str(fusion)
    h.case("fusion: groups with kind and place", fused)

    def stored():
        of = {}
        for weight in formats["weights"]:
            entry = of.setdefault(weight["format"], [0, 0])
            entry[0] += weight["packed_bytes"]
            entry[1] += weight["source_bytes"]
        want = {f["name"]: [f["packed_bytes"], f["source_bytes"]] for f in held["formats"]}
        assert of == want, f"report {of}, artifact {want}"
        layouts = {}
        for weight in held["weights"]:
            key = (weight["format"], weight["layout"])
            layouts[key] = layouts.get(key, 0) + weight["bytes"]
        got = {(w["format"], w["layout"]): w["packed_bytes"] for w in formats["weights"]}
        assert got == layouts, f"report {got}, artifact {layouts}"
    h.case("formats: bytes by format and layout are the artifact's", stored)

    def taken():
        assert [w["bytes"] for w in memory["weights"]] == [held["memory"]["weights_bytes"]], str(memory["weights"])
        assert memory["state_bytes_per_sequence"] == held["memory"]["state_bytes_per_sequence"]
        assert memory["kv_bytes_per_token"] == held["memory"]["kv_bytes_per_token"] == sum(s["bytes"] for s in memory["states"] if s["kind"] == "kv")
        assert memory["arena_bytes"] == held["memory"]["scratch_bytes"]
        assert {p["name"]: p["arena_bytes"] for p in memory["programs"]} == {p["name"]: p["scratch_bytes"] for p in held["programs"]}
        want = [{"code": f"cpu {t['isa']}", "bytes": t["thread_scratch_bytes"]} for t in held["targets"]]
        assert memory["thread_scratch"] == want, f"report {memory['thread_scratch']}, artifact {want}"
        want = [{"code": f"cpu {t['isa']}", "bytes": t["shared_scratch_bytes"]} for t in held["targets"]]
        assert memory["shared_scratch"] == want, f"report {memory['shared_scratch']}, artifact {want}"
    h.case("memory: what an engine and a sequence take is the artifact's", taken)

    def tables():
        text = h.run("qcc", "compile", MODEL, "-o", h.path("none.qbin"), "-q", *QUICK, "--report=memory,formats", "--compile-to=plan").decode()
        text = text[:text.index("module")]
        for program in memory["programs"]:
            assert re.search(rf"program +{program['name']} +{program['arena_bytes']}  {program['rows']} rows\n", text), f"no {program}: {text}"
        for weight in formats["weights"]:
            row = rf"{weight['format']} +{weight['layout']} +{weight['tensors']} +{weight['source_bytes']} +{weight['packed_bytes']}  cpu\n"
            assert re.search(row, text), f"no {weight}: {text}"
        assert "a thread" not in text, f"scratch of threads is not known before there is code: {text}"
    h.case("tables say the same", tables)


def parts(h):
    qbin = h.compile(MODEL, "parts.qbin", *QUICK)
    held = h.inspect(qbin)
    manifest = json.loads(h.run("qcc", "inspect", qbin, "--emit=manifest"))
    h.check("--emit=manifest has the manifest's fields alone", "sections" not in manifest and
            all(manifest[key] == held[key] for key in ("model", "programs", "states", "weights", "provenance", "tokenizer")), str(list(manifest)))
    linked_kernels(h, held)
    gpu = h.compile(MODEL, "parts-gpu.qbin", "--target=vulkan", "--gpu-profiles=sg32", "--decode=1", "--prefill=32", "--goldens=off")
    code = json.loads(h.run("qcc", "inspect", gpu, "--emit=kernels"))["targets"]
    kernels = code[0].get("kernels", [])
    h.check("--emit=kernels lists a GPU's kernels, each used and with its size", len(kernels) > 10 and
            all(k["name"] and k["spirv_bytes"] > 0 and k["dispatches"] > 0 for k in kernels), str(kernels)[:300])
    for part in ("manifest", "kernels"):
        # Made anew, and found in the cache of whole artifacts.
        for what in ("makes", "finds"):
            out = h.run("qcc", "compile", MODEL, "-o", h.path("emitted.qbin"), "-q", *QUICK, f"--emit={part}")
            h.check(f"compile --emit={part} says of what it {what} what inspect says", out == h.run("qcc", "inspect", h.path("emitted.qbin"), f"--emit={part}") and len(out) > 100,
                    out[:300].decode())
    p = h.tool("qcc", "compile", MODEL, "-o", h.path("none.qbin"), *QUICK, "--emit=kernels", "--compile-to=plan")
    h.check("--emit of no artifact is named in a warning", p.returncode == 0 and b"--emit has no effect: --compile-to=plan" in p.stderr and b'"targets"' not in p.stdout,
            p.stderr.decode()[-300:])
    refused(h, "compile --emit of something else", 2, "Q0102", ["--emit", "weather"], "qcc", "compile", MODEL, "-o", h.path("none.qbin"), "--emit=weather")
    refused(h, "--emit of something else", 2, "Q0101", ["--emit"], "qcc", "inspect", qbin, "--emit=weather")


def linked_kernels(h, held):
    """The kernels of CPU code, each by name: those that --dump-kernels writes, and whole as far as the artifact can tell."""
    folder, qbin = h.path("dumped"), h.path("linked.qbin")
    # Levels that share everything but the machine code.
    code = json.loads(h.run("qcc", "compile", MODEL, "-o", qbin, "-q", "--cpu=base,v3", *QUICK[1:], f"--dump-kernels={folder}", "--emit=kernels"))["targets"]
    programs = [p["name"] for p in held["programs"]]
    h.check("--emit=kernels lists a CPU's programs", [t["isa"] for t in code] == ["v3", "base"] and
            all([p["name"] for p in t["programs"]] == programs and all(0 < p["entry"] < t["code_bytes"] for p in t["programs"]) for t in code), str(code)[:300])

    def listed():
        for target in code:
            kernels = target["kernels"]
            dumped = {name[:-3] for name in os.listdir(os.path.join(folder, target["isa"])) if name.startswith("spec_") and name.endswith(".ll")}
            assert {k["name"] for k in kernels} == dumped and len(kernels) == len(dumped), f"listed {len(kernels)}, dumped {len(dumped)}"
            assert len({k["specification"] for k in kernels}) == len(kernels), "two kernels of one specification"
            assert all(k["code_bytes"] > 0 for k in kernels) and sum(k["code_bytes"] for k in kernels) < 2 * target["code_bytes"], str(kernels)[:300]
            assert {p for k in kernels for p in k["programs"]} == set(programs), "a program without kernels"
    h.case("--emit=kernels lists a CPU's kernels one by one", listed)

    def used():
        by_family = {}
        for kernel in code[0]["kernels"]:
            by_family.setdefault(kernel["specification"].split()[0], []).append(kernel)
        for kernel in by_family["attention"] + by_family["gated_delta"]:  # one for each program of the trunk, none for heads
            where, rows = kernel["programs"], kernel["specification"].rsplit(", ", 1)[1]
            assert where == [{"one row": "decode_1", "rows of the step": "prefill_32"}[rows]], str(kernel)
        assert all(k["specification"].count("{") == 1 and 'format = "q4_k"' in k["specification"] for k in by_family["embed"]), str(by_family["embed"])
    h.case("--emit=kernels: specification and programs of a CPU's kernels", used)

    def sizes():
        """As an assembler sees them: the text of each piece by itself. LLVM's: GNU's finds some jumps a shorter form."""
        if not shutil.which("clang-22") or not shutil.which("size"):
            return "skipped: no clang-22 or no binutils here"
        for target in code:
            for kernel in target["kernels"]:
                source, built = os.path.join(folder, target["isa"], kernel["name"] + ".s"), h.path("piece.o")
                subprocess.run(["clang-22", "-c", source, "-o", built], check=True)
                rows = subprocess.run(["size", "-A", built], check=True, capture_output=True, text=True).stdout
                text = sum(int(size) for size in re.findall(r"^\.text\S* +(\d+)", rows, re.MULTILINE))
                assert text == kernel["code_bytes"], f"{target['isa']} {kernel['name']}: {kernel['code_bytes']} bytes, assembled {text}"
        return None
    h.case("--emit=kernels: sizes of a CPU's kernels", sizes)


def diff(h):
    a = h.compile(MODEL, "a.qbin", *QUICK)
    kv = h.compile(MODEL, "kv.qbin", *QUICK, "--kv=f32")
    other = h.compile(OTHER, "other.qbin", *QUICK)
    same = h.path("same.qbin")
    shutil.copy(a, same)

    def told(one, two, *options):
        p = h.tool("qcc", "diff", one, two, *options)
        assert p.stderr == b"", p.stderr.decode()
        return p.returncode, p.stdout.decode()

    def equal():
        assert told(a, same) == (0, ""), str(told(a, same))
        code, out = told(a, same, "--json")
        assert code == 0 and json.loads(out)["equal"] is True, out
    h.case("equal artifacts: exit code 0 and nothing to say", equal)

    def option():
        code, out = told(a, kv, "--json")
        found = json.loads(out)
        fields = {d["field"]: (d["a"], d["b"]) for d in found["manifest"]}
        assert code == 1 and not found["equal"], f"exit {code}"
        assert fields["provenance.options.kv"] == ("f16", "f32") and fields["kv"] == ("f16", "f32"), str(fields)
        assert fields["states.blk.3.kv.element"] == ("b16", "f32"), str(fields)
        assert not any("offset" in field or "section" in field for field in fields if not field.startswith("states.")), str(fields)
        assert found["weights"] == [], f"the weights are the same: {found['weights'][:2]}"
        assert [s["name"] for s in found["sections"]] == ["code cpu base"], str(found["sections"])
        code, text = told(a, kv)
        assert code == 1 and 'manifest provenance.options.kv: "f16" -> "f32"\n' in text, text
    h.case("another option: the fields and the code that follow from it", option)

    def formats():
        code, out = told(a, other, "--json")
        by_name = {w["name"]: w for w in json.loads(out)["weights"]}
        changed = by_name["output.weight"]
        assert code == 1 and (changed["a"]["format"], changed["b"]["format"]) == ("q6_k", "q8_0"), str(changed)
        assert changed["first_byte"] is None and changed["a"]["shape"] == changed["b"]["shape"], str(changed)
    h.case("other formats: the weights, by name", formats)

    def targets():
        both = h.compile(MODEL, "both.qbin", *QUICK, "--target=cpu,vulkan", "--gpu-profiles=sg8-dot")
        for one, two in ((a, both), (both, a)):
            found = [s["name"] for s in json.loads(told(one, two, "--json")[1])["sections"]]
            assert "code vulkan sg8-dot" in found and not any("weights" in name for name in found), str(found)
        found = [s["name"] for s in json.loads(told(both, other, "--json")[1])["sections"]]
        assert "weights cpu" in found and "weights cpu vulkan" in found, str(found)
    h.case("another target that reads the same weights: their section is no difference", targets)

    def byte():
        weight = next(w for w in h.inspect(a)["weights"] if w["name"] == "output.weight")
        section = h.inspect(a)["sections"][weight["section"]]
        with open(same, "r+b") as f:
            at = section["offset"] + weight["offset"] + 7
            f.seek(at)
            was = f.read(1)
            f.seek(at)
            f.write(bytes([was[0] ^ 1]))
        # The damage is not in any hash, so both have one identity.
        code, out = told(a, same, "--json")
        found = json.loads(out)
        assert code == 1 and not found["equal"] and found["sections"] == [], f"exit {code}: {out}"
        assert [(w["name"], w["first_byte"]) for w in found["weights"]] == [("output.weight", 7)], str(found["weights"])
        code, text = told(a, same)
        assert code == 1 and "from byte 7 on" in text and "qcc verify" in text, text
        code, out = told(same, kv, "--json")
        found = json.loads(out)["weights"]
        assert code == 1 and [(w["name"], w["first_byte"]) for w in found] == [("output.weight", 7)], str(found)
    h.case("a weight that differs in one byte is named, and where", byte)
    refused(h, "diff with what is no artifact", 4, "Q4005", ["not a .qbin"], "qcc", "diff", a, MODEL)


def dumps(h):
    """A dump that does not fit is an error, also where only the last byte does not."""
    if not os.access("/dev/full", os.W_OK):
        print("skip dumps that do not fit: no /dev/full here")
        return
    for name in ("1-import", "2-fuse", "3-plan", "4-code"):
        folder = h.path(f"full-{name}")
        os.makedirs(folder)
        os.symlink("/dev/full", os.path.join(folder, f"{name}.mlir"))
        refused(h, f"--dump-ir: {name}.mlir onto a full disk", 6, "Q6003", [f"{name}.mlir"], "qcc", "compile", MODEL, "-o", h.path("full.qbin"), "-q", *QUICK,
                f"--dump-ir={folder}")
        h.check(f"no artifact beside {name}.mlir that did not fit", not os.path.exists(h.path("full.qbin")))
    folder = h.path("full-kernels")
    h.run("qcc", "compile", MODEL, "-o", h.path("kernels.qbin"), "-q", *QUICK, f"--dump-kernels={folder}")
    files = sorted(os.path.join(path, file) for path, _, names in os.walk(folder) for file in names)
    os.remove(files[-1])
    os.symlink("/dev/full", files[-1])
    refused(h, "--dump-kernels onto a full disk", 6, "Q6003", [os.path.basename(files[-1])], "qcc", "compile", MODEL, "-o", h.path("full.qbin"), "-q", *QUICK,
            f"--dump-kernels={folder}")


# What is typed, by tool, and all that may come of its last word.
COMPLETED = {
    "qcc": ((("comp",), {"compile", "completion"}), (("cache", "p"), {"prune"}), (("compile", "--kv", ""), {"f16", "f32"}),
            (("compile", "--kv", "=", "f1"), {"f16"}), (("compile", "--target", "cpu,vu"), {"cpu,vulkan"}),
            (("compile", "--report-f"), {"--report-form"}), (("inspect", "t3next-f-F32.g"), {"t3next-f-F32.gguf"}), (("synth", "--dump"), set()),
            (("completion", "b"), {"bash"}), (("inspect", "--emit", "=", ""), {"manifest", "kernels"}), (("cache", "artifact", "--cpu", "=", "nat"), {"native"}),
            (("compile", "--traceable", "=", ""), {"off", "on", "all"}), (("compile", "--strict", "=", "of"), {"off"}), (("compile", "--traceable", "t3next-f-F32.g"), {"t3next-f-F32.gguf"})),
    "qrun": ((("be",), {"bench"}), (("t3next-f-F32.g",), {"t3next-f-F32.gguf"}), (("t3next-f-F32.gguf", "--tim"), {"--timing"}), (("--think", "o"), {"on", "off"}),
             (("--timing", "=", "j"), {"json"}), (("--timing", "t3next-f-F32.g"), {"t3next-f-F32.gguf"}), (("-f", "t3next-f-F32.g"), {"t3next-f-F32.gguf"}), (("chat", "-s"), {"-s", "-sys"}), (("bench", "--de"), {"--depth", "--device"}),
             (("--draft", "o"), {"off"}), (("bench", "--draft", "=", "l"), {"lookup"}), (("--draft", "t3next-f-F32.g"), {"t3next-f-F32.gguf"}),
             (("--device", ""), {"cpu", "cuda", "vulkan", "auto"}), (("check", "--device", "cpu,vu"), {"cpu,vulkan"}),
             (("bench", "--think"), set()), (("tokenize", "--sp"), {"--special"}), (("man", "--h"), {"--help"}), (("completion", "z"), {"zsh"})),
}


def commands_of(h, tool):
    """Every command that --help lists, () for the tool itself, with what its own --help says."""
    def below(*path):
        text = h.run(tool, *path, "--help").decode()
        found = {path: text}
        listed = text.partition("Subcommands:")[2] if tool == "qcc" else text if not path else ""
        for name in re.findall(r"^  ([a-z]+)(?: |$)", listed, re.MULTILINE):
            if name != tool:
                found |= below(*path, name)
        return found
    return below()


def manual_pages(h, tool, every):
    man = shutil.which("man")
    for command, text in every.items():
        page = h.run(tool, "man", *command).decode()
        name = "-".join((tool, *command))
        said = re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text.split("Run qcc COMMAND")[0].split("qrun COMMAND --help")[0])
        lacks = [flag for flag in said if flag.replace("-", "\\-") not in page]
        h.check(f"{name}.1 has every option of --help", page.startswith('.TH "') and (said or tool == "qrun" and not command) and not lacks, f"lacks {lacks}")
        lacks = [sub[-1] for sub in every if sub[:-1] == command and sub != command and f"\\fB{sub[-1]}\\fR" not in page]
        h.check(f"{name}.1 lists its commands", not lacks, f"lacks {lacks}")
        if man is None:
            continue
        p = subprocess.run([man, "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", "-"], input=page.encode(), capture_output=True,
                           env=os.environ | {"LC_ALL": "C.UTF-8", "MANROFFSEQ": ""})
        h.check(f"{name}.1 is formatted without a warning", p.returncode == 0 and p.stderr == b"", p.stderr.decode())
    if man is None:
        print("skip formatting manual pages: no man here")
    refused(h, "the page of no command", 2, "Q0101", ["nothing"], tool, "man", "nothing")


def completions(h, tool, every):
    scripts = {}
    for shell in ("bash", "zsh", "fish"):
        scripts[shell] = h.path(f"{tool}.{shell}")
        text = h.run(tool, "completion", shell).decode()
        with open(scripts[shell], "w", encoding="utf-8") as f:
            f.write(text)
        words = [command[-1] for command in every if command] + [{"qcc": "report-form", "qrun": "frequency-penalty"}[tool]]
        h.check(f"{tool} completion {shell} has every command", all(word in text for word in words))
        if shutil.which(shell):
            p = subprocess.run([shell, "-n", scripts[shell]], text=True, capture_output=True)
            h.check(f"{tool} completion {shell} parses", p.returncode == 0 and p.stderr == "", p.stderr)

    def by_bash(words, cwd=GOLDEN):
        line = " ".join(f"'{word}'" for word in (tool, *words))
        body = f". {scripts['bash']}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _{tool}; printf '%s\n' \"${{COMPREPLY[@]}}\""
        return subprocess.run(["bash", "-c", body], capture_output=True, text=True, cwd=cwd)

    def by_fish(words):
        line = " ".join((tool, *words)).replace(" = ", "=")
        return subprocess.run(["fish", "--no-config", "-c", f"source {scripts['fish']}; complete -C '{line}'"], capture_output=True, text=True, cwd=GOLDEN,
                              env=os.environ | {"HOME": h.work})

    def case(shell, words, want, complete):
        p = complete(words)
        assert p.returncode == 0 and p.stderr == "", p.stderr
        got = {line.split("\t")[0].split("=")[-1] for line in p.stdout.splitlines()} - {""}
        assert got == want, f"{got}, expected {want}"
    for words, want in COMPLETED[tool]:
        h.case(f"bash completes {' '.join((tool, *words))!r}", lambda: case("bash", words, want, by_bash))
        # fish offers the long name where a short one is typed, and knows no lists of values.
        if shutil.which("fish") and "cpu,vu" not in words and "-s" not in words:
            h.case(f"fish completes {' '.join((tool, *words))!r}", lambda: case("fish", words, want, by_fish))
    spaced = h.path("spaced")
    os.makedirs(spaced, exist_ok=True)
    with open(os.path.join(spaced, "my model.gguf"), "w", encoding="utf-8"):
        pass
    for words in {"qcc": (("inspect", "my"), ("compile", "-o", "my")), "qrun": (("my",), ("-f", "my"))}[tool]:
        h.case(f"bash completes a name with a space: {' '.join((tool, *words))!r}",
               lambda: case("bash", words, {"my model.gguf"}, lambda typed: by_bash(typed, spaced)))
    refused(h, f"{tool} completion of no shell", 2, "Q0101", ["shell"], tool, "completion", "tcsh")


def pages(h):
    """Manual pages and completion know what --help knows."""
    for tool, some in (("qcc", {("compile",), ("cache", "prune")}), ("qrun", {("chat",), ("bench",), ("man",)})):
        every = commands_of(h, tool)
        h.check(f"the commands of {tool} --help", some <= every.keys() and len(every) > 8, str(list(every)))
        manual_pages(h, tool, every)
        completions(h, tool, every)
    for name, values in (("traceable", "off|on|all"), ("draft", "off|on"), ("no-cache", "off|on"), ("strict", "off|on")):
        said = h.run("qcc", "compile", "--help").decode()
        h.check(f"qcc compile --help has the values of --{name}", f"  --{name}[={values}] " in said, [line for line in said.splitlines() if name in line])
        roff = name.replace("-", "\\-")
        page = h.run("qcc", "man", "compile").decode()
        h.check(f"qcc-compile.1 has the values of --{name}", f"\\fB\\-\\-{roff}\\fR[=\\fI{values}\\fR]\n" in page, [line for line in page.splitlines() if roff in line])


def main():
    h = quiet_harness(__doc__)
    QUICK.append("--cache-dir=" + h.path("cache"))  # these are about what is said of code, not about making it
    for part in h.share((reports, parts, diff, dumps, pages)):
        part(h)
    h.finish()


if __name__ == "__main__":
    main()
