#include "runtime/artifact/gpu_code.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "runtime/abi/gpu_code_generated.h"
#include "runtime/abi/gpu_step.h"
#include "runtime/artifact/manifest.h"
#include "runtime/artifact/unfolding.h"
#include "runtime/base/checked.h"
#include "runtime/base/hash.h"

namespace qrt {
namespace {

// clang-format off
struct SameSpace { using Other = abi::GpuSpace; QRT_GPU_SPACES(QRT_SAME_NUMBER) };
struct SameSampling { using Other = abi::GpuSampling; QRT_GPU_SAMPLINGS(QRT_SAME_NUMBER) };
// clang-format on

// Limits far above anything real.
constexpr uint64_t kMaxSectionBytes = uint64_t{1} << 30;
constexpr uint32_t kMaxKernels = 1 << 14, kMaxDispatches = 1 << 20, kMaxSamplePrograms = 1 << 10;
constexpr uint32_t kMaxName = 512, kMaxFamily = 64;
constexpr uint32_t kMaxWorkgroup = 1024, kMaxShared = 1 << 20;
constexpr uint64_t kMaxMemory = uint64_t{1} << 40;
constexpr uint64_t kMemoryPadding = 4096;  // behind what dispatches touch, for alignment

constexpr uint32_t kSpirvMagic = 0x07230203;
constexpr size_t kSpirvHeaderWords = 5;
constexpr uint32_t kOpEntryPoint = 15, kGlCompute = 5, kOpExecutionMode = 16, kLocalSize = 17;

uint64_t AddUpTo(uint64_t a, uint64_t b) {
  const Checked sum = Checked(a) + b;
  return sum.ok() ? sum.value() : std::numeric_limits<uint64_t>::max();
}

// Walks a module's instructions. Empty: it has the compute entry point, for workgroups of `threads` x 1 x 1;
// else what is wrong.
std::string SpirvProblem(std::span<const uint32_t> words, const std::string& entry, uint32_t threads) {
  if (words.size() <= kSpirvHeaderWords) return std::to_string(4 * words.size()) + " bytes";
  if (words[0] != kSpirvMagic) return "a module without SPIR-V's mark";
  bool found = false, sized = false;
  uint32_t id = 0;
  for (size_t at = kSpirvHeaderWords; at < words.size();) {
    const size_t length = words[at] >> 16;
    if (length == 0 || length > words.size() - at) {
      return "a module whose instruction at word " + std::to_string(at) + " does not end in it";
    }
    if ((words[at] & 0xffff) == kOpEntryPoint && length > 3 && words[at + 1] == kGlCompute) {
      const char* name = reinterpret_cast<const char*>(&words[at + 3]);
      const size_t room = 4 * (length - 3);
      const size_t size = strnlen(name, room);
      if (size < room && entry == std::string_view(name, size)) {
        found = true;
        id = words[at + 2];
      }
    }
    // After all entry points in a module's layout.
    if ((words[at] & 0xffff) == kOpExecutionMode && length == 6 && found && words[at + 1] == id &&
        words[at + 2] == kLocalSize) {
      sized = words[at + 3] == threads && words[at + 4] == 1 && words[at + 5] == 1;
      if (!sized) {
        return "a module for workgroups of " + std::to_string(words[at + 3]) + " x " +
               std::to_string(words[at + 4]) + " x " + std::to_string(words[at + 5]) +
               " threads instead of " + std::to_string(threads);
      }
    }
    at += length;
  }
  if (!found) return "a module without a compute entry point of that name";
  return sized ? "" : "a module that does not say its workgroups' size";
}

class Reader {
 public:
  Reader(std::span<const uint8_t> section, const Manifest& manifest, GpuTarget target,
         const std::string& where)
      : section_(section),
        fb_(*abi::GetGpuCode(section.data())),
        manifest_(manifest),
        target_(target),
        where_(where) {}

  // `weights_bytes`: of the section that the code reads.
  Status Read(uint64_t weights_bytes) {
    if (fb_.abi() != QRT_GPU_STEP_ABI) {
      return OtherInterface(manifest_, "the GPU code was made for interface", fb_.abi(), QRT_GPU_STEP_ABI,
                            where_);
    }
    QRT_RETURN_IF_ERROR(ReadSizes(weights_bytes));
    QRT_RETURN_IF_ERROR(ReadKernels());
    return ReadPrograms();
  }
  GpuCode Take() { return std::move(code_); }

 private:
  Status Bad(const std::string& field, const std::string& found, const std::string& expected) const {
    return Status(Code::kArtifactCorrupt, 4024,
                  "GPU code: " + field + " is " + found + ", expected " + expected, where_,
                  "compile the model again");
  }
  Status CheckRange(const std::string& field, uint64_t value, uint64_t low, uint64_t high) const {
    if (value >= low && value <= high) return Status();
    return Bad(field, std::to_string(value), std::to_string(low) + " to " + std::to_string(high));
  }
  Status ReadString(const std::string& field, const flatbuffers::String* s, uint32_t limit,
                    std::string* out) const {
    QRT_RETURN_IF_ERROR(CheckRange("the length of " + field, s->size(), 0, limit));
    *out = s->str();
    return Status();
  }
  // Before something is copied or walked: how many bytes that is.
  Status Unfold(const std::string& field, uint64_t bytes) {
    const uint64_t whole = section_.size();
    if (unfolding_.Add(bytes, whole)) return Status();
    return Bad(Unfolding::kField, Unfolding::Found(field, whole), Unfolding::Expected("section", whole));
  }
  uint64_t& Bytes(GpuSpace space) { return code_.space_bytes[static_cast<size_t>(space)]; }

  Status ReadSizes(uint64_t weights_bytes) {
    QRT_RETURN_IF_ERROR(CheckRange("max_rows", fb_.max_rows(), 1, kMaxRows));
    code_.max_rows = fb_.max_rows();
    code_.overlap = fb_.overlap();
    uint64_t out_rows = 0, arena = 0, most_rows = 1;
    if (fb_.programs()->size() != manifest_.programs.size()) {
      return Bad("the number of programs", std::to_string(fb_.programs()->size()),
                 std::to_string(manifest_.programs.size()) + " as in the manifest");
    }
    for (uint32_t i = 0; i < fb_.programs()->size(); ++i) {
      const ProgramInfo& info = manifest_.programs[i];
      const std::string field = "program '" + info.name + "'";
      QRT_RETURN_IF_ERROR(CheckRange(field + ".rows", info.rows, 1, code_.max_rows));
      const uint64_t bytes = fb_.programs()->Get(i)->arena_bytes();
      QRT_RETURN_IF_ERROR(CheckRange(field + ".arena_bytes", bytes, info.arena_bytes, kMaxMemory));
      arena = std::max(arena, bytes);
      most_rows = std::max<uint64_t>(most_rows, info.rows);
      if (info.facts.gives_logits()) out_rows = std::max<uint64_t>(out_rows, info.rows);
    }
    QRT_RETURN_IF_ERROR(CheckRange("max_rows", code_.max_rows, 1, most_rows));
    QRT_RETURN_IF_ERROR(
        CheckRange("the number of sample programs", fb_.sample_programs()->size(), 0, kMaxSamplePrograms));
    for (const abi::GpuSampleProgram* p : *fb_.sample_programs()) {
      QRT_RETURN_IF_ERROR(CheckRange("kind of a sample program", static_cast<uint64_t>(p->kind()), 0,
                                     static_cast<uint64_t>(abi::GpuSampling::MAX)));
      QRT_RETURN_IF_ERROR(CheckRange("rows of a sample program", p->rows(), 1, code_.max_rows));
      out_rows = std::max<uint64_t>(out_rows, p->rows());
    }
    QRT_RETURN_IF_ERROR(CheckRange("scratch_bytes", fb_.scratch_bytes(), 0, kMaxMemory));
    if (fb_.constants() != nullptr) code_.constants = {fb_.constants()->data(), fb_.constants()->size()};

    Bytes(GpuSpace::kWeights) = weights_bytes;
    Bytes(GpuSpace::kArena) = arena;
    Bytes(GpuSpace::kStep) = qrt_gpu_step_bytes(code_.max_rows);
    Bytes(GpuSpace::kLogits) = LogitsBytes(out_rows);
    Bytes(GpuSpace::kConstants) = code_.constants.size();
    Bytes(GpuSpace::kResults) = out_rows * sizeof(int32_t);
    Bytes(GpuSpace::kScratch) = fb_.scratch_bytes();
    return Status();
  }

  uint64_t LogitsBytes(uint64_t rows) const { return rows * manifest_.model.logits_stride * sizeof(float); }

  Status ReadKernels() {
    QRT_RETURN_IF_ERROR(CheckRange("the number of kernels", fb_.kernels()->size(), 1, kMaxKernels));
    const bool cuda = target_ == GpuTarget::kCuda;
    if (cuda && (fb_.ptx() == nullptr || fb_.ptx()->size() == 0)) {
      return Bad("ptx", "empty", "a module: the code is for CUDA");
    }
    if (cuda) code_.ptx = {fb_.ptx()->c_str(), fb_.ptx()->size()};
    for (const abi::GpuKernel* k : *fb_.kernels()) {
      const uint64_t spirv_bytes = k->spirv() == nullptr ? 0 : uint64_t{4} * k->spirv()->size();
      QRT_RETURN_IF_ERROR(Unfold("kernels", sizeof(GpuKernel) + k->name()->size() + k->entry()->size() +
                                                k->source()->size() + spirv_bytes));
      GpuKernel& kernel = code_.kernels.emplace_back();
      QRT_RETURN_IF_ERROR(ReadString("a kernel's name", k->name(), kMaxName, &kernel.name));
      const std::string field = "kernel '" + kernel.name + "'";
      QRT_RETURN_IF_ERROR(ReadString(field + ".entry", k->entry(), kMaxName, &kernel.entry));
      // An entry with a NUL inside would name another one to a driver, which takes C strings.
      if (kernel.entry.empty() || kernel.entry.find('\0') != std::string::npos) {
        return Bad(field + ".entry", kernel.entry.empty() ? "empty" : "no text", "a name");
      }
      QRT_RETURN_IF_ERROR(CheckRange(field + ".workgroup_size", k->workgroup_size(), 1, kMaxWorkgroup));
      QRT_RETURN_IF_ERROR(CheckRange(field + ".n_args", k->n_args(), 0, kMaxGpuArgs));
      QRT_RETURN_IF_ERROR(CheckRange(field + ".shared_bytes", k->shared_bytes(), 0, kMaxShared));
      QRT_RETURN_IF_ERROR(ReadString(field + ".source", k->source(), kMaxFamily, &kernel.source));
      kernel.workgroup_size = k->workgroup_size();
      kernel.n_args = k->n_args();
      kernel.shared_bytes = k->shared_bytes();
      if (cuda) continue;
      if (k->spirv() != nullptr) kernel.spirv = {k->spirv()->data(), k->spirv()->size()};
      const std::string problem = SpirvProblem(kernel.spirv, kernel.entry, kernel.workgroup_size);
      if (!problem.empty()) {
        return Bad(field + ".spirv", problem, "a SPIR-V module with the entry point '" + kernel.entry + "'");
      }
    }
    return Status();
  }

  // The end of what dispatches touch of a space.
  static uint64_t EndOf(GpuSpace space, std::span<const GpuDispatch> dispatches) {
    uint64_t end = 0;
    for (const GpuDispatch& d : dispatches) {
      for (const GpuArg& a : d.args) {
        if (a.space == space) end = std::max(end, a.value + a.bytes);
      }
    }
    return end;
  }

  Status ReadPrograms() {
    uint64_t scratch = 0;
    uint64_t plan_arena = 0;  // programs share it; what their dispatches need for themselves lies behind
    for (const ProgramInfo& p : manifest_.programs) plan_arena = std::max(plan_arena, p.arena_bytes);
    for (uint32_t i = 0; i < fb_.programs()->size(); ++i) {
      const ProgramInfo& info = manifest_.programs[i];
      const std::string field = "program '" + info.name + "'";
      const abi::GpuProgram& p = *fb_.programs()->Get(i);
      std::array<uint64_t, kGpuSpaces> limits = code_.space_bytes;
      limits[static_cast<size_t>(GpuSpace::kArena)] = p.arena_bytes();
      limits[static_cast<size_t>(GpuSpace::kLogits)] = info.facts.gives_logits() ? LogitsBytes(info.rows) : 0;
      // What programs leave for a greedy choice.
      if (!info.facts.gives_logits()) limits[static_cast<size_t>(GpuSpace::kScratch)] = 0;
      limits[static_cast<size_t>(GpuSpace::kResults)] = 0;
      GpuProgram& program = code_.programs.emplace_back();
      program.arena_bytes = p.arena_bytes();
      QRT_RETURN_IF_ERROR(ReadDispatches(field, *p.dispatches(), limits, &program.dispatches));
      scratch = std::max(scratch, EndOf(GpuSpace::kScratch, program.dispatches));
      const uint64_t touched = std::max(plan_arena, EndOf(GpuSpace::kArena, program.dispatches));
      QRT_RETURN_IF_ERROR(CheckRange(field + ".arena_bytes", p.arena_bytes(), 0, touched + kMemoryPadding));
    }
    for (const abi::GpuSampleProgram* p : *fb_.sample_programs()) {
      GpuSampleProgram& program = code_.sample_programs.emplace_back();
      program.kind = static_cast<GpuSampling>(p->kind());
      program.rows = p->rows();
      std::array<uint64_t, kGpuSpaces> limits = code_.space_bytes;
      limits[static_cast<size_t>(GpuSpace::kArena)] = 0;
      limits[static_cast<size_t>(GpuSpace::kLogits)] = LogitsBytes(p->rows());
      limits[static_cast<size_t>(GpuSpace::kResults)] = uint64_t{p->rows()} * sizeof(int32_t);
      QRT_RETURN_IF_ERROR(ReadDispatches("sample program for " + std::to_string(p->rows()) + " rows",
                                         *p->dispatches(), limits, &program.dispatches));
      scratch = std::max(scratch, EndOf(GpuSpace::kScratch, program.dispatches));
    }
    return CheckRange("scratch_bytes", fb_.scratch_bytes(), 0, scratch + kMemoryPadding);
  }

  Status ReadDispatches(const std::string& program,
                        const flatbuffers::Vector<flatbuffers::Offset<abi::GpuDispatch>>& list,
                        const std::array<uint64_t, kGpuSpaces>& limits, std::vector<GpuDispatch>* out) {
    n_dispatches_ += list.size();
    QRT_RETURN_IF_ERROR(CheckRange("the number of dispatches", n_dispatches_, 1, kMaxDispatches));
    QRT_RETURN_IF_ERROR(Unfold(program, list.size() * sizeof(GpuDispatch)));
    out->reserve(list.size());
    for (uint32_t i = 0; i < list.size(); ++i) {
      const abi::GpuDispatch& d = *list.Get(i);
      const std::string field = program + ", dispatch " + std::to_string(i);
      GpuDispatch& dispatch = out->emplace_back();
      QRT_RETURN_IF_ERROR(CheckRange(field + ".kernel", d.kernel(), 0, code_.kernels.size() - 1));
      dispatch.kernel = d.kernel();
      dispatch.grid = {d.grid_x(), d.grid_y(), d.grid_z()};
      for (uint32_t extent : dispatch.grid) {
        QRT_RETURN_IF_ERROR(CheckRange(field + ".grid", extent, 1, std::numeric_limits<int32_t>::max()));
      }
      dispatch.barrier = d.barrier();
      dispatch.cost = {d.read_bytes(), d.write_bytes(), d.kv_bytes(), d.ops()};
      dispatch.layer = d.layer();
      QRT_RETURN_IF_ERROR(ReadString(field + ".family", d.family(), kMaxFamily, &dispatch.family));
      const GpuKernel& kernel = code_.kernels[d.kernel()];
      if (d.args()->size() != kernel.n_args) {
        return Bad(field + " of kernel '" + kernel.name + "', the number of args",
                   std::to_string(d.args()->size()), std::to_string(kernel.n_args));
      }
      QRT_RETURN_IF_ERROR(Unfold(field, kernel.n_args * sizeof(GpuArg) + dispatch.family.size()));
      QRT_RETURN_IF_ERROR(ReadArgs(field, kernel, *d.args(), limits, &dispatch.args));
    }
    return Status();
  }

  Status ReadArgs(const std::string& field, const GpuKernel& kernel,
                  const flatbuffers::Vector<const abi::GpuArg*>& list,
                  const std::array<uint64_t, kGpuSpaces>& limits, std::vector<GpuArg>* out) const {
    // flatbuffers::Verifier checks where the length stands, which has 4 bytes, not where the entries do.
    if (list.size() != 0 && reinterpret_cast<uintptr_t>(list.Data()) % alignof(abi::GpuArg) != 0) {
      return Bad(field + ", the place of its args", "byte " + std::to_string(list.Data() - section_.data()),
                 "a multiple of " + std::to_string(alignof(abi::GpuArg)));
    }
    out->reserve(list.size());
    for (const abi::GpuArg* a : list) {
      const auto space = static_cast<GpuSpace>(a->space());
      if (!Known(space)) {
        return Bad(field + ", space of an arg", std::to_string(static_cast<int>(a->space())),
                   "0 to " + std::to_string(kGpuSpaces - 1));
      }
      const uint64_t limit = limits[static_cast<size_t>(space)];
      const bool number = space == GpuSpace::kImmediate;
      if (number ? a->bytes() != 0 : a->bytes() == 0 || !InRange(a->value(), a->bytes(), limit)) {
        return Bad(field + " of kernel '" + kernel.name + "', an arg in space " + Name(space),
                   std::to_string(a->bytes()) + " bytes at " + std::to_string(a->value()),
                   number ? "no bytes" : "a range inside the " + std::to_string(limit) + " bytes there");
      }
      out->push_back({a->value(), a->bytes(), space});
    }
    return Status();
  }

  const std::span<const uint8_t> section_;
  const abi::GpuCode& fb_;
  const Manifest& manifest_;
  const GpuTarget target_;
  const std::string& where_;
  GpuCode code_;
  uint64_t n_dispatches_ = 0;
  Unfolding unfolding_;
};

}  // namespace

std::optional<GpuTarget> GpuTargetNamed(std::string_view name) {
#define QRT_TARGET(text, Name, accelerator) QRT_ACCELERATOR_##accelerator(text, Name)
#define QRT_ACCELERATOR_true(text, Name) \
  if (name == text) return GpuTarget::k##Name;
#define QRT_ACCELERATOR_false(text, Name)
#include "runtime/artifact/targets.def"
#undef QRT_ACCELERATOR_true
#undef QRT_ACCELERATOR_false
  return std::nullopt;
}

GpuCost& GpuCost::operator+=(const GpuCost& other) {
  read_bytes = AddUpTo(read_bytes, other.read_bytes);
  write_bytes = AddUpTo(write_bytes, other.write_bytes);
  kv_bytes = AddUpTo(kv_bytes, other.kv_bytes);
  ops = AddUpTo(ops, other.ops);
  return *this;
}

Result<GpuCode> GpuCode::Read(const Artifact& artifact, size_t variant, GpuTarget target) {
  const CodeInfo& info = artifact.manifest().code[variant];
  const std::string where = artifact.path() + ", section " + std::to_string(info.section) + " (code for " +
                            info.target + ", " + info.isa + ")";
  const std::span<const uint8_t> mapped = artifact.code(variant);
  const auto copy = std::make_shared<std::vector<uint64_t>>((mapped.size() + 7) / 8);
  const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(copy->data()), mapped.size());
  std::copy(mapped.begin(), mapped.end(), bytes.begin());
  if (HashOf(bytes) != artifact.code_hash(variant)) {
    return Status(Code::kArtifactCorrupt, 5004, "the GPU code is not what was checked: the file has changed",
                  where, "compile or copy the artifact again, and replace artifacts by rename");
  }
  Result<GpuCode> code = Read(bytes, artifact.manifest(), artifact.weights(variant).size(), target, where);
  if (code.ok()) code->section = copy;
  return code;
}

Result<GpuCode> GpuCode::Read(std::span<const uint8_t> section, const Manifest& manifest,
                              uint64_t weights_bytes, GpuTarget target, const std::string& where) {
  const bool aligned = reinterpret_cast<uintptr_t>(section.data()) % alignof(uint64_t) == 0;
  bool valid = aligned && section.size() >= 8 && section.size() <= kMaxSectionBytes;
  if (valid) {
    flatbuffers::Verifier verifier(section.data(), section.size(), /*max_depth=*/16,
                                   /*max_tables=*/2 * kMaxDispatches);
    valid = abi::VerifyGpuCodeBuffer(verifier);
  }
  if (!valid) {
    return Status(Code::kArtifactCorrupt, 4023, "the GPU code is not a valid FlatBuffer of its schema", where,
                  "compile the model again");
  }
  Reader reader(section, manifest, target, where);
  QRT_RETURN_IF_ERROR(reader.Read(weights_bytes));
  return reader.Take();
}

const GpuSampleProgram* GpuCode::FindSampleProgram(GpuSampling kind, uint64_t rows) const {
  const GpuSampleProgram* best = nullptr;
  for (const GpuSampleProgram& p : sample_programs) {
    if (p.kind == kind && p.rows >= rows && (best == nullptr || p.rows < best->rows)) best = &p;
  }
  return best;
}

bool GpuCode::Samples(const Manifest& manifest) const {
  uint64_t rows = 0;
  for (const ProgramInfo& p : manifest.programs) {
    if (p.facts.gives_logits()) rows = std::max<uint64_t>(rows, p.rows);
  }
  return rows != 0 && FindSampleProgram(GpuSampling::kGreedy, rows) != nullptr &&
         FindSampleProgram(GpuSampling::kDraw, rows) != nullptr;
}

bool GpuCode::Guesses(const Manifest& manifest) const {
  uint64_t rows = 0;
  for (const ProgramInfo& p : manifest.programs) {
    if (p.facts.gives == Output::kLogits) rows = std::max<uint64_t>(rows, p.rows);
  }
  return rows != 0 && FindSampleProgram(GpuSampling::kGuess, rows) != nullptr;
}

}  // namespace qrt
