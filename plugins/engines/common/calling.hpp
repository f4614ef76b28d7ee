// A call of a stage on the thread that makes it: emit() of the stage blocks the thread while its sample waits
// for room.
#pragma once
#include <condition_variable>
#include <mutex>
#include <optional>

#include "plugins/engines/common/task.hpp"

namespace kinora::engines {

class Calling {
 public:
  explicit Calling(Task& task);
  ~Calling() { task_.room = nullptr; }
  // The engine's side of the call, valid as long as this object.
  kinora_emit table();

 private:
  void emit(Sample sample);

  Task& task_;
  std::mutex mutex_;
  std::condition_variable answered_;
  std::optional<bool> granted_;
};

}  // namespace kinora::engines
