// A file descriptor that is closed when it goes.
#ifndef RUNTIME_BASE_DESCRIPTOR_H_
#define RUNTIME_BASE_DESCRIPTOR_H_

#include <unistd.h>

namespace qrt {

class Descriptor {
 public:
  // As open gives it: negative where there is none.
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }

 private:
  const int fd_;
};

}  // namespace qrt

#endif  // RUNTIME_BASE_DESCRIPTOR_H_
