#include "apps/planner/simulate.hpp"

#include <algorithm>
#include <stdexcept>

namespace kinora::core::plan {

Simulation::Task Simulation::add(int stream, double seconds, const char* what) {
  const Task t = static_cast<Task>(tasks_.size());
  Item item;
  item.stream = stream, item.seconds = seconds, item.what = what;
  Stream& s = streams_[static_cast<size_t>(stream)];
  if (s.tail == kNone)
    s.head = t;
  else
    tasks_[static_cast<size_t>(s.tail)].next = t, item.missing = 1;
  s.tail = t;
  tasks_.push_back(item);
  return t;
}

void Simulation::wait(Task task, Task before) {
  if (before == kNone) return;
  ++tasks_[static_cast<size_t>(task)].missing;
  Item& b = tasks_[static_cast<size_t>(before)];
  waiters_.emplace_back(task, b.first_waiter);
  b.first_waiter = static_cast<int32_t>(waiters_.size()) - 1;
}

// Every task is reached after all tasks before it have ended, so its times are final; events need not be
// ordered by time.
void Simulation::finish(Task t, std::vector<Task>& ready) {
  Item& item = tasks_[static_cast<size_t>(t)];
  Stream& s = streams_[static_cast<size_t>(item.stream)];
  const double start = std::max(s.free, item.ready);
  if (start > s.free) s.idle[item.last] += start - s.free;
  s.busy[item.what] += item.seconds;
  s.free = item.end = start + item.seconds;
  for (int32_t w = item.first_waiter; w >= 0; w = waiters_[static_cast<size_t>(w)].second) {
    const Task other = waiters_[static_cast<size_t>(w)].first;
    Item& o = tasks_[static_cast<size_t>(other)];
    if (item.end >= o.ready) o.ready = item.end, o.last = item.what;
    if (--o.missing == 0) ready.push_back(other);
  }
  if (item.next != kNone && --tasks_[static_cast<size_t>(item.next)].missing == 0) ready.push_back(item.next);
}

double Simulation::run() {
  std::vector<Task> ready;
  for (const auto& s : streams_)
    if (s.head != kNone && tasks_[static_cast<size_t>(s.head)].missing == 0) ready.push_back(s.head);
  size_t done = 0;
  while (!ready.empty()) {
    const Task t = ready.back();
    ready.pop_back();
    finish(t, ready);
    ++done;
  }
  if (done != tasks_.size()) throw std::logic_error("plan: tasks wait for each other in a cycle");
  double last = 0;
  for (const auto& s : streams_) last = std::max(last, s.free);
  return last;
}

}  // namespace kinora::core::plan
