// Threads of the library's own.
#ifndef QRT_BASE_SIGNALS_BLOCKED_H_
#define QRT_BASE_SIGNALS_BLOCKED_H_

#include <pthread.h>
#include <signal.h>

namespace qrt {

// Blocks every signal in this thread, and so in threads that it starts: the embedder's handlers run on his
// threads. Those of a thread's own fault are let through: blocked, they would end the process without asking
// his handler.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace qrt

#endif  // QRT_BASE_SIGNALS_BLOCKED_H_
