// WebDataset: shards are tar archives, and neighbouring files with the same key are the fields of one sample.
//
//   shard-000000.tar: video-1.mp4 video-1.json video-2.mp4 video-2.json ...  key "video-1" has the fields mp4 and json
//   shard-000000.tar.idx                                                 Energon: where each sample begins
//   .nv-meta/.info.json                                                  Energon: the shards, with counts of samples
//
// A name is split at the first dot of its last part: "a.b/clip.shots.json" is the key "a.b/clip" and the
// field "shots.json". Readers take a field without a dot in lower case, as webdataset does with all. A
// leading "./", as of `tar -cf x.tar .`, is left out. Names without a dot, and those with a part __x__ at the
// front, are not samples and are skipped. webdataset_files.hpp finds the shards, webdataset_reader.hpp reads
// one, energon.hpp indexes one.
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kinora/sample.hpp"

KINORA_SDK_BEGIN

namespace kinora {

struct WebDatasetLimits {
  uint64_t sample_bytes = uint64_t{1} << 32;  // of all fields of a sample: bounds the memory
  bool need_end = true;                       // an archive without its end-of-archive block counts as cut off
};

// A sample's position: bytes [offset, offset + size) of the shard, headers included.
struct WebDatasetEntry {
  std::string key;
  std::string shard;  // path or URI
  uint64_t offset = 0, size = 0;
};

struct WebDatasetSample {
  WebDatasetEntry where;
  struct Field {
    std::string name;
    std::vector<uint8_t> bytes;
  };
  std::vector<Field> fields;

  const std::string& key() const { return where.key; }
  // Null if there is no such field.
  const Field* find(std::string_view name) const {
    const auto at =
        std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == name; });
    return at == fields.end() ? nullptr : &*at;
  }
};

// For stages and engines; keeps the memory instead of copying it. Throws Error(KINORA_ERROR_DATA) with shard and
// offset for a key or a field that a sample cannot have.
inline Sample to_sample(WebDatasetSample&& from) {
  try {
    Sample out(from.key());
    for (auto& field : from.fields) out.set(field.name.c_str(), std::move(field.bytes));
    return out;
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_INVALID) throw;
    throw Error(KINORA_ERROR_DATA, from.where.shard + ": " + e.what() + " (the sample at byte " +
                                       std::to_string(from.where.offset) + ")");
  }
}

// Key and field of a member, or nothing if it is not part of a sample.
struct WebDatasetName {
  std::string_view key, field;
};
inline std::optional<WebDatasetName> split_member_name(std::string_view name) {
  while (name.starts_with("./")) name.remove_prefix(2);
  if (name.starts_with("__")) {  // "__x__", to a slash or the end
    const std::string_view part = name.substr(0, name.find('/'));
    if (part.size() >= 4 && part.ends_with("__")) return std::nullopt;
  }
  const size_t slash = name.rfind('/'), base = slash == std::string_view::npos ? 0 : slash + 1;
  const size_t dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == base) return std::nullopt;
  return WebDatasetName{name.substr(0, dot), name.substr(dot + 1)};
}

// The name of a field as readers take it: "MP4" is "mp4". One with a dot, such as "CLIP.npy", has a name of its user's.
inline std::string field_name(std::string_view written) {
  std::string out(written);
  if (out.find('.') != std::string::npos) return out;
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

}  // namespace kinora

KINORA_SDK_END
