#include "plugins/engines/common/coders.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <unistd.h>

namespace kinora::engines {
namespace {

struct Model {
  std::string_view name;  // a word of it
  Coders has;             // of one GPU
};

// NVIDIA, Video Encode and Decode GPU Support Matrix.
constexpr Model kModels[] = {
    {"V100", {1, 3}}, {"T4", {2, 1}},    {"A2", {2, 1}},   {"A10", {2, 1}},   {"A16", {2, 1}},
    {"A30", {4, 0}},  {"A40", {2, 1}},   {"A100", {5, 0}}, {"A800", {5, 0}},  {"L4", {4, 2}},
    {"L40", {3, 3}},  {"L40S", {3, 3}},  {"H20", {7, 0}},  {"H100", {7, 0}},  {"H200", {7, 0}},
    {"H800", {7, 0}}, {"GH200", {7, 0}}, {"B200", {7, 0}}, {"GB200", {7, 0}},
};

bool is_in_word(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

// The value of "NAME:  VALUE"; empty if the line has another name.
std::string value_of(const std::string& line, std::string_view name) {
  if (!line.starts_with(name)) return "";
  const size_t begin = line.find_first_not_of(": \t", name.size());
  return begin == line.npos ? "" : line.substr(begin);
}

// By the number in /dev/nvidiaN.
std::map<int, std::string> models_of_driver(const std::string& root) {
  std::map<int, std::string> out;
  std::error_code none;
  for (const auto& gpu : std::filesystem::directory_iterator(root + "/proc/driver/nvidia/gpus", none)) {
    std::string model, number;
    std::ifstream file(gpu.path() / "information");
    for (std::string line; std::getline(file, line);) {
      if (auto value = value_of(line, "Model"); !value.empty()) model = std::move(value);
      if (auto value = value_of(line, "Device Minor"); !value.empty()) number = std::move(value);
    }
    int n = -1;
    std::from_chars(number.data(), number.data() + number.size(), n);
    if (n >= 0) out[n] = std::move(model);
  }
  return out;
}

}  // namespace

Coders coders_of(std::string_view model) {
  for (size_t begin = 0; begin < model.size();) {
    size_t end = begin;
    while (end < model.size() && is_in_word(model[end])) ++end;
    const auto word = model.substr(begin, end - begin);
    const auto at = std::find_if(std::begin(kModels), std::end(kModels),
                                 [&](const Model& known) { return known.name == word; });
    if (at != std::end(kModels)) return at->has;
    begin = end + 1;
  }
  return {};
}

std::vector<std::string> gpus_seen(const std::string& root) {
  std::vector<std::string> out;
  std::map<int, std::string> models = models_of_driver(root);
  for (int n = 0; ::access((root + "/dev/nvidia" + std::to_string(n)).c_str(), R_OK | W_OK) == 0; ++n)
    out.push_back(models[n]);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!visible) return out;
  const std::string_view names(visible);
  const auto named = names.empty() ? 0 : 1 + std::count(names.begin(), names.end(), ',');
  out.resize(std::min(out.size(), static_cast<size_t>(named)));
  return out;
}

}  // namespace kinora::engines
