#include "core/run/storages.hpp"

#include <algorithm>

namespace kinora::core {

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

bool is_uri(std::string_view text) {
  const auto uri = parse_uri(text);
  return text.find("://") != text.npos && (!uri || uri->scheme != "file" || text.starts_with("file:"));
}

Status check_uri(const Registry& registry, std::string_view text) {
  const auto uri = parse_uri(text);
  if (!uri) return uri.failure();
  const auto found = registry.find("storage", uri->scheme);
  if (!found) return fail(found.failure().code, "{}: {}", text, found.failure().message);
  if (uri->scheme == "file") return {};
  // The bucket may become part of a host name, whatever the storage.
  const std::string bucket = uri->path.substr(0, uri->path.find('/'));
  const auto ok = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
  };
  if (bucket.empty())
    return fail(KINORA_ERROR_INVALID, "{}: it names no bucket; write {}://BUCKET/FOLDER/", text, uri->scheme);
  if (bucket.size() < 3 || bucket.size() > 63 || !std::all_of(bucket.begin(), bucket.end(), ok))
    return fail(
        KINORA_ERROR_INVALID,
        "{}: '{}' is not a bucket name (3 to 63 letters, digits, '-' and '.'); write {}://BUCKET/FOLDER/",
        text, bucket, uri->scheme);
  return {};
}

}  // namespace kinora::core
