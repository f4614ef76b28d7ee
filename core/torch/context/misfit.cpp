#include "core/torch/context/misfit.hpp"

#include <fstream>

#include "core/io/safetensors.hpp"
#include "core/run/apply_published.hpp"
#include "core/run/folder_options.hpp"
#include "core/torch/context/network.hpp"
#include "core/torch/weights/jit_weights.hpp"
#include "core/torch/weights/published.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

using Shapes = std::map<std::string, std::vector<int64_t>>;

Shapes shapes_in(const std::vector<fs::path>& weights, const ComponentSpec& spec) {
  Shapes out;
  for (const auto& path : weights) {
    if (is_jit(path)) {
      for (const auto& [name, t] : read_jit(path)) out[name] = t.sizes().vec();
    } else {
      const Safetensors file = or_throw(Safetensors::open(published_part(path, spec)));
      for (const auto& t : file.tensors()) out[t.name] = t.shape;
    }
  }
  return out;
}

// Whether the network of these options has these tensors and no others that count.
bool would_fit(const Component& component, const json& options, const Shapes& stored, bool more_is_fine) {
  try {
    Network network(component, or_throw(Options::make(*component.spec, options)),
                    ChainOptions{.device = at::kMeta});
    const auto& parameters = network.chain().parameters();
    std::vector<std::string> names;
    for (const auto& [name, shape] : stored) names.push_back(name);
    const Layout layout = layout_of(component, names, names_of(parameters));
    Shapes ours;
    for (const auto& [name, shape] : stored)
      if (const auto to = layout.ours(name); !to.empty()) ours[to] = shape;
    for (const auto& p : parameters)
      if (const auto it = ours.find(p.name); it == ours.end() || it->second != p.shape) return false;
    return more_is_fine || ours.size() == parameters.size();
  } catch (const std::exception&) {
    return false;
  }
}

// The config.json of the weights, also the one beside a file, which a run does not read.
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
  std::string size;  // that the options say
  Shapes stored;
  bool more_is_fine;

  bool answered_by(const json& other) const { return would_fit(component, other, stored, more_is_fine); }
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

std::string found_cause(const Component& component, const json& options,
                        const std::vector<fs::path>& weights) {
  const bool more = std::string_view(published_stem(*component.spec)) == "model" || is_jit(weights.at(0));
  const Question q{
      component, options, weights, options.value("size", ""), shapes_in(weights, *component.spec), more};
  const auto first = q.size.empty() ? configured : published_size,
             then = q.size.empty() ? published_size : configured;
  if (auto cause = first(q); !cause.empty()) return cause;
  if (auto cause = then(q); !cause.empty()) return cause;
  const std::string name = class_in(config_near(weights, *component.spec));
  return name.empty() ? "" : fmt::format("their config.json says that they are a {}'s", name);
}

}  // namespace

std::string why_misfit(const Component& component, const json& options,
                       const std::vector<fs::path>& weights) {
  try {
    return found_cause(component, options, weights);
  } catch (const std::exception&) {
    return "";  // what is wrong has been found; this was about why
  }
}

}  // namespace kinora::core
