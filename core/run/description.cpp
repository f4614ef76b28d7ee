#include "core/run/description.hpp"

#include <set>
#include <vector>

#include <fmt/ranges.h>

namespace kinora::core {

using nlohmann::json;

std::string place_name(const std::string& slot, std::map<std::string, int>& seen) {
  return seen[slot]++ ? fmt::format("{} {}", slot, seen[slot]) : slot;
}

json spec_json(const JobSpec& job) {
  json out{{"name", job.name},
           {"kind", job.kind->name},
           {"options", job.options},
           {"paths", job.paths},
           {"components", json::array()}};
  if (job.kind->results != 1) out["results"] = job.kind->results;
  if (job.data) out["data"] = job.data->identity();
  for (const auto& c : job.components) {
    json one{{"slot", c.slot}, {"id", c.id}, {"version", c.version}, {"options", c.options.values()}};
    if (c.results != 1) one["results"] = c.results;
    if (!c.name.empty()) one["name"] = c.name;
    if (c.from) one["from"] = *c.from;
    out["components"].push_back(std::move(one));
  }
  for (const auto& option : job.kind->options)
    if (option.how_only || option.name == "pipeline") out["how_only"].push_back(option.name);
  for (const auto& slot : job.kind->slots)
    if (slot.how_only) out["how_only"].push_back(slot.name);
  return out;
}

namespace {

using Values = std::map<std::string, json>;

constexpr size_t kMost = 5;

// The values of a job by their names in a run file, "steps", "model.layers", "model", "input", and the
// digests of what paths name.
struct Made {
  Values values, contents;
};

Made made_of(const json& spec, const std::set<std::string>& how_only) {
  Made out;
  const json options = spec.value("options", json::object()), none = json::array();
  for (const auto& [name, value] : options.items())
    if (!how_only.contains(name)) out.values[name] = value;
  if (const json paths = spec.value("paths", none); !paths.empty())
    out.values["input"] = paths.size() == 1 ? paths[0] : paths;
  if (spec.contains("data")) out.values["input"] = spec.at("data");
  std::map<std::string, int> seen;
  for (const auto& c : spec.value("components", none)) {
    const std::string slot = c.at("slot"), at = place_name(slot, seen);
    if (how_only.contains(slot)) continue;
    const int64_t results = c.value("results", int64_t{1});
    out.values[at] =
        c.at("id").get<std::string>() + (results == 1 ? "" : fmt::format(" (results {})", results));
    for (const auto& [name, value] : c.at("options").items()) out.values[at + "." + name] = value;
  }
  const json contents = spec.value("contents", json::object());
  for (const auto& [name, digests] : contents.items())
    if (!how_only.contains(name.substr(0, name.find_first_of(" .")))) out.contents[name] = digests;
  return out;
}

const json* find(const Values& in, const std::string& name) {
  const auto at = in.find(name);
  return at == in.end() ? nullptr : &at->second;
}

std::string shown(const json* value) {
  const std::string text = !value ? "absent" : value->dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= 72 ? text : text.substr(0, 72) + "...";
}

// If the component itself differs, its options need not be listed.
bool is_told_by_component(const std::string& name, const std::set<std::string>& told) {
  const size_t dot = name.find('.');
  return dot != name.npos && told.contains(name.substr(0, dot));
}

// Says how one of them differs; "": not at all. Digests count instead of paths where both sides have them.
std::string difference_of(const std::string& name, const Made& a, const Made& b, const char* values) {
  const json *x = find(a.values, name), *y = find(b.values, name);
  const json *p = find(a.contents, name), *q = find(b.contents, name);
  const bool is_same = x && y && *x == *y;
  if (p && q ? *p == *q : is_same) return "";
  if (is_same) return name + " names files with other contents";
  return name + " " + fmt::format(fmt::runtime(values), shown(x), shown(y));
}

}  // namespace

std::string difference(const json& first, const json& second, const char* values) {
  const auto how_only = second.value("how_only", std::set<std::string>());
  const Made a = made_of(first, how_only), b = made_of(second, how_only);
  std::set<std::string> names, told;
  for (const auto* of : {&a, &b})
    for (const auto& [name, value] : of->values) names.insert(name);
  std::vector<std::string> out;
  for (const auto& name : names) {
    const std::string text = is_told_by_component(name, told) ? "" : difference_of(name, a, b, values);
    if (text.empty()) continue;
    told.insert(name);
    out.push_back(text);
  }
  if (out.size() <= kMost) return fmt::format("{}", fmt::join(out, "; "));
  const size_t more = out.size() - kMost;
  out.resize(kMost);
  return fmt::format("{}; and {} more", fmt::join(out, "; "), more);
}

}  // namespace kinora::core
