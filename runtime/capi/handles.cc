#include "runtime/capi/handles.h"

#include <cstdlib>

namespace qrt::capi {
namespace {

#define QRT_SAME_CODE(cpp, c) static_assert(static_cast<qrt_status>(Code::cpp) == c)
QRT_SAME_CODE(kOk, QRT_OK);
QRT_SAME_CODE(kInvalidArgument, QRT_INVALID_ARGUMENT);
QRT_SAME_CODE(kOutOfMemory, QRT_OUT_OF_MEMORY);
QRT_SAME_CODE(kNotFound, QRT_NOT_FOUND);
QRT_SAME_CODE(kIoError, QRT_IO_ERROR);
QRT_SAME_CODE(kArtifactCorrupt, QRT_ARTIFACT_CORRUPT);
QRT_SAME_CODE(kArtifactIncompatible, QRT_ARTIFACT_INCOMPATIBLE);
QRT_SAME_CODE(kDeviceUnsupported, QRT_DEVICE_UNSUPPORTED);
QRT_SAME_CODE(kContextFull, QRT_CONTEXT_FULL);
QRT_SAME_CODE(kBufferTooSmall, QRT_BUFFER_TOO_SMALL);
QRT_SAME_CODE(kCancelled, QRT_CANCELLED);
QRT_SAME_CODE(kSnapshotMismatch, QRT_SNAPSHOT_MISMATCH);
QRT_SAME_CODE(kUnavailable, QRT_UNAVAILABLE);
QRT_SAME_CODE(kTemplateError, QRT_TEMPLATE_ERROR);
QRT_SAME_CODE(kInternal, QRT_INTERNAL);
QRT_SAME_CODE(kDeviceLost, QRT_DEVICE_LOST);
QRT_SAME_CODE(kDeviceFailed, QRT_DEVICE_FAILED);
QRT_SAME_CODE(kNumericFault, QRT_NUMERIC_FAULT);
#undef QRT_SAME_CODE

constexpr size_t kHandleAlignment = 64;

qrt_status Fill(qrt_error* error, qrt_status status, uint32_t number, const char* message) noexcept {
  if (error == nullptr || error->struct_size < sizeof(qrt_error)) return status;
  error->status = status;
  error->code = number;
  error->note[0] = '\0';
  error->help[0] = '\0';
  const size_t size = qrt_utf8_whole_prefix(message, strnlen(message, sizeof error->message - 1));
  std::memcpy(error->message, message, size);
  error->message[size] = '\0';
  return status;
}

}  // namespace

Status TakeServices(const qrt_allocator* allocator, const qrt_log_sink* log, Services* services) {
  if (allocator != nullptr) {
    if (allocator->allocate == nullptr) return NullArgument("allocator->allocate");
    if (allocator->deallocate == nullptr) return NullArgument("allocator->deallocate");
    services->allocator = *allocator;
  }
  if (log != nullptr) {
    if (log->write == nullptr) return NullArgument("log->write");
    services->log = *log;
  }
  return Status();
}

void Log(const Services& services, qrt_log_level level, const std::string& line) {
  if (services.log) services.log->write(services.log->ctx, level, line.data(), line.size());
}

void* AllocateHandle(const Services& services, size_t bytes) {
  void* memory = services.allocator
                     ? services.allocator->allocate(services.allocator->ctx, bytes, kHandleAlignment)
                     : ::operator new(bytes, std::align_val_t(kHandleAlignment), std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void FreeHandle(const Services& services, void* memory, size_t bytes) {
  if (services.allocator) {
    services.allocator->deallocate(services.allocator->ctx, memory, bytes, kHandleAlignment);
  } else {
    ::operator delete(memory, std::align_val_t(kHandleAlignment));
  }
}

qrt_status Report(const Status& status, qrt_error* error) noexcept {
  const qrt_status code = static_cast<qrt_status>(status.code());
  if (error == nullptr || error->struct_size < sizeof(qrt_error)) return code;
  error->status = code;
  error->code = status.number();
  CopyText(error->message, status.message());
  CopyText(error->note, status.note());
  CopyText(error->help, status.help());
  return code;
}

qrt_status ReportOutOfMemory(qrt_error* error) noexcept {
  return Fill(error, QRT_OUT_OF_MEMORY, 6001, "out of memory");
}

qrt_status ReportException(const char* what, qrt_error* error) noexcept {
  return Fill(error, QRT_INTERNAL, 9001, what);
}

Status NullArgument(const char* name) {
  return Status(Code::kInvalidArgument, 5301, std::string(name) + " is NULL");
}

Status BadStructSize(const char* name, size_t found, size_t expected) {
  return Status(Code::kInvalidArgument, 5302,
                std::string(name) + "->struct_size is " + std::to_string(found) + ", expected " +
                    std::to_string(expected),
                "", "set it to sizeof, and build against the header of the library that is linked");
}

}  // namespace qrt::capi

extern "C" {

const char* qrt_version(void) {
  return QRT_VERSION;
}

const char* qrt_status_name(qrt_status status) {
  switch (status) {
    case QRT_OK:
      return "ok";
    case QRT_INVALID_ARGUMENT:
      return "invalid argument";
    case QRT_OUT_OF_MEMORY:
      return "out of memory";
    case QRT_NOT_FOUND:
      return "not found";
    case QRT_IO_ERROR:
      return "io error";
    case QRT_ARTIFACT_CORRUPT:
      return "artifact corrupt";
    case QRT_ARTIFACT_INCOMPATIBLE:
      return "artifact incompatible";
    case QRT_DEVICE_UNSUPPORTED:
      return "device unsupported";
    case QRT_CONTEXT_FULL:
      return "context full";
    case QRT_BUFFER_TOO_SMALL:
      return "buffer too small";
    case QRT_CANCELLED:
      return "cancelled";
    case QRT_SNAPSHOT_MISMATCH:
      return "snapshot mismatch";
    case QRT_UNAVAILABLE:
      return "unavailable";
    case QRT_TEMPLATE_ERROR:
      return "template error";
    case QRT_INTERNAL:
      return "internal error";
    case QRT_DEVICE_LOST:
      return "device lost";
    case QRT_DEVICE_FAILED:
      return "device failed";
    case QRT_NUMERIC_FAULT:
      return "numeric fault";
    default:
      return "unknown status";
  }
}

size_t qrt_utf8_whole_prefix(const char* bytes, size_t length) {
  if (bytes == nullptr) return 0;
  const auto byte = [bytes](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  // The lead byte of an unfinished sequence is among the last three bytes.
  for (size_t back = 1; back <= 3 && back <= length; ++back) {
    const size_t at = length - back;
    const uint8_t lead = byte(at);
    if (lead < 0x80) return length;
    if (lead < 0xC0) continue;
    const size_t size = lead >= 0xC2 && lead <= 0xDF   ? 2
                        : lead >= 0xE0 && lead <= 0xEF ? 3
                        : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                       : 1;
    if (size <= back) return length;
    if (back >= 2) {
      // Some leads narrow their second byte: no overlong forms, no surrogates, nothing above U+10FFFF.
      const uint8_t second = byte(at + 1);
      const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
      const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
      if (second < low || second > high) return length;
    }
    return at;
  }
  return length;
}

}  // extern "C"
