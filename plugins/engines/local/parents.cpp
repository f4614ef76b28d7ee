// Finds what a new sample was made of: the samples whose outcomes are reported after its own.
//
// In process() this is the input. A stage that holds other inputs, or gives their outcomes in this call, may have made it of any
// of these: its fact "film" names one of them, or the input that they were made of, or its key begins with the key of one
// (KEY-...). If neither does, it counts as made of all, so that no outcome is reported too early.
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "execution.hpp"

namespace kinora::local {
namespace {

// The string "film" in the sample's facts; empty if absent.
std::string film_of(const Sample& sample) {
  const auto text = sample.text("json");
  if (!text) return "";
  const auto facts = nlohmann::json::parse(*text, nullptr, false);
  if (!facts.is_object()) return "";
  const auto film = facts.find("film");
  return film != facts.end() && film->is_string() ? film->get<std::string>() : "";
}

// Adds the track itself or, if its outcome is already queued, those that it was made of.
void add_open(std::vector<std::shared_ptr<Track>>& to, std::unordered_set<const Track*>& seen, const std::shared_ptr<Track>& track) {
  if (!seen.insert(track.get()).second) return;
  if (!track->settled) return to.push_back(track);
  for (const auto& parent : track->parents) add_open(to, seen, parent);
}

}  // namespace

bool Execution::is_input(const Task& task, const Sample& sample) {
  return task.in && !task.ended && (sample.get() == task.in->sample.get() || sample.key() == task.key);
}

// The samples of this key among all that this call may have made a sample of.
Execution::Tracks Execution::named(const Task& task, std::string_view name) {
  Tracks out;
  if (task.in && name == task.key) out.push_back(task.in->track);
  const auto [first, last] = task.slot.held.equal_range(name);
  for (auto at = first; at != last; ++at) out.push_back(at->second.track);
  const auto [begin, end] = task.released.equal_range(name);
  for (auto at = begin; at != end; ++at) out.push_back(at->second);
  return out;
}

// Empty for a sample that is not new.
Execution::Tracks Execution::made_of(const Task& task, const Sample& sample) {
  if (is_input(task, sample) || task.slot.held.contains(sample.key())) return {};
  if (task.slot.held.empty() && task.released.empty()) return task.in ? Tracks{task.in->track} : Tracks{};
  const std::string film = film_of(sample);
  if (!film.empty())
    if (Tracks out = named(task, film); !out.empty()) return out;
  std::string_view key = sample.key();
  for (size_t end = key.find_last_of("-.@"); end != std::string_view::npos; end = key.find_last_of("-.@")) {
    key = key.substr(0, end);
    Tracks out = named(task, key);
    // Its key may begin with another's key; then its facts decide.
    if (!film.empty()) std::erase_if(out, [&](const auto& track) { return !is_of(*track, film); });
    if (!out.empty()) return out;
  }
  Tracks all, of_film;
  if (task.in) all.push_back(task.in->track);
  for (const auto& [name, held] : task.slot.held) all.push_back(held.track);
  const auto add = [&](const auto& track) {
    if (!film.empty() && is_of(*track, film)) of_film.push_back(track);
  };
  for (const auto& track : all) add(track);
  for (const auto& [name, track] : task.released) add(track);
  return of_film.empty() ? all : of_film;
}

std::shared_ptr<Track> Execution::child_of(const Tracks& of) {
  auto child = std::make_shared<Track>();
  std::unordered_set<const Track*> seen;
  for (const auto& track : of) add_open(child->parents, seen, track);
  child->made = of.size() == 1 && of.front()->made == 0 ? 1 : 2;  // if it is made of several, its origin is unknown
  for (const auto& parent : child->parents) ++parent->open;
  return child;
}

}  // namespace kinora::local
