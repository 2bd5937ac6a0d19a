"""Drafts: whoever guesses, the text and the saved session are those of plain decoding; the model's own draft guesses as well as the
reference says; a draft of an artifact of its own guesses the same, and is refused beside another model. speculate.cc compares texts and sessions
through the public API."""
import json
import os
import struct
import subprocess

import gguf_edit
import harness
from harness import GOLDEN, TINY

I64 = 27  # type id of a tensor
OPTIONS = ("--cpu=native", "--decode=1,4,8", "--prefill=32,128", "--goldens=off")


def speculate(h, *args, threads=1):
    """speculate.cc; on one thread, since of models so small several mostly wait for each other (test_invariance.py compares their bits)."""
    p = subprocess.run([os.path.join(h.args.bin, "speculate"), "-t", str(threads), *args], capture_output=True, check=False)
    assert p.returncode == 0, p.stderr.decode(errors="replace")
    return json.loads(p.stdout)


def texts(h, name, *args, threads=1):
    """The JSON of a run that compared texts."""
    found = {}

    def body():
        found.update(speculate(h, *args, threads=threads))
        assert found["compared"] == 56 and found["guessed"] > 0, found
        return str(found)
    h.case(f"{name}: text and session are those of plain decoding", body)
    return found


def alone(h, model):
    """The NextN block's file of a model, as it is published: without the trunk's blocks."""
    names = [w["name"] for w in h.inspect(model)["tensors"]]
    trunk = {n for n in names if n.startswith("blk.") and ".nextn." not in n and not n.startswith("blk.8.")}
    return gguf_edit.with_tensors(model, h.path("mtp-only.gguf"), trunk)


def refused(h, name, code, says, *command):
    p = h.tool(*command)
    error = p.stderr.decode(errors="replace")
    h.expect(name, p.returncode != 0 and code in error and all(s in error for s in says), p.returncode, error)


def own_artifact(h, both, compared):
    """LC-5: of the file of the NextN block alone an artifact that links against one of the model."""
    file = alone(h, TINY)
    refused(h, "the block's file is no model, and the error says what makes a draft of it", "Q2005", ["--draft"], "qcc", "compile", file, "-o", h.path("x.qbin"))
    draft = h.compile(file, "draft.qbin", "--draft", *OPTIONS)
    trunk = h.compile(TINY, "trunk.qbin", "--functions=trunk", "--last-ffn=all", *OPTIONS)
    found = texts(h, "a draft of its own", trunk, "cpu", draft)
    h.expect("it guesses as the model's own does", found == compared, found, compared)
    whole = h.compile(TINY, "whole.qbin", "--draft", *OPTIONS)
    h.expect("of the whole model the same programs", h.inspect(whole)["programs"] == h.inspect(draft)["programs"])
    weights = [sum(w["bytes"] for w in h.inspect(a)["weights"]) for a in (draft, both)]
    h.expect("a draft has its own weights alone", weights[0] < weights[1] / 2, weights)

    ask = ("-p", "The king", "--raw", "-n", "20", "--seed", "1")
    plain = h.run("qrun", trunk, *ask, "--draft", "off")
    h.expect("qrun --draft FILE writes the same text", h.run("qrun", trunk, *ask, "--draft", draft) == plain)
    p = h.tool("qrun", "check", draft, "--json")
    code = json.loads(p.stdout)["code"]
    h.expect("qrun check of a draft: nothing to compare with", p.returncode == 0 and p.stderr == b"" and {c["result"] for c in code} == {"unchecked"}, p.stdout, p.stderr)
    refused(h, "a draft makes no text", "Q5336", ["--draft"], "qrun", draft, *ask)
    greedy = h.tool("qrun", trunk, *ask, "--greedy", "--draft", trunk, "--draft-len", "4", "--timing=json")
    timing = json.loads(greedy.stderr.decode().strip().split("\n")[-1])
    h.expect("a model guesses what it says itself", greedy.stdout == h.run("qrun", trunk, *ask, "--greedy") and timing["decode_steps"] <= 6
             and timing["drafted_tokens"] - timing["accepted_tokens"] < 4, timing)
    chosen = h.compile(TINY, "chosen.qbin", "--functions=trunk", *OPTIONS)
    refused(h, "a model that leaves its last layer to the head", "Q5335", ["--last-ffn=all"], "qrun", chosen, *ask, "--draft", draft)
    other = h.compile(os.path.join(GOLDEN, "t35-mtp-F32.gguf"), "other.qbin", "--draft", *OPTIONS)
    refused(h, "another model's draft", "Q5335", ["tokenizer"], "qrun", trunk, *ask, "--draft", other)
    moe = h.compile(os.path.join(GOLDEN, "t3-q-Q4_K_M.gguf"), "t3.qbin", "--last-ffn=all", *OPTIONS)
    refused(h, "another architecture's draft", "Q5335", ["qwen35", "qwen3"], "qrun", moe, *ask, "--draft", other)
    refused(h, "a model without a NextN block", "Q2005", ["nextn_predict_layers"], "qcc", "compile", "--draft", os.path.join(GOLDEN, "t35-q-Q8_0.gguf"), "-o",
            h.path("x.qbin"))
    refused(h, "--draft and --functions", "Q0102", ["--functions"], "qcc", "compile", "--draft", "--functions=trunk", file, "-o", h.path("x.qbin"))
    return trunk, draft


def without_block(h, model):
    """A model as it is published beside its block's file."""
    names = {w["name"] for w in h.inspect(model)["tensors"] if w["name"].startswith("blk.8.")}
    bare = gguf_edit.with_tensors(model, h.path("bare-tensors.gguf"), names)
    return gguf_edit.with_metadata(bare, h.path("bare.gguf"), {"qwen35.nextn_predict_layers": None, "qwen35.block_count": gguf_edit.u32_value(8)})


def other_arithmetic(h, bare, block):
    """The block's file states what its model computes with."""
    changes = (("eps", "attention.layer_norm_rms_epsilon", gguf_edit.f32_value(0.5), ["is 0.5"]), ("scale", "attention.scale", gguf_edit.f32_value(0.5), ["is 0.5"]),
               ("base", "rope.freq_base", gguf_edit.f32_value(500.0), ["another rotation"]),
               ("scaling", "rope.scaling.factor", gguf_edit.f32_value(4.0), ["another rotation"]))
    for name, key, value, says in changes:
        file = gguf_edit.with_metadata(block, h.path(f"{name}.gguf"), {f"qwen35.{key}": value})
        yield f"another {key}", bare, file, [*says, key if "is" in says[0] else "qwen35.rope"]


def joined(h, both):
    """Of the model's file and its block's the artifact of the whole model, but for what it says of its source; and what is not the model's block."""
    bare, block = without_block(h, TINY), alone(h, TINY)
    artifact = h.compile(bare, "joined.qbin", f"--mtp={block}", *OPTIONS)
    told = h.tool("qcc", "diff", both, artifact).stdout.decode().splitlines()
    fields = sorted(line.split(":")[0] for line in told[1:])
    h.expect("--mtp: one artifact, as of the whole model", "0 sections, 4 fields of the manifest, 0 weights" in told[0]
             and fields == [f"manifest provenance.{key}" for key in ("options.mtp", "source_bytes", "source_hash", "source_name")], told)
    options = h.inspect(artifact)["provenance"]["options"]
    h.expect("--mtp: the provenance names the block's file", options["mtp"] == os.path.basename(block), options)
    kept = gguf_edit.with_metadata(bare, h.path("kept.gguf"), {"qwen35.nextn_predict_layers": gguf_edit.u32_value(1), "qwen35.block_count": gguf_edit.u32_value(9)})
    told = h.tool("qcc", "diff", artifact, h.compile(kept, "kept.qbin", f"--mtp={block}", *OPTIONS)).stdout.decode()
    h.expect("--mtp: beside a model that has only the key left of its block", "0 sections" in told and "0 weights" in told, told)
    out = h.path("x.qbin")
    refused(h, "--draft of a model that has only the key left of its block", "Q2005", ["counts one, but its tensors are missing"], "qcc", "compile", kept, "-o", out, "--draft")
    other = os.path.join(GOLDEN, "t35-mtp-F32.gguf")
    words = gguf_edit.strings(block, "tokenizer.ggml.tokens")
    renamed = gguf_edit.with_metadata(block, h.path("words.gguf"), {"tokenizer.ggml.tokens": gguf_edit.string_array_value(words[:300] + ["another"] + words[301:])})
    deeper = gguf_edit.with_metadata(bare, h.path("deeper.gguf"), {"qwen35.block_count": gguf_edit.u32_value(7)})
    for name, model, mtp, says in (
            ("no block", bare, bare, ["holds no NextN block", "nextn_predict_layers is missing"]), ("a model with a block", TINY, block, ["of its own"]),
            ("another vocabulary", bare, other, ["288 tokens", "4096"]), ("other words", bare, renamed, ["differ from token 300 on"]),
            *other_arithmetic(h, bare, block),
            ("another depth", deeper, block, ["8 layers", "has 7"]), ("another architecture", os.path.join(GOLDEN, "t3-q-Q4_K_M.gguf"), block, ['"qwen35"', '"qwen3"'])):
        refused(h, f"--mtp: {name}", "Q2010", says, "qcc", "compile", model, "-o", out, f"--mtp={mtp}")
    cut = gguf_edit.with_tensors(block, h.path("cut-block.gguf"), {"blk.8.nextn.eh_proj.weight"})
    refused(h, "--mtp: a block that lacks a tensor", "Q2005", ["blk.8.nextn.eh_proj.weight", cut], "qcc", "compile", bare, "-o", out, f"--mtp={cut}")
    short = gguf_edit.with_metadata(block, h.path("short-block.gguf"), {"qwen35.block_count": gguf_edit.u32_value(1)})
    refused(h, "--mtp: a block that counts no layers", "Q2010", ["qwen35.block_count is 1"], "qcc", "compile", bare, "-o", out, f"--mtp={short}")
    refused(h, "--mtp: the file is not there", "Q1001", ["none.gguf"], "qcc", "compile", bare, "-o", out, f"--mtp={h.path('none.gguf')}")
    refused(h, "--mtp: its file is the output", "Q0103", ["input"], "qcc", "compile", bare, "-o", block, f"--mtp={block}")
    refused(h, "--mtp and --draft", "Q0102", ["--mtp"], "qcc", "compile", bare, "-o", out, "--draft", f"--mtp={block}")
    # Whoever asks the cache gets the artifact of these two files.
    os.mkdir(h.path("other"))
    changed = gguf_edit.with_metadata(block, os.path.join(h.path("other"), os.path.basename(block)), {"general.name": gguf_edit.string_value("another")})
    ask = ("qcc", "cache", "artifact", bare, f"--cache-dir={h.path('cache')}", "--cpu=native", "--decode=1", "--prefill=16", "--goldens=off")
    places = [h.run(*ask, *mtp) for mtp in ([f"--mtp={block}"], [f"--mtp={block}"], [f"--mtp={changed}"], [])]
    h.expect("--mtp: the cache tells the block's files apart", places[0] == places[1] and len(set(places)) == 3, places)


def some_tokens(h, both, compared):
    """RLX-61, RLX-65: a draft of the first tokens changes nothing but how often it is right, and has no weights of its own."""
    some = h.compile(TINY, "some.qbin", "--draft-vocab=1000", *OPTIONS)
    found = texts(h, "a draft of 1000 tokens", some, "cpu")
    h.expect("fewer guesses are right", 0 < found["accepted"] < compared["accepted"], found, compared)
    report, whole = h.inspect(some), h.inspect(both)
    cols = {p["name"]: p["logits_cols"] for p in report["programs"]}
    h.expect("logits of the tokens asked for, in whole groups of 16", (cols["mtp_1"], cols["mtp_next_1"], cols["mtp_prefill_32"], cols["decode_1"]) == (1008, 1008, 0, 4096), cols)
    h.expect("weights are those of a draft of all tokens, once", report["weights"] == whole["weights"], report["weights"])
    h.run("qcc", "compile", TINY, "--target=cuda", "--gpu-profiles=sm80", "--draft-vocab=1000", "--decode=1", "--prefill=32", "--compile-to=code", "-q")
    return found


def own_tokens(h, compared):
    """A head that the file has trimmed itself: its table says which tokens its rows stand for, in the model's file and in the block's."""
    (width, _), kind, table = gguf_edit.tensor(TINY, "token_embd.weight")
    row = width // 32 * 34  # q8_0
    ids = list(range(1007, -1, -1)) + [9, 8, 7]  # what is no whole group of 16 is left out
    head = ([width, len(ids)], kind, b"".join(table[i * row:(i + 1) * row] for i in ids))
    d2t = lambda of: ([len(of)], I64, struct.pack(f"<{len(of)}q", *of))
    model = gguf_edit.with_tensors(TINY, h.path("trimmed.gguf"), set(), {"blk.8.nextn.shared_head_head.weight": head, "d2t": d2t(ids)})
    artifact = h.compile(model, "own.qbin", *OPTIONS)
    cols = {p["name"]: p["logits_cols"] for p in h.inspect(artifact)["programs"]}
    h.expect("d2t: a head of its own", (cols["mtp_1"], cols["decode_1"]) == (1008, 4096), cols)
    found = texts(h, "d2t", artifact, "cpu")
    h.expect("d2t: the same guesses as of those tokens in order", found == compared, found, compared)
    cut = h.compile(model, "own-parts.qbin", "--layers=cpu:0-3,cpu:4-7", *OPTIONS)
    h.expect("d2t: the same guesses in parts", texts(h, "d2t in parts", cut, "cpu,cpu") == compared)
    block = gguf_edit.with_tensors(alone(h, TINY), h.path("trimmed-block.gguf"), set(), {"output.weight": head, "d2t": d2t(ids)})
    joined_up = h.compile(without_block(h, TINY), "own-joined.qbin", f"--mtp={block}", *OPTIONS)
    told = h.tool("qcc", "diff", artifact, joined_up).stdout.decode()
    h.expect("d2t: the block's file has the head as its output", "0 sections, 4 fields of the manifest, 0 weights" in told, told)
    draft = h.compile(block, "own-draft.qbin", "--draft", *OPTIONS)
    cols = {p["name"]: p["logits_cols"] for p in h.inspect(draft)["programs"]}
    h.expect("d2t: an artifact of such a file alone", cols["mtp_1"] == 1008, cols)
    both = gguf_edit.with_tensors(alone(h, TINY), h.path("both-heads.gguf"), set(),
                                  {"output.weight": gguf_edit.tensor(TINY, "token_embd.weight"), "blk.8.nextn.shared_head_head.weight": head, "d2t": d2t(ids)})
    told = h.tool("qcc", "diff", artifact, h.compile(without_block(h, TINY), "both-joined.qbin", f"--mtp={both}", *OPTIONS)).stdout.decode()
    h.expect("d2t: the block's file has the model's head, too", "0 sections, 4 fields of the manifest, 0 weights" in told, told)
    for name, of, code, says in (("an id outside", ids[:-1] + [4096], "Q2011", ["1010", "4096", "0 to 4095"]), ("too few ids", ids[1:], "Q2006", ["1010 ids", "1011"])):
        bad = gguf_edit.with_tensors(TINY, h.path("bad.gguf"), set(), {"blk.8.nextn.shared_head_head.weight": head, "d2t": d2t(of)})
        refused(h, f"d2t: {name}", code, says, "qcc", "compile", bad, "-o", h.path("x.qbin"))
    # A vocabulary of no more than a group of rows cannot be trimmed: its head has a row for each token.
    for tokens, rows in ((16, 8), (16, 20), (12, 16), (12, 11)):
        tables = {"token_embd.weight": ([width, tokens], kind, table[:tokens * row]), "blk.8.nextn.shared_head_head.weight": ([width, rows], kind, table[:rows * row]),
                  "d2t": d2t([i % tokens for i in range(rows)])}
        bad = gguf_edit.with_tensors(TINY, h.path("bad.gguf"), {"token_embd.weight"}, tables)
        refused(h, f"d2t: {rows} rows for {tokens} tokens", "Q2006", [f"{{{width}, {rows}}}", f"expected {{{width}, {tokens}}}"], "qcc", "compile", bad, "--compile-to=import", "-q")


def presence(h):
    """LC-22: whatever of embedding, head and head norm the block has of its own is stored, and what it shares is stored once."""
    like = {"nextn.embed_tokens.weight": "token_embd.weight", "nextn.shared_head_head.weight": "token_embd.weight", "nextn.shared_head_norm.weight": "output_norm.weight"}
    own = {f"blk.8.{name}": gguf_edit.tensor(TINY, of) for name, of in like.items()}
    has = {"blk.8.nextn.shared_head_norm.weight"}
    base = gguf_edit.with_tensors(TINY, h.path("shared.gguf"), has)

    def packed(model):
        report = h.run("qcc", "compile", model, "-q", "--compile-to=plan", "--report=formats", "--report-form=json").decode().splitlines()
        line, = [text for text in report if text.startswith('{"report":"formats"')]
        return sum(entry["source_bytes"] for entry in json.loads(line)["weights"])

    def body():
        shared = packed(base)
        for which in range(8):
            added = {name: own[name] for i, name in enumerate(own) if which >> i & 1}
            expected = shared + sum(len(data) for _, _, data in added.values())
            found = packed(gguf_edit.with_tensors(base, h.path("presence.gguf"), set(), added))
            assert found == expected, f"with {sorted(added)}: {found} bytes of tensors, expected {expected}"
        return "8 ways"
    h.case("own or shared embedding, head and norm", body)


def in_parts(h, compared):
    """A model whose layers several devices run: its block drafts with the last part as it does in one piece, or an artifact of the block does."""
    layers = "--layers=cpu:0-3,cpu:4-7"
    parts = h.compile(TINY, "parts.qbin", layers, *OPTIONS)
    found = texts(h, "in parts", parts, "cpu,cpu", threads=0)
    h.expect("in parts: the guesses of one piece", found == compared, found, compared)
    report = h.inspect(parts)
    drafts = [(s["name"], s["part"]) for s in report["states"] if s["layer"] == 8]
    h.expect("in parts: the block's KV is with the last", drafts == [("blk.8.kv", 1)], drafts)
    names = [w["name"] for w in report["weights"]]
    h.expect("in parts: the block's weights are there once", all(names.count(n) == 1 for n in names if n.startswith("blk.8.")) and any(n.startswith("blk.8.") for n in names), names)
    joined_up = h.compile(without_block(h, TINY), "parts-joined.qbin", layers, f"--mtp={alone(h, TINY)}", *OPTIONS)
    told = h.tool("qcc", "diff", parts, joined_up).stdout.decode()
    h.expect("in parts, --mtp: the same artifact", "0 sections, 4 fields of the manifest, 0 weights" in told, told)

    bare = h.compile(TINY, "parts-bare.qbin", layers, "--functions=trunk", "--last-ffn=all", *OPTIONS)
    draft = h.compile(TINY, "some-draft.qbin", "--draft", "--draft-vocab=1000", *OPTIONS)
    ask = ("-p", "The king", "--raw", "-n", "20", "--seed", "1")
    plain = h.run("qrun", bare, *ask)
    h.expect("in parts, with a draft: the same text", h.run("qrun", bare, *ask, "--draft", draft) == plain)
    h.expect("in parts, another draft than its own: the same text", h.run("qrun", parts, *ask, "--draft", draft) == plain)
    refused(h, "in parts, without one", "Q5334", [], "qrun", bare, *ask, "--draft", "mtp")
    refused(h, "--layers without the trunk", "Q0102", ["--functions", "add trunk"], "qcc", "compile", TINY, "-o", h.path("x.qbin"), layers, "--functions=mtp")


def command_line(h, both):
    ask = (both, "-p", "Tell me of the king.", "-n", "40", "--seed", "4", "--temp", "0.6")
    texts, sessions, timings = [], [], []
    for options in (["--draft", "off"], [], ["--draft", "mtp", "--draft-len", "7"], ["--draft", "mtp", "--draft-len", "auto"], ["--draft", "lookup", "--draft-len", "2"]):
        saved = h.path("saved")
        p = h.tool("qrun", *ask, *options, "--save-session", saved, "--timing=json")
        h.expect(f"qrun {' '.join(options)}", p.returncode == 0, p.stderr)
        texts.append(p.stdout)
        timings.append(json.loads(p.stderr.decode().strip().split("\n")[-1]))
        with open(saved, "rb") as f:
            sessions.append(f.read())
        texts.append(h.run("qrun", both, *options, "--load-session", saved, "-n", "8", "--greedy"))
    h.expect("one text, one way to go on, one saved session", len(set(texts[0::2])) == 1 and len(set(texts[1::2])) == 1 and len(set(sessions)) == 1, texts)
    off, usual = timings[0], timings[1]
    h.expect("--timing of plain decoding", off["drafted_tokens"] == 0 and off["accepted_tokens"] == 0 and off["tokens_per_step"] in (0, 1), off)
    h.expect("a model with a draft drafts by itself", usual["drafted_tokens"] >= usual["accepted_tokens"] and usual["drafted_tokens"] > 0, usual)
    seven = timings[2]
    h.expect("guesses save steps", seven["drafted_tokens"] > seven["accepted_tokens"] > 0 and seven["decode_steps"] < off["decode_steps"], seven)
    p = h.tool("qrun", *ask, "--timing")
    h.expect("--timing says it to people", b"tokens per step" in p.stderr, p.stderr)
    plain = h.compile(os.path.join(GOLDEN, "t3-q-Q4_K_M.gguf"), "plain.qbin", *OPTIONS)
    refused(h, "--draft mtp of a model that cannot", "Q5334", [], "qrun", plain, "-p", "x", "--raw", "--draft", "mtp")
    refused(h, "--draft-len without a draft", "Q0101", ["--draft-len"], "qrun", plain, "-p", "x", "--raw", "--draft-len", "2")
    refused(h, "--draft-len of neither a number nor auto", "Q0101", ["auto or"], "qrun", both, "-p", "x", "--draft-len", "16")


def as_used(h, both, draft):
    """Texts by samplers as they are used, plain and with every kind of draft. The full size is 100 prompts of 200 tokens."""
    ids = os.path.join(GOLDEN, "tiny", "text.ids.txt")
    changed = gguf_edit.with_metadata(TINY, h.path("changed.gguf"), {"qwen35.rope.freq_base": gguf_edit.f32_value(300.0)})
    other = h.compile(changed, "changed.qbin", *OPTIONS)
    for name, artifact, drafts in (("mtp, lookup", both, "-"), ("a file", *draft), ("another model", draft[0], other)):
        def body():
            found = speculate(h, artifact, "cpu", drafts, ids, "16", "60")
            assert found["compared"] == 192 and found["accepted"] > 0, found
            return str(found)
        h.case(f"texts by four samplers with drafts of {name} are those of plain decoding", body)


def going_on(h, both):
    """A saved session goes on with the text that one run would have written: tokens are drawn by their positions."""
    ask = ("--temp", "0.9", "--top-p", "0.95", "--repeat-penalty", "1.1", "--ignore-eos", "--seed", "11")
    whole = h.run("qrun", both, "-p", "Tell me of the king.", *ask, "-n", "60", "--draft", "off")
    for first, second in (("off", "off"), ("mtp", "lookup"), ("off", "mtp")):
        saved = h.path("half")
        begin = h.run("qrun", both, "-p", "Tell me of the king.", *ask, "-n", "23", "--draft", first, "--save-session", saved)
        rest = h.run("qrun", both, "--load-session", saved, *ask, "-n", "37", "--draft", second)
        h.expect(f"saved after 23 tokens with draft {first}, gone on with {second}: the text of one run", begin + rest == whole, begin, rest, whole)


def bench(h, both):
    ask = ("bench", both, "-p", "0", "-n", "24", "-r", "1", "--draft")
    true = json.loads(h.run("qrun", *ask, "lookup", "--json"))["drafts"]
    h.expect("bench --draft of the true share", true["acceptance_faked"] is False and true["forced_acceptance"] is None and true["draft_tokens"] == "auto", true)
    for share, tokens_per_step in ((0, 1), (1, 4)):
        found = json.loads(h.run("qrun", *ask, "mtp", "--draft-len", "3", "--force-acceptance", str(share), "--json"))
        drafts = found["drafts"]
        right = drafts["accepted"] == share * drafts["guessed"] and drafts["tokens_per_step"] == tokens_per_step
        h.expect(f"bench with a forced share of {share}", right and drafts["acceptance_faked"] and len(drafts["drafted"]["samples"]) == 1 and drafts["ratio"] > 0, drafts)
    h.expect("bench says that the share is faked", b"ACCEPTANCE IS FAKED" in h.run("qrun", *ask, "mtp", "--force-acceptance", "0.7"))
    refused(h, "a forced share without a draft", "Q0101", ["--force-acceptance"], "qrun", "bench", both, "--force-acceptance", "0.7")
    refused(h, "drafts of several sessions", "Q0101", ["--sessions"], "qrun", *ask, "mtp", "--sessions", "2")


def on_vulkan(h):
    """The same through the public interface of devices; few tokens, because here it may be a GPU that plays on the CPU."""
    if not any(d.startswith("vulkan") for d in h.usable_devices()):
        print("skip vulkan: cannot be used here")
        return
    for device, where in (("vulkan", ("--target=vulkan",)), ("cpu,vulkan", ("--layers=cpu:0-5,vulkan:6-7", "--cpu=native"))):
        both = h.compile(TINY, "vulkan.qbin", "--draft-vocab=1000", *where, "--decode=1,4", "--prefill=32", "--goldens=off")
        found = []
        for draft in ("off", "mtp"):
            saved = h.path("saved")
            p = h.tool("qrun", both, f"--device={device}", "-p", "Tell me of the king.", "-n", "10", "--seed", "4", "--draft", draft, "--save-session", saved,
                       "--timing=json")
            h.expect(f"{device}, draft {draft}", p.returncode == 0, p.stderr)
            with open(saved, "rb") as f:
                found.append((p.stdout, f.read()))
        drafted = json.loads(p.stderr.decode().strip().split("\n")[-1])["drafted_tokens"]
        h.expect(f"{device}: one text, one saved session", found[0] == found[1] and drafted > 0, drafted, found[0][0], found[1][0])


def main():
    h = harness.Harness(__doc__)
    both = h.compile(TINY, "both.qbin", *OPTIONS)
    compared = texts(h, "tiny", both, "cpu", threads=0)  # as many as the machine has
    texts(h, "t35-mtp-F32 in f32", h.compile(os.path.join(GOLDEN, "t35-mtp-F32.gguf"), "f32.qbin", "--numerics=f32", "--kv=f32", *OPTIONS), "cpu")
    with open(os.path.join(GOLDEN, "tiny", "known.json"), encoding="utf-8") as f:
        stated = json.load(f)["models"]["tiny-qwen35-q8_0"]["mtp_agreement"]
    found = speculate(h, both, "cpu", "-", os.path.join(GOLDEN, "tiny", "text.ids.txt"))
    share = found["accepted"] / found["guessed"]
    h.check(f"the draft guesses {share:.3f} of a text's next tokens, stated {stated:.3f}", abs(share - stated) < 0.02, str(found))
    as_used(h, both, own_artifact(h, both, compared))
    joined(h, both)
    own_tokens(h, some_tokens(h, both, compared))
    presence(h)
    in_parts(h, compared)
    command_line(h, both)
    going_on(h, both)
    bench(h, both)
    on_vulkan(h)
    h.finish()


if __name__ == "__main__":
    main()
