#include "core/torch/weights/lora.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <regex>
#include <sstream>

#include <ATen/ATen.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/facts.hpp"
#include "core/base/suggest.hpp"
#include "core/io/atomic_file.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/safe_tensors.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight", kWeight = ".weight";

bool full_match(const std::string& text, const std::string& pattern) {
  // std::regex recurses for every character of pattern and name, and both may come from files.
  constexpr size_t kLongest = 1000;
  if (const size_t n = std::max(text.size(), pattern.size()); n > kLongest)
    raise(KINORA_ERROR_INVALID,
          "lora: a pattern or a module's name has {} characters; at most {} are allowed", n, kLongest);
  try {
    return std::regex_match(text, std::regex(pattern, std::regex::ECMAScript));
  } catch (const std::regex_error& e) {
    raise(KINORA_ERROR_INVALID, "lora: '{}' is not a regular expression: {}", pattern, e.what());
  }
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, at);)
    if (!one.empty()) out.push_back(one);
  return out;
}

double number(const std::string& key, const std::string& text) {
  size_t used = 0;
  double out = 0;
  try {
    out = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != text.size() || !std::isfinite(out))
    raise(KINORA_ERROR_INVALID, "lora: {}={}: expected a number", key, text);
  return out;
}

double above_zero(const std::string& key, const std::string& text) {
  const double out = number(key, text);
  if (!(out > 0)) raise(KINORA_ERROR_INVALID, "lora: {}={}: expected a number above 0", key, text);
  return out;
}

int64_t rank_of(const std::string& key, const std::string& text) {
  const double out = above_zero(key, text);
  if (out != std::floor(out) || out > 1e6)
    raise(KINORA_ERROR_INVALID, "lora: {}={}: expected a whole number up to 1,000,000", key, text);
  return static_cast<int64_t>(out);
}

// The value of the first pattern that matches a module, looked up as in PEFT.
double by_pattern(const json& config, const char* key, const std::string& module, double otherwise,
                  const fs::path& file) {
  const auto it = config.find(key);
  if (it == config.end() || !it->is_object()) return otherwise;
  try {
    for (const auto& [pattern, value] : it->items())
      if (full_match(module, "(.*\\.)?(" + pattern + ")")) return value.get<double>();
  } catch (const Error& e) {
    raise(KINORA_ERROR_DATA, "{}: {}: {}", file.string(), key, e.what());
  }
  return otherwise;
}

void refuse_other_kinds(const json& c, const fs::path& file) {
  const auto no = [&](const std::string& what) {
    raise(KINORA_ERROR_UNSUPPORTED, "{}: {}; only plain LoRA of matrices is supported: merge it with PEFT",
          file.string(), what);
  };
  if (const auto type = c.value("peft_type", std::string("LORA")); type != "LORA") no("peft_type is " + type);
  for (const char* key : {"use_dora", "fan_in_fan_out", "lora_bias"})
    if (c.contains(key) && c[key].is_boolean() && c[key].get<bool>()) no(std::string(key) + " is set");
  if (c.value("bias", std::string("none")) != "none") no("its biases are trained");
  for (const char* key : {"modules_to_save", "trainable_token_indices", "target_parameters"})
    if (c.contains(key) && !c[key].is_null() && !c[key].empty()) no(std::string(key) + " is set");
}

json read_adapter_config(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return json::object();
  json out = parse_facts(std::string(std::istreambuf_iterator<char>(in), {}));
  if (!out.is_object()) raise(KINORA_ERROR_DATA, "{}: not a JSON object, or cut off", file.string());
  refuse_other_kinds(out, file);
  return out;
}

// Sets rank, scale and modules of the matrices in `to` from the configuration.
void describe(Adapter& to, const json& config, const fs::path& file) {
  auto& o = to.options;
  o.rank = config.value("r", to.modules.begin()->second.a.size(0));
  o.alpha = config.value("lora_alpha", static_cast<double>(o.rank));
  o.rslora = config.value("use_rslora", false);
  o.dropout = config.value("lora_dropout", 0.0);
  if (o.rank < 1) raise(KINORA_ERROR_DATA, "{}: r is {}; expected at least 1", file.string(), o.rank);
  if (!(o.dropout >= 0 && o.dropout < 1))
    raise(KINORA_ERROR_DATA, "{}: lora_dropout is {}; expected at least 0 and below 1", file.string(),
          o.dropout);
  for (auto& [module, pair] : to.modules) {
    o.targets.push_back(module);
    pair.scale = o.scale(pair.a.size(0), by_pattern(config, "alpha_pattern", module, o.alpha, file));
    if (!std::isfinite(pair.scale))
      raise(KINORA_ERROR_DATA, "{}: module '{}' has no finite scale; see lora_alpha and alpha_pattern",
            file.string(), module);
  }
}

std::string without_prefix(std::string name) {
  for (const std::string_view prefix : {"base_model.model.", "transformer."})
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  return name;
}

void check_pair(const std::string& module, const Adapter::Pair& p, const fs::path& file) {
  if (!p.a.defined() || !p.b.defined())
    raise(KINORA_ERROR_DATA, "{}: module '{}' has lora_{} and no lora_{}", file.string(), module,
          p.a.defined() ? "A" : "B", p.a.defined() ? "B" : "A");
  if (p.a.dim() != 2 || p.b.dim() != 2 || p.a.size(0) != p.b.size(1))
    raise(KINORA_ERROR_UNSUPPORTED,
          "{}: module '{}': lora_A {} and lora_B {} are not [rank, in] and [out, rank]", file.string(),
          module, c10::str(p.a.sizes()), c10::str(p.b.sizes()));
}

LoraOptions given_lora(const std::string& text) {
  LoraOptions out;
  bool has_alpha = false;
  for (const auto& word : split(text, ' ')) {
    const auto equals = word.find('=');
    const std::string key = word.substr(0, equals),
                      value = equals == word.npos ? "" : word.substr(equals + 1);
    if (key == "rank") {
      out.rank = rank_of(key, value);
    } else if (key == "alpha") {
      out.alpha = above_zero(key, value), has_alpha = true;
    } else if (key == "dropout") {
      out.dropout = number(key, value);
      if (!(out.dropout >= 0 && out.dropout < 1))
        raise(KINORA_ERROR_INVALID, "lora: dropout={}: expected a number of at least 0 and below 1", value);
    } else if (key == "targets") {
      out.targets = split(value, ',');
    } else if (key == "pattern") {
      out.pattern = value;
    } else if (word == "rslora") {
      out.rslora = true;
    } else {
      raise(KINORA_ERROR_INVALID,
            "lora: unknown '{}'{} as in \"rank=16 alpha=32 targets=to_q,to_k,to_v rslora\"", word,
            did_you_mean_or_list(key, {"rank", "alpha", "dropout", "targets", "pattern", "rslora"}, "known"));
    }
  }
  if (!has_alpha) out.alpha = static_cast<double>(out.rank);
  if (out.targets.empty() == out.pattern.empty())
    raise(
        KINORA_ERROR_INVALID,
        "lora: {}; give targets=NAME,NAME (ends of the modules' names, such as linear_qkv) or pattern=REGEX",
        out.targets.empty() ? "no modules are given" : "targets and pattern are both given");
  return out;
}

}  // namespace

double LoraOptions::scale(int64_t r, double a) const {
  const auto size = static_cast<double>(r);
  return a / (rslora ? std::sqrt(size) : size);
}

bool LoraOptions::is_target(const std::string& module) const {
  if (!pattern.empty()) return full_match(module, pattern);
  for (const auto& t : targets)
    if (module == t || module.ends_with("." + t)) return true;
  return false;
}

LoraOptions parse_lora(const std::string& text) {
  std::error_code ignored;
  const bool is_path = text.find('=') == std::string::npos && text.find('/') != std::string::npos;
  if (!is_path && !fs::exists(text, ignored)) return given_lora(text);
  const Adapter adapter = read_adapter(text);
  for (const auto& [module, pair] : adapter.modules)
    if (pair.a.size(0) != adapter.options.rank || pair.scale != adapter.options.scale())
      raise(KINORA_ERROR_UNSUPPORTED,
            "{}: module '{}' has a rank or alpha of its own; merge it (kinora convert --merge)", text,
            module);
  return adapter.options;
}

std::string lora_a(const std::string& module) { return module + std::string(kA); }
std::string lora_b(const std::string& module) { return module + std::string(kB); }
bool is_lora(const std::string& p) { return p.ends_with(kA) || p.ends_with(kB); }
std::string module_of(const std::string& p) {
  return p.ends_with(kWeight) && !is_lora(p) ? p.substr(0, p.size() - kWeight.size()) : "";
}

at::Tensor Adapter::product(const Pair& p, at::ScalarType dtype) {
  const auto exact = dtype == at::kDouble ? at::kDouble : at::kFloat;
  return at::mm(p.b.to(exact), p.a.to(exact)) * p.scale;
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
  return weight.to(change.scalar_type()).add(change).to(weight.scalar_type());
}

Adapter read_adapter(const fs::path& path) {
  const fs::path file = fs::is_directory(path) ? path / "adapter_model.safetensors" : path;
  if (std::error_code ignored; !fs::exists(file, ignored))
    raise(KINORA_ERROR_NOT_FOUND, "adapter {}: {} does not exist; give a PEFT folder or its safetensors file",
          path.string(), file.string());
  const auto opened = or_throw(Safetensors::open(file));
  Adapter out;
  for (const auto& t : opened.tensors()) {
    const std::string name = without_prefix(t.name);
    if (!is_lora(name))
      raise(KINORA_ERROR_UNSUPPORTED,
            "{}: tensor '{}' is neither MODULE.lora_A.weight nor MODULE.lora_B.weight", file.string(),
            t.name);
    auto& pair = out.modules[name.substr(0, name.size() - kA.size())];
    (name.ends_with(kA) ? pair.a : pair.b) = as_tensor(opened, t);
  }
  if (out.modules.empty()) raise(KINORA_ERROR_DATA, "{}: contains no adapter", file.string());
  for (const auto& [module, pair] : out.modules) check_pair(module, pair, file);
  const fs::path beside = file.parent_path() / "adapter_config.json";
  try {
    describe(out, read_adapter_config(beside), beside);
  } catch (const json::exception& e) {
    raise(KINORA_ERROR_DATA, "{}: {}", beside.string(), e.what());
  }
  return out;
}

void write_adapter(const fs::path& folder, const LoraOptions& o,
                   const std::map<std::string, Adapter::Pair>& pairs, const std::string& base_model) {
  NamedTensors tensors;
  std::vector<std::string> modules;
  for (const auto& [module, pair] : pairs) {
    tensors["base_model.model." + lora_a(module)] = pair.a;
    tensors["base_model.model." + lora_b(module)] = pair.b;
    modules.push_back(module);
  }
  const json config = {{"peft_type", "LORA"},
                       {"task_type", nullptr},
                       {"r", o.rank},
                       {"lora_alpha", o.alpha},
                       {"lora_dropout", o.dropout},
                       {"use_rslora", o.rslora},
                       {"target_modules", modules},
                       {"bias", "none"},
                       {"fan_in_fan_out", false},
                       {"modules_to_save", nullptr},
                       {"inference_mode", true},
                       {"base_model_name_or_path", base_model.empty() ? json(nullptr) : json(base_model)}};
  fs::create_directories(folder);
  write_tensors(folder / "adapter_model.safetensors", tensors, {{"format", "pt"}});
  or_throw(write_file_atomically(folder / "adapter_config.json", config.dump(2) + "\n"));
}

}  // namespace kinora::core
