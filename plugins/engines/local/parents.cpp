// Finds what a new sample was made of: its parents, whose outcomes are reported after its own.
#include "execution.hpp"

namespace kinora::local {

bool Execution::is_input(const Task& task, const Sample& sample) {
  return task.in && !task.ended && (sample.get() == task.in->sample.get() || sample.key() == task.key);
}

void Execution::made_of(Task& task, std::span<const kinora_str> keys) {
  const Lock lock(mutex_);
  task.named.clear();
  for (const auto& name : keys) {
    const std::string_view key = view(name);
    const auto held = task.slot.held.find(key);
    if (held != task.slot.held.end()) {
      task.named.push_back(held->second.track);
    } else if (task.in && key == task.key) {
      task.named.push_back(task.in->track);
    } else {
      task.named.clear();
      throw Error(KINORA_NOT_FOUND, "made_of(): '" + std::string(key) + "' is not the input, nor held; name the parents of a sample before they end");
    }
  }
}

// Empty for the input, for a held one, and for what finish() emits while nothing is held.
Execution::Tracks Execution::parents_of(Task& task, const Sample& sample) {
  Tracks named = std::exchange(task.named, {});
  if (is_input(task, sample) || task.slot.held.contains(sample.key())) return {};
  if (!named.empty()) return named;
  Tracks out;
  if (task.in) out.push_back(task.in->track);
  for (const auto& [key, held] : task.slot.held) out.push_back(held.track);
  return out;
}

std::shared_ptr<Track> Execution::child_of(const Tracks& parents, std::string_view key) {
  auto child = std::make_shared<Track>(std::string(key), parents);
  child->made = parents.size() == 1 && parents.front()->made == 0 ? 1 : 2;
  for (const auto& parent : parents) ++parent->open;
  return child;
}

}  // namespace kinora::local
