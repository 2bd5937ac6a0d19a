#include "runtime/qrun/device_choice.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace qrun {
namespace {

// One device of a list with commas: "cuda:1" is kind "cuda" and number "1".
struct Named {
  std::string_view text, kind, number;
  bool plain = false;  // without a colon
};

std::vector<Named> Split(std::string_view list) {
  std::vector<Named> devices;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view text = list.substr(begin, end - begin);
    const size_t colon = std::min(text.find(':'), text.size());
    devices.push_back(
        {text, text.substr(0, colon), text.substr(std::min(colon + 1, text.size())), colon == text.size()});
    begin = end + 1;
  }
  return devices;
}

Outcome CheckGpuIsHere(const Named& named, const std::vector<qrt_device_info>& devices) {
  std::string_view number = named.number;
  number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
  if (number.empty() && !named.plain) number = "0";
  const std::string id = std::string(named.kind) + (named.plain ? "" : ":" + std::string(number));
  std::string reasons;
  size_t numbered = 0;
  for (const qrt_device_info& device : devices) {
    const std::string_view of_device = device.id;
    const std::string_view kind = of_device.substr(0, of_device.find(':'));
    if (kind != named.kind) continue;
    numbered += kind != of_device;
    if (!named.plain && kind != of_device && of_device != id) continue;
    if (device.usable) return Outcome();
    reasons += (reasons.empty() ? "" : "; ") + std::string(device.why_not);
  }
  if (reasons.empty() && numbered > 0) {
    return Outcome::Fail(kExitUsage, 5014, "there is no device " + id + ", only " + std::to_string(numbered),
                         "", "qrun devices lists them");
  }
  return Outcome::Fail(kExitDevice, 5013,
                       "device " + id + " cannot be used" + (reasons.empty() ? "" : ": " + reasons), "",
                       "qrun devices lists what there is; on the CPU the model runs with --device cpu");
}

}  // namespace

bool IsGpu(std::string_view target) {
  return std::find(std::begin(kGpus), std::end(kGpus), target) != std::end(kGpus);
}

Outcome ListDevices(std::vector<qrt_device_info>* out) {
  for (size_t count = 8;;) {
    qrt_device_info empty = {};
    empty.struct_size = sizeof empty;
    out->assign(count, empty);
    qrt_error error = NewError();
    const qrt_status status = qrt_devices_list(out->data(), out->size(), &count, &error);
    if (status != QRT_OK && status != QRT_BUFFER_TOO_SMALL) return Outcome::Of(error);
    if (status == QRT_OK) {
      out->resize(count);
      return Outcome();
    }
  }
}

Outcome CheckDeviceName(std::string_view named) {
  for (const Named& device : Split(named)) {
    const bool numbered =
        !device.number.empty() && device.number.find_first_not_of("0123456789") == std::string_view::npos;
    const bool one_of_all = device.plain && (device.kind == "cpu" || device.kind == "auto");
    if (one_of_all || (IsGpu(device.kind) && (device.plain || numbered))) continue;
    return Outcome::Fail(kExitUsage, 5008, "there is no device \"" + std::string(device.text) + "\"", "",
                         std::string("expected ") + kDevices + "; qrun devices lists them");
  }
  return Outcome();
}

Outcome CheckDeviceIsHere(std::string_view named) {
  std::vector<qrt_device_info> devices;
  for (const Named& device : Split(named)) {
    if (!IsGpu(device.kind)) continue;
    if (devices.empty()) QRUN_RETURN_IF_ERROR(ListDevices(&devices));
    QRUN_RETURN_IF_ERROR(CheckGpuIsHere(device, devices));
  }
  return Outcome();
}

}  // namespace qrun
