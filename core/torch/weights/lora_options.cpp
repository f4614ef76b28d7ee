// The options of a LoRA, as a training job gives them.
#include <algorithm>
#include <cmath>
#include <regex>
#include <sstream>

#include "core/base/suggest.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/lora.hpp"

namespace kinora::core {
namespace {

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
  if (!is_path && !std::filesystem::exists(text, ignored)) return given_lora(text);
  const Adapter adapter = read_adapter(text);
  if (!adapter.differences.empty())
    raise(KINORA_ERROR_UNSUPPORTED,
          "{}: holds whole differences of {} parameters, such as '{}', next to its matrices, and these are "
          "not trained; merge "
          "it (kinora convert --merge)",
          text, adapter.differences.size(), adapter.differences.begin()->first);
  for (const auto& [module, pair] : adapter.modules)
    if (pair.a.size(0) != adapter.options.rank || pair.scale != adapter.options.scale())
      raise(KINORA_ERROR_UNSUPPORTED,
            "{}: module '{}' has a rank or alpha of its own; merge it (kinora convert --merge)", text,
            module);
  return adapter.options;
}

}  // namespace kinora::core
