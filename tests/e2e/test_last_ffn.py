#!/usr/bin/env python3
"""The last layer's feed-forward part is computed for the rows whose logits are asked for, and logits are the same bits as when it is
computed of every row."""
import json
import re

from harness import Harness, goldens

# Dense, gated and linear attention; experts, with a shared one and without.
MODELS = ("t3-q-Q4_K_M", "t35-q-Q4_K_M", "t35moe-f-F16", "t3moe-q-Q4_K_M", "t3next-f-F32")


def main():
    h = Harness(__doc__)
    for name, gguf, tokens, _, _ in goldens():
        if name in MODELS:
            # An artifact takes two seconds: f32 differs from int8 in its linears, which all models have in common.
            for numerics in ("int8", "f32") if name == "t35-q-Q4_K_M" else ("int8",):
                pair = [compiled(h, gguf, words, f"--numerics={numerics}") for words in ("chosen", "all")]
                h.case(f"{name} {numerics}", lambda: same_bits(h, *pair, tokens))
                h.case(f"{name} {numerics}: what moved", lambda: moved(h, *pair))
    mtp, = [gguf for name, gguf, *_ in goldens() if name == "t35-mtp-F32"]
    h.case("a draft needs the finished rows", lambda: kept(h, mtp))
    dense, = [gguf for name, gguf, *_ in goldens() if name == "t3-q-Q4_K_M"]
    h.case("a trace needs the finished rows", lambda: traced(h, dense))
    h.check("all models were there", h.passed + h.failed == 2 * len(MODELS) + 4, f"{h.passed + h.failed} cases")
    h.finish()


def compiled(h, gguf, last_ffn, *options):
    # The head runs full, in part, and several times for the rows of one prefill.
    return h.compile(gguf, f"{last_ffn}.qbin", f"--last-ffn={last_ffn}", "--cpu=native", "--decode=1,4", "--prefill=16", "--goldens=4", *options)


def same_bits(h, chosen, every, tokens):
    want = h.logits(every, tokens)
    for split in (None, "1", "17,5", "16"):
        for threads in (1, 2):
            options = ["-t", threads] + (["--split", split] if split else [])
            assert h.logits(chosen, tokens, *options) == want, f"other bits with --split={split} -t {threads}"
    h.run("qrun", "check", chosen)
    return f"{want[0]} rows"


def moved(h, chosen, every):
    """Dispatches and weights that prefill no longer has are those that the head has more, and one that picks its rows."""
    chosen, every = h.inspect(chosen), h.inspect(every)
    assert chosen["provenance"]["options"].get("last_ffn") == "chosen", f"the provenance has {chosen['provenance']['options']}"
    assert chosen["format"]["required_features"] == 1 and every["format"]["required_features"] == 0, \
        f"required features {chosen['format']['required_features']} and {every['format']['required_features']}: a reader that does not know selected rows must refuse the first"
    a, b = ({p["name"]: p for p in artifact["programs"]} for artifact in (every, chosen))
    assert list(a) == list(b), f"other programs: {list(a)} and {list(b)}"
    last = max(int(m[1]) for w in every["weights"] if (m := re.match(r"blk\.(\d+)\.", w["name"])))
    ffn = [w for w in every["weights"] if re.match(rf"blk\.{last}\.(post_attention_norm|ffn_)", w["name"])]
    assert len(ffn) >= 3, f"the last layer's feed-forward weights are {[w['name'] for w in ffn]}"
    dense = not any("_exps" in w["name"] for w in ffn)
    for name in a:
        dispatches, weights = (b[name][key] - a[name][key] for key in ("dispatches", "weight_bytes"))
        if name.startswith("decode"):
            assert (dispatches, weights) == (0, 0), f"{name}: {dispatches} dispatches and {weights} bytes of weights more, expected the same"
        elif name.startswith("prefill"):
            assert dispatches <= -3, f"{name}: {dispatches} dispatches more, expected the feed-forward part's fewer"
            fewer = dispatches
            if dense:
                assert weights == -sum(w["bytes"] for w in ffn), f"{name}: {-weights} bytes of weights fewer, expected {sum(w['bytes'] for w in ffn)} of the last layer's feed-forward part"
        else:
            # In both ways the head normalises and multiplies once; one dispatch more picks the rows. One row needs no sorting by expert.
            expected = 1 - fewer - (not dense and b[name]["rows"] == 1)
            assert dispatches == expected, f"{name}: {dispatches} dispatches more, expected {expected}"
    return f"{-fewer} dispatches"


def kept(h, gguf):
    report = h.run("qcc", "compile", gguf, "-o", h.path("mtp.qbin"), "-q", "--cpu=native", "--report=fusion").decode()
    assert "kept last_ffn: @mtp is given rows of all tokens" in report, f"the report does not say that it was kept: {report[-300:]}"
    report = json.loads(h.run("qcc", "compile", gguf, "-o", h.path("trunk.qbin"), "-q", "--cpu=native", "--functions=trunk", "--report=fusion", "--report-form=json"))
    assert [m["kind"] for m in report["moved"]] == ["last_ffn"] and not report["kept"], f"without the draft: moved {report['moved']}, kept {report['kept']}"
    assert "ops" in report["moved"][0]["text"], str(report["moved"])


def traced(h, gguf):
    """Of every row, as the artifact says, and with a word to who chose otherwise."""
    says = "--last-ffn has no effect: --traceable shows"
    arguments = ["compile", gguf, "-o", h.path("traced.qbin"), "--cpu=native", "--decode=1", "--prefill=16", "--goldens=off", "--traceable"]
    for given, warned in (([], False), (["--last-ffn=all"], False), (["--last-ffn=chosen"], True)):
        p = h.tool("qcc", *arguments, *given)
        assert p.returncode == 0 and (says in p.stderr.decode()) == warned, f"with {given}: {p.stderr.decode()}"
        artifact = h.inspect(h.path("traced.qbin"))
        made = artifact["provenance"]["options"]["last_ffn"]
        assert made == "all" and artifact["format"]["required_features"] == 0, f"with {given} it says {made}"
    p = h.tool("qcc", *arguments, "--last-ffn=chosen", "--strict")
    assert p.returncode == 3 and "[Q3008]" in p.stderr.decode(), p.stderr.decode()


if __name__ == "__main__":
    main()
