// How qcc ends where no status can be returned: memory runs out inside a library that cannot say so, a mapped
// file is cut short, LLVM gives up. Each is one error with its number and exit code, and leaves no temporary
// file.
#ifndef QCC_COMPILER_DRIVER_ENDING_H_
#define QCC_COMPILER_DRIVER_ENDING_H_

#include <system_error>

namespace qcc::compiler {

// For `main` only, before there are threads: operator new and LLVM's allocators without memory (Q6001),
// LLVM's fatal errors and std::terminate (Q9001), and SIGBUS in a mapped file (Q1009, Q4025) end the process.
// A SIGBUS elsewhere is a crash as before.
void InstallEndings();

// Whether standard error is a terminal that goes back to the begin of a line and clears it.
bool LinesCanBeRedrawn();

// What this command maps is an artifact, and not a model: for the number of the error.
void ExpectMappedArtifact();

// Says that memory ran out (Q6001) and exits. Allocates nothing, and needs nothing that was set up before.
[[noreturn]] void EndOutOfMemory();

// Whether memory or threads ran out: how the standard library tells that of a thread.
bool IsShortage(const std::error_code& error);

// Removes what has a temporary name. Async-signal-safe.
void RemoveTemporaries();

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_DRIVER_ENDING_H_
