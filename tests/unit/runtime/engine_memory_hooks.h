// operator new of a test program, counted and made to fail. In a file of its own: where the compiler sees
// both new and its users, it takes the pairing of our malloc with delete for a mistake.
#ifndef TESTS_UNIT_RUNTIME_ENGINE_MEMORY_HOOKS_H_
#define TESTS_UNIT_RUNTIME_ENGINE_MEMORY_HOOKS_H_

#include <atomic>

extern std::atomic<long> allocations;  // so far
extern std::atomic<long> fail_at;      // the number of the allocation that fails; negative: none

// Counts an allocation; false: it is the one that must fail.
bool MayAllocate();

#endif  // TESTS_UNIT_RUNTIME_ENGINE_MEMORY_HOOKS_H_
