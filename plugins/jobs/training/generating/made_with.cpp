#include "plugins/jobs/training/generating/made_with.hpp"

#include <fmt/format.h>

#include "core/run/weights.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

// The start of a digest.
std::string shown(const json& v) {
  if (v.is_object()) return fmt::format("{} {}", v.value("id", "?"), v.value("version", "?"));
  return v.is_string() ? fmt::format("{:.19}", v.get<std::string>()) : "none";
}

}  // namespace

json made_with(const JobContext& context, const std::map<std::string, Part>& parts,
               const std::filesystem::path& kept) {
  json weights = json::object(), components = json::object();
  for (const auto& [slot, part] : parts) {
    components[slot] = {{"id", part.use->id}, {"version", part.use->version}};
    if (!part.weights.empty())
      weights[slot] = weights_digest(weights_files(part.weights, *context.open(*part.use).spec), kept);
  }
  return {{"weights", weights}, {"components", components}};
}

std::string differences(const json& then, const json& now) {
  std::string out;
  if (!then.is_object()) return out;
  for (const char* what : {"weights", "components"}) {
    const json of_then = then.value(what, json::object()), of_now = now.value(what, json::object());
    if (!of_then.is_object()) continue;
    for (const auto& [slot, value] : of_then.items()) {
      const json here = of_now.value(slot, json());
      if (here == value) continue;
      out +=
          fmt::format("{}{}{} ({}, here {})", out.empty() ? "" : ", ",
                      what == std::string("weights") ? "weights of " : "", slot, shown(value), shown(here));
    }
  }
  return out;
}

}  // namespace kinora::core
