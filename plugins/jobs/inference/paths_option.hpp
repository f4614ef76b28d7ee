// An option that is a list of files and folders: a member std::vector<std::filesystem::path>. The TOML may
// give one path instead of the list.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kinora/options.hpp"

namespace kinora::detail {

template <>
struct OptionType<std::filesystem::path> {
  static std::string toml(const std::filesystem::path& v) { return toml_string(v.string()); }
  static std::filesystem::path read(const kinora_options* o, const char* n, int64_t i) {
    return OptionType<std::string>::read(o, n, i);
  }
};

template <>
struct OptionType<std::vector<std::filesystem::path>> {
  static constexpr const char* name = "paths";
  static std::string toml(const std::vector<std::filesystem::path>& v) {
    std::string out = "[";
    for (size_t i = 0; i < v.size(); ++i)
      out += (i ? ", " : "") + OptionType<std::filesystem::path>::toml(v[i]);
    return out + "]";
  }
};

}  // namespace kinora::detail

namespace kinora::core {

// A file or folder of weights, or several; a later one overrides tensors of earlier ones.
using WeightsPaths = std::vector<std::filesystem::path>;

// Reads them from a job's complete options.
inline WeightsPaths weights_in(const nlohmann::json& options, const std::string& name) {
  const auto all = options.at(name).get<std::vector<std::string>>();
  return {all.begin(), all.end()};
}

}  // namespace kinora::core
