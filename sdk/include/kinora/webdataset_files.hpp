// The shards of a WebDataset: the *.tar files of a folder, or those that a pattern names. Needs nlohmann-json.
#pragma once
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "kinora/io.hpp"

KINORA_SDK_BEGIN

namespace kinora {

struct WebDatasetFile {
  std::string uri;
  std::optional<uint64_t> samples;  // their number, if Energon's .info.json says
};

namespace detail {

// "000..012" with the width of the wider number if one begins with 0, or "a,b".
inline std::vector<std::string> brace_choices(std::string_view pattern, std::string_view inside) {
  constexpr uint64_t kMost = 1'000'000;
  const auto refuse = [&](const std::string& why) -> void {
    throw Error(KINORA_ERROR_INVALID, std::string(pattern) + ": {" + std::string(inside) + "} " + why);
  };
  std::vector<std::string> out;
  if (const size_t dots = inside.find(".."); dots != std::string_view::npos) {
    const std::string_view low = inside.substr(0, dots), high = inside.substr(dots + 2);
    uint64_t from = 0, to = 0;
    const auto number = [](std::string_view text, uint64_t& value) {
      return std::from_chars(text.data(), text.data() + text.size(), value).ptr ==
                 text.data() + text.size() &&
             !text.empty();
    };
    if (!number(low, from) || !number(high, to) || from > to)
      refuse("is not a range of numbers such as {000000..000012}");
    if (to - from >= kMost) refuse("names more than 1000000 shards; give a folder");
    const bool padded = (low.size() > 1 && low[0] == '0') || (high.size() > 1 && high[0] == '0');
    const size_t width = padded ? std::max(low.size(), high.size()) : 0;
    for (uint64_t i = 0; i <= to - from; ++i) {
      const std::string text = std::to_string(from + i);
      out.push_back(std::string(width - std::min(width, text.size()), '0') + text);
    }
    return out;
  }
  for (size_t begin = 0; begin <= inside.size();) {
    const size_t end = std::min(inside.find(',', begin), inside.size());
    out.emplace_back(inside.substr(begin, end - begin));
    begin = end + 1;
  }
  if (out.size() < 2) refuse("is neither a range {000..012} nor a list {a,b}");
  return out;
}

}  // namespace detail

// The names that a pattern such as "s-{000..012}.tar" or "{a,b}/s-0.tar" stands for, the last group fastest.
// Throws Error(KINORA_ERROR_INVALID).
inline std::vector<std::string> expand_braces(std::string_view pattern) {
  const size_t open = pattern.find('{');
  if (open == std::string_view::npos) return {std::string(pattern)};
  const size_t close = pattern.find('}', open);
  if (close == std::string_view::npos)
    throw Error(KINORA_ERROR_INVALID,
                std::string(pattern) + ": a { without its }; write shard-{000..012}.tar");
  const auto choices = detail::brace_choices(pattern, pattern.substr(open + 1, close - open - 1));
  const auto tails = expand_braces(pattern.substr(close + 1));
  if (choices.size() * tails.size() > 1'000'000)
    throw Error(KINORA_ERROR_INVALID, std::string(pattern) + ": more than 1000000 shards; give a folder");
  std::vector<std::string> out;
  for (const auto& choice : choices)
    for (const auto& tail : tails) out.push_back(std::string(pattern.substr(0, open)) + choice + tail);
  return out;
}

namespace detail {

inline bool has_scheme(std::string_view uri) { return uri.find("://") != std::string_view::npos; }

// .nv-meta/.info.json of a folder; nothing if it has none.
inline std::optional<std::string> info_of(const std::string& folder) {
  constexpr uint64_t kMost = uint64_t{1} << 28;  // enough for some millions of shards
  const std::string name = folder + "/.nv-meta/.info.json";
  const auto bounded = [&](uint64_t size) {
    if (size > kMost)
      throw Error(KINORA_ERROR_DATA, name + ": " + std::to_string(size) + " bytes where at most " +
                                         std::to_string(kMost) + " are expected; is it the right file?");
    return std::string(size, '\0');
  };
  if (!has_scheme(folder)) {
    std::error_code absent;
    if (!std::filesystem::is_regular_file(name, absent)) return std::nullopt;
    std::string text = bounded(std::filesystem::file_size(name));
    std::ifstream in(name, std::ios::binary);
    if (!in.read(text.data(), static_cast<std::streamsize>(text.size())))
      throw Error(KINORA_ERROR_IO, name + ": cannot be read; check its permissions");
    return text;
  }
  try {
    const RandomBytes bytes = RandomBytes::of_file(name);
    std::string text = bounded(bytes.size);
    text.resize(bytes.read(0, text.data(), text.size()));
    return text;
  } catch (const Error& e) {
    if (e.code() == KINORA_ERROR_NOT_FOUND) return std::nullopt;
    throw;
  }
}

// Names in .info.json must lead to files below the folder, never out of it.
inline bool stays_inside(std::string_view name) {
  const std::filesystem::path path(name);
  return !name.empty() && !path.is_absolute() && std::find(path.begin(), path.end(), "..") == path.end();
}

inline std::vector<WebDatasetFile> files_of_info(const std::string& folder, const std::string& text) {
  const auto info = nlohmann::ordered_json::parse(text, nullptr, false);
  const std::string name = folder + "/.nv-meta/.info.json",
                    remedy = "; copy the folder again, or run the job that made it again";
  if (!info.is_object() || !info.contains("shard_counts") || !info["shard_counts"].is_object())
    throw Error(KINORA_ERROR_DATA, name + ": no object \"shard_counts\"" + remedy);
  std::vector<WebDatasetFile> out;
  for (const auto& [shard, count] : info["shard_counts"].items()) {
    if (!stays_inside(shard))
      throw Error(KINORA_ERROR_DATA, name + ": '" + shard + "' is not a name below the folder" + remedy);
    out.push_back({folder + "/" + shard, {}});
    if (count.is_number_unsigned()) out.back().samples = count.get<uint64_t>();
  }
  return out;
}

inline std::vector<std::string> names_in(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    out.push_back(at->path().filename().string());
  if (error)
    throw Error(KINORA_ERROR_NOT_FOUND,
                folder + ": cannot be listed (" + error.message() + "); give a folder of shards");
  return out;
}

}  // namespace detail

// Names of the files that a folder on another storage contains.
using ListFolder = std::function<std::vector<std::string>(const std::string& uri)>;

// The shards that `path` stands for: a .tar file, itself; a pattern with braces, its names in their order; a
// folder, the files that its .nv-meta/.info.json names, in its order, else its *.tar files by name. A path may
// be a URI, "s3://bucket/shards"; without `list` such a folder needs its .info.json. Throws Error.
inline std::vector<WebDatasetFile> webdataset_files(std::string_view path, const ListFolder& list = {}) {
  const bool remote = detail::has_scheme(path);
  while (remote && path.ends_with('/') && !path.ends_with("://")) path.remove_suffix(1);
  const std::string folder(path);
  std::error_code error;
  if (path.find('{') != std::string_view::npos && (remote || !std::filesystem::exists(folder, error))) {
    std::vector<WebDatasetFile> out;
    for (auto& name : expand_braces(path)) out.push_back({std::move(name), {}});
    return out;
  }
  if (remote ? path.ends_with(".tar") : std::filesystem::is_regular_file(folder, error))
    return {{folder, {}}};
  if (const auto info = detail::info_of(folder)) return detail::files_of_info(folder, *info);
  if (remote && !list)
    throw Error(KINORA_ERROR_UNSUPPORTED,
                folder +
                    ": no .nv-meta/.info.json, and folders of this storage cannot be listed here; give a "
                    "pattern such as " +
                    folder + "/shard-{000000..000012}.tar");
  std::vector<std::string> names = remote ? list(folder) : detail::names_in(folder);
  std::sort(names.begin(), names.end());
  std::vector<WebDatasetFile> out;
  for (const auto& name : names)
    if (name.ends_with(".tar") && name.front() != '.')
      out.push_back({folder + (folder.ends_with('/') ? "" : "/") + name, {}});
  if (out.empty()) throw Error(KINORA_ERROR_NOT_FOUND, folder + ": no .tar files; give a folder of shards");
  return out;
}

}  // namespace kinora

KINORA_SDK_END
