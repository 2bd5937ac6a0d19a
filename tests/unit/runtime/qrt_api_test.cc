// The public C API over a real artifact with real native code (the toy model): opening, describing, refusing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/runtime/qrt_api_fixture.h"

extern "C" const char* qrt_c_answer(const char* path, const char* prompt, char* answer, size_t capacity);

namespace {

using namespace qrt_api;  // NOLINT: the fixture of this very test

TEST_F(QrtApi, WorksFromC) {
  char answer[4096];
  const char* failure = qrt_c_answer(path().c_str(), "tell me", answer, sizeof answer);
  ASSERT_EQ(failure, nullptr) << failure;
  EXPECT_GT(std::strlen(answer), 3u);
  char again[4096];
  ASSERT_EQ(qrt_c_answer(path().c_str(), "tell me", again, sizeof again), nullptr);
  EXPECT_STREQ(answer, again);
  ASSERT_EQ(qrt_c_answer(path().c_str(), "tell us", again, sizeof again), nullptr);
  EXPECT_STRNE(answer, again) << "the prompt does not matter";
  EXPECT_NE(qrt_c_answer((path() + ".missing").c_str(), "x", again, sizeof again), nullptr);
}

// Compiled against the header of API 1.1: see old_caller.c.
TEST_F(QrtApi, ProgramsOfAnOlderReleaseStillRun) {
  qrt::testing::SampleParts parts = toy::ToyParts();
  toy::AddGoldens(parts, false);
  const std::string checked = File("checked.qbin");
  WriteParts(parts, checked);
  for (const std::string& file : {path(), checked}) {
    const std::string command = std::string(QRT_OLD_CALLER) + " '" + file + "' 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string said;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) said += static_cast<char>(c);
    EXPECT_EQ(pclose(pipe), 0) << "a program built against qrt.h 1.1 does not run any more: " << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), ' '), 8) << said;
  }
}

TEST_F(QrtApi, DescribesWhatItOpened) {
  const Artifact artifact = Open(path());
  qrt_artifact_info info = Sized<qrt_artifact_info>();
  ASSERT_EQ(qrt_artifact_describe(artifact.get(), &info, nullptr), QRT_OK);
  EXPECT_STREQ(info.architecture, "qwen35");
  EXPECT_STREQ(info.model_name, "toy");
  EXPECT_EQ(info.vocab_size, 272u);
  EXPECT_EQ(info.state_bytes, 5120u);
  EXPECT_EQ(info.kv_bytes_per_token, 64u);
  EXPECT_EQ(info.weight_bytes, 5000u);
  EXPECT_EQ(info.program_count, 5u);
  EXPECT_EQ(info.code_count, 3u);
  EXPECT_EQ(info.has_tokenizer, 1u);
  EXPECT_EQ(info.has_chat_template, 1u);
  EXPECT_EQ(info.has_goldens, 0u);
  EXPECT_EQ(info.parts, 1u);
  qrt_code_info code = Sized<qrt_code_info>();
  ASSERT_EQ(qrt_artifact_code(artifact.get(), 0, &code, nullptr), QRT_OK);
  EXPECT_STREQ(code.name, "future");
  EXPECT_EQ(code.supported, 0u);
  EXPECT_STREQ(code.missing, "no-such-feature");
  ASSERT_EQ(qrt_artifact_code(artifact.get(), 1, &code, nullptr), QRT_OK);
  EXPECT_STREQ(code.name, "toy");
  EXPECT_EQ(code.supported, 1u);
  EXPECT_EQ(qrt_artifact_code(artifact.get(), 3, &code, nullptr), QRT_INVALID_ARGUMENT);
  const Engine engine = MakeEngine(artifact.get(), 3);
  qrt_engine_info engine_info = Sized<qrt_engine_info>();
  ASSERT_EQ(qrt_engine_describe(engine.get(), &engine_info, nullptr), QRT_OK);
  EXPECT_STREQ(engine_info.cpu, "toy") << "the best variant needs a feature that nobody has";
  EXPECT_EQ(engine_info.threads, 3u);
  EXPECT_EQ(engine_info.max_step_rows, 64u);
  qrt_cpu_info cpu = Sized<qrt_cpu_info>();
  ASSERT_EQ(qrt_cpu_describe(&cpu, nullptr), QRT_OK);
  EXPECT_GE(cpu.physical_cores, 1u);
  EXPECT_GE(cpu.logical_cores, cpu.physical_cores);
}

// Asked for a function of this program: the artifact's pages, which a handler asks for, are not handed out.
TEST_F(QrtApi, AnAddressTellsItsFile) {
  char name[4096] = "";
  uint64_t offset = 0;
  EXPECT_EQ(qrt_mapped_file_at(reinterpret_cast<const void*>(&qrt_version), name, sizeof name, &offset), 1);
  EXPECT_EQ(std::string(name), std::filesystem::read_symlink("/proc/self/exe"));
  EXPECT_EQ(qrt_mapped_file_at(reinterpret_cast<const void*>(&qrt_version), nullptr, 100, nullptr), 1);
  EXPECT_EQ(qrt_mapped_file_at(&offset, name, sizeof name, &offset), 0);
  EXPECT_EQ(qrt_mapped_file_at(nullptr, nullptr, 0, nullptr), 0);
}

// Executable memory that no file is mapped to: code that was made at run time.
size_t ExecutableMappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    const bool executable = line.size() > line.find(' ') + 3 && line[line.find(' ') + 3] == 'x';
    count += executable && line.find_first_of("/[") == std::string::npos;
  }
  return count;
}

// A program may load the library, use it and unload it, again and again.
TEST_F(QrtApi, NoCodeOfTheTokenizerIsLeft) {
  const Artifact artifact = Open(path());
  for (int i = 0; i < 3; ++i) {
    qrt_text* text = nullptr;
    ASSERT_EQ(qrt_text_create(artifact.get(), &text, nullptr), QRT_OK);
    qrt_text_release(text);
    EXPECT_EQ(ExecutableMappings(), 0u);
  }
}

TEST_F(QrtApi, CodeIsChosenByNameOrRefusedByName) {
  const Artifact artifact = Open(path());
  qrt_engine_options options = Sized<qrt_engine_options>();
  qrt_engine* engine = nullptr;
  qrt_error error = Sized<qrt_error>();
  options.cpu = "future";
  EXPECT_EQ(qrt_engine_create(artifact.get(), &options, &engine, &error), QRT_DEVICE_UNSUPPORTED);
  EXPECT_NE(std::strstr(error.message, "no-such-feature"), nullptr) << Say(error);
  options.cpu = "none";
  EXPECT_EQ(qrt_engine_create(artifact.get(), &options, &engine, &error), QRT_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(error.help, "future, toy, toy-2"), nullptr) << Say(error);
  EXPECT_EQ(engine, nullptr);
  options.cpu = "toy-2";
  ASSERT_EQ(qrt_engine_create(artifact.get(), &options, &engine, &error), QRT_OK) << Say(error);
  qrt_engine_info info = Sized<qrt_engine_info>();
  ASSERT_EQ(qrt_engine_describe(engine, &info, nullptr), QRT_OK);
  EXPECT_STREQ(info.cpu, "toy-2");
  qrt_engine_release(engine);
}

TEST_F(QrtApi, DevicesAreChosenByName) {
  const Artifact artifact = Open(path());
  qrt_engine_options options = Sized<qrt_engine_options>();
  qrt_engine* engine = nullptr;
  qrt_error error = Sized<qrt_error>();
  for (const char* bad :
       {"gpu", "cpu:0", "vulkan:", "vulkan:x", "vulkan:-1", "cuda:1 ", "auto:0", "Vulkan"}) {
    options.device = bad;
    EXPECT_EQ(qrt_engine_create(artifact.get(), &options, &engine, &error), QRT_INVALID_ARGUMENT) << bad;
    EXPECT_EQ(error.code, 5008u) << Say(error);
  }
  for (const char* several : {"cpu,vulkan", "cpu,cpu", "gpu,"}) {
    options.device = several;
    EXPECT_EQ(qrt_engine_create(artifact.get(), &options, &engine, &error), QRT_INVALID_ARGUMENT) << several;
    EXPECT_EQ(error.code, 5018u) << Say(error);
    EXPECT_NE(
        std::string(error.message).find("\"" + std::string(several) + "\", but the model is not in parts"),
        std::string::npos)
        << Say(error);
  }
  // The toy artifact holds code for CPUs only, so no GPU serves it, whether there is one or not.
  for (const char* gpu : {"vulkan", "cuda", "vulkan:0", "cuda:0"}) {
    options.device = gpu;
    EXPECT_EQ(qrt_engine_create(artifact.get(), &options, &engine, &error), QRT_DEVICE_UNSUPPORTED) << gpu;
    EXPECT_NE(error.code, 0u);
  }
  EXPECT_EQ(engine, nullptr);
  options.max_dispatch_ms = std::nan("");
  EXPECT_EQ(qrt_engine_create(artifact.get(), &options, &engine, &error), QRT_INVALID_ARGUMENT);
  options.max_dispatch_ms = 0;
  for (const char* cpu : {"", "cpu", "auto"}) {
    options.device = cpu;
    ASSERT_EQ(qrt_engine_create(artifact.get(), &options, &engine, &error), QRT_OK) << cpu << Say(error);
    const Engine made(engine);
    qrt_engine_info info = Sized<qrt_engine_info>();
    ASSERT_EQ(qrt_engine_describe(engine, &info, nullptr), QRT_OK);
    EXPECT_STREQ(info.device, "cpu");
    EXPECT_EQ(info.samples_on_device, 0u);
    EXPECT_EQ(info.device_weight_bytes, 0u) << "the CPU reads the file's own pages";
    EXPECT_STREQ(info.passed_over, "") << "there was no better one to take";
    EXPECT_EQ(info.parts, 1u);
    EXPECT_EQ(info.transfers, 0u);
    engine = nullptr;
  }
}

TEST_F(QrtApi, AnEngineTellsWhichDevicesWerePassedOver) {
  qrt::testing::SampleParts parts = toy::ToyParts();
  parts.manifest.code.push_back({"cuda", "future", {"warp-drive"}, 0, 0});
  const std::string path = File("fat.qbin");
  WriteParts(parts, path);
  qrt_error error = Sized<qrt_error>();
  qrt_artifact* artifact = nullptr;
  ASSERT_EQ(qrt_artifact_open(path.c_str(), nullptr, &artifact, &error), QRT_OK) << Say(error);
  const Artifact opened(artifact);
  for (const char* device : {"auto", "cpu"}) {
    qrt_engine_options options = Sized<qrt_engine_options>();
    options.device = device;
    qrt_engine* engine = nullptr;
    ASSERT_EQ(qrt_engine_create(artifact, &options, &engine, &error), QRT_OK) << Say(error);
    const Engine made(engine);
    qrt_engine_info info = Sized<qrt_engine_info>();
    ASSERT_EQ(qrt_engine_describe(engine, &info, nullptr), QRT_OK);
    EXPECT_STREQ(info.device, "cpu");
    EXPECT_EQ(std::string(info.passed_over).rfind("cuda: ", 0) == 0, std::string(device) == "auto")
        << info.passed_over;
  }
}

TEST_F(QrtApi, DevicesOfThisMachineAreListed) {
  size_t count = 0;
  qrt_error error = Sized<qrt_error>();
  EXPECT_EQ(qrt_devices_list(nullptr, 0, &count, &error), QRT_BUFFER_TOO_SMALL);
  ASSERT_GE(count, 3u) << "cpu, cuda and vulkan each have at least one line";
  struct Larger {  // of a newer header
    qrt_device_info info;
    uint64_t newer;
  };
  std::vector<Larger> devices(count + 1);
  for (Larger& device : devices) device.newer = 77;
  devices[0].info.struct_size = sizeof(Larger);
  ASSERT_EQ(qrt_devices_list(&devices[0].info, devices.size(), &count, &error), QRT_OK) << Say(error);
  EXPECT_STREQ(devices[0].info.id, "cpu");
  EXPECT_EQ(devices[0].info.usable, 1u);
  EXPECT_GT(devices[0].info.memory_bytes, 0u);
  std::string kinds;
  for (size_t i = 0; i < count; ++i) {
    const qrt_device_info& device = devices[i].info;
    const std::string kind = std::string(device.id).substr(0, std::string(device.id).find(':'));
    if (kinds.find(kind) == std::string::npos) kinds += kind + " ";
    EXPECT_EQ(device.usable == 0, *device.why_not != '\0') << device.id << " says why, or can be used";
    EXPECT_EQ(devices[i].newer, 77u);
  }
  EXPECT_EQ(kinds, "cpu cuda vulkan ");
  EXPECT_EQ(qrt_devices_list(&devices[0].info, 1, &count, &error), QRT_BUFFER_TOO_SMALL);
  devices[0].info.struct_size = 8;
  EXPECT_EQ(qrt_devices_list(&devices[0].info, devices.size(), &count, &error), QRT_INVALID_ARGUMENT);
  EXPECT_EQ(qrt_devices_list(nullptr, 3, &count, &error), QRT_INVALID_ARGUMENT);
  EXPECT_EQ(qrt_devices_list(&devices[0].info, 1, nullptr, &error), QRT_INVALID_ARGUMENT);
}

TEST_F(QrtApi, AnyOrderOfReleaseIsRight) {
  Artifact artifact = Open(path());
  Engine engine = MakeEngine(artifact.get(), 2);
  Session session = MakeSession(engine.get());
  qrt_text* made = nullptr;
  ASSERT_EQ(qrt_text_create(artifact.get(), &made, nullptr), QRT_OK);
  Text text(made);
  artifact.reset();
  engine.reset();
  const std::vector<int32_t> tokens = Tokens(70);
  EXPECT_EQ(qrt_session_append(session.get(), tokens.data(), tokens.size(), nullptr, nullptr), QRT_OK);
  size_t length = 0;
  EXPECT_EQ(std::string(qrt_text_token_bytes(text.get(), 'x', &length), 1), "x");
  for (int i = 0; i < 50; ++i) {
    Artifact again = Open(path());
    Engine other = MakeEngine(again.get(), 2);
    if (i % 2 == 0) again.reset();
    Session short_lived = MakeSession(other.get());
    if (i % 3 == 0) other.reset();
  }
}

TEST_F(QrtApi, NullIsAnErrorAndNeverACrash) {
  const Artifact artifact = Open(path());
  const Engine engine = MakeEngine(artifact.get());
  const Session session = MakeSession(engine.get());
  qrt_text* made = nullptr;
  ASSERT_EQ(qrt_text_create(artifact.get(), &made, nullptr), QRT_OK);
  const Text text(made);
  qrt_sampler* sampler = nullptr;
  ASSERT_EQ(qrt_sampler_create(artifact.get(), nullptr, &sampler, nullptr), QRT_OK);
  qrt_artifact* a = nullptr;
  qrt_engine* e = nullptr;
  qrt_session* s = nullptr;
  qrt_text* t = nullptr;
  qrt_sampler* p = nullptr;
  int32_t token = 7;
  float logits[272] = {};
  const qrt_status statuses[] = {
      qrt_artifact_open(nullptr, nullptr, &a, nullptr),
      qrt_artifact_open(path().c_str(), nullptr, nullptr, nullptr),
      qrt_artifact_verify(nullptr, nullptr, nullptr, nullptr),
      qrt_artifact_describe(nullptr, nullptr, nullptr),
      qrt_artifact_describe(artifact.get(), nullptr, nullptr),
      qrt_artifact_code(nullptr, 0, nullptr, nullptr),
      qrt_artifact_code(artifact.get(), 0, nullptr, nullptr),
      qrt_artifact_memory_plan(nullptr, 1, 1, nullptr, nullptr),
      qrt_artifact_memory_plan(artifact.get(), 1, 1, nullptr, nullptr),
      qrt_cpu_describe(nullptr, nullptr),
      qrt_engine_create(nullptr, nullptr, &e, nullptr),
      qrt_engine_create(artifact.get(), nullptr, nullptr, nullptr),
      qrt_engine_describe(nullptr, nullptr, nullptr),
      qrt_engine_describe(engine.get(), nullptr, nullptr),
      qrt_engine_check(nullptr, nullptr, nullptr),
      qrt_session_value(nullptr, 0, nullptr, nullptr, nullptr),
      qrt_engine_time_stages(nullptr, nullptr),
      qrt_engine_stage(nullptr, 0, 0, nullptr, nullptr),
      qrt_engine_append(nullptr, nullptr, 0, nullptr),
      qrt_engine_append(engine.get(), nullptr, 1, nullptr),
      qrt_session_create(nullptr, nullptr, &s, nullptr),
      qrt_session_create(engine.get(), nullptr, nullptr, nullptr),
      qrt_session_reset(nullptr, nullptr),
      qrt_session_append(nullptr, &token, 1, nullptr, nullptr),
      qrt_session_append(session.get(), nullptr, 1, nullptr, nullptr),
      qrt_session_save(nullptr, nullptr, 0, nullptr, nullptr),
      qrt_session_save(session.get(), nullptr, 1 << 20, nullptr, nullptr),
      qrt_session_restore(nullptr, &token, 4, nullptr),
      qrt_session_restore(session.get(), nullptr, 4, nullptr),
      qrt_text_create(nullptr, &t, nullptr),
      qrt_text_create(artifact.get(), nullptr, nullptr),
      qrt_text_tokenize(nullptr, "", 0, 0, nullptr, 0, nullptr, nullptr),
      qrt_text_tokenize(text.get(), nullptr, 1, 0, nullptr, 0, nullptr, nullptr),
      qrt_text_tokenize(text.get(), "a", 1, 0, nullptr, 1, nullptr, nullptr),
      qrt_text_tokenize(text.get(), "a", 1, 4, &token, 1, nullptr, nullptr),
      qrt_text_detokenize(nullptr, &token, 1, nullptr, 0, nullptr, nullptr),
      qrt_text_detokenize(text.get(), nullptr, 1, nullptr, 0, nullptr, nullptr),
      qrt_text_render_chat(nullptr, nullptr, 0, nullptr, nullptr, 0, nullptr, nullptr),
      qrt_text_render_chat(text.get(), nullptr, 1, nullptr, nullptr, 0, nullptr, nullptr),
      qrt_text_encode_chat(nullptr, nullptr, 0, nullptr, nullptr, 0, nullptr, nullptr),
      qrt_text_encode_chat(text.get(), nullptr, 1, nullptr, nullptr, 0, nullptr, nullptr),
      qrt_text_encode_chat(text.get(), nullptr, 0, nullptr, nullptr, 1, nullptr, nullptr),
      qrt_sampler_defaults(nullptr, nullptr, nullptr),
      qrt_sampler_defaults(artifact.get(), nullptr, nullptr),
      qrt_sampler_create(nullptr, nullptr, &p, nullptr),
      qrt_sampler_create(artifact.get(), nullptr, nullptr, nullptr),
      qrt_sampler_sample(nullptr, logits, 272, &token, nullptr),
      qrt_sampler_sample(sampler, nullptr, 272, &token, nullptr),
      qrt_sampler_sample(sampler, logits, 272, nullptr, nullptr),
  };
  for (size_t i = 0; i < std::size(statuses); ++i)
    EXPECT_EQ(statuses[i], QRT_INVALID_ARGUMENT) << "call " << i;
  EXPECT_TRUE(a == nullptr && e == nullptr && s == nullptr && t == nullptr && p == nullptr);
  EXPECT_EQ(qrt_session_position(nullptr) + qrt_session_capacity(nullptr) + qrt_session_save_size(nullptr),
            0u);
  EXPECT_EQ(qrt_engine_stages(nullptr), 0u);
  EXPECT_EQ(qrt_session_logits(nullptr), nullptr);
  EXPECT_EQ(qrt_text_is_end(nullptr, 0) + qrt_text_is_special(nullptr, 0), 0);
  EXPECT_EQ(qrt_text_begin_token(nullptr), -1);
  EXPECT_STREQ(qrt_text_token_bytes(nullptr, 0, nullptr), "");
  EXPECT_EQ(qrt_utf8_whole_prefix(nullptr, 3), 0u);
  qrt_session_cancel(nullptr);
  qrt_sampler_accept(nullptr, 1);
  qrt_sampler_seek(nullptr, 1);
  qrt_sampler_reset(nullptr);
  qrt_artifact_release(nullptr);
  qrt_engine_release(nullptr);
  qrt_session_release(nullptr);
  qrt_text_release(nullptr);
  qrt_sampler_release(nullptr);
  qrt_sampler_release(sampler);
}

// A service whose functions were forgotten, or only one of them.
TEST_F(QrtApi, ServicesWithoutFunctionsAreRefused) {
  const qrt_allocator allocators[] = {
      {}, {nullptr, [](void*, size_t, size_t) -> void* { return nullptr; }, nullptr}};
  const qrt_log_sink sink = {};
  const Artifact artifact = Open(path());
  const auto expect_refused = [&](const qrt_allocator* allocator, const qrt_log_sink* log, const char* what) {
    qrt_error error = {};
    error.struct_size = sizeof error;
    qrt_artifact_options opening = {};
    opening.struct_size = sizeof opening;
    opening.allocator = allocator;
    opening.log = log;
    qrt_artifact* a = nullptr;
    EXPECT_EQ(qrt_artifact_open(path().c_str(), &opening, &a, &error), QRT_INVALID_ARGUMENT) << what;
    EXPECT_STREQ(error.message, (std::string(what) + " is NULL").c_str());
    qrt_engine_options running = {};
    running.struct_size = sizeof running;
    running.allocator = allocator;
    running.log = log;
    qrt_engine* e = nullptr;
    EXPECT_EQ(qrt_engine_create(artifact.get(), &running, &e, &error), QRT_INVALID_ARGUMENT) << what;
    EXPECT_STREQ(error.message, (std::string(what) + " is NULL").c_str());
    EXPECT_TRUE(a == nullptr && e == nullptr) << what;
  };
  expect_refused(&allocators[0], nullptr, "allocator->allocate");
  expect_refused(&allocators[1], nullptr, "allocator->deallocate");
  expect_refused(nullptr, &sink, "log->write");
}

TEST_F(QrtApi, StructSizesOfOtherVersions) {
  const Artifact artifact = Open(path());
  qrt_engine* engine = nullptr;
  for (const size_t size :
       {size_t{0}, offsetof(qrt_engine_options, device) - 1, sizeof(qrt_engine_options) + 8, SIZE_MAX}) {
    qrt_engine_options options = {};
    options.struct_size = size;
    qrt_error error = Sized<qrt_error>();
    EXPECT_EQ(qrt_engine_create(artifact.get(), &options, &engine, &error), QRT_INVALID_ARGUMENT) << size;
    EXPECT_EQ(error.code, 5302u) << Say(error);
  }
  // Callers built against release 1.0 know fewer fields: what lies behind theirs is neither read nor written.
  qrt_engine_options old_options = {};
  old_options.struct_size = offsetof(qrt_engine_options, device);
  old_options.device = "no such device";
  ASSERT_EQ(qrt_engine_create(artifact.get(), &old_options, &engine, nullptr), QRT_OK);
  const Engine made(engine);
  qrt_engine_info old_info = {};
  old_info.struct_size = offsetof(qrt_engine_info, device);
  old_info.bytes_to_host = 77;
  EXPECT_EQ(qrt_engine_describe(engine, &old_info, nullptr), QRT_OK);
  EXPECT_EQ(old_info.bytes_to_host, 77u);
  qrt_memory_plan old_plan = {};
  old_plan.struct_size = offsetof(qrt_memory_plan, device_weight_bytes);
  EXPECT_EQ(qrt_artifact_memory_plan(artifact.get(), 1, 1, &old_plan, nullptr), QRT_OK);
  // An info struct of a newer header is filled as far as this library knows it.
  struct {
    qrt_artifact_info info;
    uint64_t newer;
  } larger = {};
  larger.info.struct_size = sizeof larger;
  larger.newer = 77;
  EXPECT_EQ(qrt_artifact_describe(artifact.get(), &larger.info, nullptr), QRT_OK);
  EXPECT_EQ(larger.info.struct_size, sizeof larger);
  EXPECT_EQ(larger.newer, 77u);
  EXPECT_EQ(larger.info.vocab_size, 272u);
  larger.info.struct_size = 8;
  EXPECT_EQ(qrt_artifact_describe(artifact.get(), &larger.info, nullptr), QRT_INVALID_ARGUMENT);
  qrt_error error = {};  // no struct_size: nothing is written
  EXPECT_EQ(qrt_artifact_describe(nullptr, nullptr, &error), QRT_INVALID_ARGUMENT);
  EXPECT_EQ(error.status, QRT_OK);
}

TEST_F(QrtApi, ErrorsOfOpening) {
  qrt_artifact* artifact = nullptr;
  qrt_error error = Sized<qrt_error>();
  EXPECT_EQ(qrt_artifact_open(File("missing.qbin").c_str(), nullptr, &artifact, &error), QRT_NOT_FOUND);
  EXPECT_NE(std::strstr(error.note, "missing.qbin"), nullptr) << Say(error);
  std::vector<uint8_t> bytes = qrt::testing::ReadFile(path());
  const auto write = [&](const std::string& name) {
    const std::string file = File(name);
    std::unique_ptr<FILE, int (*)(FILE*)> out(std::fopen(file.c_str(), "wb"), std::fclose);
    std::fwrite(bytes.data(), 1, bytes.size(), out.get());
    return file;
  };
  const qbin_section code =
      qrt::testing::SectionOf(bytes, qrt::testing::FindSection(bytes, QBIN_SECTION_CODE));
  const qbin_section weights =
      qrt::testing::SectionOf(bytes, qrt::testing::FindSection(bytes, QBIN_SECTION_WEIGHTS));
  bytes[code.offset + 100] ^= 1;
  EXPECT_EQ(qrt_artifact_open(write("code.qbin").c_str(), nullptr, &artifact, &error), QRT_ARTIFACT_CORRUPT);
  bytes[code.offset + 100] ^= 1;
  bytes[weights.offset + 100] ^= 1;
  const std::string bad_weights = write("weights.qbin");
  qrt_artifact_options options = Sized<qrt_artifact_options>();
  options.verify_weights = 1;
  EXPECT_EQ(qrt_artifact_open(bad_weights.c_str(), &options, &artifact, &error), QRT_ARTIFACT_CORRUPT);
  EXPECT_EQ(artifact, nullptr);
  const Artifact opened = Open(bad_weights);  // weights are checked on request only
  EXPECT_EQ(qrt_artifact_verify(opened.get(), nullptr, nullptr, &error), QRT_ARTIFACT_CORRUPT);
  const Artifact good = Open(path());
  EXPECT_EQ(qrt_artifact_verify(good.get(), nullptr, nullptr, &error), QRT_OK) << Say(error);
  EXPECT_EQ(qrt_artifact_verify(
                good.get(), [](void*, uint64_t, uint64_t) { return 1; }, nullptr, &error),
            QRT_CANCELLED);
}

TEST_F(QrtApi, CodeThatChangedAfterOpeningIsNotRun) {
  const std::string file = File("changing.qbin");
  WriteParts(toy::ToyParts(), file);
  const Artifact artifact = Open(file);
  const std::vector<uint8_t> bytes = qrt::testing::ReadFile(file);
  const qbin_section code =
      qrt::testing::SectionOf(bytes, qrt::testing::FindSection(bytes, QBIN_SECTION_CODE));
  const int descriptor = open(file.c_str(), O_WRONLY);
  ASSERT_GE(descriptor, 0);
  const uint8_t trap = 0xCC;
  ASSERT_EQ(pwrite(descriptor, &trap, 1, static_cast<off_t>(code.offset + 80)), 1);
  close(descriptor);
  qrt_engine* engine = nullptr;
  qrt_error error = Sized<qrt_error>();
  EXPECT_EQ(qrt_engine_create(artifact.get(), nullptr, &engine, &error), QRT_ARTIFACT_CORRUPT) << Say(error);
}

TEST_F(QrtApi, StagesAreTimedOnEveryThread) {
  const Artifact artifact = Open(path());
  const Engine engine = MakeEngine(artifact.get(), 2);
  const Session session = MakeSession(engine.get());
  qrt_stage_info info = Sized<qrt_stage_info>();
  qrt_error error = Sized<qrt_error>();
  const auto decode = [&](int count) {
    const int32_t token = 'a';
    for (int i = 0; i < count; ++i)
      ASSERT_EQ(qrt_session_append(session.get(), &token, 1, nullptr, nullptr), QRT_OK);
  };
  decode(2);
  EXPECT_EQ(qrt_engine_stages(engine.get()), 0u) << "nobody asked yet";
  EXPECT_EQ(qrt_engine_stage(engine.get(), 0, 0, &info, &error), QRT_INVALID_ARGUMENT);
  EXPECT_EQ(error.code, 5338u) << Say(error);
  for (const int count : {3, 5}) {  // the second time from 0 on
    ASSERT_EQ(qrt_engine_time_stages(engine.get(), &error), QRT_OK) << Say(error);
    decode(count);
    ASSERT_EQ(qrt_engine_stages(engine.get()), 2u);
    for (uint32_t thread = 0; thread < 2; ++thread) {
      ASSERT_EQ(qrt_engine_stage(engine.get(), 0, thread, &info, &error), QRT_OK) << Say(error);
      EXPECT_STREQ(info.program, "decode_1");
      EXPECT_STREQ(info.kernel, "toy_trunk");
      EXPECT_STREQ(info.specification, "trunk {rows = 1}");
      EXPECT_STREQ(info.group, "other");
      EXPECT_EQ(info.weight_bytes, 5000u);
      EXPECT_EQ(info.threads, 2u);
      EXPECT_EQ(info.device_clock, 0u);
      EXPECT_EQ(info.runs, static_cast<uint64_t>(count)) << "thread " << thread;
      EXPECT_GT(info.seconds, 0) << "thread " << thread;
      ASSERT_EQ(qrt_engine_stage(engine.get(), 1, thread, &info, &error), QRT_OK) << Say(error);
      EXPECT_EQ(info.kernel, nullptr);
      EXPECT_EQ(info.specification, nullptr);
      EXPECT_EQ(info.group, nullptr);
      EXPECT_EQ(info.runs, static_cast<uint64_t>(count)) << "thread " << thread;
    }
  }
  EXPECT_EQ(qrt_engine_stage(engine.get(), 2, 0, &info, &error), QRT_INVALID_ARGUMENT);
  EXPECT_EQ(qrt_engine_stage(engine.get(), 0, 2, &info, &error), QRT_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(error.message, "thread 2"), nullptr) << Say(error);
}

TEST_F(QrtApi, OneCancelForEachSessionOfABatchIsSpentByOneCall) {
  const Artifact artifact = Open(path());
  const Engine engine = MakeEngine(artifact.get());
  const Session one = MakeSession(engine.get()), two = MakeSession(engine.get());
  const int32_t token = 5;
  qrt_append_options options = Sized<qrt_append_options>();
  const qrt_batch_item items[] = {{one.get(), &token, 1, options}, {two.get(), &token, 1, options}};
  qrt_session_cancel(one.get());
  qrt_session_cancel(two.get());
  EXPECT_EQ(qrt_engine_append(engine.get(), items, 2, nullptr), QRT_CANCELLED);
  EXPECT_EQ(qrt_engine_append(engine.get(), items, 2, nullptr), QRT_OK) << "it was cancelled twice";
}

TEST_F(QrtApi, GoldensPassOrFail) {
  for (const bool wrong : {false, true}) {
    qrt::testing::SampleParts parts = toy::ToyParts();
    toy::AddGoldens(parts, wrong);
    const std::string file = File(wrong ? "wrong.qbin" : "right.qbin");
    WriteParts(parts, file);
    const Artifact artifact = Open(file);
    const Engine engine = MakeEngine(artifact.get(), 2);
    qrt_check_report report = Sized<qrt_check_report>();
    qrt_error error = Sized<qrt_error>();
    ASSERT_EQ(qrt_engine_check(engine.get(), &report, &error), QRT_OK) << Say(error);
    EXPECT_EQ(report.passed, wrong ? 0u : 1u);
    EXPECT_EQ(report.tokens, 20u);
    EXPECT_EQ(report.hashed_rows, 4u);
    EXPECT_EQ(report.exact_rows, wrong ? 3u : 4u);
    EXPECT_EQ(report.values, 20u);
    if (wrong) {
      EXPECT_GT(report.max_difference, 40.0f);
    } else {
      EXPECT_EQ(report.max_difference, 0.0f);
    }
  }
  const Artifact artifact = Open(path());
  const Engine engine = MakeEngine(artifact.get());
  qrt_check_report report = Sized<qrt_check_report>();
  EXPECT_EQ(qrt_engine_check(engine.get(), &report, nullptr), QRT_UNAVAILABLE);
}

TEST_F(QrtApi, StatusNamesAreKnown) {
  for (qrt_status status = QRT_OK; status <= QRT_NUMERIC_FAULT; ++status) {
    EXPECT_STRNE(qrt_status_name(status), "unknown status") << status;
  }
  EXPECT_STREQ(qrt_status_name(-1), "unknown status");
  EXPECT_STREQ(qrt_status_name(QRT_NUMERIC_FAULT + 1), "unknown status")
      << "a new status needs a name, and this test";
}

}  // namespace
