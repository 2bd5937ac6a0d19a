#include "tests/device/conformance.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "codegen/cpu/kernels/isa.h"
#include "codegen/gpu/kernels/profiles.h"
#include "compiler/artifact/writer.h"
#include "compiler/pipeline/plan_manifest.h"
#include "compiler/targets/targets.h"
#include "dialects/hir/IR/Hir.h"
#include "dialects/layouts/layouts.h"
#include "dialects/plan/IR/Plan.h"
#include "dialects/plan/kernel_families.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/thread_pool.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/vulkan/vulkan_device.h"
#include "runtime/device/vulkan/vulkan_loader.h"
#include "tests/unit/compiler/quiet_sink.h"

namespace qcc::conformance {
namespace {

constexpr int64_t kAlign = 64;  // of arena buffers and weights, as in real plans

constexpr int64_t kMostRows = 512;

const char* AccessName(plan::Access access) {
  return access == plan::Access::Read ? "read" : access == plan::Access::Write ? "write" : "readwrite";
}

const char* SpaceName(Place::Space space) {
  static constexpr const char* kNames[] = {"weights", "arena", "state", "kv", "logits"};
  return kNames[static_cast<int>(space)];
}

// Compiles `suite` for one target into a file.
absl::Status Compile(const Suite& suite, const Target& target, const std::string& path) {
  mlir::MLIRContext context;
  context.disableMultithreading();
  context.loadDialect<plan::PlanDialect, hir::HirDialect>();
  compiler::DiagnosticCollector diagnostics(context);
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(suite.Plan(), &context);
  if (!module) return diagnostics.ToStatus("Q3003", "plan of the suite");
  compiler::PipelineOptions options;
  options.targets = {target.device};
  options.cpu = {target.variant};
  options.gpu_profiles = {target.variant};
  compiler::QuietSink sink;
  const compiler::TargetInfo* info = compiler::FindTarget(target.device);
  if (info == nullptr) return absl::InternalError("no target " + target.device);
  auto code = info->generate({*module, options, false, diagnostics, sink});
  if (!code.ok()) return code.status();

  auto writer = compiler::ArtifactWriter::Create(path);
  if (!writer.ok()) return writer.status();
  compiler::ManifestSpec manifest;
  compiler::DescribePlan(*module, manifest);
  manifest.name = suite.name;
  // An engine finds a program by its facts and rows, so no two may agree in both; here they are known by
  // their place.
  std::set<uint32_t> taken = {kMostRows};
  for (compiler::ProgramSpec& program : manifest.programs) {
    if (program.rows == kMostRows) continue;
    while (!taken.insert(program.rows).second) ++program.rows;
  }
  for (compiler::CodeVariant& variant : code->variants) {
    auto section = (*writer)->AddSection(QBIN_SECTION_CODE, variant.bytes);
    if (!section.ok()) return section.status();
    compiler::CodeSpec spec;
    spec.target = target.device;
    spec.isa = variant.isa;
    spec.features = variant.features;
    spec.section = *section;
    manifest.code.push_back(spec);
  }
  compiler::DescribeKernels(*code, 0, 0, manifest);
  auto weights = (*writer)->AddSection(QBIN_SECTION_WEIGHTS, suite.Weights());
  if (!weights.ok()) return weights.status();
  for (compiler::CodeSpec& spec : manifest.code) spec.weights_section = *weights;
  return (*writer)->Finish(manifest);
}

std::unique_ptr<qrt::Device> OpenDevice(const qrt::Artifact& artifact, const Target& target,
                                        std::string* error) {
  qrt::Result<std::unique_ptr<qrt::Device>> device =
      qrt::Status(qrt::Code::kInternal, 9001, "no such device");
  if (target.device == "cpu") {
    const uint32_t cpus = std::max(1u, std::thread::hardware_concurrency());
    auto cpu = qrt::CpuDevice::Create(artifact, 0, qrt::ThreadPool::Create(2, cpus), nullptr);
    if (!cpu.ok()) {
      *error = cpu.status().ToString();
      return nullptr;
    }
    return std::move(*cpu);
  }
  if (target.device == "vulkan") {
    auto loader = qrt::VulkanLoader::Open();
    if (!loader.ok()) {
      *error = loader.status().ToString();
      return nullptr;
    }
    qrt::VulkanOptions options;
    options.validation = std::getenv("QCC_TEST_VULKAN_VALIDATION") != nullptr;
    options.log = [](bool warning, std::string_view line) {
      if (warning) ADD_FAILURE() << "validation: " << line;
    };
    device = qrt::CreateVulkanDevice(artifact, 0, options, *loader);
  }
  if (target.device == "cuda") {
    auto loader = qrt::CudaLoader::Open();
    if (!loader.ok()) {
      *error = loader.status().ToString();
      return nullptr;
    }
    device = qrt::CreateCudaDevice(artifact, 0, {}, *loader);
  }
  if (!device.ok()) {
    *error = device.status().ToString();
    return nullptr;
  }
  return std::move(*device);
}

}  // namespace

std::string Target::Name() const {
  std::string name = device + "_" + variant;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

std::vector<Target> AllTargets() {
  std::vector<Target> targets = {{"cpu", "base"}};
  for (const gpu::ProfileInfo& profile : gpu::Profiles())
    targets.push_back({profile.target, profile.profile.name});
  return targets;
}

std::vector<Target> GpuTargets() {
  std::vector<Target> targets = AllTargets();
  std::erase_if(targets, [](const Target& target) { return target.device == "cpu"; });
  return targets;
}

namespace {

// A machine without the device or its library is no fault; a device that is there and cannot be asked is.
std::string Absent(const qrt::Status& status) {
  constexpr uint32_t kNoLibrary = 5012, kNoDevice = 5013, kLacksFeature = 5001;
  const uint32_t number = status.number();
  if (number != kNoLibrary && number != kNoDevice && number != kLacksFeature)
    ADD_FAILURE() << status.ToString();
  return status.ToString();
}

}  // namespace

std::string CannotRun(const Target& target) {
  if (target.device == "cpu") {
    const auto level = cpu::isa_from_name(target.variant);
    if (!level) return "";  // what follows says that there is no such level
    const std::string_view missing = cpu::missing_cpu_flag(*level);
    return missing.empty() ? "" : "this machine lacks " + std::string(missing);
  }
  const gpu::ProfileInfo* profile = gpu::FindProfile(target.variant);
  if (!profile->by_default && std::getenv("QCC_TEST_ALL_PROFILES") == nullptr) {
    return "not a profile of the default set; QCC_TEST_ALL_PROFILES=1 runs it";
  }
  qrt::Manifest manifest;
  manifest.code.push_back({target.device, target.variant, profile->features, 0, 0});
  if (target.device == "cuda") {
    auto loader = qrt::CudaLoader::Open();
    if (!loader.ok()) return Absent(loader.status());
    auto devices = qrt::ListCudaDevices(*loader);
    if (!devices.ok()) return Absent(devices.status());
    if (devices->empty()) return "there is no CUDA device";
    if (!(*devices)[0].usable) return (*devices)[0].why_not;
    auto code = qrt::ChooseCudaCode(manifest, (*devices)[0], target.variant);
    return code.ok() ? "" : Absent(code.status());
  }
  auto loader = qrt::VulkanLoader::Open();
  if (!loader.ok()) return Absent(loader.status());
  auto devices = qrt::ListVulkanDevices(*loader);
  if (!devices.ok()) return Absent(devices.status());
  auto chosen = qrt::ChooseVulkanDevice(*devices, -1);
  if (!chosen.ok()) return Absent(chosen.status());
  auto code = qrt::ChooseVulkanCode(manifest, (*devices)[*chosen], target.variant);
  return code.ok() ? "" : Absent(code.status());
}

bool MultipliesFloatsOnMatrixUnits(const Target& target) {
  const gpu::ProfileInfo* info = gpu::FindProfile(target.variant);
  return info != nullptr && info->profile.matrix.kind == gpu::MatrixUnits::Kind::kMma;
}

bool DividesExactly(const Target& target) {
  const gpu::ProfileInfo* info = gpu::FindProfile(target.variant);
  return info == nullptr || info->profile.exact_division;
}

Suite::Suite(std::string suite_name, std::vector<Case> cases, int64_t vocab)
    : name(std::move(suite_name)), vocab(vocab), logits_stride(layouts::AlignUp(vocab, layouts::kGroupRows)) {
  mlir::MLIRContext context;
  for (Case& c : cases) {
    Program program;
    auto dict = mlir::dyn_cast_or_null<mlir::DictionaryAttr>(mlir::parseAttribute(c.spec, &context));
    const auto complain = [&] { return mlir::emitError(mlir::UnknownLoc::get(&context)); };
    if (!dict || mlir::failed(plan::checkSpec(c.family, dict, complain))) {
      problem = c.name + ": no family " + c.family + ", or a bad spec " + c.spec;
      return;
    }
    // Not at the start: offsets are used.
    int64_t state = 64, kv = 16;
    for (const plan::Role& role : plan::rolesOf(c.family, dict)) {
      const std::string role_name(role.name);
      if (role.presence == plan::Presence::Absent || c.without.count(role_name)) continue;
      Place place = {};
      place.written = role.access != plan::Access::Read;
      const bool by_rows = role.unit == plan::Unit::Rows;
      place.row_bytes = by_rows ? role.bytes : 0;
      place.bytes = by_rows                            ? role.bytes * c.rows
                    : role.unit == plan::Unit::AnyRows ? role.bytes * c.any_rows
                                                       : role.bytes;
      switch (role.space) {
        case plan::Space::Weights:
          place.space = Place::Space::kWeights;
          place.offset = weight_bytes;
          weight_bytes = layouts::AlignUp(weight_bytes + place.bytes, kAlign);
          if (static_cast<int64_t>(c.weights[role_name].size()) != place.bytes) {
            problem = absl::StrCat(c.name, ": role ", role_name, " has ", place.bytes,
                                   " bytes, the case gives ", c.weights[role_name].size());
          }
          break;
        case plan::Space::State:
          place.space = Place::Space::kState;
          place.offset = state;
          state = layouts::AlignUp(state + place.bytes, kAlign);
          break;
        case plan::Space::KV:
          place.space = Place::Space::kKv;
          place.offset = kv;
          kv += place.bytes;
          break;
        default:
          place.space = c.logits == role_name ? Place::Space::kLogits : Place::Space::kArena;
          if (place.space == Place::Space::kArena) {
            place.offset = program.arena_bytes;
            program.arena_bytes = layouts::AlignUp(program.arena_bytes + place.bytes, kAlign) + kAlign;
          }
      }
      program.places[role_name] = place;
    }
    state_bytes = std::max(state_bytes, state);
    kv_bytes = std::max(kv_bytes, kv);
    program.c = std::move(c);
    programs.push_back(std::move(program));
  }
  weight_bytes = std::max(weight_bytes, kAlign);
}

std::string Suite::Plan() const {
  std::string text =
      absl::StrCat("module attributes {hir.arch = \"test\", hir.vocab_size = ", vocab,
                   " : i64, hir.context_length = 4096 : i64, hir.embedding_length = 32 : i64} {\n");
  // One of each, over everything: cases refer to parts of them.
  absl::StrAppend(&text, "  plan.weight @weights [\"all\"] \"f32\" f32 1 x ", weight_bytes / 4, " at 0 size ",
                  weight_bytes, "\n  plan.state @state conv layer 0 [1, ", state_bytes / 4,
                  "] f32 at 0 size ", state_bytes, "\n  plan.state @kv kv layer 0 [1, ", kv_bytes / 8,
                  "] f32 at 0 size ", kv_bytes, "\n");
  mlir::MLIRContext context;
  for (const Program& p : programs) {
    const auto spec = mlir::cast<mlir::DictionaryAttr>(mlir::parseAttribute(p.c.spec, &context));
    std::string roles, refs;
    for (const plan::Role& role : plan::rolesOf(p.c.family, spec)) {
      auto it = p.places.find(std::string(role.name));
      if (it == p.places.end()) continue;
      const Place& place = it->second;
      absl::StrAppend(&roles, roles.empty() ? "" : ", ", "\"", it->first, "\"");
      absl::StrAppend(&refs, refs.empty() ? "" : ", ", "#plan.ref<", SpaceName(place.space), ", ",
                      place.offset, ", ", place.bytes, ", ", AccessName(role.access), ">");
    }
    const bool head = !p.c.logits.empty();
    absl::StrAppend(&text, "  plan.program @", p.c.name, head ? " stream \"x\"" : " tokens",
                    " leaves \"x\" gives chosen_logits rows ", p.c.rows, " arena ", p.arena_bytes,
                    " {\n    plan.dispatch \"", p.c.family, "\" ", p.c.spec, " [", roles, "] [", refs,
                    "]\n  }\n");
  }
  // A program of many rows behind all others: it bounds the rows that the manifest gives them (see Compile).
  const int64_t bytes = kMostRows * 64;
  return absl::StrCat(text, "  plan.program @most tokens leaves \"x\" gives chosen_logits rows ", kMostRows,
                      " arena ", 2 * bytes,
                      " {\n    plan.dispatch \"add\" {cols = 16 : i64} [\"x\", \"y\"] [#plan.ref<arena, 0, ",
                      bytes, ", read>, #plan.ref<arena, ", bytes, ", ", bytes, ", readwrite>]\n  }\n}\n");
}

Bytes Suite::Weights() const {
  Bytes bytes(static_cast<size_t>(weight_bytes));
  for (const Program& p : programs) {
    for (const auto& [role, data] : p.c.weights) {
      std::copy(data.begin(), data.end(), bytes.begin() + p.places.at(role).offset);
    }
  }
  return bytes;
}

uint32_t Suite::Index(const std::string& program) const {
  for (size_t i = 0; i < programs.size(); ++i) {
    if (programs[i].c.name == program) return static_cast<uint32_t>(i);
  }
  ADD_FAILURE() << "no case " << program;
  std::abort();
}

Lab& Lab::Get(const Suite& suite, const Target& target) {
  // On the heap for good: devices of a driver that is unloading must not be destroyed after it.
  static auto* labs = new std::map<std::string, std::unique_ptr<Lab>>;
  std::unique_ptr<Lab>& slot = (*labs)[suite.name + " on " + target.Name()];
  if (slot) return *slot;
  slot = std::make_unique<Lab>();
  Lab& lab = *slot;
  lab.suite = &suite;
  lab.skip = CannotRun(target);
  lab.error = suite.problem;
  if (!lab.skip.empty() || !lab.error.empty()) return lab;
  const std::string path = testing::TempDir() + "/qcc_" + suite.name + "_" + target.Name() + "_" +
                           std::to_string(reinterpret_cast<uintptr_t>(&lab)) + ".qbin";
  if (absl::Status s = Compile(suite, target, path); !s.ok()) {
    lab.error = std::string(s.message());
    return lab;
  }
  auto artifact = qrt::Artifact::Open(path);
  std::error_code ignored;
  std::filesystem::remove(path, ignored);  // stays mapped
  if (!artifact.ok()) {
    lab.error = artifact.status().ToString();
    return lab;
  }
  lab.artifact = std::move(*artifact);
  lab.device = OpenDevice(*lab.artifact, target, &lab.error);
  return lab;
}

Memory::Memory(Lab& lab, int64_t kv_capacity, bool poison, bool apart)
    : device_(*lab.device), capacity_(kv_capacity), odd_offset_(apart ? lab.suite->state_bytes : 0) {
  const auto kv_bytes = static_cast<uint64_t>(std::max<int64_t>(kv_capacity, 1) * lab.suite->kv_bytes);
  const auto state_bytes = static_cast<uint64_t>(lab.suite->state_bytes + odd_offset_);
  EXPECT_EQ(device_.Allocate(state_bytes, &state_), qrt::DeviceResult::kOk);
  EXPECT_EQ(device_.Allocate(kv_bytes, &kv_), qrt::DeviceResult::kOk);
  if (poison) {
    Bytes nan(kv_bytes, 0xff);
    const qrt::CopyRange range = {&kv_, 0, nan.data(), kv_bytes};
    EXPECT_EQ(device_.Write({&range, 1}), qrt::DeviceResult::kOk);
  }
}

Memory::~Memory() {
  device_.Free(&state_);
  device_.Free(&kv_);
}

qrt::CopyRange Memory::Range(const Place& place, void* host, uint64_t bytes) const {
  const bool kv = place.space == Place::Space::kKv;
  const auto offset = static_cast<uint64_t>(place.offset * (kv ? capacity_ : 1));
  return {kv ? &kv_ : &state_, offset, host, bytes};
}

Bytes Memory::Read(const Place& place, bool odd) const {
  Bytes bytes(static_cast<size_t>(place.bytes * (place.space == Place::Space::kKv ? capacity_ : 1)));
  qrt::CopyRange range = Range(place, bytes.data(), bytes.size());
  if (odd) range.offset += static_cast<uint64_t>(odd_offset_);
  EXPECT_EQ(device_.Read({&range, 1}), qrt::DeviceResult::kOk);
  return bytes;
}

void Memory::Write(const Place& place, const Bytes& bytes) {
  Bytes copy = bytes;
  const qrt::CopyRange range = Range(place, copy.data(), copy.size());
  EXPECT_EQ(device_.Write({&range, 1}), qrt::DeviceResult::kOk);
}

int64_t Step::rows() const {
  int64_t n = 0;
  for (const Sequence& s : sequences) n += s.rows;
  return n;
}

std::map<std::string, Bytes> RunCase(Lab& lab, const std::string& name, const Step& step,
                                     const std::map<std::string, Bytes>& inputs) {
  const Program& program = lab.suite->program(name);
  qrt::Device& device = *lab.device;
  const auto poison = static_cast<uint8_t>(0xff);
  Bytes arena(static_cast<size_t>(std::max<int64_t>(program.arena_bytes, 1)), poison);
  std::vector<float> logits(
      static_cast<size_t>(lab.suite->logits_stride) * std::max<size_t>(step.out_rows.size(), 1),
      std::nanf(""));
  for (const auto& [role, data] : inputs) {
    const Place& place = program.places.at(role);
    if (static_cast<int64_t>(data.size()) > place.bytes) {
      ADD_FAILURE() << name << ": " << data.size() << " bytes for role " << role << " of " << place.bytes;
      return {};
    }
    if (place.space == Place::Space::kArena)
      std::copy(data.begin(), data.end(), arena.begin() + place.offset);
  }
  const qrt::CopyRange whole = {&device.arena(), 0, arena.data(), arena.size()};
  EXPECT_EQ(device.Write({&whole, 1}), qrt::DeviceResult::kOk) << device.last_error();

  std::vector<qrt_seq> seqs;
  std::vector<int32_t> tokens = step.tokens, positions = step.positions;
  int64_t row = 0;
  for (const Step::Sequence& s : step.sequences) {
    qrt_seq seq = {};
    if (s.memory != nullptr) {
      seq.state = reinterpret_cast<uint8_t*>(s.memory->state().address);
      seq.odd_offset = s.memory->odd_offset();
      seq.kv = reinterpret_cast<uint8_t*>(s.memory->kv().address);
      seq.kv_capacity = s.memory->capacity();
    }
    seq.past = s.past;
    seq.row_begin = row;
    seq.row_count = s.rows;
    seqs.push_back(seq);
    if (step.positions.empty()) {
      for (int64_t i = 0; i < s.rows; ++i)
        positions.insert(positions.end(), 4, static_cast<int32_t>(s.past + i));
    }
    row += s.rows;
  }
  if (tokens.empty()) tokens.resize(static_cast<size_t>(row));
  qrt::StepRequest request;
  request.program = lab.suite->Index(name);
  request.seqs = seqs.data();
  request.n_seqs = static_cast<int64_t>(seqs.size());
  request.n_rows = row;
  request.tokens = tokens.data();
  request.positions = positions.data();
  request.out_rows = step.out_rows.data();
  request.n_out = static_cast<int64_t>(step.out_rows.size());
  request.logits = logits.data();
  const qrt::DeviceResult result = device.Run(request);
  EXPECT_EQ(result, qrt::DeviceResult::kOk) << name << ": " << device.last_error();
  if (result != qrt::DeviceResult::kOk) return {};

  Bytes after(arena.size());
  const qrt::CopyRange back = {&device.arena(), 0, after.data(), after.size()};
  EXPECT_EQ(device.Read({&back, 1}), qrt::DeviceResult::kOk) << device.last_error();
  std::map<std::string, Bytes> outputs;
  for (const auto& [role, place] : program.places) {
    if (!place.written || (place.space != Place::Space::kArena && place.space != Place::Space::kLogits))
      continue;
    // Roles of out_rows have as many rows as logits are asked for.
    const bool of_outs = program.c.spec.find("out_rows") != std::string::npos;
    const int64_t rows = of_outs ? static_cast<int64_t>(step.out_rows.size()) : row;
    const auto bytes = static_cast<size_t>(place.row_bytes ? rows * place.row_bytes : place.bytes);
    if (place.space == Place::Space::kLogits) {
      for (int64_t r = 0; r < rows; ++r) {
        const auto* from =
            reinterpret_cast<const uint8_t*>(&logits[static_cast<size_t>(r * lab.suite->logits_stride)]);
        outputs[role].insert(outputs[role].end(), from, from + place.row_bytes);
      }
      continue;
    }
    const auto at = after.begin() + place.offset;
    outputs[role] = Bytes(at, at + static_cast<int64_t>(bytes));
    std::copy_n(arena.begin() + place.offset, bytes, at);  // so that only what should not be written is left
  }
  for (size_t i = 0; i < after.size(); ++i) {
    if (after[i] != arena[i]) {
      std::string where = "between buffers";
      for (const auto& [role, place] : program.places) {
        const auto byte = static_cast<int64_t>(i);
        if (place.space == Place::Space::kArena && byte >= place.offset &&
            byte < place.offset + place.bytes) {
          where = absl::StrCat(
              "byte ", byte - place.offset, " of ", role,
              place.row_bytes ? absl::StrCat(", row ", (byte - place.offset) / place.row_bytes) : "");
        }
      }
      ADD_FAILURE() << name << " on " << device.name() << ", a step of " << row
                    << " rows: the kernel wrote where it may not: " << where;
      break;
    }
  }
  return outputs;
}

double Nmse(const std::vector<float>& got, const std::vector<double>& want) {
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return size == 0 ? error : error / size;
}

testing::AssertionResult Near(const std::vector<float>& got, const std::vector<double>& want, double bound,
                              int64_t cols) {
  if (got.size() != want.size()) {
    return testing::AssertionFailure() << got.size() << " values, expected " << want.size();
  }
  const double all = Nmse(got, want);
  if (!(all <= bound)) {
    size_t worst = 0;
    double most = -1;
    for (size_t i = 0; i < want.size(); ++i) {
      const double off = std::abs(got[i] - want[i]);
      if (!(off <= most)) {
        most = off;
        worst = i;
        if (std::isnan(off)) break;
      }
    }
    return testing::AssertionFailure()
           << "NMSE " << all << ", bound " << bound << "; the worst is row "
           << static_cast<int64_t>(worst) / cols << ", column " << static_cast<int64_t>(worst) % cols << ": "
           << got[worst] << ", expected " << want[worst];
  }
  for (size_t begin = 0; begin < want.size(); begin += static_cast<size_t>(cols)) {
    const size_t end = std::min(want.size(), begin + static_cast<size_t>(cols));
    const double row =
        Nmse({got.begin() + static_cast<int64_t>(begin), got.begin() + static_cast<int64_t>(end)},
             {want.begin() + static_cast<int64_t>(begin), want.begin() + static_cast<int64_t>(end)});
    if (!(row <= bound)) {
      return testing::AssertionFailure()
             << "NMSE " << row << " in row " << begin / static_cast<size_t>(cols) << ", bound " << bound;
    }
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult SameBits(const Bytes& a, const Bytes& b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << a.size() << " and " << b.size() << " bytes";
  for (size_t i = 0; i + 4 <= a.size(); i += 4) {
    if (std::memcmp(&a[i], &b[i], 4) != 0) {
      float x, y;
      std::memcpy(&x, &a[i], 4);
      std::memcpy(&y, &b[i], 4);
      return testing::AssertionFailure()
             << "word " << i / 4 << " of " << a.size() / 4 << ": " << x << " and " << y;
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace qcc::conformance
