#include "plugins/jobs/curation/store.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/io/atomic_file.hpp"
#include "core/base/utf8.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// Whether the field is a result rather than a reference to the source video.
bool is_stored(std::string_view field) {
  constexpr std::array<std::string_view, 3> kLeftOut{"url", "shots.json", "ended.json"};
  return std::find(kLeftOut.begin(), kLeftOut.end(), field) == kLeftOut.end();
}

void remove_files(const fs::path& folder, const json& files) {
  std::error_code ignored;
  for (const auto& [name, size] : files.items()) fs::remove(folder / name, ignored);
}

}  // namespace

std::string problem_of_key(std::string_view key) {
  const std::string shown = valid_utf8(key);
  if (shown != key)
    return fmt::format("the key '{}' is not UTF-8; fix the stage that sets it, keys are names such as \"film-0003\"", shown);
  if (key.find('.', key.rfind('/') + 1) == key.npos) return "";
  return fmt::format(
      "the key '{}' has a dot in its last part, where field names begin; fix the stage that sets it, with '-' or '_' "
      "instead of the dot", key);
}

json store_sample(const fs::path& folder, const Sample& sample) {
  json files = json::object();
  const std::string key(sample.key());
  if (key.find('/') != std::string::npos) fs::create_directories((folder / key).parent_path());
  for (const auto& field : sample.fields()) {
    if (!is_stored(field.name)) continue;
    const std::string name = key + "." + std::string(field.name);
    const auto written = write_file_atomically(
        folder / name, {reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()});
    if (!written) remove_files(folder, files);
    or_throw(written);
    files[name] = field.bytes.size();
  }
  return files;
}

bool are_stored(const fs::path& folder, const json& files) {
  for (const auto& [name, size] : files.items()) {
    std::error_code error;
    const auto found = fs::file_size(folder / name, error);
    if (error || json(found) != size) return false;
  }
  return true;
}

void remove_all_but(const fs::path& folder, const std::unordered_set<std::string>& names) {
  std::vector<fs::path> strangers;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (!entry.is_directory() && !names.count(entry.path().lexically_relative(folder).string()))
      strangers.push_back(entry.path());
  for (const auto& path : strangers) fs::remove(path);
}

}  // namespace kinora::core
