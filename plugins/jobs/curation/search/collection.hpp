// The clips of curate jobs with their stored embeddings, for search.
#pragma once
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "plugins/jobs/curation/edits.hpp"

namespace kinora::core {

struct ClipRef {
  std::string key;
  std::filesystem::path folder;  // the data folder of its curate job
  std::filesystem::path media() const { return folder / (key + ".mp4"); }
};

// The captions of clips with people's edits: changes in the studio override what the curate job wrote.
class Captions {
 public:
  // "" if it has none. Throws Error(KINORA_ERROR_DATA) if edits.jsonl cannot be read.
  std::string of(const ClipRef&);

 private:
  std::map<std::filesystem::path, EditHistory> edits_;  // by folder
};

// Why there is no search by words over the clips of the curate job in this folder, and what to do; its run file may
// have a job for it that has not run yet.
std::string why_no_captions(const std::filesystem::path& job);

// One embedding of many clips: row i of vectors [clips, size], of length 1, belongs to clips[i].
struct Embedded {
  std::vector<ClipRef> clips;
  std::vector<float> vectors;
  int64_t size = 0;
  nlohmann::json encoder;  // of captions: the encoder for queries, see plugins/jobs/embed-text/embed_text.cpp
  std::span<const float> row(size_t i) const {
    const auto n = static_cast<size_t>(size);
    return std::span(vectors).subspan(i * n, n);
  }
};

// Reads folders of runs, of their jobs, or of files KEY.FIELD. A curate job includes the embed-text jobs of
// the same run that have read it.
class Collection {
 public:
  // Throws Error(KINORA_ERROR_NOT_FOUND) if one of the folders has no clips.
  explicit Collection(const std::vector<std::filesystem::path>& folders);
  // Names of the picture embeddings that any clip has: "classic".
  const std::vector<std::string>& names() const { return names_; }
  bool has_text() const { return !texts_.empty(); }
  // Files KEY.NAME.npy of all folders. Throws Error(KINORA_ERROR_NOT_FOUND) if no clip has one,
  // KINORA_ERROR_DATA if sizes differ.
  Embedded pictures(const std::string& name) const;
  // Embeddings of embed-text jobs that used the encoder of the first one; skips others with a warning.
  Embedded captions() const;

 private:
  void add(const std::filesystem::path& folder);
  void add_texts_beside(const std::filesystem::path& job);
  void add_text(const std::filesystem::path& folder);
  std::vector<std::filesystem::path> data_, texts_;
  std::vector<std::string> names_;
};

}  // namespace kinora::core
