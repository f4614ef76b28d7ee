// The clips of curate jobs with their stored embeddings, for search.
#pragma once
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "plugins/jobs/curation/edit_history.hpp"

namespace kinora::core {

struct ClipRef {
  std::string key;
  std::filesystem::path folder;  // the data folder of its curate job
  std::filesystem::path media() const { return folder / (key + ".mp4"); }
};

// The captions of clips as people left them: what the studio changed goes before what the curate job wrote.
class Captions {
 public:
  // "" if it has none. Throws Error(KINORA_DATA) if edits.jsonl cannot be read.
  std::string of(const ClipRef&);

 private:
  std::map<std::filesystem::path, EditHistory> edits_;  // by folder
};

// One embedding of many clips: row i of vectors [clips, size], of length 1, is of clips[i].
struct Embedded {
  std::vector<ClipRef> clips;
  std::vector<float> vectors;
  int64_t size = 0;
  nlohmann::json encoder;  // of captions: what encodes a question, see plugins/jobs/embed-text/embed_text.hpp
  std::span<const float> row(size_t i) const {
    const auto n = static_cast<size_t>(size);
    return std::span(vectors).subspan(i * n, n);
  }
};

// Folders of runs, of their jobs, or of files KEY.FIELD. To a curate job belong the embed-text jobs beside it that
// have read it.
class Collection {
 public:
  // Error(KINORA_NOT_FOUND) if there are no clips in one of them.
  explicit Collection(const std::vector<std::filesystem::path>& folders);
  // Embeddings of pictures that any clip has, by name: "classic".
  const std::vector<std::string>& names() const { return names_; }
  bool has_text() const { return !texts_.empty(); }
  // Files KEY.NAME.npy of all folders. Error(KINORA_NOT_FOUND) if no clip has it, KINORA_DATA if sizes
  // differ.
  Embedded pictures(const std::string& name) const;
  // What embed-text jobs left; all with the encoder of the first one, others are left out with a warning.
  Embedded captions() const;

 private:
  void add(const std::filesystem::path& folder);
  void add_texts_beside(const std::filesystem::path& job);
  void add_text(const std::filesystem::path& folder);
  std::vector<std::filesystem::path> data_, texts_;
  std::vector<std::string> names_;
};

}  // namespace kinora::core
