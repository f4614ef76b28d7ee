// Reads the adapters of the programs that lora_names.hpp lists.
#include <cmath>
#include <optional>
#include <set>

#include <ATen/ATen.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/regular_file.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/lora.hpp"
#include "core/torch/weights/lora_names.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "host/weights/weights.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

// The value of the first pattern that matches a module, looked up as in PEFT.
double by_pattern(const json& config, const char* key, const std::string& module, double otherwise,
                  const fs::path& file) {
  const auto it = config.find(key);
  if (it == config.end() || !it->is_object()) return otherwise;
  try {
    for (const auto& [pattern, value] : it->items())
      if (LoraOptions{.pattern = "(.*\\.)?(" + pattern + ")"}.is_target(module)) return value.get<double>();
  } catch (const Error& e) {
    raise(KINORA_ERROR_DATA, "{}: {}: {}", file.string(), key, e.what());
  }
  return otherwise;
}

void refuse_other_kinds(const json& c, const fs::path& file) {
  const auto no = [&](const std::string& what) {
    raise(KINORA_ERROR_UNSUPPORTED,
          "{}: {}; only plain LoRA is read: merge it with PEFT's merge_and_unload() and give the merged "
          "weights",
          file.string(), what);
  };
  if (const auto type = c.value("peft_type", std::string("LORA")); type != "LORA") no("peft_type is " + type);
  for (const char* key : {"use_dora", "fan_in_fan_out"})
    if (c.contains(key) && c[key].is_boolean() && c[key].get<bool>()) no(std::string(key) + " is set");
  if (c.value("bias", std::string("none")) != "none") no("its biases are trained");
  for (const char* key : {"modules_to_save", "trainable_token_indices", "target_parameters"})
    if (c.contains(key) && !c[key].is_null() && !c[key].empty()) no(std::string(key) + " is set");
}

// nullopt if there is no such file.
std::optional<json> adapter_config_in(const fs::path& file) {
  const auto text = read_regular_file(file);
  if (!text && text.failure().code == KINORA_ERROR_NOT_FOUND) return std::nullopt;
  json out = parse_facts(or_throw(text));
  if (!out.is_object()) raise(KINORA_ERROR_DATA, "{}: not a JSON object, or cut off", file.string());
  refuse_other_kinds(out, file);
  return out;
}

// The networks that a header describes which says nothing of the one that is read, as "unet, text_encoder".
std::string others_in_header(const Safetensors& file) {
  const auto text = file.metadata().find("lora_adapter_metadata");
  const json all = text == file.metadata().end() ? json::object() : parse_facts(text->second);
  std::set<std::string> out;
  if (all.is_object())
    for (const auto& [key, value] : all.items())
      if (key.ends_with(".r") || key.ends_with(".lora_alpha")) out.insert(key.substr(0, key.rfind('.')));
  return fmt::format("{}", fmt::join(out, ", "));
}

// PEFT's configuration of one network in the header that diffusers writes: flattened, as "transformer.r".
std::optional<json> adapter_config_in(const Safetensors& file, const std::string& network,
                                      const fs::path& origin) {
  const auto text = file.metadata().find("lora_adapter_metadata");
  if (text == file.metadata().end()) return std::nullopt;
  const json all = parse_facts(text->second);
  if (!all.is_object())
    raise(KINORA_ERROR_DATA, "{}: the header's lora_adapter_metadata is not a JSON object, or cut off",
          origin.string());
  json out = json::object();
  const std::string of = (network.empty() ? "transformer" : network) + ".";
  for (const auto& [key, value] : all.items())
    if (key.starts_with(of)) out[key.substr(of.size())] = value;
  if (out.empty() && network.empty() && others_in_header(file).empty()) out = all;
  if (out.empty()) return std::nullopt;
  refuse_other_kinds(out, origin);
  return out;
}

// Sets rank, scale and modules of the matrices in `to` from the configuration. alphas: those of tensors.
void describe(Adapter& to, const json& config, const std::map<std::string, double>& alphas,
              const fs::path& file) {
  auto& o = to.options;
  o.of_file = true;
  o.rslora = config.value("use_rslora", false);
  o.dropout = config.value("lora_dropout", 0.0);
  o.rank = config.value("r", to.modules.empty() ? int64_t{1} : to.modules.begin()->second.a.size(0));
  if (o.rank < 1) raise(KINORA_ERROR_DATA, "{}: r is {}; expected at least 1", file.string(), o.rank);
  o.alpha = config.value("lora_alpha", static_cast<double>(o.rank));
  if (!(o.dropout >= 0 && o.dropout < 1))
    raise(KINORA_ERROR_DATA, "{}: lora_dropout is {}; expected at least 0 and below 1", file.string(),
          o.dropout);
  // Without a configuration every module's alpha is its own rank.
  const bool configured = config.contains("lora_alpha") || config.contains("r");
  const double alpha_of_all = o.alpha;
  for (auto& [module, pair] : to.modules) {
    const int64_t rank = pair.a.size(0);
    const auto own = alphas.find(module);
    const double otherwise = configured ? alpha_of_all : static_cast<double>(rank);
    const double alpha =
        own != alphas.end() ? own->second : by_pattern(config, "alpha_pattern", module, otherwise, file);
    pair.scale = o.scale(rank, alpha);
    if (!std::isfinite(pair.scale))
      raise(KINORA_ERROR_DATA, "{}: module '{}' has no finite scale; see lora_alpha and alpha_pattern",
            file.string(), module);
    if (o.targets.empty() && own != alphas.end()) o.rank = rank, o.alpha = alpha;
    o.targets.push_back(module);
  }
}

// NaN or Inf in a matrix makes every weight that it changes NaN.
void check_finite(const std::string& parameter, const at::Tensor& t, const fs::path& file) {
  if (!t.to(at::kFloat).isfinite().all().item<bool>())
    raise(KINORA_ERROR_DATA,
          "{}: the adapter of '{}' has values that are not finite (NaN or Inf); download it again, or take "
          "an earlier "
          "checkpoint of its training",
          file.string(), parameter);
}

void check_pair(const std::string& module, const Adapter::Pair& p, const fs::path& file) {
  if (!p.a.defined() || !p.b.defined())
    raise(KINORA_ERROR_DATA, "{}: module '{}' has lora_{} and no lora_{}", file.string(), module,
          p.a.defined() ? "A" : "B", p.a.defined() ? "B" : "A");
  const bool is_product = p.a.dim() >= 2 && p.a.dim() == p.b.dim() && p.a.size(0) > 0 &&
                          p.a.size(0) == p.b.size(1) && p.b.numel() == p.b.size(0) * p.b.size(1);
  if (!is_product)
    raise(KINORA_ERROR_UNSUPPORTED,
          "{}: module '{}': lora_A {} and lora_B {} are not [rank, in] and [out, rank]", file.string(),
          module, c10::str(p.a.sizes()), c10::str(p.b.sizes()));
}

// The safetensors file of an adapter's folder: PEFT's, diffusers', or the only one.
fs::path adapter_file(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : {"adapter_model.safetensors", "pytorch_lora_weights.safetensors"})
    if (fs::exists(path / name, ignored)) return path / name;
  const auto opened = Safetensors::open(path);
  return opened ? opened->files()[0] : path / "adapter_model.safetensors";
}

// The tensors of a file that belong to one of its networks.
class AdapterReading {
 public:
  AdapterReading(const Safetensors& file, fs::path origin, AdapterOf of)
      : file_(file), origin_(std::move(origin)) {
    for (const auto& t : file.tensors()) {
      const auto name = lora_name(t.name);
      if (!name || !other_method(t.name).empty()) refuse(t.name);
      by_network_[name->network].emplace_back(*name, &t);
    }
    if (by_network_.empty()) raise(KINORA_ERROR_DATA, "{}: contains no adapter", origin_.string());
    network_ = chosen(of);
    for (const auto& [network, tensors] : by_network_)
      if (network != network_ && network == "text_encoder")
        log_warn(
            "{}: its {} tensors for a text encoder are left out; merge them into that encoder's weights: "
            "kinora convert text_encoder/ OUT --component ID --merge {}",
            origin_.string(), tensors.size(), origin_.string());
  }

  Adapter read() {
    Adapter out;
    for (const auto& [name, t] : by_network_.at(network_)) take(out, name, as_tensor(file_, *t));
    for (const auto& [module, pair] : out.modules) {
      check_pair(module, pair, origin_);
      check_finite(module, pair.a, origin_);
      check_finite(module, pair.b, origin_);
    }
    for (const auto& [module, alpha] : alphas_)
      if (!out.modules.contains(module))
        raise(KINORA_ERROR_DATA, "{}: module '{}' has an alpha and no matrices; is the file whole?",
              origin_.string(), module);
    fs::path said_by = origin_;
    auto config = adapter_config_in(file_, network_, origin_);
    if (!config) {
      said_by = origin_.parent_path() / "adapter_config.json";
      config = adapter_config_in(said_by);
    }
    if (const auto others = others_in_header(file_); !config && alphas_.empty() && !others.empty())
      log_warn(
          "{}: the header has the alpha of {} and none of {}, whose matrices are read: each alpha is taken "
          "to be the rank (scale 1); if that is wrong, put an adapter_config.json with r and lora_alpha next "
          "to "
          "it",
          origin_.string(), others, network_.empty() ? "the transformer" : network_);
    try {
      describe(out, config.value_or(json::object()), alphas_, said_by);
    } catch (const json::exception& e) {
      raise(KINORA_ERROR_DATA, "{}: {}", said_by.string(), e.what());
    }
    for (const auto& [module, bias] : biases_)  // PEFT's lora_bias: of B, so it is scaled like B
      out.differences[module + ".bias"] = bias.to(at::kFloat) * scale_of(out, module);
    for (const auto& [parameter, difference] : out.differences) check_finite(parameter, difference, origin_);
    return out;
  }

 private:
  [[noreturn]] void refuse(const std::string& tensor) const {
    const std::string method = other_method(tensor);
    if (method.empty())
      raise(KINORA_ERROR_UNSUPPORTED,
            "{}: tensor '{}' is neither MODULE.lora_A.weight nor MODULE.lora_B.weight, nor another name that "
            "PEFT, diffusers, ComfyUI, kohya, musubi-tuner, diffusion-pipe or ai-toolkit give a LoRA",
            origin_.string(), tensor);
    raise(KINORA_ERROR_UNSUPPORTED,
          "{}: tensor '{}' is of {}; only plain LoRA is read: merge it into the weights with the program "
          "that made it, for example PEFT's merge_and_unload() or ComfyUI's node ModelSave, and give the "
          "merged weights",
          origin_.string(), tensor, method);
  }

  std::string chosen(AdapterOf of) const {
    const bool main = by_network_.contains(""), second = by_network_.contains("transformer_2"),
               text = by_network_.contains("text_encoder");
    const auto none = [&](const char* what) {
      raise(KINORA_ERROR_INVALID, "{}: holds no adapter of {}; its first tensor is '{}'", origin_.string(),
            what, file_.tensors()[0].name);
    };
    if (of == AdapterOf::text_encoder && !text && !main) none("a text encoder");
    if (of == AdapterOf::text_encoder) return text ? "text_encoder" : "";
    if (of == AdapterOf::low && !second && !main) none("the expert for low noise");
    if (of == AdapterOf::low) return second ? "transformer_2" : "";
    if (of == AdapterOf::high && !main) none("the expert for high noise");
    if (of == AdapterOf::high) return "";
    if (main && second)
      raise(KINORA_ERROR_INVALID,
            "{}: holds the adapters of both experts; write the one that is meant into a folder of its own: "
            "kinora convert {} OUT --to peft --expert high (or low)",
            origin_.string(), origin_.string());
    if (!main && !second && !text) none("a transformer");
    return main ? "" : second ? "transformer_2" : "text_encoder";
  }

  void take(Adapter& to, const LoraName& name, const at::Tensor& t) {
    if (!adapter_) adapter_ = name.adapter;
    if (*adapter_ != name.adapter)
      raise(KINORA_ERROR_INVALID, "{}: holds the adapters '{}' and '{}' of PEFT; save one of them",
            origin_.string(), *adapter_, name.adapter);
    switch (name.part) {
      case LoraPart::a:
        set(to.modules[name.module].a, t, name.module);
        return;
      case LoraPart::b:
        set(to.modules[name.module].b, t, name.module);
        return;
      case LoraPart::b_bias:
        biases_[name.module] = t;
        return;
      case LoraPart::alpha:
        if (t.numel() != 1 || !t.to(at::kDouble).isfinite().all().item<bool>())
          raise(KINORA_ERROR_DATA, "{}: the alpha of module '{}' is not one finite number", origin_.string(),
                name.module);
        alphas_[name.module] = t.to(at::kDouble).reshape({}).item<double>();
        return;
      default:
        set(to.differences[name.parameter()], t, name.module);
    }
  }
  void set(at::Tensor& to, const at::Tensor& t, const std::string& module) const {
    if (to.defined())
      raise(KINORA_ERROR_DATA, "{}: module '{}' has the same matrix under two names", origin_.string(),
            module);
    to = t;
  }
  double scale_of(const Adapter& adapter, const std::string& module) const {
    const auto pair = adapter.modules.find(module);
    if (pair == adapter.modules.end())
      raise(KINORA_ERROR_DATA, "{}: module '{}' has lora_B.bias and no lora_B", origin_.string(), module);
    return pair->second.scale;
  }

  const Safetensors& file_;
  fs::path origin_;
  std::string network_;
  std::map<std::string, std::vector<std::pair<LoraName, const SafeTensor*>>> by_network_;
  std::map<std::string, double> alphas_;
  std::map<std::string, at::Tensor> biases_;
  std::optional<std::string> adapter_;  // PEFT's name of it
};

}  // namespace

Adapter read_adapter(const fs::path& path, AdapterOf of) {
  const fs::path file = adapter_file(path);
  if (std::error_code ignored; !fs::exists(file, ignored))
    raise(KINORA_ERROR_NOT_FOUND, "adapter {}: {} does not exist; give a PEFT folder or its safetensors file",
          path.string(), file.string());
  require_as_listed(file);
  const auto opened = or_throw(Safetensors::open(file));
  return AdapterReading(opened, file, of).read();
}

bool is_adapter(const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(path / "adapter_config.json", ignored)) return true;
  const auto opened = Safetensors::open(adapter_file(path));
  if (!opened) return false;
  const auto& all = opened->tensors();
  return std::any_of(all.begin(), all.end(), [](const SafeTensor& t) {
    const auto name = lora_name(t.name);
    return !other_method(t.name).empty() ||
           (name && (name->part == LoraPart::a || name->part == LoraPart::b));
  });
}

std::string adapter_among(const std::vector<fs::path>& weights, const std::string& component) {
  std::string base = "WEIGHTS";
  for (const auto& path : weights) {
    if (is_adapter(path))
      return fmt::format(
          "{0} is a LoRA, not weights; merge it: kinora convert {1} merged.safetensors --component {2} "
          "--merge {0}, and give merged.safetensors instead",
          path.string(), base, component);
    base = path.string();
  }
  return "";
}

}  // namespace kinora::core
