#include "plugins/jobs/loading/lost_samples.hpp"

#include <algorithm>
#include <vector>

#include <fmt/ranges.h>

#include "core/base/digest.hpp"
#include "core/base/log.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

constexpr size_t kNameSize = 12, kMostNames = 4000;
constexpr const char *kDamaged = "damaged", *kTooShort = "too short", *kDroppedBy = "dropped by ";

std::string name_of(const std::string& which) { return sha256(which).substr(0, kNameSize); }

}  // namespace

std::string Unused::reason() const {
  switch (kind) {
    case Kind::failed:
      return kDamaged;
    case Kind::too_short:
      return kTooShort;
    case Kind::dropped:
      return kDroppedBy + why;
    case Kind::unwanted:
      break;
  }
  return why;
}

void LostSamples::add_used(uint64_t slot) {
  const std::scoped_lock lock(mutex_);
  if (slot < next_) return;
  next_ = slot + 1;
  ++used_;
}

void LostSamples::set_used(int64_t slots) {
  const std::scoped_lock lock(mutex_);
  used_ = slots;
}

void LostSamples::add(const std::string& which, const Unused& unused) {
  if (unused.kind == Unused::Kind::unwanted) return;
  const std::scoped_lock lock(mutex_);
  Names& names = names_[unused.reason()];
  const std::string name = name_of(which);
  if (!names.insert(name).second) return;
  if (unused.kind == Unused::Kind::failed) {
    log_warn("{}: {} is left out: {}", name_, which, unused.why);
    new_.insert(name);
    return check_taken(fmt::format("{}: {}", which, unused.why));
  }
  if (names.size() > 1) return;
  if (unused.kind == Unused::Kind::too_short)
    log_warn("{}: {} is too short and left out: {}; further ones are only counted; {}", name_, which,
             unused.why, unused.remedy);
  else
    log_info("{}: {} is {}; further ones are only counted", name_, which, unused.reason());
}

void LostSamples::add_unread(const std::string& which, const std::string& why, uint64_t size) {
  const std::scoped_lock lock(mutex_);
  ++unread_;
  log_warn("{}: {} is left out: {}", name_, which, why);
  check(unread_, static_cast<int64_t>(size), fmt::format("{}: {}", which, why));
}

int64_t LostSamples::count_failed() const {
  const auto named = names_.find(kDamaged);
  return unnamed_ + (named == names_.end() ? 0 : static_cast<int64_t>(named->second.size()));
}

void LostSamples::check_taken(const std::string& last) const {
  check(count_failed(), used_ + count_failed(), last);
}

void LostSamples::check(int64_t failed, int64_t of, const std::string& last) const {
  const int64_t all = count_failed() + unread_;
  const bool has_share = of >= kFew || most_share_ == 0;
  std::string problem;
  if (has_share && static_cast<double>(failed) > most_share_ * static_cast<double>(of))
    problem = fmt::format("{} of {} samples cannot be used, more than max_failed_share = {} allows", failed,
                          of, most_share_);
  else if (most_ >= 0 && all > most_)
    problem = fmt::format("{} of {} samples cannot be used, more than max_failed = {} allows", all,
                          std::max(of, used_ + all), most_);
  if (problem.empty()) return;
  throw Error(KINORA_ERROR_DATA,
              fmt::format("{}: {}; the last is {}; look at the data with kinora data verify, or raise the "
                          "limit in the table of data",
                          name_, problem, last));
}

int64_t LostSamples::failed() const {
  const std::scoped_lock lock(mutex_);
  return count_failed() + unread_;
}

int64_t LostSamples::too_short() const {
  const std::scoped_lock lock(mutex_);
  const auto named = names_.find(kTooShort);
  return named == names_.end() ? 0 : static_cast<int64_t>(named->second.size());
}

json LostSamples::counts() const {
  json out{{"failed", failed()}, {"too_short", too_short()}, {"dropped", json::object()}};
  const std::scoped_lock lock(mutex_);
  for (const auto& [reason, names] : names_)
    if (reason.starts_with(kDroppedBy))
      out["dropped"][reason.substr(std::string_view(kDroppedBy).size())] = names.size();
  return out;
}

void LostSamples::log() const {
  const int64_t damaged = failed();
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> all;
  if (damaged > 0) all.push_back(fmt::format("{} {}", damaged, kDamaged));
  for (const auto& [reason, names] : names_)
    if (reason != kDamaged) all.push_back(fmt::format("{} {}", names.size(), reason));
  if (!all.empty()) log_info("{}: samples left out: {}", name_, fmt::join(all, ", "));
}

bool LostSamples::has_new() const {
  const std::scoped_lock lock(mutex_);
  return !new_.empty();
}

std::string LostSamples::take_shared(bool all_reasons) {
  const std::scoped_lock lock(mutex_);
  const Names failed = std::exchange(new_, {});
  const json out = all_reasons ? json(names_) : json{{kDamaged, failed}};
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

void LostSamples::merge(const std::vector<std::string>& shared) {
  const std::scoped_lock lock(mutex_);
  for (const auto& of_rank : shared)
    for (auto& [reason, names] : json::parse(of_rank).get<std::map<std::string, Names>>())
      names_[reason].merge(names);
  check_taken("named above, or in the log of another rank");
}

json LostSamples::state() const {
  const std::scoped_lock lock(mutex_);
  std::string names;
  if (const auto failed = names_.find(kDamaged); failed != names_.end())
    for (const auto& name : failed->second)
      if (names.size() < kMostNames * kNameSize) names += name;
  return {{"failed", count_failed()}, {"names", names}};
}

void LostSamples::restore(const json& state) {
  const auto refuse_if = [](bool is_wrong) {
    if (is_wrong)
      throw Error(KINORA_ERROR_DATA,
                  "the checkpoint's failed samples are damaged; remove it to continue from the one before");
  };
  refuse_if(!state.is_object() || !state.contains("failed") || !state["failed"].is_number_integer() ||
            !state.contains("names") || !state["names"].is_string());
  const std::string names = state["names"];
  const auto named = static_cast<int64_t>(names.size() / kNameSize), failed = state["failed"].get<int64_t>();
  refuse_if(names.size() % kNameSize != 0 || failed < named);
  const std::scoped_lock lock(mutex_);
  for (size_t at = 0; at < names.size(); at += kNameSize)
    names_[kDamaged].insert(names.substr(at, kNameSize));
  unnamed_ = failed - named;
  check_taken("named in the log of the run before");
}

}  // namespace kinora::core
