#include "runtime/capi/devices.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "runtime/capi/device_candidates.h"

namespace qrt::capi {
namespace {

bool HoldsCodeFor(const Manifest& manifest, std::string_view target) {
  return std::any_of(manifest.code.begin(), manifest.code.end(),
                     [&](const CodeInfo& code) { return code.target == target; });
}

Result<Candidate> Find(const Request& request, const DeviceWish& wish) {
  const Driver* driver = FindDriver(wish.kind);
  return driver != nullptr ? driver->find(request, wish.index) : FindCpu(request, -1);
}

// What ParseDevice takes: "cpu, cuda, cuda:N, vulkan, vulkan:N or auto".
std::string DeviceTexts() {
  std::string texts;
  for (const Driver& driver : Drivers()) {
    const std::string kind(driver.kind);
    texts += (texts.empty() ? "" : ", ") + kind + (driver.accelerator ? ", " + kind + ":N" : "");
  }
  return texts + " or auto";
}

void LogChoice(const Request& request, const Candidate& chosen, const Device& device) {
  if (!request.services.log) return;
  const Manifest& manifest = request.artifact.manifest();
  for (size_t i = 0; i < chosen.variant; ++i) {
    if (manifest.code[i].target != manifest.code[chosen.variant].target) continue;
    const Status why = chosen.why_not(i);
    if (!why.ok()) {
      Log(request.services, QRT_LOG_INFO, "code " + manifest.code[i].isa + " left out: " + why.message());
    }
  }
  Log(request.services, QRT_LOG_INFO,
      "device " + device.name() + ", code " + device.variant() + ", " + std::to_string(device.threads()) +
          " threads, " + std::to_string(device.scratch_bytes()) + " bytes of scratch, " +
          (device.device_weight_bytes() == 0
               ? std::string("weights read where the file is mapped")
               : std::to_string(device.device_weight_bytes()) + " bytes of weights copied"));
}

Result<ChosenDevice> Make(const Request& request, const Candidate& candidate) {
  Result<std::unique_ptr<Device>> device = candidate.make();
  if (!device.ok()) return device.status();
  LogChoice(request, candidate, **device);
  return ChosenDevice{std::move(*device), candidate.variant, ""};
}

// The best that can be made: accelerators, then the CPU, then what only plays an accelerator. Code that the
// artifact lacks is not looked for: opening a driver takes time.
class BestDevice {
 public:
  explicit BestDevice(const Request& request) : request_(request) {}

  Result<ChosenDevice> Make() {
    std::optional<Candidate> software;
    for (const bool accelerators : {true, false}) {
      for (const Driver& driver : Drivers()) {
        if (driver.accelerator != accelerators || !Wanted(driver.kind)) continue;
        Result<Candidate> candidate = driver.find(request_, -1);
        if (!candidate.ok()) {
          PassOver(driver.kind, candidate.status());
        } else if (candidate->software) {
          Add(&passed_over_, std::string(driver.kind) + ": only the CPU's emulation of a GPU");
          if (!software) software = std::move(*candidate);
        } else {
          Result<ChosenDevice> device = capi::Make(request_, *candidate);
          if (device.ok() || device.status().code() == Code::kCancelled) return Finish(std::move(device));
          PassOver(driver.kind, device.status());
        }
      }
    }
    if (software) return Finish(capi::Make(request_, *software));
    if (reasons_.empty())
      return FindCpu(request_, -1).status();  // no code that this release knows, or none of that name
    if (reasons_ == only_.message()) return only_;
    return Status(Code::kDeviceUnsupported, 5009, "no device here runs the artifact: " + reasons_, "",
                  "qrun devices MODEL.qbin lists what there is");
  }

 private:
  static void Add(std::string* list, const std::string& text) { *list += (list->empty() ? "" : "; ") + text; }
  // Whether the artifact holds code for `target`, of the wanted name.
  bool Wanted(std::string_view target) const {
    const std::vector<CodeInfo>& codes = request_.artifact.manifest().code;
    return std::any_of(codes.begin(), codes.end(), [&](const CodeInfo& code) {
      return code.target == target &&
             (request_.variant_name().empty() || request_.variant_name() == code.isa);
    });
  }
  void PassOver(std::string_view kind, const Status& why) {
    Add(&reasons_, why.message());
    Add(&passed_over_, std::string(kind) + ": " + why.message());
    only_ = why;
  }
  Result<ChosenDevice> Finish(Result<ChosenDevice> device) {
    if (device.ok()) device->passed_over = std::move(passed_over_);
    return device;
  }

  const Request& request_;
  std::string reasons_, passed_over_;
  Status only_;
};

}  // namespace

Result<DeviceWish> ParseDevice(std::string_view text) {
  DeviceWish wish;
  const size_t colon = text.find(':');
  wish.kind = text.substr(0, colon);
  const Driver* driver = FindDriver(wish.kind);
  const bool numbered = driver != nullptr && driver->accelerator;
  const bool plain = driver != nullptr || text.empty() || text == "auto";
  bool good = numbered || (plain && colon == std::string_view::npos);
  if (numbered && colon != std::string_view::npos) {
    const std::string_view number = text.substr(colon + 1);
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), wish.index);
    good = parsed.ec == std::errc() && parsed.ptr == number.data() + number.size() && wish.index >= 0;
  }
  if (good) return wish;
  return Status(Code::kInvalidArgument, 5008, "there is no device \"" + std::string(text) + "\"", "",
                "expected " + DeviceTexts() + "; qrun devices lists them");
}

namespace {

Result<ChosenDevice> MakeDevice(const Request& request) {
  const qrt_engine_options& options = request.options;
  Result<DeviceWish> wish = ParseDevice(options.device != nullptr ? options.device : "");
  if (!wish.ok()) return wish.status();
  const Artifact& artifact = request.artifact;
  const bool best = wish->kind == "auto" || (wish->kind.empty() && !HoldsCodeFor(artifact.manifest(), "cpu"));
  if (best) return BestDevice(request).Make();
  Result<Candidate> candidate = Find(request, *wish);
  if (!candidate.ok()) return candidate.status();
  return Make(request, *candidate);
}

// "cpu,vulkan:1": as many as parts, of their targets. Empty or "auto": the best of each target.
Result<std::vector<std::string>> DevicesOfParts(std::span<const PartFacts> parts, std::string_view text) {
  std::vector<std::string> devices;
  std::string targets;
  for (const PartFacts& part : parts) targets += (targets.empty() ? "" : ",") + part.target;
  const auto refuse = [&](const std::string& found) {
    return Status(Code::kInvalidArgument, 5018,
                  "the device is \"" + found + "\", but the layers of the artifact run on " + targets, "",
                  "give none, or one of each of these kinds with commas between them");
  };
  if (text.empty() || text == "auto") {
    for (const PartFacts& part : parts) devices.push_back(part.target);
    return devices;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    devices.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (devices.size() != parts.size()) return refuse(std::string(text));
  for (size_t i = 0; i < parts.size(); ++i) {
    Result<DeviceWish> wish = ParseDevice(devices[i]);
    if (!wish.ok()) return wish.status();
    if (wish->kind != parts[i].target) return refuse(std::string(text));
  }
  return devices;
}

// Weights that are copied for one part after the other, as one figure.
struct PartUpload {
  qrt_progress_fn progress;
  void* ctx;
  uint64_t before = 0, total = 0;

  static int32_t Show(void* self, uint64_t done, uint64_t) {
    const PartUpload& upload = *static_cast<const PartUpload*>(self);
    return upload.progress(upload.ctx, upload.before + done, upload.total);
  }
};

Result<std::vector<ChosenDevice>> MakePartDevices(const Artifact& artifact, const qrt_engine_options& options,
                                                  const Services& services) {
  const std::vector<PartFacts>& parts = artifact.manifest().parts;
  const std::vector<CodeInfo>& codes = artifact.manifest().code;
  Result<std::vector<std::string>> names =
      DevicesOfParts(parts, options.device != nullptr ? options.device : "");
  if (!names.ok()) return names.status();
  const auto named = [&options](const CodeInfo& code) { return code.isa == options.cpu; };
  const bool known = options.cpu != nullptr && std::any_of(codes.begin(), codes.end(), named);
  PartUpload upload = {options.progress, options.progress_ctx};
  for (const PartFacts& part : parts) upload.total += part.target == "cpu" ? 0 : part.weights_bytes;
  std::shared_ptr<Workers> workers;
  std::vector<ChosenDevice> devices;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::vector<CodeInfo>& own = artifact.part(i).manifest().code;
    qrt_engine_options of_part = options;
    of_part.device = (*names)[i].c_str();
    // A name of code that only other parts have says nothing about this one.
    if (known && std::none_of(own.begin(), own.end(), named)) of_part.cpu = nullptr;
    if (options.progress != nullptr) {
      of_part.progress = PartUpload::Show;
      of_part.progress_ctx = &upload;
    }
    Result<ChosenDevice> device = MakeDevice({artifact.part(i), of_part, services, &workers});
    if (!device.ok()) {
      const Status& why = device.status();
      return Status(why.code(), why.number(), why.message(),
                    (why.note().empty() ? "" : why.note() + ", ") + "layers " +
                        std::to_string(parts[i].first_layer) + " to " +
                        std::to_string(parts[i].first_layer + parts[i].layers - 1),
                    why.help());
    }
    devices.push_back(std::move(*device));
    upload.before += parts[i].target == "cpu" ? 0 : parts[i].weights_bytes;
  }
  return devices;
}

}  // namespace

Result<std::vector<ChosenDevice>> MakeDevices(const Artifact& artifact, const qrt_engine_options& options,
                                              const Services& services) {
  if (std::isnan(options.max_dispatch_ms)) {
    return Status(Code::kInvalidArgument, 5305, "max_dispatch_ms is not a number");
  }
  if (artifact.part_count() > 1) return MakePartDevices(artifact, options, services);
  const std::string_view named = options.device != nullptr ? options.device : "";
  if (named.find(',') != std::string_view::npos) {
    return Status(Code::kInvalidArgument, 5018,
                  "the device is \"" + std::string(named) + "\", but the model is not in parts", "",
                  "give one device, or none; qcc compile --layers=cpu:0-3,vulkan:4-7 makes a model in parts");
  }
  std::shared_ptr<Workers> workers;
  Result<ChosenDevice> device = MakeDevice({artifact, options, services, &workers});
  if (!device.ok()) return device.status();
  std::vector<ChosenDevice> devices;
  devices.push_back(std::move(*device));
  return devices;
}

std::vector<qrt_device_info> ListDevices() {
  std::vector<qrt_device_info> devices;
  for (const Driver& driver : Drivers()) {
    for (const qrt_device_info& device : driver.list()) devices.push_back(device);
  }
  return devices;
}

std::string WhyUnsupported(const Artifact& artifact, size_t variant) {
  const CodeInfo& code = artifact.manifest().code[variant];
  const Driver* driver = FindDriver(code.target);
  return driver != nullptr ? driver->why_not(artifact, code)
                           : "a release of qrt that knows target " + code.target;
}

}  // namespace qrt::capi
