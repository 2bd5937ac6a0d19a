// What a program does before it opens its first file.
#ifndef RUNTIME_BASE_STANDARD_STREAMS_H_
#define RUNTIME_BASE_STANDARD_STREAMS_H_

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace qrt {

// A program may be started with descriptors 0 to 2 closed (`2>&-`). The next file it opens then gets such a
// number, and what is meant for a stream goes into that file: progress went over an artifact's header. Puts
// /dev/null where one is closed: input cannot be read and output not be written, which is reported as before;
// messages go nowhere. For `main` only, before there are threads. False: there is no /dev/null.
inline bool FillStandardStreams() {
  constexpr int kModes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
  for (int stream = 0; stream < 3; ++stream) {
    if (fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number: those below are taken by now.
    if (open("/dev/null", kModes[stream]) != stream) return false;
  }
  return true;
}

}  // namespace qrt

#endif  // RUNTIME_BASE_STANDARD_STREAMS_H_
