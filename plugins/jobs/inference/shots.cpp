#include "plugins/jobs/inference/shots.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "kinora/error.hpp"

namespace kinora::core {

using json = nlohmann::json;

namespace {

Shot shot_of(const std::string& text, size_t number) {
  const auto fail = [&](const std::string& what) {
    throw Error(KINORA_ERROR_INVALID, fmt::format("shot {}: {}", number, what));
  };
  const json given = json::parse(text, nullptr, false);
  if (!given.is_object()) fail("expected a table such as { prompt = \"a red sea\", seconds = 5 }");
  Shot out;
  const auto number_of = [&](const json& value, const char* name, double least) {
    if (!value.is_number() || value < least) fail(fmt::format("'{}' takes a number from {} on", name, least));
    return value.get<double>();
  };
  for (const auto& [name, value] : given.items()) {
    if (name == "prompt" && value.is_string()) {
      out.prompt = value;
    } else if (name == "chunks" || name == "blend") {
      if (!value.is_number_integer()) fail(fmt::format("'{}' takes a whole number", name));
      (name == "chunks" ? out.chunks : out.blend) = static_cast<int64_t>(number_of(value, name.c_str(), 1));
    } else if (name == "seconds") {
      out.seconds = number_of(value, "seconds", 0);
      if (out.seconds == 0) fail("'seconds' takes a number above 0");
    } else if (name == "cut" && value.is_boolean()) {
      out.cuts = value;
    } else if (name == "switch") {
      const std::vector<std::string> names{"none", "recache", "blend", "flush"};
      const auto at =
          std::find(names.begin(), names.end(), value.is_string() ? value.get<std::string>() : "");
      if (at == names.end())
        fail(fmt::format("'switch' is one of none, recache, blend and flush, not {}", value.dump()));
      out.change = static_cast<PromptSwitch>(at - names.begin());
    } else {
      fail(fmt::format(
          "'{}' is unknown or has a wrong value; a shot has prompt (a text), seconds or chunks, cut "
          "(true or false), switch and blend",
          name));
    }
  }
  if (!given.contains("prompt")) fail("prompt is missing");
  if (given.contains("chunks") == given.contains("seconds"))
    fail(given.contains("chunks") ? "give its length in seconds or in chunks, not in both"
                                  : "give its length, in seconds or in chunks");
  return out;
}

}  // namespace

std::vector<Shot> shots_of(const std::vector<std::string>& texts) {
  std::vector<Shot> out;
  for (const auto& text : texts) out.push_back(shot_of(text, out.size() + 1));
  return out;
}

ShotRule shot_rule(const ShotOptions& o) {
  return {o.shot_pin == "own"      ? Frames::Pin::own
          : o.shot_pin == "before" ? Frames::Pin::before
                                   : Frames::Pin::none,
          o.shot_jump};
}

ShotList::ShotList(std::vector<Shot> shots, const ShotRule& rule, double fps, Chunks lengths, int64_t time)
    : rule_(rule), lengths_(lengths), time_(time) {
  int64_t at = 0;
  for (auto& shot : shots) {
    if (shot.chunks == 0) {
      const auto others = shot.seconds * fps / static_cast<double>(time) -
                          static_cast<double>(lengths.begin(at + 1) - lengths.begin(at));
      shot.chunks = std::max<int64_t>(1 + std::llround(others / static_cast<double>(lengths.each)), 1);
    }
    const int64_t chunks = shot.chunks;
    shots_[at] = std::move(shot);
    at += chunks;
  }
}

void ShotList::add(int64_t chunk, const Shot& shot) {
  const auto [at, is_new] = shots_.try_emplace(chunk, shot);
  if (is_new) return;
  if (shot.cuts || shot.change != PromptSwitch::none)
    at->second = shot;
  else
    at->second.prompt = shot.prompt;
}

int64_t ShotList::chunks() const {
  return shots_.empty() ? 0 : shots_.rbegin()->first + shots_.rbegin()->second.chunks;
}

const Shot* ShotList::beginning_at(int64_t chunk) const {
  const auto at = shots_.find(chunk);
  return at == shots_.end() ? nullptr : &at->second;
}

int64_t ShotList::begin_of(int64_t chunk) const {
  const auto after = shots_.upper_bound(chunk);
  return after == shots_.begin() ? 0 : std::prev(after)->first;
}

int64_t ShotList::last_cut(int64_t chunk) const {
  int64_t out = 0;
  for (const auto& [begin, shot] : shots_)
    if (shot.cuts && begin <= chunk) out = begin;
  return out;
}

std::set<int64_t> ShotList::pinned_at(int64_t chunk) const {
  std::set<int64_t> out;
  if (rule_.pin == Frames::Pin::none) return out;
  out.insert(last_cut(chunk));
  if (rule_.pin == Frames::Pin::before && last_cut(chunk) == chunk) out.insert(last_cut(chunk - 1));
  out.erase(0);
  return out;
}

// The first latent frame is one frame.
int64_t ShotList::first_frame(int64_t chunk) const {
  const int64_t latent = lengths_.begin(chunk);
  return latent == 0 ? 0 : 1 + (latent - 1) * time_;
}

std::set<int64_t> ShotList::cuts() const {
  std::set<int64_t> out;
  for (const auto& [begin, shot] : shots_)
    if (shot.cuts && begin > 0) out.insert(first_frame(begin));
  return out;
}

json ShotList::described() const {
  json out;
  for (const auto& [begin, shot] : shots_)
    out.push_back({{"frame", first_frame(begin)}, {"prompt", shot.prompt}});
  return out;
}

Frames ShotList::at(Frames rule, int64_t first, int64_t count) const {
  rule.start = first;
  for (const auto& [begin, shot] : shots_)
    if (shot.cuts && begin > 0) rule.cuts.push_back(begin);
  if (rule.cuts.empty()) return rule;
  rule.pin = rule_.pin;
  for (int64_t f = first; f < first + count; ++f) {
    const auto cuts =
        std::upper_bound(rule.cuts.begin(), rule.cuts.end(), lengths_.of(f)) - rule.cuts.begin();
    rule.times.push_back(f + rule_.jump * cuts);
  }
  return rule;
}

}  // namespace kinora::core
