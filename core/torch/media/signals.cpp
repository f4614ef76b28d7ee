#include "core/torch/media/signals.hpp"

#include <algorithm>
#include <set>

#include <ATen/ATen.h>
#include <fmt/format.h>

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
  std::set<std::string> taken{"latent", "codes", "text", "text_mask", "image", "timestep"};
  for (const auto& name : names_)
    if (name.empty() || !taken.insert(name).second)
      raise(KINORA_INVALID, "signals: '{}' is the name of something else in the latent cache, or given twice",
            name);
}

std::optional<NamedTensors> Signals::of(const nlohmann::json& facts, std::string& why) {
  NamedTensors out;
  for (const auto& name : names_) {
    const auto value = facts.is_object() && facts.contains(name) ? facts.at(name) : nlohmann::json();
    if (value.is_number()) {
      out[name] = at::scalar_tensor(value.get<double>() / (name == "fps" ? every_ : 1), at::kFloat);
    } else if (is_numbers(value)) {
      out[name] = at::tensor(value.get<std::vector<double>>(), at::kFloat);
    } else {
      why = value.is_null()
                ? fmt::format("its metadata have no '{}', which signals asks for", name)
                : fmt::format("'{}' of its metadata is neither a number nor a list of numbers", name);
      return std::nullopt;
    }
  }
  for (const auto& [name, t] : out) {
    const size_t n = t.dim() == 0 ? 0 : static_cast<size_t>(t.numel());
    if (const auto [it, first] = lengths_.emplace(name, n); !first && it->second != n) {
      why = fmt::format("'{}' of its metadata has {} numbers, that of the clips before {} (0: no list)", name,
                        n, it->second);
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace kinora::core
