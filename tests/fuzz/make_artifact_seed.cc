// Writes the seed of artifact_fuzz: make_artifact_seed tests/fuzz/corpus/artifact/sample
#include <cstdio>

#include "tests/unit/runtime/artifact_sample.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: make_artifact_seed FILE\n", stderr);
    return 2;
  }
  qrt::testing::WriteParts(qrt::testing::MakeParts(), argv[1]);
  return 0;
}
