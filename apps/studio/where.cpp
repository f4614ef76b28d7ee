#include "apps/studio/where.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/expression.hpp"
#include "core/base/facts.hpp"
#include "core/base/status.hpp"
#include "plugins/jobs/curation/where.hpp"

namespace kinora::studio {
namespace {

using core::Expression;
using nlohmann::json;

constexpr const char* kTags = "tags";

// The names under which expressions look for a fact, in their order.
std::vector<std::string> names_of(const std::string& fact) {
  std::vector<std::string> out{fact};
  for (const char* place : core::kFactPlaces) out.push_back(place + fact);
  return out;
}

// The numbers of a fact, which may have a short name, if they are all that an expression can find: no clip
// has the fact under another of its names, or as something else than a number. Else null.
const std::vector<double>* column_of(const Catalogue& catalogue, const std::string& fact) {
  const std::vector<double>* out = nullptr;
  for (const auto& name : names_of(fact)) {
    const auto at = catalogue.columns.find(name);
    if (catalogue.others.contains(name) || (out && at != catalogue.columns.end())) return nullptr;
    if (at != catalogue.columns.end()) out = &at->second;
  }
  return out;
}

// The texts of a fact, which may have a short name, if they are all that an expression can find. Else null.
const Facet* facet_of(const Catalogue& catalogue, const std::string& fact) {
  const Facet* out = nullptr;
  for (const auto& name : names_of(fact)) {
    if (catalogue.columns.contains(name)) return nullptr;
    if (!catalogue.others.contains(name)) continue;
    const auto at = catalogue.facets.find(name);
    if (out || at == catalogue.facets.end() || !at->second.is_whole) return nullptr;
    out = &at->second;
  }
  return out;
}

// Whether the clips' facts of this name are their lists of tags.
bool are_tags(const Catalogue& catalogue, const std::string& fact) {
  return fact == kTags && std::ranges::none_of(names_of(fact), [&](const auto& name) {
           return catalogue.others.contains(name) || catalogue.columns.contains(name);
         });
}

}  // namespace

void Facts::read(const std::vector<std::string>& names, const Catalogue& catalogue) {
  for (const auto& name : names) values_[name].resize(catalogue.clips.size());
  bool have_facets = true;
  for (const auto& name : names) {
    const Facet* facet = facet_of(catalogue, name);
    have_facets = have_facets && facet;
    for (size_t i = 0; facet && i < catalogue.clips.size(); ++i)
      if (const auto value = facet->of[i]; value > 0) values_[name][i] = facet->values[value - 1U];
  }
  for (size_t i = 0; i < catalogue.clips.size(); ++i) {
    if (have_facets && !catalogue.clips[i].consumed) continue;
    const auto item = core::catching([&] { return item_of(catalogue, catalogue.clips[i]); });
    if (!item) continue;  // the job has ended meanwhile: the catalogue is about to be read again
    const json& facts = core::object_in(*item, "facts");
    for (const auto& name : names)
      if (const json* found = core::find_fact(facts, name)) values_[name][i] = *found;
  }
}

// Throws if there are clips and none has one of the facts, or a value of it that is compared.
void Facts::require(const core::Where& where, const Catalogue& catalogue) const {
  if (catalogue.clips.empty()) return;
  json known = json::object();  // of any clip
  std::set<std::string> all = catalogue.others;
  for (const auto& [column, values] : catalogue.columns) all.insert(column);
  for (const auto& name : all) {
    const auto inside = all.lower_bound(name + ".");
    if (!name.empty() && (inside == all.end() || !inside->starts_with(name + "."))) known[name] = nullptr;
  }
  for (const auto& [column, values] : catalogue.columns) {
    const auto first = std::ranges::find_if(values, [](double value) { return !std::isnan(value); });
    if (first != values.end()) known[column] = *first;
  }
  core::FactsSeen seen(where);
  seen.add(known);
  for (const auto& one : where.comparisons()) {
    if (are_tags(catalogue, one.fact)) seen.add_value(one.fact, json::array());
    if (const auto read = values_.find(one.fact); read != values_.end())
      for (const auto& value : read->second)
        if (!value.is_null()) seen.add_value(one.fact, value);
  }
  seen.require();
}

std::function<bool(size_t)> Facts::condition(const std::string& where, const Catalogue& catalogue,
                                             EditsOf edits) {
  const core::Where checked(where);
  const Expression parsed = Expression::parse(where);
  std::vector<std::string> unread;
  for (const auto& name : parsed.facts())
    if (!are_tags(catalogue, name) && !column_of(catalogue, name) && !values_.contains(name))
      unread.push_back(name);
  if (!unread.empty()) read(unread, catalogue);
  require(checked, catalogue);
  struct Source {
    std::string name;
    const std::vector<double>* column;  // null: the fact is in `values`
    const std::vector<json>* values;    // null as well: it is Clip::tags
  };
  std::vector<Source> sources;
  for (const auto& name : parsed.facts()) {
    const auto values = values_.find(name);
    sources.push_back(
        {name, column_of(catalogue, name), values == values_.end() ? nullptr : &values->second});
  }
  return [&catalogue, edits = std::move(edits), parsed, sources](size_t i) {
    const Clip& clip = catalogue.clips[i];
    json facts = json::object();
    for (const auto& [name, column, values] : sources) {
      const auto tags = name == kTags ? edits(clip).tags : std::nullopt;
      if (tags)
        facts[name] = *tags;
      else if (column && !std::isnan((*column)[i]))
        facts[name] = (*column)[i];
      else if (!column && values)
        facts[name] = (*values)[i];
      else if (!column && !clip.tags.empty())
        facts[name] = clip.tags;
    }
    return parsed.holds(facts, clip.key);
  };
}

std::string Facts::text(const std::string& name, size_t clip, const Catalogue& catalogue) {
  if (!values_.contains(name)) read({name}, catalogue);
  const json& value = values_.at(name)[clip];
  return value.is_string() ? value.get<std::string>() : "";
}

namespace {

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

// Whether an expression finds the very numbers of the column under its name.
bool is_column(const Catalogue& catalogue, const std::string& name) {
  return std::ranges::none_of(names_of(name), [&](const auto& other) {
    return other == name ? catalogue.others.contains(name) && !name.starts_with(kOfUser)
                         : catalogue.others.contains(other) || catalogue.columns.contains(other);
  });
}

bool is_of_facts(const Catalogue& catalogue, const Query& query) {
  const bool is_kept = query.ends.empty() || query.ends == std::set<std::string>{"kept"};
  return is_kept && query.kinds.empty() && query.rules.empty() && query.decisions.empty() &&
         query.video.empty() && !query.searches() &&
         std::ranges::all_of(query.ranges, [&](const auto& range) {
           return range.first != kSimilarity && is_column(catalogue, range.first);
         });
}

std::string where_keys(const QueryScope& scope, const std::vector<size_t>& rows) {
  constexpr size_t kMost = 1000;
  if (rows.empty() || rows.size() > kMost)
    throw Error(
        KINORA_ERROR_INVALID,
        fmt::format("the view has {} clips and is not made of numbers, tags and `where` alone, so it needs a "
                    "list of keys, which has 1 to {}; tag these clips and select the tag instead",
                    rows.size(), kMost));
  std::vector<std::string> keys;
  for (const size_t i : rows) keys.push_back(quoted(scope.catalogue.clips[i].key));
  return fmt::format("key in [{}]", fmt::join(keys, ", "));
}

// The shortest number of at least three digits, as near to the bound as its digits allow, that fits.
template <class Fits>
double shortest(double bound, const Fits& fits) {
  for (int digits = 3; digits < 17; ++digits)
    if (const double one = std::strtod(fmt::format("{:.{}g}", bound, digits).c_str(), nullptr); fits(one))
      return one;
  return bound;
}

// "FACT >= 20 and FACT < 30.5" with short numbers that the same values satisfy.
std::string range_text(const std::string& name, const Range& range, const std::vector<double>& values) {
  const auto parts_alike = [&](double bound) {
    double below = -INFINITY, from = INFINITY;
    for (const double value : values) {
      if (value < bound) below = std::max(below, value);
      if (value >= bound) from = std::min(from, value);
    }
    return shortest(bound, [&](double one) { return one > below && one <= from; });
  };
  const bool is_last = range.high == largest_of(values);
  const double high =
      is_last ? shortest(range.high, [&](double one) { return one >= range.high; }) : parts_alike(range.high);
  const std::string fact = core::fact_in_expression(name);
  return fmt::format("{} >= {} and {} {} {}", fact, parts_alike(range.low), fact, is_last ? "<=" : "<", high);
}

}  // namespace

std::string where_of(const QueryScope& scope, const Query& query, const std::vector<size_t>& rows) {
  if (!is_of_facts(scope.catalogue, query)) return where_keys(scope, rows);
  std::vector<std::string> all, tags;
  for (const auto& [name, range] : query.ranges) {
    const auto* values = scope.column(name);
    all.push_back(range_text(name, range, values ? *values : std::vector<double>()));
  }
  for (const auto& tag : query.tags) tags.push_back("tags contains " + quoted(tag));
  const std::string any = fmt::format("{}", fmt::join(tags, " or "));
  if (!tags.empty()) all.push_back(tags.size() > 1 ? "(" + any + ")" : any);
  if (!query.where.empty()) all.push_back(all.empty() ? query.where : "(" + query.where + ")");
  return fmt::format("{}", fmt::join(all, " and "));
}

std::string column_name(const Catalogue& catalogue, const std::string& fact) {
  const auto names = names_of(fact);
  const auto found =
      std::ranges::find_if(names, [&](const auto& name) { return catalogue.columns.contains(name); });
  return found == names.end() ? "" : *found;
}

std::string where_of(const std::string& fact, bool is_most, double value) {
  return fmt::format("{} {} {}", core::fact_in_expression(fact), is_most ? "<=" : ">=", value);
}

}  // namespace kinora::studio
