#include "plugins/jobs/curation/fact_bounds.hpp"

#include <charconv>
#include <cmath>

#include "core/base/expression.hpp"
#include "core/base/facts.hpp"
#include "core/base/status.hpp"
#include "core/plugin/manifest.hpp"
#include "plugins/jobs/curation/where.hpp"

namespace kinora::core {
namespace {

constexpr const char *kLeastEnding = "at_least", *kMostEnding = "at_most";

// Bounds whose options are not called at_least or at_most.
struct NamedBound {
  const char *stage, *option, *rule;
  bool is_most;
};
constexpr NamedBound kOtherNames[] = {{"filter.motion", "global_mean", "filter.motion", false},
                                      {"filter.motion", "patch_min", "filter.motion.patch_min", false},
                                      {"filter.ocr", "max_area", "filter.ocr", true}};

bool is_filtering(const std::string& stage, const nlohmann::json& options) {
  const std::string mode = text_in(options, "mode");
  return stage == "filter.letterbox" ? mode == "filter" : mode.empty() || mode == "on" || mode == "filter";
}

// Fills rule, column and side of an option "at_least", "p10_at_most", ...; false: the option does not bound anything.
bool name_bound(FactBound& bound, const nlohmann::json& options) {
  for (const auto& one : kOtherNames)
    if (bound.stage == one.stage && bound.option == one.option) {
      bound.rule = one.rule;
      bound.column = "scores." + bound.rule;
      bound.is_most = one.is_most;
      return true;
    }
  bound.is_most = bound.option.ends_with(kMostEnding);
  if (!bound.is_most && !bound.option.ends_with(kLeastEnding)) return false;
  std::string part = bound.option.substr(
      0, bound.option.size() - std::string(bound.is_most ? kMostEnding : kLeastEnding).size());
  if (part.ends_with('_')) part.pop_back();
  const std::string fact = bound.stage == "filter.facts" ? text_in(options, "fact") : "";
  bound.rule = bound.stage + (fact.empty() ? "" : "." + fact) + (part.empty() ? "" : "." + part);
  bound.column = fact.empty() ? "scores." + bound.rule : fact;
  return true;
}

// Fills option, side and value of a condition such as "blur >= 20"; false: it has another form.
bool read_condition(const std::string& text, FactBound& bound) {
  const size_t name_end = text.starts_with('`') ? text.find('`', 1) : 0;
  const size_t at = text.find_first_of("<>=!'\"([", name_end);
  if (at == text.npos || (text[at] != '<' && text[at] != '>')) return false;
  bound.option = text.substr(0, at);
  bound.option.erase(bound.option.find_last_not_of(" \t\r\n") + 1);
  bound.is_most = text[at] == '<';
  bound.is_strict = at + 1 >= text.size() || text[at + 1] != '=';
  const size_t from = text.find_first_not_of(" \t\r\n", at + (bound.is_strict ? 1 : 2));
  if (from == text.npos) return false;
  const char* end = text.data() + text.find_last_not_of(" \t\r\n") + 1;
  const auto [read, error] = std::from_chars(text.data() + from, end, bound.value);
  return error == std::errc() && read == end && std::isfinite(bound.value);
}

}  // namespace

std::vector<FactBound> bounds_of_stage(const std::string& stage, const nlohmann::json& options) {
  std::vector<FactBound> out;
  if (!options.is_object() || !is_filtering(stage, options)) return out;
  FactBound bound{.stage = stage};
  for (const auto& [option, value] : options.items()) {
    bound.option = option;
    if (!value.is_number() || no_bound(value) || !name_bound(bound, options)) continue;
    bound.value = value.get<double>();
    out.push_back(bound);
  }
  return out;
}

std::vector<FactBound> bounds_of_where(const std::string& where) {
  std::vector<FactBound> out;
  const auto parsed = catching([&] { return Expression::parse(where).conditions(); });
  if (!parsed) return out;
  const Where rules(where);
  for (size_t i = 0; i < parsed->size(); ++i) {
    FactBound bound{.rule = rules.rules()[i]};
    const auto facts = Expression::parse((*parsed)[i]).facts();
    if (facts.size() != 1 || !read_condition((*parsed)[i], bound)) continue;
    if (bound.option != fact_in_expression(facts.front())) continue;  // "not blur > 9"
    bound.column = facts.front();
    out.push_back(std::move(bound));
  }
  return out;
}

}  // namespace kinora::core
