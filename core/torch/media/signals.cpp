#include "core/torch/media/signals.hpp"

#include <algorithm>
#include <set>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

bool is_numbers(const nlohmann::json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(), [](const auto& v) { return v.is_number(); });
}

}  // namespace

Signals::Signals(std::vector<std::string> names, int64_t every)
    : names_(std::move(names)), every_(static_cast<double>(every)) {
  // Names of the cache's own tensors and of a model's other inputs.
  std::set<std::string> taken{"latent", "codes", "text", "text_mask", "image", "timestep"};
  for (const auto& name : names_)
    if (name.empty() || !taken.insert(name).second)
      raise(KINORA_ERROR_INVALID,
            "signals: '{}' is the name of something else in the latent cache, or given twice", name);
}

std::optional<NamedTensors> Signals::of(const nlohmann::json& facts, std::string& why) {
  NamedTensors out;
  for (const auto& name : names_) {
    const auto value = facts.is_object() && facts.contains(name) ? facts.at(name) : nlohmann::json();
    if (value.is_number()) {
      // A clip whose every n-th frame is encoded has 1/n of the frames per second.
      out[name] = at::scalar_tensor(value.get<double>() / (name == "fps" ? every_ : 1), at::kFloat);
    } else if (is_numbers(value)) {
      out[name] = at::tensor(value.get<std::vector<double>>(), at::kFloat);
    } else {
      why = value.is_null()
                ? fmt::format("its metadata has no '{}', which the option signals requires", name)
                : fmt::format("'{}' in its metadata is neither a number nor a list of numbers", name);
      return std::nullopt;
    }
  }
  for (const auto& [name, t] : out) {
    const size_t n = t.dim() == 0 ? 0 : static_cast<size_t>(t.numel());
    // Samples of one batch are stacked, so a signal has one length in all clips: that of the first clip that has it.
    if (const auto [it, first] = lengths_.emplace(name, n); !first && it->second != n) {
      why = fmt::format("'{}' in its metadata has {} numbers, in the clips before {} (0: not a list)", name,
                        n, it->second);
      return std::nullopt;
    }
  }
  return out;
}

// "camera:12" and "image:768:tokens" name a signal before the first colon.
std::set<std::string> signals_of(const Options& model) {
  std::set<std::string> out;
  const auto given = model.values().find("signals");
  if (given == model.values().end() || !given->is_array()) return out;
  for (const auto& signal : *given)
    if (signal.is_string())
      out.insert(signal.get<std::string>().substr(0, signal.get<std::string>().find(':')));
  return out;
}

GivenSignals given_signals(const std::vector<std::string>& texts) {
  GivenSignals out;
  for (const auto& text : texts) {
    const size_t equals = text.find('=');
    const auto list = nlohmann::json::parse("[" + (equals < text.size() ? text.substr(equals + 1) : "") + "]",
                                            nullptr, false);
    if (equals == 0 || !is_numbers(list))
      raise(KINORA_ERROR_INVALID, "signals: '{}' is not NAME=NUMBER or NAME=NUMBER,NUMBER,...", text);
    if (!out.emplace(text.substr(0, equals), list.get<std::vector<double>>()).second)
      raise(KINORA_ERROR_INVALID, "signals: '{}' is given twice", text.substr(0, equals));
  }
  return out;
}

std::optional<GivenSignals> given_signals(const nlohmann::json& object) {
  if (!object.is_object()) return std::nullopt;
  GivenSignals out;
  for (const auto& [name, value] : object.items()) {
    if (!value.is_number() && !is_numbers(value)) return std::nullopt;
    out[name] = value.is_number() ? std::vector{value.get<double>()} : value.get<std::vector<double>>();
  }
  return out;
}

std::vector<std::string> texts_of(const GivenSignals& given) {
  std::vector<std::string> out;
  for (const auto& [name, values] : given) out.push_back(fmt::format("{}={}", name, fmt::join(values, ",")));
  return out;
}

}  // namespace kinora::core
