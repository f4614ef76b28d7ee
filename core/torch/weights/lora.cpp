#include "core/torch/weights/lora.hpp"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "core/base/status.hpp"
#include "core/io/atomic_file.hpp"
#include "core/torch/weights/safe_tensors.hpp"

namespace kinora::core {
namespace {

using json = nlohmann::json;

constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight", kWeight = ".weight";

}  // namespace

std::string lora_a(const std::string& module) { return module + std::string(kA); }
std::string lora_b(const std::string& module) { return module + std::string(kB); }
bool is_lora(const std::string& p) { return p.ends_with(kA) || p.ends_with(kB); }
std::string module_of(const std::string& p) {
  return p.ends_with(kWeight) && !is_lora(p) ? p.substr(0, p.size() - kWeight.size()) : "";
}

at::Tensor Adapter::product(const Pair& p, at::ScalarType dtype) {
  const auto exact = dtype == at::kDouble ? at::kDouble : at::kFloat;
  return at::mm(p.b.to(exact).flatten(1), p.a.to(exact).flatten(1)) * p.scale;
}

std::vector<std::string> Adapter::parameters() const {
  std::vector<std::string> out;
  for (const auto& [module, pair] : modules) out.push_back(module + std::string(kWeight));
  for (const auto& [name, t] : differences) out.push_back(name);
  return out;
}

std::map<std::string, Adapter::Pair> adapter_pairs(const std::map<std::string, at::Tensor>& tensors) {
  std::map<std::string, Adapter::Pair> out;
  for (const auto& [name, tensor] : tensors) {
    if (name.ends_with(kA)) out[name.substr(0, name.size() - kA.size())].a = tensor;
    if (name.ends_with(kB)) out[name.substr(0, name.size() - kB.size())].b = tensor;
  }
  return out;
}

at::Tensor merged(const at::Tensor& weight, const Adapter::Pair& pair) {
  const at::Tensor change = Adapter::product(pair, weight.scalar_type());
  return weight.to(change.scalar_type()).add(change.view(weight.sizes())).to(weight.scalar_type());
}

void write_adapter(const std::filesystem::path& folder, const LoraOptions& o,
                   const std::map<std::string, Adapter::Pair>& pairs, const std::string& base_model) {
  NamedTensors tensors;
  std::vector<std::string> modules;
  json ranks = json::object(), alphas = json::object();
  for (const auto& [module, pair] : pairs) {
    tensors["base_model.model." + lora_a(module)] = pair.a;
    tensors["base_model.model." + lora_b(module)] = pair.b;
    modules.push_back(module);
    const int64_t rank = pair.a.size(0);
    if (rank != o.rank) ranks[module] = rank;
    // A scale of its own is an alpha of its own.
    const double alpha = pair.scale / o.scale(rank, 1);
    if (pair.scale != o.scale(rank, o.alpha)) alphas[module] = alpha;
  }
  const json config = {{"peft_type", "LORA"},
                       {"task_type", nullptr},
                       {"r", o.rank},
                       {"lora_alpha", o.alpha},
                       {"lora_dropout", o.dropout},
                       {"use_rslora", o.rslora},
                       {"target_modules", modules},
                       {"rank_pattern", ranks},
                       {"alpha_pattern", alphas},
                       {"bias", "none"},
                       {"fan_in_fan_out", false},
                       {"modules_to_save", nullptr},
                       {"inference_mode", true},
                       {"base_model_name_or_path", base_model.empty() ? json(nullptr) : json(base_model)}};
  std::filesystem::create_directories(folder);
  write_tensors(folder / "adapter_model.safetensors", tensors, {{"format", "pt"}});
  or_throw(write_file_atomically(folder / "adapter_config.json", config.dump(2) + "\n"));
}

}  // namespace kinora::core
