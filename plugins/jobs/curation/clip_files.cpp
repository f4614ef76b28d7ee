#include "plugins/jobs/curation/clip_files.hpp"

#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>

#include "core/base/facts.hpp"
#include "core/io/atomic_file.hpp"
#include "kinora/bins.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// Whether the field is a result rather than a reference to the source video.
bool is_result(std::string_view field) {
  constexpr std::array<std::string_view, 3> kLeftOut{"url", "shots.json", "ended.json"};
  return std::find(kLeftOut.begin(), kLeftOut.end(), field) == kLeftOut.end();
}

Status write_field(const fs::path& name, std::span<const uint8_t> bytes) {
  auto file = AtomicFile::create(name);
  if (!file) return file.failure();
  if (auto status = file->write(bytes.data(), bytes.size()); !status) return status;
  return file->commit(false);
}

void remove_files(const fs::path& folder, const json& files) {
  std::error_code ignored;
  for (const auto& [name, size] : files.items()) fs::remove(folder / name, ignored);
}

// The name that the fact `bin` gives, since its text becomes a folder's name; else what is measured.
std::string name_of(const nlohmann::json& bin, const char* what, const std::string& measured) {
  const std::string said = text_in(bin, what);
  const bool is_name = std::all_of(said.begin(), said.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  });
  return said.empty() || !is_name ? measured : said;
}

}  // namespace

std::map<std::string, ClipFields> clips_in(const std::filesystem::path& data) {
  std::error_code error;
  std::map<std::string, ClipFields> out;
  for (std::filesystem::recursive_directory_iterator at(data, error), end; !error && at != end;
       at.increment(error)) {
    const std::filesystem::path name = at->path().lexically_relative(data);
    const std::string file = name.filename().string();
    const auto dot = file.find('.');
    if (dot == 0 || dot == file.npos || at->is_directory()) continue;
    out[(name.parent_path() / file.substr(0, dot)).string()][file.substr(dot + 1)] = at->path();
  }
  if (error)
    throw Error(KINORA_ERROR_IO, data.string() + ": the clips cannot be read (" + error.message() +
                                     "); run the curate job again");
  return out;
}

std::string problem_of_key(std::string_view key) {
  const std::string shown = valid_utf8(key);
  if (shown != key)
    return fmt::format(
        "the key '{}' is not UTF-8; fix the stage that sets it, keys are names such as \"video-0003\"",
        shown);
  if (key.find('.', key.rfind('/') + 1) == key.npos) return "";
  return fmt::format(
      "the key '{}' has a dot in its last part, where field names begin; fix the stage that sets it, with "
      "'-' or '_' instead of the dot",
      key);
}

json store_sample(const fs::path& folder, const Sample& sample) {
  json files = json::object();
  const std::string key(sample.key());
  if (key.find('/') != std::string::npos) fs::create_directories((folder / key).parent_path());
  for (const auto& field : sample.fields()) {
    if (!is_result(field.name)) continue;
    const std::string name = key + "." + std::string(field.name);
    const auto written = write_field(folder / name, field.bytes);
    if (!written) remove_files(folder, files);
    or_throw(written);
    files[name] = field.bytes.size();
  }
  return files;
}

bool is_inside(const fs::path& name) {
  return name.is_relative() && std::find(name.begin(), name.end(), "..") == name.end();
}

bool is_stored(const fs::path& folder, const std::string& name, int64_t size) {
  if (!is_inside(name)) return false;
  std::error_code error;
  const auto found = fs::file_size(folder / name, error);
  return !error && static_cast<int64_t>(found) == size;
}

void remove_stored(const fs::path& folder, const std::vector<std::string>& names) {
  for (const auto& name : names)
    if (is_inside(name)) fs::remove(folder / name);
}

void remove_unless(const fs::path& folder, const std::function<bool(const std::string&)>& is_known) {
  std::vector<fs::path> strangers;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (!entry.is_directory() && !is_known(entry.path().lexically_relative(folder).string()))
      strangers.push_back(entry.path());
  for (const auto& path : strangers) fs::remove(path);
}

std::string bin_of(const nlohmann::json& facts) {
  const double height = number_in(facts, "height"), seconds = number_in(facts, "duration_s"),
               pixel = number_in(facts, "sample_aspect"),
               width = number_in(facts, "width") * (pixel > 0 ? pixel : 1);
  const bool is_picture = !text_in(facts, "picture").empty();
  if (!(width > 0) || !(height > 0) || !(seconds > 0 || is_picture)) return "";
  const auto& said = object_in(facts, "bin");
  const Bin bin = kinora::bin_of(width, height, seconds);
  return fmt::format(
      "resolution_{}/aspect_ratio_{}/{}", name_of(said, "resolution", bin.resolution),
      name_of(said, "aspect", bin.aspect.value_or("other")),
      is_picture ? "picture" : "duration_" + name_of(said, "duration", bin.duration.value_or("0_5")));
}

}  // namespace kinora::core
