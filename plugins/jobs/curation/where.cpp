#include "plugins/jobs/curation/where.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/facts.hpp"
#include "core/base/suggest.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

// A rule is part of every line about a clip that it removes.
std::string rule_of(const std::string& condition) {
  constexpr size_t kLongest = 100;
  if (condition.size() <= kLongest) return condition;
  size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(condition[end]) & 0xC0) == 0x80) --end;
  return condition.substr(0, end) + "...";
}

// "blur" for "scores.filter.blur", as find_fact() finds it.
std::string short_name(const std::string& name) {
  for (const char* place : kFactPlaces)
    if (name.starts_with(place)) return name.substr(std::string_view(place).size());
  return name;
}

}  // namespace

Where::Where(const std::string& text) {
  if (text.empty()) return;
  try {
    expression_ = Expression::parse(text);
  } catch (const Error& e) {
    throw Error(e.code(), std::string("where: ") + e.what());
  }
  for (const auto& condition : expression_->conditions()) rules_.push_back(rule_of(condition));
}

std::optional<size_t> Where::removed_by(const nlohmann::json& facts, std::string_view key) const {
  if (!expression_) return std::nullopt;
  const size_t first = expression_->first_false(facts, key);
  return first < rules_.size() ? std::optional(first) : std::nullopt;
}

std::vector<std::string> Where::facts() const {
  auto out = expression_ ? expression_->compared_facts() : std::vector<std::string>();
  std::erase(out, "tags");
  return out;
}

bool Where::reads(const std::string& fact) const {
  return expression_ && std::ranges::count(expression_->facts(), fact) > 0;
}

void FactsSeen::add(const nlohmann::json& facts) {
  constexpr size_t kMostClips = 64, kMostNames = 1000;
  ++clips_;
  bool lacks_any = false;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (!has_[i]) has_[i] = find_fact(facts, names_[i]) != nullptr;
    lacks_any = lacks_any || !has_[i];
  }
  if (!lacks_any || clips_ > kMostClips) return;
  for (const auto& name : fact_names(facts, kMostNames))
    if (others_.size() < kMostNames) others_.insert(short_name(name));
}

void FactsSeen::add(const FactsSeen& other) {
  for (size_t i = 0; i < has_.size(); ++i) has_[i] = has_[i] || other.has_[i];
  others_.insert(other.others_.begin(), other.others_.end());
  clips_ += other.clips_;
}

void FactsSeen::require() const {
  constexpr size_t kListed = 200;
  const auto lacking = std::find(has_.begin(), has_.end(), false);
  if (clips_ == 0 || lacking == has_.end()) return;
  // The other options take a name as it is.
  const auto written = [&](const std::string& name) {
    return option_ == "where" ? fact_in_expression(name) : name;
  };
  const std::string& name = names_[static_cast<size_t>(lacking - has_.begin())];
  const std::string near = suggest(short_name(name), {others_.begin(), others_.end()});
  std::string more = near.empty() ? "" : ", did you mean '" + written(near) + "'?";
  size_t count = 0;
  for (const auto& other : near.empty() ? others_ : std::set<std::string>())
    if (++count <= kListed) more += (count > 1 ? ", " : "; facts: ") + written(other);
  if (count > kListed) more += ", ...";
  throw Error(KINORA_ERROR_INVALID,
              valid_utf8(fmt::format("{}: no clip has the fact '{}'{}", option_, name, more)));
}

}  // namespace kinora::core
