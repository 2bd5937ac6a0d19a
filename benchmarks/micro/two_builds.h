// What benchmarks of two builds of the library share: they open both, and let them do the same in turns.
#ifndef BENCHMARKS_MICRO_TWO_BUILDS_H_
#define BENCHMARKS_MICRO_TWO_BUILDS_H_

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

[[noreturn]] inline void Refuse(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, what.c_str());
  std::exit(2);
}

inline void* OpenLibrary(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) Refuse(dlerror());
  return library;
}

template <typename Function>
Function* Find(void* library, const char* name) {
  void* address = dlsym(library, name);
  if (address == nullptr) Refuse(std::string("the library has no ") + name);
  return reinterpret_cast<Function*>(address);
}

// Seconds that the calling thread has run.
inline double ThreadSeconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

inline double Quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1))];
}

#endif  // BENCHMARKS_MICRO_TWO_BUILDS_H_
