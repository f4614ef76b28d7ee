#include "plugins/jobs/curation/ends.hpp"

#include <algorithm>
#include <unordered_set>

#include "kinora/abi/base.h"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

// Outcomes of one video that do not say which of its clips they were made from: a copy of a clip has the clip's
// facts, and these name the video.
class WithoutClip {
 public:
  explicit WithoutClip(const std::vector<End>& ends) {
    for (const auto& end : ends) {
      if (end.made) made_.insert(end.key);
      if (end.made && !end.of_made) clips_.insert(end.key);
    }
  }
  // A second sample with a clip's own key fails as one more sample, and journals have stages' errors over clips already
  // emitted.
  bool operator()(const End& end) const {
    return end.of_made && !clips_.count(end.key) && (end.parent == end.key || !made_.count(end.parent));
  }

 private:
  std::unordered_set<std::string> made_, clips_;
};

}  // namespace

Ends::Film* Ends::film(const std::string& key) {
  const auto at = films_.find(key);
  return at == films_.end() ? nullptr : &at->second;
}

const Ends::Film* Ends::film(const std::string& key) const {
  const auto at = films_.find(key);
  return at == films_.end() ? nullptr : &at->second;
}

Ends::Film& Ends::begin(const std::string& key, const std::string& identity) {
  if (Film* known = film(key); known && known->identity != identity) forget(key);
  Film& out = films_[key];
  out.identity = identity;
  return out;
}

void Ends::forget(const std::string& key) {
  const auto at = films_.find(key);
  if (at == films_.end()) return;
  for (const auto& end : at->second.ends)
    if (end.made) made_.erase(end.key);
  films_.erase(at);
}

// The key of the video that this is or was made from; empty: unknown. A copy made by a branch of the stages is
// called KEY@STAGE.
std::string Ends::owner(std::string name) const {
  for (size_t at = 0; at != std::string::npos; name.resize(std::min(at, name.size()))) {
    if (film(name)) return name;
    if (const auto made = made_.find(name); made != made_.end()) return made->second.film;
    at = name.rfind('@');
  }
  return "";
}

std::string Ends::ended_before(const std::string& key, const std::string& parent) const {
  const std::string whose = owner(parent.empty() ? key : parent);
  return whose.empty() || names_nobody(key, parent, whose) || !film(whose)->ended ? "" : whose;
}

// A sample that names no video may have the key of an ended video that it was not made from.
bool Ends::names_nobody(const std::string& key, const std::string& parent, const std::string& whose) const {
  return (parent.empty() || parent == key) && whose == key && film(key)->ended;
}

void Ends::add(End end, const std::string& parent) {
  const std::string key = end.key;
  end.parent = parent;
  if (!end.made) return put(key, std::move(end));
  // What its facts name overrides its key: a stage may name a sample after another input than its source.
  if (const std::string whose = owner(parent.empty() ? key : parent); !whose.empty())
    return names_nobody(key, parent, whose) ? nameless_.push_back(std::move(end)) : put(whose, std::move(end));
  // A failure may carry only its clip's key; the clip's own outcome is still to come.
  if (!parent.empty() || end.failed) {
    waiting_.emplace(parent.empty() ? key : parent, std::move(end));
  } else {
    nameless_.push_back(std::move(end));
  }
}

void Ends::put(const std::string& film_key, End end) {
  Film& film = films_[film_key];
  if (film.ended && !end.failed)
    throw Error(KINORA_FAILED, "the engine reported the outcome of '" + end.key + "' after the outcome of '" + film_key +
                                   "', its source; please report this as a bug of the engine");
  film.ended = film.ended || !end.made;
  const bool made = end.made;
  const std::string key = end.key;
  film.ends.push_back(std::move(end));
  if (!made) return;
  made_[key] = {film_key, film.ends.size() - 1};
  const auto [first, last] = waiting_.equal_range(key);
  std::vector<End> freed;
  for (auto at = first; at != last; ++at) freed.push_back(std::move(at->second));
  waiting_.erase(first, last);
  for (auto& one : freed) put(film_key, std::move(one));
}

const End* Ends::made(const std::string& key) const {
  const auto at = made_.find(key);
  return at == made_.end() ? nullptr : &films_.at(at->second.film).ends[at->second.at];
}

void Ends::index(const std::string& key) {
  const auto& ends = films_.at(key).ends;
  for (size_t i = 0; i < ends.size(); ++i)
    if (ends[i].made) made_[ends[i].key] = {key, i};
}

void Ends::break_off(bool all) {
  waiting_.clear();
  for (auto& [key, film] : films_) {
    for (auto& end : film.ends) end.earlier = true;
    if (!film.ended) reopen(key, film, all);
  }
}

size_t Ends::retry_failed(bool all) {
  size_t failed = 0;
  for (auto& [key, film] : films_) {
    const auto here =
        std::count_if(film.ends.begin(), film.ends.end(), [](const End& end) { return end.failed; });
    if (here > 0) reopen(key, film, all);
    failed += static_cast<size_t>(here);
  }
  return failed;
}

void Ends::open_again(const std::string& key, bool all) {
  if (Film* known = film(key)) reopen(key, *known, all);
}

// Voids the video's own outcome and its failures. A clip that a failed sample was made from is made again
// too, since nothing else makes the failed one; where that clip is unknown, all are.
void Ends::reopen(const std::string& key, Film& film, bool all) {
  std::unordered_set<std::string> again;
  for (const auto& end : film.ends) {
    made_.erase(end.key);
    if (end.failed) again.insert({end.key, end.parent});
  }
  for (size_t before = 0; before < again.size();) {
    before = again.size();
    for (const auto& end : film.ends)
      if (again.count(end.key)) again.insert(end.parent);
  }
  const WithoutClip without_clip(film.ends);
  all = all || std::any_of(film.ends.begin(), film.ends.end(),
                           [&](const End& end) { return again.count(end.key) && without_clip(end); });
  std::erase_if(film.ends, [&](const End& end) { return all || !end.made || again.count(end.key); });
  film.ended = false;
  index(key);
}

void Ends::stop_waiting() {
  for (auto& [parent, end] : waiting_) nameless_.push_back(std::move(end));
  waiting_.clear();
}

}  // namespace kinora::core
