#include "core/torch/network/fitting.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "core/base/log.hpp"
#include "core/torch/network/network.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/published.hpp"
#include "host/weights/published_classes.hpp"
#include "host/weights/safetensors.hpp"
#include "host/weights/weights.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// Option sets of a published size that the weights may have.
std::vector<json> readings_of(const ComponentSpec& spec, const json& given, const std::string& size) {
  json of = given;
  of["size"] = size;
  std::vector<json> out{of};
  if (const auto* channels = spec.option("in_channels"); channels && !given.contains("in_channels")) {
    of["in_channels"] = channels->default_value.get<int64_t>() + 1;
    out.push_back(of);
  }
  return out;
}

}  // namespace

StoredShapes stored_shapes(const std::vector<fs::path>& weights, const ComponentSpec& spec) {
  StoredShapes out{{}, may_hold_more(weights.at(0))};
  for (const auto& path : weights) {
    if (is_archive(path)) {
      for (const auto& [name, t] : read_archives(path)) out.shapes[name] = t.sizes().vec();
    } else {
      const Safetensors file = or_throw(Safetensors::open(published_part(path, spec)));
      for (const auto& t : file.tensors()) out.shapes[t.name] = t.shape;
    }
  }
  return out;
}

bool would_fit(const Component& component, const json& options, const StoredShapes& stored) {
  try {
    const auto parameters = parameters_of(component, or_throw(Options::make(*component.spec, options)));
    std::vector<std::string> names;
    for (const auto& [name, shape] : stored.shapes) names.push_back(name);
    const Layout layout = layout_of(component, names, names_of(parameters));
    std::map<std::string, std::vector<int64_t>> ours;
    for (const auto& [name, shape] : stored.shapes)
      if (const auto to = layout.ours(name); !to.empty()) ours[to] = shape;
    for (const auto& p : parameters)
      if (const auto it = ours.find(p.name); it == ours.end() || it->second != p.shape) return false;
    const auto expected = names_of(parameters);
    return stored.more_is_fine || std::all_of(ours.begin(), ours.end(), [&](const auto& t) {
             return expected.contains(t.first) || may_be_ignored(*component.spec, t.first);
           });
  } catch (const std::exception&) {
    return false;
  }
}

namespace {

// Takes the one published size that a path names. TorchScript is a program, so it is not opened to read
// shapes from it.
json with_size_in_path(const Component& component, const json& given, const std::string& path) {
  std::vector<std::string> named;
  for (const auto& size : component.spec->option("size")->choices)
    if (!size.empty() && path.find(size) != path.npos) named.push_back(size);
  if (named.size() != 1) return given;
  log_info("{}: {} of size = \"{}\", by its path", path, component.spec->id, named[0]);
  json out = given;
  out["size"] = named[0];
  return out;
}

}  // namespace

json with_fitting_size(const Component& component, const json& given, const std::vector<fs::path>& weights) {
  if (is_archive(weights.at(0))) return with_size_in_path(component, given, weights[0].string());
  StoredShapes stored;
  try {
    stored = stored_shapes(weights, *component.spec);
  } catch (const std::exception&) {
    return given;  // errors in the files are reported where they are read
  }
  if (would_fit(component, given, stored)) return given;
  std::vector<json> fits;
  for (const auto& size : component.spec->option("size")->choices)
    for (const auto& options : readings_of(*component.spec, given, size))
      if (!size.empty() && would_fit(component, options, stored)) fits.push_back(options);
  if (fits.empty()) return given;
  std::vector<std::string> sizes, paths;
  for (const auto& options : fits) sizes.push_back(options.at("size").dump());
  for (const auto& path : weights) paths.push_back(path.string());
  const std::string all = fmt::format("{}", fmt::join(paths, ", "));
  if (fits.size() > 1)
    std::erase_if(fits, [&](const json& o) { return all.find(o.at("size").get<std::string>()) == all.npos; });
  if (fits.size() != 1)
    raise(KINORA_ERROR_INVALID, "{}: these {} tensors fit {} of size {} alike; choose one: size = {}", all,
          stored.shapes.size(), component.spec->id, fmt::join(sizes, " and "), sizes[0]);
  const json& found = fits[0];
  const bool masked = found.contains("in_channels") && !given.contains("in_channels");
  log_info("{}: {} of size = {}{}, by the names and shapes of its {} tensors{}", all, component.spec->id,
           found.at("size").dump(),
           masked ? fmt::format(" with in_channels = {}", found["in_channels"].dump()) : "",
           stored.shapes.size(), sizes.size() > 1 ? " and by its path" : "");
  return found;
}

namespace {

// The config.json of some weights, also the one next to a file, which a run does not read.
fs::path config_near(const std::vector<fs::path>& weights, const ComponentSpec& spec) {
  fs::path file = config_of(weights, spec);
  if (file.empty() && !fs::is_directory(weights.at(0))) file = weights[0].parent_path() / "config.json";
  return fs::exists(file) ? file : fs::path();
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
  bool has_config = false;
  for (const auto& path : weights) {
    const fs::path config = config_near({path}, *component.spec);
    if (auto other = of_another_class(config, *component.spec); !other.empty()) return other;
    has_config = has_config || !config.empty();
  }
  return has_config ? "" : of_no_size(q);
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
