// Which file lies at an address: for handlers of SIGBUS, which comes where a mapped file was cut short.
#ifndef QRT_BASE_MAPPED_FILE_H_
#define QRT_BASE_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace qrt {

// Finds the file that is mapped at `address`: writes its path, cut to fit and NUL-terminated (no bytes: not
// at all), and the address's offset in it. False: no file of a file system is mapped there (memory, a
// device), or /proc cannot be read. Async-signal-safe; takes about 700 bytes of stack.
bool FindMappedFile(const void* address, std::span<char> path, uint64_t* offset);

}  // namespace qrt

#endif  // QRT_BASE_MAPPED_FILE_H_
