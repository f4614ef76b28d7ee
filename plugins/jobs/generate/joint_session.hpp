// A session that several ranks make together, on the one that has its frames.
#pragma once
#include <exception>

#include "plugins/jobs/inference/session.hpp"

namespace kinora::core {

// [owner-thread] What fails on this rank alone ends the session on all of them, after the same step.
class JointSession {
 public:
  // The session must outlive this object and not have begun.
  explicit JointSession(inference::Session& session) : session_(session) {}
  JointSession(const JointSession&) = delete;
  JointSession& operator=(const JointSession&) = delete;
  ~JointSession() {
    if (has_begun_) return;  // else something has failed, and the other ranks wait for its first step
    session_.cancel();
    try {
      session_.next_chunk();
    } catch (...) {  // it is cancelled
    }
  }

  // As Session::make_rest(), and throws an error of take().
  void make_rest(const inference::Session::Take& take) {
    has_begun_ = true;
    std::exception_ptr error;
    try {
      session_.make_rest([&](const at::Tensor& frames) {
        if (error) return;
        try {
          take(frames);
        } catch (...) {
          error = std::current_exception();
          session_.cancel();
        }
      });
    } catch (...) {
      if (!error) throw;
    }
    if (error) std::rethrow_exception(error);
  }

 private:
  inference::Session& session_;
  bool has_begun_ = false;
};

}  // namespace kinora::core
