// Finds the clips nearest to a text or to a clip, and those that a search hides.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "core/runtime/runtime.hpp"
#include "plugins/jobs/curation/search/collection.hpp"

namespace kinora::core {

struct Hit {
  ClipRef clip;
  double score = 0;  // cosine
};

// That no caption matches a text, if the score of the nearest one says so; "" if one may.
std::string nothing_matches(const Embedded& captions, double best);

// Cosine of every row with `query`; 0 where either has length 0. Throws Error(KINORA_ERROR_INVALID) if the
// query has another size.
std::vector<double> cosines(const Embedded& among, std::span<const float> query);

// The `count` rows with the greatest cosine with `query`, greatest first; ties by the smaller key. `except`:
// a row to leave out, -1: none.
std::vector<Hit> nearest(const Embedded& among, std::span<const float> query, size_t count,
                         int64_t except = -1);

// A video file as embed.classic with its defaults sees it, at two frames per second. Its motion is comparable
// to clips that were sampled alike; colours and gradients do not depend on the sampling.
std::vector<float> video_query(Runtime&, const std::filesystem::path& file);

// The row of the clip with this key, -1 if there is none.
int64_t row_of(const Embedded&, const std::string& key);

// copy: a dedup job leaves the clip out as a copy of another one; rejected: a person rejected it.
enum class Standing : uint8_t { used, copy, rejected };

// [owner-thread] The standing of clips, read once for each data folder.
class Standings {
 public:
  // For a clip that is both, the person's decision counts. Throws Error(KINORA_ERROR_DATA) if edits.jsonl
  // cannot be read.
  Standing of(const ClipRef&);

 private:
  struct Folder {
    std::set<std::string> copies, rejected;  // keys
  };
  std::map<std::filesystem::path, Folder> folders_;
};

// The rows of the clips for which `is_wanted` holds.
Embedded those(Embedded all, const std::function<bool(const ClipRef&)>& is_wanted);

}  // namespace kinora::core
