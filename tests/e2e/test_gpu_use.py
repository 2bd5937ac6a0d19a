#!/usr/bin/env python3
"""Using a GPU from the command line: one artifact on both devices, sessions that move between them, tokens drawn on the
device, what is copied back, and what is said when there is no driver. Without a usable Vulkan device only the last."""
import json
import os

from harness import GOLDEN, Harness, TINY, contents

# Where no guess has to be right and no text has to be cut between characters, a fifth of the trained model's work a token: a
# processor that plays a GPU spends a tenth of a second on that.
SMALL = os.path.join(GOLDEN, "t35-mtp-F32.gguf")
PROMPT = ("--raw", "-p", "KING RICHARD III:\n")
# The device's random numbers and arithmetic are the host's, so with f32 numerics the tokens are too.
DRAWS = ("--temp", "0.8", "--top-k", "40", "--top-p", "0.9", "--min-p", "0.02", "--repeat-penalty", "1.1",
         "--presence-penalty", "0.1", "--seed", "7", "-n", "40")


def on(device, *args):
    return (*args, "--device", device)


def sessions(h, qbin):
    """Saved on one device, the text goes on on the other as if it had stayed."""
    greedy = ("--raw", "--greedy", "--draft", "off")
    whole = h.run("qrun", *on("cpu", qbin, *PROMPT, "--greedy", "-n", "24"))
    for first, second in (("cpu", "vulkan"), ("vulkan", "cpu")):
        file = h.path(first + ".session")
        begun = h.run("qrun", *on(first, qbin, *PROMPT, *greedy[1:], "-n", "12", "--save-session", file))
        p = h.tool("qrun", *on(second, qbin, *greedy, "-n", "12", "--load-session", file, "--timing=json"))
        h.expect(f"session {first} to {second}", p.returncode == 0 and begun + p.stdout == whole, p.stderr)
        timing = json.loads(p.stderr.decode().splitlines()[-1])
        h.expect(f"session {first} to {second} feeds nothing again", timing["prompt_tokens"] == 0, timing)
        h.expect(f"device of {second}", timing["device"].startswith(second), timing["device"])


def read_back(h, qbin):
    """Greedy decode copies at most 64 bytes a token back, in one submission; drawing as well; logits only when asked for."""
    bench = json.loads(h.run("qrun", "bench", *on("vulkan", qbin, "-p", "0", "-n", "16", "-r", "1", "--json")))
    h.expect("bench reads ids only", 0 < bench["decode_bytes_to_host_per_token"] <= 64, bench)
    h.expect("a submission for one token or several", 0 < bench["decode_submissions_per_token"] <= 1, bench)
    copied = bench["device_weight_bytes"]  # 0: read where the file is mapped
    h.expect("weights are on the device, all or none copied", copied == 0 or copied >= bench["weight_bytes"], bench)
    p = h.tool("qrun", *on("vulkan", qbin, *PROMPT, *DRAWS, "--draft", "off", "--timing=json"))
    timing = json.loads(p.stderr.decode().splitlines()[-1])
    steps = timing["decode_submissions"]
    h.expect("draws read ids only", steps > 0 and 0 < timing["decode_bytes_to_host"] <= 64 * steps, timing)
    host = h.run("qrun", *on("cpu", qbin, *PROMPT, *DRAWS))
    h.expect("the device draws the host's tokens", p.stdout == host, p.stdout, host)


def ahead(h, qbin):
    """Tokens that the device decodes before the host looks at them: the text and the session of one at a time, in fewer submissions, wherever it ends."""
    draws = ("--temp", "0.8", "--top-k", "40", "--repeat-penalty", "1", "--seed", "7", "--draft", "off")
    for count, tokens, options in ((3, 41, draws), (8, 40, draws), (16, 9, ("--greedy", "--draft", "off"))):
        ask = (*PROMPT, *options, "-n", str(tokens))
        files = {n: h.path(f"ahead-{count}-{n}.session") for n in (1, count)}
        said = {n: h.tool("qrun", *on("vulkan", qbin, *ask, "--tokens-ahead", str(n), "--save-session", file, "--timing=json"))
                for n, file in files.items()}
        timing = {n: json.loads(p.stderr.decode().splitlines()[-1]) for n, p in said.items()}
        h.expect(f"{count} ahead: the text", said[count].stdout == said[1].stdout == h.run("qrun", *on("cpu", qbin, *ask)), said[count].stdout, said[1].stdout)
        h.expect(f"{count} ahead: the session", contents(files[count]) == contents(files[1]))
        h.expect(f"{count} ahead: steps", timing[count]["decode_steps"] == timing[1]["decode_steps"] == timing[1]["decode_submissions"], timing)
        h.expect(f"{count} ahead: submissions", timing[count]["decode_submissions"] == -(-timing[1]["decode_steps"] // count), timing)
    p = h.tool("qrun", *on("vulkan", qbin, *PROMPT, "-n", "4", "--tokens-ahead", "17"))
    h.expect("more ahead than there can be", p.returncode == 2 and b"Q0101" in p.stderr, p.stderr)


def stages(h, qbin):
    """Each launch of each program is timed by the device, with the text of an answer that is not, and no longer than the answer took."""
    ask = on("vulkan", qbin, *PROMPT, "--greedy", "-n", "6", "--draft", "off")
    p = h.tool("qrun", *ask, "--timing=json", "--profile-stages")
    timing = json.loads(p.stderr.decode().splitlines()[-1])
    h.expect("timed: the text", p.stdout == h.run("qrun", *ask), p.stdout)
    names = [program["program"] for program in timing["programs"]]
    h.expect("timed: programs and what chooses behind them", "decode_1" in names and "greedy_1" in names and len(set(names)) == len(names), names)
    total = 0
    for program in timing["programs"]:
        counted, name = program["stages"], program["program"]
        ran = [s for s in counted if s["runs"]]
        total += sum(s["busy_seconds"][0] for s in ran)
        h.expect(f"timed: {name} by the device", program["device_clock"] and all(len(s["busy_seconds"]) == 1 and s["busy_seconds"][0] > 0 for s in ran), program)
        h.expect(f"timed: all launches of {name}", len(ran) == len(counted) and all(s["runs"] % program["steps"] == 0 for s in ran), program)
        h.expect(f"timed: groups of {name}", {s["group"] for s in ran} <= {"attention", "delta", "linears", "norms", "embedding", "head", "choice"}, program)
    h.expect("timed: no more than passed", 0 < total <= timing["prompt_seconds"] + timing["decode_seconds"], total, timing)
    p = h.tool("qrun", *ask, "--profile-stages")
    h.expect("timed: as text", p.returncode == 0 and b"by the timestamps of the device" in p.stderr and b"%  head" in p.stderr, p.stderr)


def verified(h, qbin):
    """A step that checks guesses brings a token's id back for each of its rows, in one submission, and no logits."""
    ask = (*DRAWS[:-1], "16", "--raw", "-p", "KING RICHARD III:\nWhat, ho! What, ho! What, ho! What, ho!")
    plain = h.run("qrun", *on("vulkan", qbin, *ask, "--draft", "off"))
    p = h.tool("qrun", *on("vulkan", qbin, *ask, "--draft", "lookup", "--draft-len", "3", "--timing=json"))
    timing = json.loads(p.stderr.decode().splitlines()[-1])
    h.expect("guesses that are checked change no token", p.stdout == plain, p.stdout, plain)
    rows = timing["decode_steps"] + timing["drafted_tokens"]
    h.expect("an id for each row of a checking step", timing["drafted_tokens"] > 0 and timing["decode_bytes_to_host"] == 4 * rows, timing)
    h.expect("one submission a checking step", timing["decode_submissions"] == timing["decode_steps"], timing)


def chained(h):
    """With a draft of the model guesses are made, checked and accepted in one submission; the ids of the guesses and of what is chosen behind each come
    back. So they are whatever the draft chooses among, and with penalties too, whose guesses the host has to know."""
    prompt = "KING RICHARD III:\nMy lords, the people of this city say that the king is dead."
    usual = ("--raw", "-p", prompt, "-n", "16", "--temp", "0.8", "--top-p", "0.9", "--repeat-penalty", "1", "--seed", "7")
    qbins = {share: h.compile(TINY, f"draft-{share}.qbin", "--target=vulkan", "--decode=1,4", "--prefill=32", "--goldens=off", f"--draft-vocab={share}")
             for share in ("all", "1000")}
    plains = {presence: h.run("qrun", *on("vulkan", qbins["all"], *usual, "--presence-penalty", presence, "--draft", "off")) for presence in ("0", "0.2")}
    for share, presence in (("all", "0"), ("1000", "0"), ("1000", "0.2")):
        ask, plain = (*usual, "--presence-penalty", presence), plains[presence]
        p = h.tool("qrun", *on("vulkan", qbins[share], *ask, "--draft", "mtp", "--draft-len", "3", "--timing=json"))
        timing = json.loads(p.stderr.decode().splitlines()[-1])
        what = f"a draft among {share} tokens, with a penalty of {presence}"
        h.expect(f"{what}: the text of plain decoding", p.stdout == plain, p.stdout, plain)
        h.expect(f"{what}: guesses that are right", 0 < timing["accepted_tokens"] < timing["drafted_tokens"], timing)
        # What waits for the draft behind the prompt goes in with the first guess.
        h.expect(f"{what}: a prompt of one step", 16 < timing["prompt_tokens"] <= 32, timing)
        ids, one_run = timing["decode_steps"] + 2 * timing["drafted_tokens"], presence == "0"
        h.expect(f"{what}: submissions", (timing["decode_submissions"] == timing["decode_steps"]) == one_run, timing)
        h.expect(f"{what}: bytes to the host", (timing["decode_bytes_to_host"] == 4 * ids) == one_run, timing)


def choice(h, qbin):
    p = h.tool("qrun", *on("vulkan:7", qbin, *PROMPT))
    h.expect("no such GPU", p.returncode == 2 and b"Q5014" in p.stderr, p.stderr)
    listed = json.loads(h.run("qrun", "devices", qbin, "--json"))
    h.expect("code for both", {c["target"] for c in listed["code"] if c["supported"]} == {"cpu", "vulkan"}, listed)
    real = not h.emulated("vulkan")
    p = h.tool("qrun", "bench", qbin, "-p", "0", "-n", "1", "-r", "1", "--json")
    default, said = json.loads(p.stdout), p.stderr.decode().splitlines()
    h.expect("the best device is the default", default["device"].startswith("vulkan:" if real else "cpu"), default)
    h.expect("which one, and why not a better one, is said in one line", len(said) == 1 and said[0].startswith("qrun: on " + default["device"])
          and bool(real) != ("; vulkan: only the CPU's emulation" in said[0]), said)
    quiet = h.tool("qrun", "bench", qbin, "-p", "0", "-n", "1", "-r", "1", "--json", "-q")
    h.expect("-q says nothing", quiet.returncode == 0 and not quiet.stderr, quiet.stderr)
    long = ("--raw", "-p", "KING RICHARD III:\nThe state of the union is. " * 3)
    texts = {h.run("qrun", *on("vulkan", qbin, *long, "--greedy", "-n", "3", "--max-dispatch-ms", ms)) for ms in ("0", "5")}
    h.expect("--max-dispatch-ms changes no token", len(texts) == 1, texts)


def without_driver(h, qbin):
    """As on a machine without a Vulkan driver."""
    env = dict(os.environ, VK_ICD_FILENAMES="/nonexistent.json", VK_DRIVER_FILES="/nonexistent.json")
    p = h.tool("qrun", "devices", "--json", env=env)
    found = {d["id"]: d for d in json.loads(p.stdout)["devices"]}
    h.expect("devices says why", p.returncode == 0 and not found["vulkan"]["usable"] and found["vulkan"]["why_not"], found)
    p = h.tool("qrun", *on("vulkan", qbin, *PROMPT), env=env)
    h.expect("no driver is exit 5", p.returncode == 5 and b"[Q501" in p.stderr, p.returncode, p.stderr)
    p = h.tool("qrun", *on("auto", qbin, *PROMPT, "--greedy", "-n", "3"), env=env)
    h.expect("auto takes the CPU and says why", p.returncode == 0 and p.stdout and p.stderr.startswith(b"qrun: on cpu; vulkan: "), p.stderr)
    why = found["vulkan"]["why_not"].encode()
    p = h.tool("qrun", "devices", qbin, env=env)
    h.expect("devices of an artifact says it as a sentence", p.returncode == 0 and b"does not run here: " + why + b"\n" in p.stdout, p.stdout)
    p = h.tool("qrun", "check", qbin, env=env)
    h.expect("check skips what cannot run", p.returncode == 0 and b": skipped: " + why + b"\n" in p.stdout and b": ok, " in p.stdout, p.stdout, p.stderr)
    p = h.tool("qrun", "check", qbin, "--json", env=env)
    skipped = {c["name"]: c["text"] for c in json.loads(p.stdout)["code"] if c["result"] == "skipped"}
    h.expect("check --json has the sentence", p.returncode == 0 and set(skipped.values()) == {why.decode()}, skipped)
    for asked in ("--device=vulkan", f"--cpu={min(skipped)}"):
        p = h.tool("qrun", "check", qbin, asked, env=env)
        h.expect(f"check {asked} of what cannot run is exit 5", p.returncode == 5 and b"skipped: " in p.stdout and b"error: " + why in p.stderr, p.stdout, p.stderr)
    alone = h.compile(SMALL, "alone.qbin", "--target=vulkan", "--numerics=f32", "--prefill=32", "--decode=1", "--functions=trunk")
    p = h.tool("qrun", "check", alone, env=env)
    h.expect("check of nothing is exit 5", p.returncode == 5 and b"hashes: ok" in p.stdout and b"error: " in p.stderr, p.stdout, p.stderr)


def main():
    h = Harness(__doc__)
    options = ("--target=cpu,vulkan", "--cpu=native", "--numerics=f32", "--prefill=32")
    qbin, trained = h.compile(SMALL, "small.qbin", *options), h.compile(TINY, "tiny.qbin", *options, "--decode=1,4")
    listed = json.loads(h.run("qrun", "devices", "--json"))
    if any(d["id"].startswith("vulkan:") and d["usable"] for d in listed["devices"]):
        choice(h, qbin)
        sessions(h, trained)
        read_back(h, qbin)
        ahead(h, qbin)
        stages(h, qbin)
        verified(h, trained)
        chained(h)
    else:
        print("skip all that needs a GPU:", [d["why_not"] for d in listed["devices"] if d["id"].startswith("vulkan")])
    without_driver(h, qbin)
    h.finish()


if __name__ == "__main__":
    main()
