#include "core/torch/context/misfit.hpp"

#include <fstream>

#include <fmt/ranges.h>

#include "core/run/weights.hpp"
#include "core/torch/context/fitting.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// The weights' config.json, also the one next to a file, which a run does not read.
fs::path config_near(const std::vector<fs::path>& weights, const ComponentSpec& spec) {
  fs::path file = config_of(weights, spec);
  if (file.empty() && !fs::is_directory(weights.at(0))) file = weights[0].parent_path() / "config.json";
  return fs::exists(file) ? file : fs::path();
}

std::string class_in(const fs::path& config) {
  std::ifstream in(config);
  const json object = json::parse(in, nullptr, false);
  if (!object.is_object()) return "";
  const json name = object.contains("_class_name") ? object["_class_name"]
                                                   : object.value("/architectures/0"_json_pointer, json());
  return name.is_string() ? name.get<std::string>() : "";
}

struct Question {
  const Component& component;
  const json& options;
  const std::vector<fs::path>& weights;
  std::string size;  // size given in the options
  StoredShapes stored;

  bool answered_by(const json& other) const { return would_fit(component, other, stored); }
};

std::string published_size(const Question& q) {
  const auto* sizes = q.component.spec->option("size");
  if (!sizes) return "";
  for (const auto& other : sizes->choices) {
    json with = q.options;
    with["size"] = other;
    if (other.empty() || other == q.size || !(q.answered_by(with) || q.answered_by({{"size", other}})))
      continue;
    return fmt::format("these are the weights of size = \"{}\", and the options say {}", other,
                       q.size.empty() ? "no size" : "size = \"" + q.size + "\"");
  }
  return "";
}

std::string configured(const Question& q) {
  const fs::path config = config_near(q.weights, *q.component.spec);
  if (config.empty()) return "";
  json with = q.options;
  std::string theirs, ours;
  const json said = read_config(config, *q.component.spec, true);
  for (const auto& [name, value] : said.items()) {
    if (with.value(name, json()) == value) continue;
    theirs += fmt::format("{}{} = {}", theirs.empty() ? "" : ", ", name, value.dump());
    ours += fmt::format("{}{} = {}", ours.empty() ? "" : ", ", name, with.value(name, json()).dump());
    with[name] = value;
  }
  if (!q.size.empty()) with["size"] = "", ours = fmt::format("size = \"{}\"", q.size);
  if (!theirs.empty() && q.answered_by(with))
    return fmt::format(
        "{} says {}, and the options say {}{}", config.string(), theirs, ours,
        fs::is_directory(q.weights[0]) ? "" : "; name the folder, and its configuration counts");
  return "";
}

// The message if no configuration or size matches the weights.
std::string of_no_size(const Question& q) {
  const auto& spec = *q.component.spec;
  const auto* sizes = spec.option("size");
  if (!sizes || sizes->choices.empty() || !q.size.empty() || q.stored.shapes.empty()) return "";
  std::vector<std::string> known;
  for (const auto& size : sizes->choices)
    if (!size.empty()) known.push_back(size);
  const auto& [name, shape] = *q.stored.shapes.begin();
  return fmt::format(
      "their {} tensors, the first of them '{}' {}, match none of the sizes {}; give the options that they "
      "were made with, which kinora plugins inspect {} lists",
      q.stored.shapes.size(), name, shape, fmt::join(known, ", "), spec.id);
}

std::string found_cause(const Component& component, const json& options,
                        const std::vector<fs::path>& weights) {
  const Question q{component, options, weights, options.value("size", ""),
                   stored_shapes(weights, *component.spec)};
  const auto first = q.size.empty() ? configured : published_size,
             then = q.size.empty() ? published_size : configured;
  if (auto cause = first(q); !cause.empty()) return cause;
  if (auto cause = then(q); !cause.empty()) return cause;
  const std::string name = class_in(config_near(weights, *component.spec));
  return name.empty() ? of_no_size(q) : fmt::format("their config.json says that they are a {}'s", name);
}

}  // namespace

std::string why_misfit(const Component& component, const json& options,
                       const std::vector<fs::path>& weights) {
  try {
    return found_cause(component, options, weights);
  } catch (const std::exception&) {
    return "";  // the caller already reports the error; this only looks for its cause
  }
}

}  // namespace kinora::core
