// A session that several ranks make together, on the one that has its frames.
#pragma once
#include <exception>

#include "plugins/jobs/inference/session.hpp"

namespace kinora::core {

// Cancels the session, which has not begun, together with the other ranks.
inline void end_with_others(inference::Session& session) {
  session.cancel();
  try {
    session.next_chunk();
  } catch (...) {  // it is cancelled
  }
}

// [owner-thread] The other ranks have begun this session. A failure here before it has come ends it on all of them.
class AwaitedSession {
 public:
  // Both must outlive this object.
  AwaitedSession(inference::Pipeline& pipeline, const Request& request)
      : pipeline_(pipeline), request_(request) {}
  AwaitedSession(const AwaitedSession&) = delete;
  AwaitedSession& operator=(const AwaitedSession&) = delete;
  ~AwaitedSession() {
    if (has_come_) return;
    try {
      inference::Session session(pipeline_, request_);
      end_with_others(session);
    } catch (...) {  // the other ranks' constructor has failed too
    }
  }
  void has_come() { has_come_ = true; }

 private:
  inference::Pipeline& pipeline_;
  const Request& request_;
  bool has_come_ = false;
};

// [owner-thread] What fails on this rank alone ends the session on all of them, after the same step.
class JointSession {
 public:
  // The session must outlive this object and not have begun.
  explicit JointSession(inference::Session& session) : session_(session) {}
  JointSession(inference::Session& session, AwaitedSession& awaited) : session_(session) {
    awaited.has_come();
  }
  JointSession(const JointSession&) = delete;
  JointSession& operator=(const JointSession&) = delete;
  ~JointSession() {
    if (!has_begun_) end_with_others(session_);  // something has failed, and they wait for its first step
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
