#include "core/run/inputs.hpp"

#include <algorithm>
#include <glob.h>

#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/base/quantity.hpp"
#include "core/base/suggest.hpp"
#include "core/io/wildcard.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> globbed(const fs::path& pattern) {
  glob_t found{};
  std::vector<std::string> out;
  if (glob(pattern.c_str(), GLOB_TILDE, nullptr, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; ++i)
      out.push_back(fs::path(found.gl_pathv[i]).lexically_normal().string());
  globfree(&found);
  return out;
}

std::vector<std::string> expand_in(const fs::path& base, const std::string& pattern) {
  const fs::path path = (base / pattern).lexically_normal();
  std::error_code error;
  if (fs::exists(path, error)) return {path.string()};
  std::vector<std::string> unreadable;
  auto found = pattern.find("**") == std::string::npos ? globbed(path)
                                                       : local_files_matching(path.string(), unreadable);
  if (!unreadable.empty())
    log_warn("{}: cannot read {}, the first is {}; their videos are missing", pattern,
             counted(static_cast<int64_t>(unreadable.size()), "folder", "folders"), unreadable.front());
  return found;
}

// The folders in which a relative path was searched, in words.
std::string looked_in(const fs::path& run_file, const std::string& input) {
  const std::string here = fs::current_path().string(), there = run_file.parent_path().string();
  if (input.starts_with("~/")) return " in " + environment("HOME");
  if (input.starts_with('~'))
    return " in " + here + " ('~' alone and '~NAME' are not expanded; write the path in full)";
  return fs::path(input).is_absolute() ? "" : " in " + here + (here == there ? "" : " or in " + there);
}

}  // namespace

std::vector<std::string> expand_input(const fs::path& run_file, const std::string& pattern) {
  if (const auto uri = parse_uri(pattern); uri && pattern.find("://") != std::string::npos)
    return {uri->scheme == "file" ? uri->path : pattern};
  if (const std::string home = environment("HOME"); pattern.starts_with("~/") && !home.empty())
    return expand_in(home, pattern.substr(2));  // as in options that are paths
  if (auto found = expand_in(run_file.parent_path(), pattern);
      !found.empty() || fs::path(pattern).is_absolute())
    return found;
  auto found = expand_in(fs::current_path(), pattern);
  if (!found.empty())
    log_warn("input '{}': not found in {}, the run file's folder; taken from the working directory {}",
             pattern, run_file.parent_path().string(), fs::current_path().string());
  return found;
}

std::string explain_missing_input(const fs::path& run_file, const std::string& input,
                                  const std::vector<std::string>& jobs) {
  if (!is_pattern(input)) {
    const std::string near = did_you_mean(input, jobs);
    return "no such file, folder or earlier job: '" + input + "'" + looked_in(run_file, input) +
           (near.empty() ? "; fix the path" : near);
  }
  return "input: no file matches '" + input + "'" + looked_in(run_file, input) +
         "; fix the pattern, or give a folder, a list or an s3:// prefix";
}

bool is_uri(std::string_view text) {
  const auto uri = parse_uri(text);
  return text.find("://") != text.npos && (!uri || uri->scheme != "file" || text.starts_with("file:"));
}

Status check_uri(const Registry& registry, std::string_view text) {
  const auto uri = parse_uri(text);
  if (!uri) return uri.failure();
  const auto found = registry.find("storage", uri->scheme);
  if (!found) return fail(found.failure().code, "{}: {}", text, found.failure().message);
  if (is_web(text) && (uri->path.empty() || uri->path.front() == '/'))
    return fail(KINORA_ERROR_INVALID, "{}: it names no server; write {}://HOST/FOLDER", text, uri->scheme);
  if (uri->scheme != "s3") return {};  // paths of other storages are their own
  // The bucket may become part of a host name.
  const std::string bucket = uri->path.substr(0, uri->path.find('/'));
  const auto ok = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
  };
  if (bucket.empty())
    return fail(KINORA_ERROR_INVALID, "{}: it names no bucket; write {}://BUCKET/FOLDER/", text, uri->scheme);
  if (bucket.size() < 3 || bucket.size() > 63 || !std::all_of(bucket.begin(), bucket.end(), ok))
    return fail(KINORA_ERROR_INVALID,
                "{}: '{}' is not a bucket name (3 to 63 letters, digits, '-', '_' and '.'); write "
                "{}://BUCKET/FOLDER/",
                text, bucket, uri->scheme);
  return {};
}

std::vector<ComponentUse> read_storages(const Document& doc, const Registry& registry,
                                        const std::filesystem::path& base,
                                        std::vector<Diagnostic>& problems) {
  std::vector<ComponentUse> out;
  const json all = doc.root().value("storage", json::object());
  if (!all.is_object()) {
    problems.push_back({doc.key("/storage"), "'storage' must be a table, as [storage.s3]"});
    return out;
  }
  for (const auto& [scheme, options] : all.items()) {
    const std::string pointer = "/storage/" + scheme;
    if (!options.is_object()) {
      problems.push_back(
          {doc.key(pointer), "'storage." + scheme + "' must be a table, as [storage." + scheme + "]"});
      continue;
    }
    json given = options;
    given["use"] = scheme;
    if (auto use = read_component(doc, registry, pointer, "storage", base, problems, given)) {
      use->slot = scheme;
      out.push_back(std::move(*use));
    }
  }
  return out;
}

void configure_storages(Io& io, const RunFile& run, std::vector<Diagnostic>& problems) {
  for (const auto& use : run.storages) {
    io.configure(use.slot, use.options.values());
    const auto made = io.store(use.slot);
    if (!made) problems.push_back({use.at, "storage." + use.slot + ": " + made.failure().message});
  }
}

}  // namespace kinora::core
