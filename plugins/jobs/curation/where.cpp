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

std::string in_quotes(const std::string& text) {
  return "'" + (text.size() > 40 ? text.substr(0, 40) + "..." : text) + "'";
}

// "a number, such as 41.2"
std::string what_is(const nlohmann::json& fact) {
  if (fact.is_object()) return "an object";
  if (fact.is_array()) return "a list";
  if (fact.is_boolean()) return "true or false";
  return fact.is_string() ? "a text, such as " + in_quotes(fact.get<std::string>())
                          : "a number, such as " + fact.dump();
}

std::string written_value(const nlohmann::json& value) {
  return value.is_string() ? in_quotes(value.get<std::string>()) : value.dump();
}

// How to write a comparison that this fact can satisfy; "" if nothing is likely.
std::string remedy_for(const Expression::Compared& comparison, const nlohmann::json& fact) {
  const std::string name = fact_in_expression(comparison.fact);
  std::string members;
  if (fact.is_object())
    for (const auto& [member, value] : fact.items())
      members += (members.empty() ? "; its members are " : ", ") +
                 fact_in_expression(comparison.fact + "." + member);
  if (fact.is_object()) return members;
  if (fact.is_array()) return "; write " + name + " contains " + written_value(comparison.values.front());
  if (comparison.is_contains) return "; write " + name + " == " + (fact.is_boolean() ? "true" : "3");
  return fact.is_string()    ? "; write the value in quotes"
         : fact.is_boolean() ? "; write true or false"
                             : "; write a number without quotes";
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

std::vector<Expression::Compared> Where::comparisons() const {
  return expression_ ? expression_->comparisons() : std::vector<Expression::Compared>();
}

bool Where::reads(const std::string& fact) const {
  return expression_ && std::ranges::count(expression_->facts(), fact) > 0;
}

FactsSeen::FactsSeen(const Where& where) : FactsSeen("where", where.facts()) {
  for (auto& comparison : where.comparisons()) typed_.push_back({std::move(comparison)});
}

void FactsSeen::add_value(const std::string& name, const nlohmann::json& value) {
  for (size_t i = 0; i < names_.size(); ++i) has_[i] = has_[i] || names_[i] == name;
  for (auto& one : typed_)
    if (one.comparison.fact == name) one.see(value);
}

void FactsSeen::Typed::see(const nlohmann::json& value) {
  if (may_hold || value.is_null()) return;
  may_hold = comparison.may_hold(value);
  if (other.is_null()) other = value;
}

void FactsSeen::add(const nlohmann::json& facts) {
  constexpr size_t kMostClips = 64, kMostNames = 1000;
  ++clips_;
  for (auto& one : typed_)
    if (const auto* found = one.may_hold ? nullptr : find_fact(facts, one.comparison.fact)) one.see(*found);
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
  for (size_t i = 0; i < typed_.size(); ++i) {
    typed_[i].may_hold = typed_[i].may_hold || other.typed_[i].may_hold;
    if (typed_[i].other.is_null()) typed_[i].other = other.typed_[i].other;
  }
  others_.insert(other.others_.begin(), other.others_.end());
  clips_ += other.clips_;
}

void FactsSeen::require() const {
  constexpr size_t kListed = 200;
  const auto lacking = std::find(has_.begin(), has_.end(), false);
  if (clips_ == 0) return;
  if (lacking == has_.end()) return require_types();
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

void FactsSeen::require_types() const {
  for (const auto& [comparison, may_hold, fact] : typed_) {
    if (may_hold || fact.is_null()) continue;
    const std::string with = comparison.is_contains ? "nothing is contained in it"
                             : comparison.values.size() > 1
                                 ? "it never equals one of the values"
                                 : "it is never compared with " + written_value(comparison.values.front());
    throw Error(KINORA_ERROR_INVALID,
                valid_utf8(fmt::format("{}: column {}: {} is {}, so {}{}", option_, comparison.column,
                                       fact_in_expression(comparison.fact), what_is(fact), with,
                                       remedy_for(comparison, fact))));
  }
}

}  // namespace kinora::core
