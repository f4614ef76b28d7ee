#include "apps/kinora/data_print.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/kinora/plugins_format.hpp"
#include "core/base/printable.hpp"
#include "core/base/quantity.hpp"

namespace kinora {
namespace {

using nlohmann::json;

// One line of a table, whatever the name contains.
std::string one_line(const std::string& text) {
  std::string out = core::printable(text);
  for (char& c : out)
    if (c == '\n' || c == '\t') c = ' ';
  return out;
}

json spread_json(const data::Spread& s) {
  return {{"count", s.count}, {"min", s.min}, {"median", s.median}, {"max", s.max}};
}

std::string table_of_fields(const data::Overview& o) {
  std::vector<std::vector<std::string>> lines{{"field", "samples", "smallest", "median", "largest"}};
  for (const auto& [name, s] : o.fields)
    lines.push_back({one_line(name), std::to_string(s.count), core::format_size(s.min),
                     core::format_size(s.median), core::format_size(s.max)});
  return aligned(lines, "  ");
}

std::string table_of_facts(const data::Overview& o) {
  std::vector<std::vector<std::string>> lines{{"in json", "type", "samples"}};
  for (const auto& [name, types] : o.facts) {
    std::vector<std::string> kinds;
    uint64_t samples = 0;
    for (const auto& [type, n] : types) {
      kinds.push_back(type);
      samples += n;
    }
    lines.push_back({one_line(name), fmt::format("{}", fmt::join(kinds, ", ")), std::to_string(samples)});
  }
  return aligned(lines, "  ");
}

}  // namespace

std::string overview_text(const data::Overview& o) {
  std::string out = fmt::format("shards   {}\nsamples  {}\nbytes    {} ({})\nindex    {}\n", o.shards,
                                o.samples, o.bytes, core::format_size(o.bytes), o.index);
  std::vector<std::string> keys;
  for (const auto& key : o.keys) keys.push_back(one_line(key));
  if (!keys.empty())
    out += fmt::format("keys     {}{}\n", fmt::join(keys, ", "), o.samples > keys.size() ? ", ..." : "");
  if (!o.fields.empty()) out += "\n" + table_of_fields(o);
  if (!o.facts.empty()) out += "\n" + table_of_facts(o);
  if (o.captions.count > 0)
    out += fmt::format("\ncaptions {}, of {} to {} characters, median {}\n", o.captions.count, o.captions.min,
                       o.captions.max, o.captions.median);
  if (o.looked_at < o.samples && (!o.facts.empty() || o.captions.count > 0))
    out += fmt::format("json and captions are those of {} samples, spread over the shards\n", o.looked_at);
  for (const auto& line : o.problems) out += line + "\n";
  return out;
}

std::string overview_json(const data::Overview& o) {
  json fields = json::object();
  for (const auto& [name, s] : o.fields) fields[name] = spread_json(s);
  const json all{{"shards", o.shards},       {"samples", o.samples},
                 {"bytes", o.bytes},         {"index", o.index},
                 {"keys", o.keys},           {"fields", fields},
                 {"facts", o.facts},         {"captions", spread_json(o.captions)},
                 {"looked_at", o.looked_at}, {"problems", o.problems}};
  return all.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace kinora
