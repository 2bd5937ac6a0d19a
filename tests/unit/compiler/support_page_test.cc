// SUPPORT.md is made from the tables that the compiler reads: the test writes the page anew and compares.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "codegen/cpu/kernels/isa.h"
#include "codegen/gpu/kernels/profiles.h"
#include "compiler/targets/targets.h"
#include "dialects/formats/formats.h"
#include "frontends/models/import.h"
#include "runtime/abi/gpu_step.h"
#include "runtime/abi/program.h"
#include "runtime/abi/qbin.h"

namespace qcc::compiler {
namespace {

std::string Page() {
  std::ostringstream out;
  out << "# What is supported\n\n"
         "Made from the tables that the compiler reads by `tests/unit/compiler/support_page_test.cc`, which "
         "fails "
         "when this page is stale.\n"
         "What is not listed is refused with an error that says so; nothing falls back to something slower "
         "without a word. How long what is listed\nstays: [docs/compatibility.md](docs/compatibility.md).\n\n"
         "## Models\n\nGGUF files, in one piece or split, whose `general.architecture` is one of:\n\n";
  for (const std::string_view arch : models::SupportedArchitectures()) out << "* `" << arch << "`\n";
  out << "\n## Tensor formats\n\n[docs/reference/formats.md](docs/reference/formats.md) says what each "
         "stores. "
         "On every target:\n\n";
  for (int i = 0; i < kFormatCount; ++i) {
    out << (i == 0 ? "" : ", ") << "`" << format_info(static_cast<Format>(i)).name << "`";
  }
  out << "\n\n## Machines\n\nLinux on x86-64, with glibc. The compiler and the runtime build on Debian "
         "12.\n\n"
         "| target | level or profile | compiled in when none is named | needs |\n|---|---|---|---|\n";
  for (const TargetInfo& target : Targets()) {
    if (target.backend != nullptr) {
      for (const gpu::ProfileInfo& info : gpu::Profiles()) {
        if (info.target != target.name) continue;
        out << "| " << info.target << " | `" << info.profile.name << "` | " << (info.by_default ? "yes" : "")
            << " | " << info.needs << " |\n";
      }
      continue;
    }
    for (const cpu::IsaInfo& isa : cpu::isa_table()) {
      out << "| " << target.name << " | `" << isa.name << "` | yes | "
          << (isa.cpu_flags.empty() ? "x86-64" : isa.cpu_flags) << " |\n";
    }
  }
  out << "\n## Versions\n\n| what | version |\n|---|---|\n| artifact format | " << QBIN_MAJOR << "."
      << QBIN_MINOR << " |\n| interface of CPU code | " << QRT_PROGRAM_ABI << " |\n| interface of GPU code | "
      << QRT_GPU_STEP_ABI << " |\n";
  return out.str();
}

TEST(SupportPage, IsMadeFromTheTables) {
  const std::string path = QCC_SOURCE_DIR "/SUPPORT.md", fresh = QCC_BINARY_DIR "/SUPPORT.md";
  std::ifstream in(path);
  const std::string found{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const std::string page = Page();
  if (found == page) return;
  std::ofstream(fresh) << page;
  ADD_FAILURE() << path << " is stale; take over the new one: cp " << fresh << " " << path;
}

}  // namespace
}  // namespace qcc::compiler
