#include "apps/studio/where.hpp"

#include <algorithm>
#include <memory>

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

// The numbers of a fact, which may have a short name as in expressions; null: it has none.
const std::vector<double>* column_of(const Catalogue& catalogue, const std::string& name) {
  if (const auto at = catalogue.columns.find(name); at != catalogue.columns.end()) return &at->second;
  for (const char* place : core::kFactPlaces)
    if (const auto at = catalogue.columns.find(place + name); at != catalogue.columns.end()) return &at->second;
  return nullptr;
}

}  // namespace

void Facts::read(const std::vector<std::string>& names, const Catalogue& catalogue) {
  for (const auto& name : names) texts_[name].resize(catalogue.clips.size());
  for (size_t i = 0; i < catalogue.clips.size(); ++i) {
    const auto item = core::catching([&] { return item_of(catalogue, catalogue.clips[i]); });
    if (!item) continue;  // the job has ended meanwhile: the catalogue is about to be read again
    const json& facts = core::object_in(*item, "facts");
    for (const auto& name : names)
      if (const json* found = core::find_fact(facts, name)) texts_[name][i] = *found;
  }
}

// Throws if there are clips and none has one of the facts.
void Facts::require(const std::vector<std::string>& names, const Catalogue& catalogue) const {
  json known = json::object();  // of any clip
  for (const auto& [column, values] : catalogue.columns) known[column] = true;
  for (const auto& name : names) {
    const auto text = texts_.find(name);
    const bool is_read = text != texts_.end() && !std::ranges::all_of(text->second, &json::is_null);
    if (column_of(catalogue, name) || is_read) known[name] = true;
  }
  core::FactsSeen seen("where", names);
  if (!catalogue.clips.empty()) seen.add(known);
  seen.require();
}

std::function<bool(size_t)> Facts::condition(const std::string& where, const Catalogue& catalogue,
                                             EditsOf edits) {
  const std::vector<std::string> compared = core::Where(where).facts();
  const Expression parsed = Expression::parse(where);
  std::vector<std::string> unread;
  for (const auto& name : parsed.facts())
    if (name != kTags && !column_of(catalogue, name) && !texts_.contains(name)) unread.push_back(name);
  if (!unread.empty()) read(unread, catalogue);
  require(compared, catalogue);
  return [this, &catalogue, edits = std::move(edits), expression = parsed](size_t i) {
    const Clip& clip = catalogue.clips[i];
    json facts = json::object();
    for (const auto& name : expression.facts()) {
      if (name == kTags) {
        const Change change = edits(clip);
        if (change.tags || !clip.tags.empty()) facts[name] = change.tags ? *change.tags : clip.tags;
      } else if (const auto* values = column_of(catalogue, name)) {
        if (!std::isnan((*values)[i])) facts[name] = (*values)[i];
      } else {
        facts[name] = texts_.at(name)[i];
      }
    }
    return expression.holds(facts, clip.key);
  };
}

std::string Facts::text(const std::string& name, size_t clip, const Catalogue& catalogue) {
  if (!texts_.contains(name)) read({name}, catalogue);
  const json& value = texts_.at(name)[clip];
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

// Whether an expression can name the fact.
bool is_name(const std::string& name) {
  return core::catching([&] { return Expression::parse("has(" + name + ")").facts(); }) &&
         name.find_first_of(" ()") == name.npos;
}

bool is_of_facts(const Query& query) {
  const bool is_kept = query.ends.empty() || query.ends == std::set<std::string>{"kept"};
  return is_kept && query.rules.empty() && query.decisions.empty() && query.film.empty() && !query.searches() &&
         std::ranges::all_of(query.ranges, [](const auto& range) {
           return range.first != kSimilarity && is_name(range.first);
         });
}

std::string where_keys(const Shelf& shelf, const std::vector<size_t>& rows) {
  constexpr size_t kMost = 1000;
  if (rows.empty() || rows.size() > kMost)
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("the view has {} clips and is not made of numbers, tags and `where` alone, so it needs a "
                            "list of keys, which has 1 to {}; tag these clips and select the tag instead",
                            rows.size(), kMost));
  std::vector<std::string> keys;
  for (const size_t i : rows) keys.push_back(quoted(shelf.catalogue.clips[i].key));
  return fmt::format("key in [{}]", fmt::join(keys, ", "));
}

}  // namespace

std::string where_of(const Shelf& shelf, const Query& query, const std::vector<size_t>& rows) {
  if (!is_of_facts(query)) return where_keys(shelf, rows);
  std::vector<std::string> all, tags;
  for (const auto& [name, range] : query.ranges) {
    const auto* values = shelf.column(name);
    const bool is_last = values && range.high == largest_of(*values);
    all.push_back(fmt::format("{} >= {} and {} {} {}", name, range.low, name, is_last ? "<=" : "<", range.high));
  }
  for (const auto& tag : query.tags) tags.push_back("tags contains " + quoted(tag));
  const std::string any = fmt::format("{}", fmt::join(tags, " or "));
  if (!tags.empty()) all.push_back(tags.size() > 1 ? "(" + any + ")" : any);
  if (!query.where.empty()) all.push_back(all.empty() ? query.where : "(" + query.where + ")");
  return fmt::format("{}", fmt::join(all, " and "));
}

std::string where_of(const std::string& fact, bool is_most, double value) {
  return is_name(fact) ? fmt::format("{} {} {}", fact, is_most ? "<=" : ">=", value) : "";
}

}  // namespace kinora::studio
