// How qrun's options may be written, and what is said of those that are mistyped.
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/unit/runtime/qrun_fixture.h"

namespace {

using nlohmann::json;

using QrunSpelling = qrun_test::QrunCli;

TEST_F(QrunSpelling, WhatIsMistypedIsSuggested) {
  ExpectError(Run({"bnech", model()}), 2, "there is no command bnech");
  ExpectError(Run({"bnech", model()}), 2, "help: did you mean bench?");
  ExpectError(Run({model(), "--tmep", "1"}), 2, "help: did you mean --temp?");
  for (const std::vector<std::string>& one_dash : {std::vector<std::string>{"-prompt=Hello"},
                                                   {"-prompt", "Hello"},
                                                   {"-temp", "0.5"},
                                                   {"-seed=1", "-p", "x"}}) {
    std::vector<std::string> arguments = one_dash;
    arguments.insert(arguments.begin(), model());
    const std::string name = one_dash[0].substr(0, one_dash[0].find('='));
    ExpectError(Run(arguments), 2, "unknown option " + name + " [Q0101]");
    ExpectError(Run(arguments), 2, "help: did you mean -" + name + "?");
  }
  ExpectError(Run({"bench", model(), "--jsn"}), 2, "help: did you mean --json?");
  ExpectError(Run({"models/qwen.qbin", "-p", "x"}), 4, "models/qwen.qbin");
  ExpectError(Run({"--hlep"}), 2, "help: did you mean --help?");
  ExpectError(Run({"bench", "--versoin"}), 2, "MODEL is missing");  // bench has no --version
  ExpectError(Run({model(), "--hlep"}), 2, "help: did you mean --help?");
  ExpectError(Run({"--kv=f32"}), 2, "MODEL is missing");
}

TEST_F(QrunSpelling, NamesThatOthersUseAreKnown) {
  const std::string expected =
      Ok({model(), "-p", "tell me", "--ctx", "90", "--seed", "4", "--system", "be brief"});
  EXPECT_EQ(Ok({"-m", model(), "-p", "tell me", "-c", "90", "-s", "4", "-sys", "be brief", "-ngl", "0"}),
            expected);
  EXPECT_EQ(Ok({"-m=" + model(), "-p=tell me", "-c=90", "-s=4", "-sys=be brief", "-ngl=0"}), expected)
      << "the sign is no part of the value";
  EXPECT_EQ(Ok({"tokenize", model(), "-p==a"}), Ok({"tokenize", model(), "-p", "=a"}));
  EXPECT_EQ(Ok({"tokenize", model(), "-p="}), Ok({"tokenize", model(), "-p", ""}));
  ExpectError(Run({"-m", model(), "-p", "x", "-ngl", "99"}), 2, "-ngl is 99");
  ExpectError(Run({"-m", model(), "-p", "x", "-ngl", "0", "--device=vulkan"}), 2, "-ngl and --device");
  EXPECT_EQ(json::parse(Run({model(), "-p", "x", "-n", "1", "--timing", "json"}).err)["generated_tokens"], 1);
}

// It would be compiled, for nothing.
TEST_F(QrunSpelling, AModelIsRunAsOneCodeVariant) {
  const std::string model = File("several.gguf");
  qrun_test::WriteFile(model, "GGUF");
  ExpectError(Run({model, "-p", "x", "--cpu=v3,base"}), 2, "--cpu is \"v3,base\", expected one code variant");
}

// And where there is no compiler, a device that is not here is told (test_cli.py).
TEST_F(QrunSpelling, WhatIsMistypedIsToldBeforeADeviceThatIsNotHere) {
  const std::string folder = File("compilers"), qcc = folder + "/qcc", model = File("small.gguf");
  std::filesystem::create_directory(folder);
  // For a qrun that has none beside it.
  qrun_test::WriteFile(qcc, "#!/bin/sh\necho '  --kv TEXT'; echo '  --target TEXT'\n");
  std::filesystem::permissions(qcc, std::filesystem::perms::owner_all);
  qrun_test::WriteFile(model, "GGUF");
  const std::string path = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "";
  setenv("PATH", (folder + ":" + path).c_str(), 1);
  const std::vector<std::string> command = {model, "-p", "x", "--device=cuda:99",
                                            "--cache-dir=" + File("cache")};
  const auto with = [&](const std::string& option) {
    std::vector<std::string> arguments = command;
    arguments.push_back(option);
    return Run(arguments);
  };
  const auto mistyped = with("--kvv=f32"), right = with("--kv=f32");
  setenv("PATH", path.c_str(), 1);
  ExpectError(mistyped, 2, "unknown option --kvv");
  EXPECT_NE(right.err.find("[Q501"), std::string::npos) << right.err;
  EXPECT_EQ(right.err.find("unknown option"), std::string::npos) << right.err;
}

// Which of both is wrong depends on what was asked for.
TEST_F(QrunSpelling, ALengthOfGuessesNeedsWhoGuesses) {
  const std::string what = "--draft-len is given, but nothing drafts";
  const auto off = Run({model(), "-p", "x", "--draft", "off", "--draft-len", "3"});
  ExpectError(off, 2, what);
  ExpectError(off, 2, "--draft off");
  ExpectError(off, 2, "leave one of them out");
  const auto none = Run({model(), "-p", "x", "--draft-len", "3"});
  ExpectError(none, 2, what);
  ExpectError(none, 2, "give --draft lookup");
}

TEST_F(QrunSpelling, WhatHasANameIsNotEmpty) {
  for (const char* option : {"--device", "--cpu", "--draft", "--prompt-cache"}) {
    ExpectError(Run({model(), "-p", "a", option, ""}), 2, std::string(option) + " is \"\", expected ");
    ExpectError(Run({model(), "-p", "a", std::string(option) + "="}), 2, std::string(option) + " is \"\"");
  }
}

}  // namespace
