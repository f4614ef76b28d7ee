#include "core/run/difference.hpp"

#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>
namespace kinora::core {
namespace {

using nlohmann::json;
using Values = std::map<std::string, json>;

constexpr size_t kMost = 5;

// Values by their names in a run file: "steps", "model.layers", "model".
Values values_of(const json& spec, const std::set<std::string>& how_only) {
  Values out;
  const json options = spec.value("options", json::object()), none = json::array();
  for (const auto& [name, value] : options.items())
    if (!how_only.contains(name)) out[name] = value;
  for (const auto& path : spec.value("paths", none)) out["input " + path.get<std::string>()] = "given";
  std::map<std::string, int> seen;
  for (const auto& c : spec.value("components", none)) {
    const std::string slot = c.at("slot"), at = seen[slot]++ ? fmt::format("{} {}", slot, seen[slot]) : slot;
    out[at] = c.at("id").get<std::string>() + " " + c.at("version").get<std::string>();
    for (const auto& [name, value] : c.at("options").items()) out[at + "." + name] = value;
  }
  return out;
}

std::string shown(const Values& of, const std::string& name) {
  const auto it = of.find(name);
  const std::string text =
      it == of.end() ? "absent" : it->second.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= 72 ? text : text.substr(0, 72) + "...";
}

// If the component itself differs, its options need not be listed.
bool is_told_by_component(const std::string& name, const std::set<std::string>& told) {
  const size_t dot = name.find('.');
  return dot != name.npos && told.contains(name.substr(0, dot));
}

}  // namespace

std::string difference(const json& first, const json& second, const char* values) {
  const auto how_only = second.value("how_only", std::set<std::string>());
  const Values a = values_of(first, how_only), b = values_of(second, how_only);
  std::set<std::string> names, told;
  for (const auto* of : {&a, &b})
    for (const auto& [name, value] : *of) names.insert(name);
  std::vector<std::string> out;
  for (const auto& name : names) {
    const auto x = a.find(name), y = b.find(name);
    if ((x != a.end() && y != b.end() && x->second == y->second) || is_told_by_component(name, told))
      continue;
    told.insert(name);
    out.push_back(name + " " + fmt::format(fmt::runtime(values), shown(a, name), shown(b, name)));
  }
  if (out.size() <= kMost) return fmt::format("{}", fmt::join(out, "; "));
  const size_t more = out.size() - kMost;
  out.resize(kMost);
  return fmt::format("{}; and {} more", fmt::join(out, "; "), more);
}

}  // namespace kinora::core
