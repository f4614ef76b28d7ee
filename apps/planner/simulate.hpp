// A discrete-event simulation: tasks on streams. A stream runs its tasks in the order in which they were
// added; a task starts when its stream is free and all tasks that it waits for have ended.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kinora::core::plan {

class Simulation {
 public:
  using Task = int32_t;
  static constexpr Task kNone = -1;

  int stream() { return streams_.emplace_back(), static_cast<int>(streams_.size()) - 1; }
  // what: must be a string literal, since only the pointer is kept.
  Task add(int stream, double seconds, const char* what);
  Task add(int stream, double seconds, const char* what, Task after) {
    const Task t = add(stream, seconds, what);
    wait(t, after);
    return t;
  }
  // `task` waits for `before`, which may be added later. kNone: waits for nothing.
  void wait(Task task, Task before);

  // The number of the next task to be added.
  Task next() const { return static_cast<Task>(tasks_.size()); }

  // Returns the end of the last task. Throws std::logic_error if tasks wait for each other in a cycle.
  double run();
  double end(Task t) const { return tasks_[static_cast<size_t>(t)].end; }
  // Seconds that a stream was busy, by kind of task; and idle before its last task, by the kind that it
  // waited for.
  std::map<std::string, double> busy(int stream) const { return streams_[static_cast<size_t>(stream)].busy; }
  std::map<std::string, double> idle(int stream) const { return streams_[static_cast<size_t>(stream)].idle; }

 private:
  struct Item {
    int stream;
    double seconds, end = 0, ready = 0;
    const char* what;
    const char* last = "";  // the task that it waited for longest
    int32_t missing = 0, first_waiter = -1;
    Task next = kNone;
  };
  struct Stream {
    Task head = kNone, tail = kNone;
    double free = 0;
    std::map<std::string, double> busy, idle;
  };
  void finish(Task t, std::vector<Task>& ready);

  std::vector<Item> tasks_;
  std::vector<Stream> streams_;
  std::vector<std::pair<Task, int32_t>> waiters_;  // task, next waiter of the same task
};

}  // namespace kinora::core::plan
