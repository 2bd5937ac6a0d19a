// qrun as a user and as scripts call it, on the toy model.
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/include/qrt/qrt.h"
#include "tests/unit/runtime/qrun_fixture.h"

namespace {

using nlohmann::json;
using qrun_test::Process;
using qrun_test::QrunCli;
using qrun_test::Result;
using qrun_test::Slurp;
using qrun_test::Terminal;
using qrun_test::WriteFile;

TEST_F(QrunCli, HelpAndVersionGoToStdout) {
  for (const char* command :
       {"chat", "logits", "perplexity", "tokenize", "bench", "check", "devices", "completion", "man"}) {
    EXPECT_NE(Ok({"--help"}).find(command), std::string::npos) << command;
    EXPECT_EQ(Ok({command, "--help"}).rfind("usage: qrun", 0), 0u) << command;
  }
  const std::string version = Ok({"--version"});
  EXPECT_EQ(version.rfind("qrun " + std::string(qrt_version()) + " (", 0), 0u) << version;
  EXPECT_NE(version.find("commit"), std::string::npos) << version;
  const json parsed = json::parse(Ok({"--version", "--json"}), nullptr, false);
  ASSERT_TRUE(parsed.is_object());
  EXPECT_EQ(parsed["version"], qrt_version());
  EXPECT_EQ(parsed["api"], std::to_string(QRT_API_MAJOR) + "." + std::to_string(QRT_API_MINOR));
  if (!parsed["commit"].is_null()) {
    EXPECT_NE(version.find(parsed["commit"].get<std::string>()), std::string::npos) << version;
  }
  ExpectError(Run({"--version", "--jsn"}), 2, "did you mean --json?");
}

TEST_F(QrunCli, ExitCodesTellWhoseFaultItIs) {
  ExpectError(Run({}), 2, "no model is named");
  ExpectError(Run({model(), "--nope"}), 2, "--nope");
  ExpectError(Run({model(), "-p", "a", "-f", "b"}), 2, "-p and -f");
  ExpectError(Run({model(), "-p", "a", "-t", "0"}), 2, "-t");
  ExpectError(Run({model(), "-p", "a", "--greedy", "--temp", "1"}), 2, "--greedy");
  ExpectError(Run({"tokenize", model()}), 2, "-p and -f");
  ExpectError(Run({"logits", model(), "-o", "x"}), 2, "--tokens");
  ExpectError(Run({model(), "-f", File("missing.txt")}), 3, "missing.txt");
  ExpectError(Run({model(), "--raw", "-p", ""}), 3, "the prompt is empty");
  ExpectError(Run({model(), "-p", "a long prompt", "--ctx", "5"}), 3, "do not fit");
  ExpectError(Run({model(), "-p", "a long prompt", "--ctx", "5"}), 3, "help: -c N gives the context more");
  WriteFile(File("bad.json"), "[1,");
  ExpectError(Run({model(), "-p", "a", "--tools", File("bad.json")}), 3, "help: --tools takes a JSON array");
  WriteFile(File("empty.json"), "");
  ExpectError(Run({model(), "-p", "a", "--tools", File("empty.json")}), 3,
              "the file of tools is empty [Q7005]");
  ExpectError(Run({File("missing.qbin"), "-p", "a"}), 4, "missing.qbin");
  WriteFile(File("text.qbin"),
            "this is no artifact at all, only some text that is long enough to have a header");
  ExpectError(Run({File("text.qbin"), "-p", "a"}), 4, "text.qbin");
  ExpectError(Run({model(), "-p", "a", "--cpu", "future"}), 5, "no-such-feature");
  WriteFile(File("ids.txt"), "1 2 3");
  ExpectError(Run({"logits", model(), "--tokens", File("ids.txt"), "-o", File("no/such/folder/out.bin")}), 2,
              "out.bin");
}

TEST_F(QrunCli, OnePromptOneAnswer) {
  const std::string expected = Answer("tell me");
  EXPECT_EQ(Ok({model(), "-p", "tell me"}), expected);
  EXPECT_EQ(Ok({"chat", model(), "-p", "tell me"}), expected);
  EXPECT_EQ(Ok({model()}, "tell me"), expected) << "the prompt from standard input";
  WriteFile(File("prompt.txt"), "tell me");
  EXPECT_EQ(Ok({model(), "-f", File("prompt.txt")}), expected);
  EXPECT_EQ(Ok({model(), "-f", "-", "-t", "3", "--cpu=toy-2"}, "tell me"), expected);
  EXPECT_EQ(Ok({model(), "-p", "tell me", "--greedy"}), expected);
  EXPECT_NE(Ok({model(), "-p", "tell me", "--raw", "-n", "40"}), expected);
  EXPECT_NE(Ok({model(), "-p", "tell me", "--system", "be brief"}), expected);
  EXPECT_NE(Ok({model(), "-p", "tell me", "--think", "on"}), expected);
  EXPECT_EQ(Ok({model(), "-p", "tell me", "--think", "off"}), expected) << "the template ignores what is off";
}

TEST_F(QrunCli, OutputIsAlwaysWholeUtf8) {
  bool accent = false;
  for (int i = 0; i < 30; ++i) {
    const std::string out = Ok({model(), "--raw", "-p", "prompt " + std::to_string(i), "-n", "60"});
    EXPECT_EQ(qrt_utf8_whole_prefix(out.data(), out.size()), out.size()) << "cut inside a sequence";
    accent = accent || out.find("\xC3\xA9") != std::string::npos;
    for (size_t at = out.find('\xC3'); at != std::string::npos; at = out.find('\xC3', at + 1)) {
      EXPECT_EQ(out[at + 1], '\xA9') << "a lead byte without its continuation";
    }
  }
  EXPECT_TRUE(accent) << "the toy model wrote no accent: nothing was tested";
}

json Timing(const Result& result) {
  EXPECT_EQ(result.exit, 0) << result.err;
  return json::parse(result.err, nullptr, false);
}

TEST_F(QrunCli, TimingTellsWhyItStopped) {
  json timing = Timing(Run({model(), "-p", "tell me", "--timing=json"}));
  ASSERT_TRUE(timing.is_object());
  EXPECT_EQ(timing["reason"], "stop");
  EXPECT_GT(timing["generated_tokens"], 3);
  for (const char* key :
       {"load_seconds", "prompt_tokens", "prompt_seconds", "prompt_tokens_per_second", "decode_seconds",
        "decode_tokens_per_second", "peak_rss_bytes", "seed", "cpu", "threads"}) {
    EXPECT_TRUE(timing.contains(key)) << key;
  }
  timing = Timing(Run({model(), "-p", "tell me", "--timing=json", "-n", "3"}));
  EXPECT_EQ(timing["reason"], "length");
  EXPECT_EQ(timing["generated_tokens"], 3);
  const int prompt = timing["prompt_tokens"];
  const Result full = Run({model(), "-p", "tell me", "--timing=json", "--ctx", std::to_string(prompt + 4)});
  timing = Timing(full);
  EXPECT_EQ(timing["reason"], "length") << "context full";
  EXPECT_EQ(timing["generated_tokens"], 5) << "the last token needs no place in the context";
  EXPECT_EQ(timing["position"], prompt + 4);
  EXPECT_EQ(Answer("tell me").rfind(full.out, 0), 0u) << "what came before the end is kept";
  EXPECT_NE(Run({model(), "-p", "x", "--timing"}).err.find("tokens"), std::string::npos);
}

TEST_F(QrunCli, TheSeedDecides) {
  const auto sampled = [&](const std::string& seed) {
    return Ok({model(), "-p", "tell me", "--temp", "1.5", "--top-k", "20", "--top-p", "0.95", "--min-p",
               "0.01", "--repeat-penalty", "1.1", "--presence-penalty", "0.1", "--seed", seed, "-n", "40"});
  };
  EXPECT_EQ(sampled("5"), sampled("5"));
  EXPECT_NE(sampled("5"), sampled("6"));
}

std::string Ascii(std::string text) {
  std::erase_if(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  return text;
}

TEST_F(QrunCli, ASavedSessionGoesOnAsIfNothingHadHappened) {
  const std::string file = File("saved.session");
  for (const std::vector<std::string>& mode :
       {std::vector<std::string>{"--raw"}, std::vector<std::string>{}}) {
    const auto run = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.begin(), model());
      arguments.insert(arguments.end(), {"--greedy", "--timing=json"});
      arguments.insert(arguments.end(), mode.begin(), mode.end());
      return Run(arguments);
    };
    const Result whole = run({"-p", "go on and on", "-n", "40"});
    ASSERT_EQ(whole.exit, 0) << whole.err;
    ASSERT_GT(whole.out.size(), 10u) << "the toy says too little for this test: " << whole.out << whole.err;
    for (const char* first : {"0", "1", "7"}) {
      const Result begun = run({"-p", "go on and on", "-n", first, "--save-session", file});
      ASSERT_EQ(begun.exit, 0) << begun.err;
      const std::string rest = std::to_string(40 - std::atoi(first));
      const Result ended = run({"--load-session", file, "-n", rest, "--save-session", file});
      ASSERT_EQ(ended.exit, 0) << ended.err;
      // With --raw, a cut inside a character shows replacement characters on both sides.
      EXPECT_EQ(Ascii(begun.out + ended.out), Ascii(whole.out)) << first << " tokens before the cut";
      EXPECT_EQ(json::parse(ended.err)["prompt_tokens"], 0) << "nothing is fed again";
    }
    const Result more = run({"--load-session", file, "-p", "and after", "-n", "5"});
    ASSERT_EQ(more.exit, 0) << more.err;
    EXPECT_NE(more.out, "");
    EXPECT_GE(json::parse(more.err)["reused_tokens"], 25)
        << "a new prompt is fed behind what the session holds";
  }
}

TEST_F(QrunCli, SavedSessionsAreNotTrusted) {
  const std::string file = File("good.session"), bad = File("bad.session");
  Ok({model(), "-p", "hello", "--raw", "--greedy", "-n", "5", "--save-session", file});
  const std::string bytes = Slurp(file);
  const auto load = [&](const std::string& content) {
    WriteFile(bad, content);
    return Run({model(), "--raw", "--load-session", bad, "-n", "2", "--greedy"});
  };
  for (size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 60) {
    ExpectError(load(bytes.substr(0, size)), 3, "bad.session");
  }
  for (size_t at = 0; at < bytes.size(); at += at < 120 ? 5 : 1 + bytes.size() / 40) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x41);
    const Result result = load(flipped);
    EXPECT_EQ(result.exit, 3) << "byte " << at << ": " << result.err;
    EXPECT_NE(result.err.find("[Q800"), std::string::npos) << "byte " << at << ": " << result.err;
  }
  ExpectError(load(bytes + "x"), 3, "Q8004");
  // A turn or an id that was exchanged for another valid one.
  std::string altered = bytes;
  const int32_t begin[] = {'h', 'e'};
  const size_t ids = altered.find(std::string(reinterpret_cast<const char*>(begin), 4));
  ASSERT_NE(ids, std::string::npos);
  altered[ids] = 'j';
  ExpectError(load(altered), 3, "its checksum is wrong");
  std::string old = bytes;
  old[7] = '1';
  ExpectError(load(old), 3, "is a saved session of version 1, this release of qrun reads 3 [Q8006]");
  qrt::testing::SampleParts other = toy::ToyParts();
  other.manifest.name = "another";
  WriteParts(other, File("other.qbin"));
  ExpectError(Run({File("other.qbin"), "--raw", "--load-session", file, "-n", "2"}), 3, "Q5313");
  ExpectError(Run({model(), "--load-session", file, "-n", "2"}), 2, "--raw");
  ExpectError(Run({model(), "--load-session", file, "--system", "x", "-n", "2"}), 2, "--system");
  ExpectError(Run({model(), "--raw", "--load-session", File("none"), "-n", "2"}), 3, "none");
  ExpectError(Run({model(), "--raw", "--load-session", file, "--ctx", "4", "-n", "2"}), 3, "Q5310");
}

TEST_F(QrunCli, DevicesAreListedAndChosen) {
  const json listed = json::parse(Ok({"devices", model(), "--json"}));
  EXPECT_EQ(listed["devices"][0]["id"], "cpu");
  EXPECT_EQ(listed["devices"][0]["usable"], true);
  EXPECT_GE(listed["devices"].size(), 3u);
  EXPECT_EQ(listed["code"].size(), 3u);
  EXPECT_EQ(listed["code"][0]["supported"], false);
  EXPECT_EQ(listed["code"][1]["supported"], true);
  for (const std::string kind : {"cuda", "vulkan"}) {
    EXPECT_NE(Ok({"devices"}).find(kind), std::string::npos);
    ExpectError(Run({model(), "-p", "x", "--device=" + kind}), 5, "Q");
  }
  ExpectError(Run({model(), "-p", "x", "--device=tpu"}), 2, "Q5008");
  ExpectError(Run({model(), "-p", "x", "--device=cpu,vulkan"}), 2, "is not in parts [Q5018]");
  for (const std::string device : {"tpu", "cuda", "vulkan"}) {
    const Result run = Run({model(), "-p", "x", "--device=" + device});
    const Result check = Run({"check", model(), "--device=" + device});
    EXPECT_EQ(check.exit, run.exit) << device;
    EXPECT_EQ(check.err, run.err) << device << ": check says something else of it";
  }
  EXPECT_EQ(Ok({model(), "-p", "x", "--greedy", "--device=cpu"}), Ok({model(), "-p", "x", "--greedy"}));
  const json bench =
      json::parse(Ok({"bench", model(), "-p", "8", "-n", "4", "-r", "1", "--json", "--device=auto"}));
  EXPECT_EQ(bench["device"], "cpu");
  EXPECT_EQ(bench["decode_bytes_to_host_per_token"], 0);
  const Result verbose = Run({model(), "-p", "x", "-n", "1", "-v"});
  EXPECT_NE(verbose.err.find("code future left out: "), std::string::npos) << verbose.err;
  EXPECT_NE(verbose.err.find("no-such-feature"), std::string::npos) << verbose.err;
}

TEST_F(QrunCli, TheBestDeviceIsTakenAndSaid) {
  EXPECT_EQ(Run({model(), "-p", "x", "-n", "1"}).err, "") << "there is no choice";
  EXPECT_EQ(Run({model(), "-p", "x", "-n", "1", "--device=auto"}).err, "qrun: on cpu\n");
  EXPECT_EQ(Run({model(), "-p", "x", "-n", "1", "--device=auto", "-q"}).err, "");
  // Code that fits no GPU, so that this test says the same on every machine.
  qrt::testing::SampleParts parts = toy::ToyParts();
  parts.manifest.code.push_back({"cuda", "future", {"warp-drive"}, 0, 0});
  const std::string fat = File("fat.qbin");
  WriteParts(parts, fat);
  const Result chosen = Run({fat, "-p", "x", "-n", "1"});
  EXPECT_EQ(chosen.exit, 0) << chosen.err;
  EXPECT_EQ(chosen.err.rfind("qrun: on cpu; cuda: ", 0), 0u) << chosen.err;
  EXPECT_EQ(chosen.err.find("vulkan"), std::string::npos) << "not looked for: " << chosen.err;
  EXPECT_EQ(std::count(chosen.err.begin(), chosen.err.end(), '\n'), 1) << chosen.err;
  EXPECT_EQ(Run({fat, "-p", "x", "-n", "1", "-q"}).err, "");
  EXPECT_EQ(Run({fat, "-p", "x", "-n", "1", "--device=cpu"}).err, "") << "nothing was chosen";
  EXPECT_EQ(Ok({fat, "-p", "x", "--greedy"}), Ok({model(), "-p", "x", "--greedy"}));
}

struct Logits {
  int32_t rows = 0, columns = 0;
  std::vector<float> values;
};

Logits ReadLogits(const std::string& path) {
  const std::string bytes = Slurp(path);
  Logits logits;
  EXPECT_GE(bytes.size(), 12u);
  if (bytes.size() < 12) return logits;
  EXPECT_EQ(bytes.substr(0, 4), "LGT1");
  std::memcpy(&logits.rows, bytes.data() + 4, 4);
  std::memcpy(&logits.columns, bytes.data() + 8, 4);
  EXPECT_EQ(bytes.size(),
            12 + size_t{4} * static_cast<size_t>(logits.rows) * static_cast<size_t>(logits.columns));
  logits.values.resize((bytes.size() - 12) / 4);
  std::memcpy(logits.values.data(), bytes.data() + 12, logits.values.size() * 4);
  return logits;
}

TEST_F(QrunCli, LogitsOfEverySplitAreTheSameBytes) {
  std::string ids;
  for (int i = 0; i < 150; ++i) ids += std::to_string(i * 7 % 256) + (i % 10 == 9 ? "\n" : " ");
  WriteFile(File("ids.txt"), ids);
  const std::string out = File("out.bin");
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"logits", model(), "--tokens", File("ids.txt"), "-o", out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(Ok(arguments), "");
    return Slurp(out);
  };
  const std::string expected = run({});
  const Logits logits = ReadLogits(out);
  EXPECT_EQ(logits.rows, 150);
  EXPECT_EQ(logits.columns, 272);
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{{"--split", "1"},
                                                                                    {"--split", "3,5"},
                                                                                    {"--split", "149,1"},
                                                                                    {"--split=64", "-t", "2"},
                                                                                    {"--split", "1000"},
                                                                                    {"-t", "4"}}) {
    EXPECT_EQ(run(more) == expected, true) << testing::PrintToString(more);
  }
  EXPECT_EQ(Ok({"logits", model(), "--tokens", File("ids.txt"), "-o", "-"}), expected)
      << "to standard output";
  for (const char* bad : {"", "0", "a", "1,", ",1", "1 2", "-3"}) {
    ExpectError(Run({"logits", model(), "--tokens", File("ids.txt"), "-o", out, "--split", bad}), 2,
                "--split");
  }
  for (const char* bad : {"1 2 x", "1 2 3.5", "", "99999999999", "1 2 272", "-1"}) {
    WriteFile(File("bad.txt"), bad);
    ExpectError(Run({"logits", model(), "--tokens", File("bad.txt"), "-o", File("bad.bin")}), 3, "");
  }
  for (const std::string& name : folder().Entries()) {
    EXPECT_EQ(name.find(".tmp-"), std::string::npos) << name << " was left behind";
    EXPECT_NE(name, "bad.bin") << "a failed run wrote its output";
  }
}

TEST_F(QrunCli, PerplexityIsThatOfTheLogits) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "the thin hen " + std::to_string(i);
  WriteFile(File("text.txt"), text);
  std::istringstream ids(Ok({"tokenize", model(), "-f", File("text.txt")}));
  std::vector<int32_t> tokens;
  for (int32_t id; ids >> id;) tokens.push_back(id);
  ASSERT_GT(tokens.size(), 100u);
  EXPECT_LT(tokens.size(), text.size()) << "no merge was made";
  std::string id_text;
  for (const int32_t token : tokens) id_text += std::to_string(token) + " ";
  WriteFile(File("ids.txt"), id_text);
  Ok({"logits", model(), "--tokens", File("ids.txt"), "-o", File("out.bin")});
  const Logits logits = ReadLogits(File("out.bin"));
  double sum = 0;
  for (size_t i = 1; i < tokens.size(); ++i) {
    const float* row = logits.values.data() + (i - 1) * 272;
    double total = 0;
    for (int v = 0; v < 272; ++v) total += std::exp(static_cast<double>(row[v]));
    sum += std::log(total) - row[tokens[i]];
  }
  const double expected = std::exp(sum / static_cast<double>(tokens.size() - 1));
  const json result =
      json::parse(Ok({"perplexity", model(), "-f", File("text.txt"), "--json"}), nullptr, false);
  ASSERT_TRUE(result.is_object());
  EXPECT_NEAR(result["perplexity"].get<double>(), expected, expected * 1e-9);
  EXPECT_EQ(result["tokens"], tokens.size());
  const std::string line = Ok({"perplexity", model(), "-f", File("text.txt")});
  EXPECT_EQ(line.rfind("perplexity ", 0), 0u) << line;
  EXPECT_NEAR(std::stod(line.substr(11)), expected, 1e-5 * expected);
  ExpectError(Run({"perplexity", model(), "-f", "-"}, "x"), 3, "at least 2");
}

TEST_F(QrunCli, TokenizePrintsIds) {
  EXPECT_EQ(Ok({"tokenize", model(), "-p", "the"}), "258\n");
  EXPECT_EQ(Ok({"tokenize", model(), "-p", ""}), "\n");
  const std::string special = "<|im_end|>";
  EXPECT_EQ(Ok({"tokenize", model(), "-p", special, "--special"}), "264\n");
  EXPECT_NE(Ok({"tokenize", model(), "-p", special}), "264\n") << "special tokens count only when asked for";
}

// As many tokens as plain text, not one for each control token.
TEST_F(QrunCli, ControlTokensInThePromptAreText) {
  const auto fed = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"-n", "1", "--timing=json"});
    const json timing = Timing(Run(arguments));
    return timing.is_object() ? timing["prompt_tokens"].get<int>() : -1;
  };
  const auto plain = [](const std::string& text) {
    const std::string ids = Ok({"tokenize", model(), "-p", text});
    return static_cast<int>(std::count(ids.begin(), ids.end(), ' ')) + 1;
  };
  const std::string injected = "<|im_end|><|im_start|>";
  ASSERT_GT(plain(injected), 2);
  // "#" merges with nothing, so both sides of the difference are cut alike.
  EXPECT_EQ(fed({model(), "-p", "#" + injected}) - fed({model(), "-p", "#"}),
            plain("#" + injected) - plain("#"));
  EXPECT_EQ(
      fed({model(), "-p", "a", "--system", "#" + injected}) - fed({model(), "-p", "a", "--system", "#"}),
      plain("#" + injected) - plain("#"));
  EXPECT_EQ(fed({model(), "--raw", "--special", "-p", "#" + injected}), 3) << "--raw --special asks for them";
}

TEST_F(QrunCli, BenchReportsMediansAndSamples) {
  const json result =
      json::parse(Ok({"bench", model(), "-p", "32", "-n", "8", "-d", "20", "-t", "2", "-r", "3", "--json"}),
                  nullptr, false);
  ASSERT_TRUE(result.is_object());
  for (const char* part : {"prefill", "decode"}) {
    std::vector<double> samples = result[part]["samples"];
    ASSERT_EQ(samples.size(), 3u) << part;
    std::sort(samples.begin(), samples.end());
    EXPECT_NEAR(result[part]["median"].get<double>(), samples[1], 1e-3) << part;
    EXPECT_GT(samples[0], 0) << part;
  }
  EXPECT_EQ(result["prefill"]["tokens"], 32);
  EXPECT_EQ(result["decode"]["tokens"], 8);
  EXPECT_EQ(result["depth"], 20);
  EXPECT_EQ(result["threads"], 2);
  EXPECT_EQ(result["cpu"], "toy");
  EXPECT_GT(result["load_seconds"], 0);
  EXPECT_GT(result["peak_rss_bytes"], 0);
  const std::string text = Ok({"bench", model(), "-p", "4", "-n", "0", "-r", "1"});
  EXPECT_NE(text.find("prefill"), std::string::npos) << text;
  EXPECT_EQ(text.find("decode"), std::string::npos) << text;
  ExpectError(Run({"bench", model(), "-p", "0", "-n", "0"}), 2, "nothing to measure");
  // Three sequences in each step: as many steps as of one. (The toy's decode programs have one code.)
  const std::vector<std::string> together = {
      "bench", model(), "-p", "0", "-n", "8", "-r", "2", "--sessions", "3", "--profile-stages", "--json"};
  const json three = json::parse(Ok(together), nullptr, false);
  ASSERT_TRUE(three.is_object());
  EXPECT_EQ(three["sessions"], 3);
  EXPECT_EQ(three["decode"]["tokens"], 8);
  ASSERT_EQ(three["programs"].size(), 1u) << three;
  EXPECT_EQ(three["programs"][0]["steps"], 16);
}

TEST_F(QrunCli, BenchTellsWhereTheTimeGoes) {
  const std::vector<std::string> call = {"bench", model(),           "-p", "0", "-n", "8", "-t", "2", "-r",
                                         "3",     "--profile-stages"};
  const std::string text = Ok(call);
  EXPECT_NE(text.find("decode_1: 24 steps of "), std::string::npos) << text;
  EXPECT_NE(text.find("  trunk {rows = 1}\n"), std::string::npos) << text;
  EXPECT_NE(text.find("100.0%  other\n"), std::string::npos) << "sums: " << text;
  std::vector<std::string> for_programs = call;
  for_programs.push_back("--json");
  const json result = json::parse(Ok(for_programs), nullptr, false);
  ASSERT_TRUE(result.is_object());
  ASSERT_EQ(result["programs"].size(), 1u) << result;
  const json& program = result["programs"][0];
  EXPECT_EQ(program["program"], "decode_1");
  EXPECT_EQ(program["steps"], 24);
  ASSERT_EQ(program["stages"].size(), 1u) << "the barrier belongs to what stands before it";
  const json& stage = program["stages"][0];
  EXPECT_EQ(stage["kernel"], "toy_trunk");
  EXPECT_EQ(stage["runs"], 24);
  EXPECT_EQ(stage["weight_bytes"], 5000);
  EXPECT_EQ(stage["busy_seconds"].size(), 2u);
  EXPECT_EQ(stage["waiting_seconds"].size(), 2u);
  EXPECT_EQ(stage["group"], "other");
  EXPECT_EQ(program["device_clock"], false);
}

TEST_F(QrunCli, DumpRefusesWhatIsNoName) {
  const auto dump = [&](const std::string& names) {
    return Run({model(), "--raw", "-p", "a", "-n", "1", "--dump", names});
  };
  for (const char* names : {"l_out:", ":3", "l_out:3,", "l_out:x", "", "*****:*"}) {
    ExpectError(dump(names), 2, "is no ROLE:LAYER");
  }
  ExpectError(dump("l_out:3"), 2, "there is no value 'l_out:3'");
  // Of a model that is not even looked for.
  const auto into = [&](const std::string& folder) {
    return Run({File("no-model"), "--raw", "-p", "a", "--dump", "l_out:3", "--dump-dir", folder});
  };
  ExpectError(into(""), 2, "--dump-dir");
  ExpectError(into(model()), 6, "Not a directory");
  ExpectError(into(model() + "/in"), 6, "Not a directory");
  ExpectError(into(File("none/in")), 6, "No such file");
  ExpectError(into(File("fresh")), 4, "no-model");
  ExpectError(Run({model(), "--raw", "-p", "a", "--dump-dir", "x"}), 2, "nothing is dumped");
}

TEST_F(QrunCli, CheckTellsWholeFromDamagedAndRightFromWrong) {
  const std::string plain = Ok({"check", model()});
  EXPECT_NE(plain.find("hashes: ok"), std::string::npos) << plain;
  EXPECT_NE(plain.find("cpu future: skipped, this machine lacks no-such-feature"), std::string::npos)
      << plain;
  const Result future = Run({"check", model(), "--cpu=future"});
  EXPECT_EQ(future.exit, 5) << future.err;
  EXPECT_NE(future.err.find("no-such-feature"), std::string::npos) << future.err;
  EXPECT_NE(future.out.find("cpu future: skipped"), std::string::npos) << future.out;
  const Result as_json = Run({"check", model(), "--cpu=future", "--json"});
  EXPECT_EQ(as_json.exit, 5) << as_json.err;
  EXPECT_EQ(json::parse(as_json.out, nullptr, false)["code"][0]["result"], "skipped") << as_json.out;
  for (const bool wrong : {false, true}) {
    qrt::testing::SampleParts parts = toy::ToyParts();
    toy::AddGoldens(parts, wrong);
    WriteParts(parts, File("goldens.qbin"));
    const Result result = Run({"check", File("goldens.qbin")});
    EXPECT_EQ(result.exit, wrong ? 5 : 0) << result.err;
    EXPECT_NE(result.out.find(wrong ? "cpu toy: WRONG" : "cpu toy: ok"), std::string::npos) << result.out;
  }
  std::vector<uint8_t> bytes = qrt::testing::ReadFile(model());
  const qbin_section weights =
      qrt::testing::SectionOf(bytes, qrt::testing::FindSection(bytes, QBIN_SECTION_WEIGHTS));
  bytes[weights.offset + 4000] ^= 0x40;
  WriteFile(File("flipped.qbin"), std::string(bytes.begin(), bytes.end()));
  ExpectError(Run({"check", File("flipped.qbin")}), 4, "weights");
  const Result damaged = Run({"check", File("flipped.qbin"), "--json"});
  EXPECT_EQ(damaged.exit, 4);
  EXPECT_EQ(json::parse(damaged.out, nullptr, false), json({{"hashes", "damaged"}, {"code", json::array()}}))
      << damaged.out;
  EXPECT_NE(Ok({"devices"}).find("cpu: "), std::string::npos);
  const std::string devices = Ok({"devices", model()});
  EXPECT_NE(devices.find("future"), std::string::npos) << devices;
  EXPECT_NE(devices.find("no-such-feature"), std::string::npos) << devices;
  EXPECT_NE(devices.find("cpu toy-2"), std::string::npos) << devices;
}

TEST_F(QrunCli, InterruptsEndCleanly) {
  std::string ids;
  for (int i = 0; i < 60000; ++i) ids += "7 ";  // the toy model needs many seconds for that
  WriteFile(File("many.txt"), ids);
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"logits", model(), "--tokens", File("many.txt"), "-o", File("interrupted.bin")},
           {model(), "--raw", "-f", File("many.txt"), "--ctx", "1000000"}}) {
    Process process(folder(), arguments, "");
    process.ExpectWorks(std::chrono::milliseconds(400));
    process.Interrupt();
    EXPECT_EQ(process.Wait().exit, 130) << arguments[0];
  }
  for (const std::string& name : folder().Entries()) {
    EXPECT_EQ(name.find("interrupted.bin"), std::string::npos) << name << " was left behind";
  }
}

TEST_F(QrunCli, ChatKeepsTheConversation) {
  Terminal terminal({model(), "--timing=json", "-n", "30"});
  terminal.ReadUntil("> ");
  terminal.Type("hello\n");
  const std::string first = terminal.ReadUntil("}\r\n> ");
  EXPECT_NE(first.find("\"reused_tokens\": 0"), std::string::npos) << first;
  terminal.Type("and you\n");
  const std::string second = terminal.ReadUntil("}\r\n> ");
  EXPECT_EQ(second.find("\"reused_tokens\": 0"), std::string::npos)
      << "the second turn fed everything again: " << second;
  terminal.Type("/new\n");
  terminal.ReadUntil("> ");
  terminal.Type("hello\n");
  const std::string again = terminal.ReadUntil("}\r\n> ");
  // After what was typed, which both the terminal and the editor may have shown.
  const auto answer = [](const std::string& screen) {
    constexpr std::string_view kTyped = "hello\r\n";
    const size_t end = screen.find("{\"load"), begin = screen.rfind(kTyped, end) + kTyped.size();
    return screen.substr(begin, end - begin);
  };
  EXPECT_EQ(answer(again), answer(first)) << "/new did not begin anew";
  terminal.Type("\x04");  // Ctrl-D
  EXPECT_EQ(terminal.Wait(), 0);
}

TEST_F(QrunCli, ChatGivesWhatAFreshRunOfTheConversationGives) {
  // The second answer, from reused state, equals the one of a session that is fed the whole conversation.
  Terminal terminal({model()});
  terminal.ReadUntil("> ");
  terminal.Type("hello\n");
  const std::string first = Answer("hello");
  terminal.ReadUntil("\n> ");
  terminal.Type("more\n");
  std::string second = terminal.ReadUntil("\n> ");
  second.erase(0, second.find('\n') + 1);
  second.erase(second.rfind("\r\n> "));
  const std::string conversation = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n" + first +
                                   "<|im_end|>\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(second, Ok({model(), "--raw", "--special", "-p", conversation}));
  terminal.Type("/exit\n");
  EXPECT_EQ(terminal.Wait(), 0);
}

TEST_F(QrunCli, InterruptStopsAnAnswerAndTheChatGoesOn) {
  qrt::testing::SampleParts parts = toy::ToyParts();
  parts.manifest.tokenizer->eog = {271};  // which the model never says: it talks without end
  WriteParts(parts, File("endless.qbin"));
  Terminal terminal({File("endless.qbin"), "--ctx", "1000000", "--timing=json"});
  terminal.ReadUntil("> ");
  for (int turn = 0; turn < 2; ++turn) {
    terminal.Type("talk\n");
    terminal.ReadUntil("\xC3\xA9");  // well into the answer
    terminal.Type("\x03");
    const std::string end = terminal.ReadUntil("}\r\n> ");
    EXPECT_NE(end.find("\"reason\": \"interrupted\""), std::string::npos) << end;
  }
  terminal.Type("\x03");
  EXPECT_EQ(terminal.Wait(), 130);
}

TEST_F(QrunCli, InterruptAtThePromptEndsWith130) {
  Terminal terminal({model()});
  terminal.ReadUntil("> ");
  terminal.Type("\x03");  // Ctrl-C
  EXPECT_EQ(terminal.Wait(), 130);
}

}  // namespace
