// What the tests of the public API share: the toy artifact, feeding tokens.
#ifndef TESTS_UNIT_RUNTIME_QRT_API_FIXTURE_H_
#define TESTS_UNIT_RUNTIME_QRT_API_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/include/qrt/qrt.h"
#include "tests/unit/runtime/qrt_handles.h"
#include "tests/unit/runtime/qrt_toy_artifact.h"

namespace qrt_api {

class QrtApi : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new qrt::testing::TempFolder();
    path_ = new std::string(folder_->File("toy.qbin"));
    WriteParts(toy::ToyParts(), *path_);
  }
  static void TearDownTestSuite() {
    delete folder_;
    delete path_;
  }

  static const std::string& path() { return *path_; }
  static std::string File(const std::string& name) { return folder_->File(name); }

  Artifact Open(const std::string& file) {
    qrt_artifact* artifact = nullptr;
    qrt_error error = Sized<qrt_error>();
    EXPECT_EQ(qrt_artifact_open(file.c_str(), nullptr, &artifact, &error), QRT_OK) << Say(error);
    return Artifact(artifact);
  }
  Engine MakeEngine(qrt_artifact* artifact, uint32_t threads = 1, const qrt_thread_pool* pool = nullptr) {
    qrt_engine_options options = Sized<qrt_engine_options>();
    options.threads = threads;
    options.thread_pool = pool;
    qrt_engine* engine = nullptr;
    qrt_error error = Sized<qrt_error>();
    EXPECT_EQ(qrt_engine_create(artifact, &options, &engine, &error), QRT_OK) << Say(error);
    return Engine(engine);
  }
  Session MakeSession(qrt_engine* engine, uint64_t context = 512) {
    qrt_session_options options = Sized<qrt_session_options>();
    options.context_tokens = context;
    qrt_session* session = nullptr;
    qrt_error error = Sized<qrt_error>();
    EXPECT_EQ(qrt_session_create(engine, &options, &session, &error), QRT_OK) << Say(error);
    return Session(session);
  }

 private:
  static inline qrt::testing::TempFolder* folder_ = nullptr;
  static inline std::string* path_ = nullptr;
};

inline std::vector<int32_t> Tokens(size_t count) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(i * i * 31 % 256));
  return tokens;
}

// All logits of a sequence, fed in pieces.
inline std::vector<float> AllLogits(qrt_session* session, const std::vector<int32_t>& tokens, size_t piece) {
  std::vector<float> all;
  qrt_append_options options = Sized<qrt_append_options>();
  options.want = QRT_LOGITS_ALL;
  options.ctx = &all;
  options.on_logits = [](void* ctx, qrt_session*, uint64_t, const float* logits,
                         size_t vocab_size) -> int32_t {
    auto& all = *static_cast<std::vector<float>*>(ctx);
    all.insert(all.end(), logits, logits + vocab_size);
    return 0;
  };
  for (size_t at = 0; at < tokens.size(); at += piece) {
    qrt_error error = Sized<qrt_error>();
    EXPECT_EQ(qrt_session_append(session, tokens.data() + at, std::min(piece, tokens.size() - at), &options,
                                 &error),
              QRT_OK)
        << Say(error);
  }
  return all;
}

}  // namespace qrt_api

#endif  // TESTS_UNIT_RUNTIME_QRT_API_FIXTURE_H_
