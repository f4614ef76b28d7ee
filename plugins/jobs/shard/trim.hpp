// The frames of a stored clip that a person has chosen in the studio, cut out of it.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "host/stages/one_stage.hpp"
#include "plugins/jobs/curation/edits.hpp"

namespace kinora::core {

// The facts of a clip of which these frames are left: its length, its range of the source video and its bin are
// theirs. Scores, embeddings and captions are of the whole clip, as the fact `trimmed` says: {"first", "end", "of":
// frames}. Unchanged if they are all of its frames. Throws Error(KINORA_ERROR_DATA) if it has not these frames.
nlohmann::json trimmed_facts(nlohmann::json facts, const std::string& key, const Trim&);

// Cuts stored clips, frame-exact and with sound: whole groups of pictures are copied, the rest is encoded as the clip
// was.
class ClipTrimmer {
 public:
  // curated: the folder of the curate job, whose options of the encoder are used.
  ClipTrimmer(Runtime& runtime, const std::filesystem::path& curated);
  // Sets the field mp4, and in `facts`, of trimmed_facts, the length that it has. Throws kinora::Error.
  void cut(Sample& sample, nlohmann::json& facts, const std::filesystem::path& video);

 private:
  Runtime& runtime_;
  nlohmann::json options_;
  std::optional<OneStage> stage_;  // once it is needed
};

}  // namespace kinora::core
