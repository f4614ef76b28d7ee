#include "plugins/jobs/inference/loras.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/suggest.hpp"
#include "host/weights/weights.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

[[noreturn]] void refuse_lora(const std::string& why) { throw Error(KINORA_ERROR_INVALID, why); }

LoraFile lora_file(const std::string& text, const fs::path& folder) {
  const json given = json::parse(text, nullptr, false);
  const std::string expected = "; a LoRA is a table such as { name = \"toon\", file = \"toon.safetensors\" }";
  if (!given.is_object()) refuse_lora("loras: " + text + " must be a table" + expected);
  LoraFile out;
  for (const auto& [key, value] : given.items()) {
    if (key == "name" && value.is_string())
      out.name = value;
    else if (key == "file" && value.is_string())
      out.file = folder / value.get<std::string>();
    else if (key == "file_2" && value.is_string())
      out.file_2 = folder / value.get<std::string>();
    else if (key == "scale" && value.is_number() && std::isfinite(value.get<double>()))
      out.scale = value;
    else
      refuse_lora(fmt::format("loras: '{}' is unknown or has a wrong value{}; file_2 and scale may be added",
                              key, expected));
  }
  if (out.name.empty() || out.name.find('=') != std::string::npos)
    refuse_lora("loras: expected a name without '='" + expected);
  if (out.file.empty()) refuse_lora("loras: '" + out.name + "' has no file" + expected);
  return out;
}

// A file, or those of a folder that an adapter consists of.
void add_lora_files(const fs::path& path, std::vector<fs::path>& out) {
  if (path.empty()) return;
  if (!fs::is_directory(path)) return out.push_back(path);
  std::set<fs::path> sorted;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.path().extension() == ".safetensors" || entry.path().filename() == "adapter_config.json")
      sorted.insert(entry.path());
  out.insert(out.end(), sorted.begin(), sorted.end());
}

}  // namespace

std::vector<LoraFile> lora_files(const std::vector<std::string>& texts, const fs::path& folder) {
  std::vector<LoraFile> out;
  for (const auto& text : texts) {
    out.push_back(lora_file(text, folder));
    const auto same = [&](const LoraFile& one) { return one.name == out.back().name; };
    if (std::count_if(out.begin(), out.end(), same) > 1)
      refuse_lora("loras: two are called '" + out.back().name + "'");
  }
  return out;
}

LoraUse lora_use(const std::string& text, const std::vector<LoraFile>& files) {
  if (text.empty()) return {};
  const size_t equals = text.find('=');
  LoraUse out{.name = text.substr(0, equals)};
  std::vector<std::string> names;
  for (const auto& one : files) names.push_back(one.name);
  const auto at = std::find(names.begin(), names.end(), out.name);
  if (at == names.end())
    refuse_lora(fmt::format(
        "lora: unknown LoRA '{}'{}; {}", out.name, did_you_mean(out.name, names),
        names.empty() ? "this model has none (loras)" : fmt::format("there are {}", fmt::join(names, ", "))));
  out.scale = files[static_cast<size_t>(at - names.begin())].scale;
  if (equals == std::string::npos) return out;
  const char *begin = text.data() + equals + 1, *end = text.data() + text.size();
  const auto read = std::from_chars(begin, end, out.scale);
  if (read.ec != std::errc() || read.ptr != end || !std::isfinite(out.scale))
    refuse_lora("lora: " + text + ": expected NAME or NAME=SCALE, such as toon=0.7");
  return out;
}

std::string text_of(const LoraUse& use) {
  return use.name.empty() ? "" : fmt::format("{}={}", use.name, use.scale);
}

std::string digest_of(const LoraFile& lora, const fs::path& kept) {
  std::vector<fs::path> files;
  add_lora_files(lora.file, files);
  add_lora_files(lora.file_2, files);
  return weights_digest(files, kept);
}

}  // namespace kinora::core
