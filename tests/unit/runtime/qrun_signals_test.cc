// qrun told to end, or met by a limit of the file size: nothing is lost and nothing half-written stays.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>

#include "compiler/artifact/goldens_section.h"
#include "runtime/qrun/process.h"
#include "tests/unit/runtime/qrun_fixture.h"

namespace {

using nlohmann::json;
using qrun_test::Process;
using qrun_test::Result;
using qrun_test::Slurp;
using qrun_test::Terminal;
using qrun_test::Until;
using qrun_test::WriteFile;

class QrunSignals : public qrun_test::QrunCli {
 protected:
  static bool HalfWritten() {
    const std::vector<std::string> names = folder().Entries();
    return std::any_of(names.begin(), names.end(),
                       [](const std::string& name) { return name.find(".tmp-") != std::string::npos; });
  }
  // A model that talks without end.
  static std::string Endless() {
    qrt::testing::SampleParts parts = toy::ToyParts();
    parts.manifest.tokenizer->eog = {271};
    WriteParts(parts, File("endless.qbin"));
    return File("endless.qbin");
  }
};

TEST_F(QrunSignals, AHalfWrittenFileIsRemoved) {
  std::string ids;
  for (int i = 0; i < 60000; ++i) ids += "7 ";  // the toy model needs many seconds for that
  WriteFile(File("many.txt"), ids);
  const struct {
    std::vector<int> signals;
    int exit;
  } cases[] = {{{SIGTERM}, 143}, {{SIGHUP, SIGHUP}, 129}, {{SIGINT}, 130}, {{SIGINT, SIGINT}, 130}};
  for (const auto& c : cases) {
    Process process(folder(), {"logits", model(), "--tokens", File("many.txt"), "-o", File("out.bin")}, "");
    EXPECT_TRUE(Until(HalfWritten));
    for (const int signal : c.signals) process.Signal(signal);
    EXPECT_EQ(process.Wait().exit, c.exit);
    EXPECT_FALSE(HalfWritten()) << "signal " << c.signals[0] << " left a file behind";
    EXPECT_NE(access(File("out.bin").c_str(), F_OK), 0);
  }
}

TEST_F(QrunSignals, TheSessionIsSaved) {
  const std::string endless = Endless(), file = File("ended.session");
  for (const auto& [signal, exit] : {std::pair(SIGTERM, 143), std::pair(SIGHUP, 129)}) {
    unlink(file.c_str());
    WriteFile(File("stdout"), "");
    Process process(folder(), {endless, "-p", "talk", "--ctx", "100000", "--save-session", file}, "");
    EXPECT_TRUE(Until([] { return Slurp(File("stdout")).size() > 20; }));
    process.Signal(signal);
    const Result result = process.Wait();
    EXPECT_EQ(result.exit, exit) << result.err;
    const Result more = Run({endless, "--load-session", file, "-n", "3", "--timing=json"});
    ASSERT_EQ(more.exit, 0) << more.err;
    EXPECT_EQ(json::parse(more.err)["prompt_tokens"], 0) << "the session holds less than was said";
  }
}

TEST_F(QrunSignals, AChatEnds) {
  const std::string endless = Endless();
  for (const bool answering : {true, false}) {
    Terminal terminal({endless, "--ctx", "100000"});
    terminal.ReadUntil("> ");
    if (answering) {
      terminal.Type("talk\n");
      terminal.ReadUntil("\xC3\xA9");
    }
    terminal.Signal(SIGTERM);
    EXPECT_EQ(terminal.Wait(), 143) << answering;
  }
}

TEST_F(QrunSignals, ALimitOfTheFileSizeIsAnError) {
  std::string ids;
  for (int i = 0; i < 150; ++i) ids += "7 ";
  WriteFile(File("ids.txt"), ids);
  Process process(folder(), {"logits", model(), "--tokens", File("ids.txt"), "-o", File("limited.bin")}, "",
                  false, 8192);
  const Result result = process.Wait();
  ExpectError(result, 6, "Q6003");
  EXPECT_FALSE(HalfWritten());
  EXPECT_NE(access(File("limited.bin").c_str(), F_OK), 0);
}

// Threads of a step read the weights together, and miss a page together.
TEST_F(QrunSignals, OneErrorOfAFileCutShort) {
  constexpr size_t kThreads = 8, kPage = 4096;
  const std::string file = File("cut.bin"), said = File("said");
  for (int round = 0; round < 20; ++round) {
    WriteFile(file, std::string(kThreads * kPage, 'x'));
    const pid_t child = fork();
    if (child == 0) {
      dup2(open(said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
      const int descriptor = open(file.c_str(), O_RDWR);
      void* const mapped = mmap(nullptr, kThreads * kPage, PROT_READ, MAP_SHARED, descriptor, 0);
      if (mapped == MAP_FAILED || ftruncate(descriptor, 0) != 0) _exit(99);
      qrun::InstallBusErrorHandler();
      std::atomic<size_t> ready{0};
      std::vector<std::thread> threads;
      for (size_t i = 0; i < kThreads; ++i) {
        threads.emplace_back([&ready, mapped, i] {
          ++ready;
          while (ready.load() != kThreads) continue;
          (void)*(static_cast<const volatile char*>(mapped) + i * kPage);
        });
      }
      for (std::thread& thread : threads) thread.join();
      _exit(98);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 4);
    const std::string text = Slurp(said);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << "more than one error: " << text;
  }
}

TEST_F(QrunSignals, WaitingForAWriterEnds) {
  const std::string fifo = File("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const auto& [signal, exit] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143)}) {
    Process process(folder(), {model(), "-f", fifo}, "");
    process.ExpectWorks(std::chrono::milliseconds(300));  // it waits for as long as nobody writes
    process.Signal(signal);
    const Result result = process.Wait();
    EXPECT_EQ(result.exit, exit) << result.err;
    EXPECT_EQ(result.err, "");
  }
  Process process(folder(), {model(), "-f", fifo}, "");
  WriteFile(fifo, "tell me");
  const Result result = process.Wait();
  EXPECT_EQ(result.out, Answer("tell me")) << "what is written is not read: " << result.err;
}

TEST_F(QrunSignals, ACheckEnds) {
  qrt::testing::SampleParts parts = toy::ToyParts();
  const std::vector<int32_t> tokens(60000, 7);  // the toy model needs many seconds for that
  const std::vector<float> logits(272);
  const std::vector<qcc::compiler::GoldenLogits> rows = {{1, logits}};
  parts.goldens = qcc::compiler::BuildGoldensSection(tokens, rows, 5, 1e-4f, 1e-5f, true);
  parts.manifest.context_length = tokens.size();
  WriteParts(parts, File("long.qbin"));
  for (const auto& [signal, exit] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143)}) {
    WriteFile(File("stdout"), "");
    Process process(folder(), {"check", File("long.qbin")}, "");
    EXPECT_TRUE(Until([] { return Slurp(File("stdout")).find("future") != std::string::npos; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // golden values are being computed
    process.Signal(signal);
    const Result result = process.Wait();
    EXPECT_EQ(result.exit, exit) << "what is computed went on to its end: " << result.out << result.err;
  }
}

// timeout(1) sends a signal to the process and to its group, and who started qrun may hand Ctrl-C on.
TEST_F(QrunSignals, OneRequestMayBeTwoSignals) {
  const std::string endless = Endless(), file = File("twice.session");
  WriteFile(File("stdout"), "");
  Process process(folder(), {endless, "-p", "talk", "--ctx", "100000", "--save-session", file}, "");
  EXPECT_TRUE(Until([] { return Slurp(File("stdout")).size() > 20; }));
  // Handlers of signals that wait together run one inside the other, the last one first: SIGINT's is second.
  for (const int signal : {SIGSTOP, SIGINT, SIGTERM, SIGCONT}) process.Signal(signal);
  const Result result = process.Wait();
  EXPECT_EQ(result.exit, 143) << result.err;
  EXPECT_EQ(access(file.c_str(), F_OK), 0) << "the session is not saved: " << result.err;
}

TEST_F(QrunSignals, CtrlCWhileAModelIsOpenedCounts) {
  for (int i = 0; i < 5; ++i) {
    Terminal terminal({model()});
    qrun_test::ExpectHandles(terminal.pid(), SIGINT);
    terminal.Signal(SIGINT);
    terminal.Type("\x04");  // ends it, where it has forgotten
    EXPECT_EQ(terminal.Wait(), 130);
  }
}

TEST_F(QrunSignals, CtrlCWhileTheHistoryIsReadCounts) {
  ASSERT_EQ(mkdir(File("qcc").c_str(), 0700), 0);
  WriteFile(File("qcc/history"), std::string(size_t{16} << 20, 'x') + "\n");  // takes a moment to be read
  Terminal terminal({model()}, folder().path());
  terminal.ReadUntil("lists commands.");
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  terminal.Signal(SIGINT);
  terminal.Type("\x04");  // ends it, where it has forgotten
  EXPECT_EQ(terminal.Wait(), 130);
}

TEST_F(QrunSignals, ASignalToAnotherThreadEndsTheWaitOfTheFirst) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const qrun::Interrupts interrupts;
  std::atomic<bool> ended{false};
  std::thread driver([&] {
    pthread_kill(pthread_self(), SIGINT);
    if (Until([&] { return ended.load(); })) return;
    ADD_FAILURE() << "it waits for a byte";
    if (write(ends[1], "x", 1) != 1) std::abort();
  });
  char byte = 0;
  EXPECT_EQ(qrun::ReadOrInterrupt(ends[0], &byte, 1), -1);
  EXPECT_EQ(errno, EINTR);
  ended.store(true);
  driver.join();
  EXPECT_TRUE(qrun::Interrupts::Take());
  close(ends[0]);
  close(ends[1]);
}

TEST_F(QrunSignals, HandlersAreGivenBackWhereTheyAreNested) {
  struct sigaction before, after;
  sigaction(SIGTERM, nullptr, &before);
  {
    const qrun::Interrupts outer;
    const qrun::Interrupts inner;
  }
  sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler) << "a signal has no effect any more";
}

TEST_F(QrunSignals, AnOutputThatNobodyReadsIsNotWaitedForBehindASignal) {
  const std::string fifo = File("unread");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const qrun::Interrupts interrupts;
  raise(SIGINT);
  std::atomic<bool> ended{false};
  std::thread reader([&] {
    if (Until([&] { return ended.load(); })) return;
    ADD_FAILURE() << "it waits for a reader";
    close(open(fifo.c_str(), O_RDONLY));
  });
  qrun::OutputFile file;
  const qrun::Outcome outcome = file.Open(fifo);
  ended.store(true);
  reader.join();
  EXPECT_EQ(outcome.exit_code(), qrun::kExitInterrupted) << outcome.Text();
  EXPECT_TRUE(qrun::Interrupts::Take());
}

// Another qrun may be stopped while it has the folder.
TEST_F(QrunSignals, WhoIsToldToEndDoesNotWaitForThePromptCache) {
  const std::string endless = Endless(), cache = File("held-cache"), session = File("held.session");
  ASSERT_EQ(mkdir(cache.c_str(), 0700), 0);
  const int held = open(cache.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  WriteFile(File("stdout"), "");
  Process process(
      folder(),
      {endless, "-p", "talk", "--ctx", "100000", "--prompt-cache", cache, "--save-session", session}, "");
  EXPECT_TRUE(Until([] { return Slurp(File("stdout")).size() > 20; }));
  process.Signal(SIGTERM);
  std::atomic<bool> ended{false};
  std::thread holder([&] {
    if (Until([&] { return ended.load(); })) return;
    ADD_FAILURE() << "it waits for the folder";
    flock(held, LOCK_UN);
  });
  const Result result = process.Wait();
  ended.store(true);
  holder.join();
  close(held);
  EXPECT_EQ(result.exit, 143) << result.err;
  EXPECT_EQ(access(session.c_str(), F_OK), 0) << "the session is not saved: " << result.err;
}

// Ctrl-Z between the drawing of a key and the wait for the next one: after fg the line was not drawn again.
TEST_F(QrunSignals, WhatCameJustBeforeAWaitEndsIt) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::atomic<bool> came{true};
  std::atomic<bool> ended{false};
  std::thread writer([&] {
    if (Until([&] { return ended.load(); })) return;
    ADD_FAILURE() << "it waits for a byte";
    if (write(ends[1], "x", 1) != 1) std::abort();
  });
  char byte = 0;
  const ssize_t count = qrun::ReadOrInterrupt(ends[0], &byte, 1, &came);
  const int reason = errno;
  ended.store(true);
  writer.join();
  EXPECT_EQ(count, -1);
  EXPECT_EQ(reason, EINTR);
  ASSERT_EQ(write(ends[1], "y", 1), 1);
  EXPECT_EQ(qrun::ReadOrInterrupt(ends[0], &byte, 1, &came), 1) << "what can be read is not";
  EXPECT_EQ(byte, 'y');
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
