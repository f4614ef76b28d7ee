// The frames of a stored clip that a person has chosen in the studio, cut out of it.
#pragma once
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "host/stages/one_stage.hpp"
#include "plugins/jobs/curation/edits.hpp"

namespace kinora::core {

// The facts of a clip of which these frames are left: its length, its range of the source video and its bin are
// theirs. Scores and embeddings are of the whole clip, as the fact `trimmed` says: {"first", "end", "of": frames}.
// Unchanged if they are all of its frames. Throws Error(KINORA_ERROR_DATA) if it has not these frames.
nlohmann::json trimmed_facts(nlohmann::json facts, const std::string& key, const Trim&);

// Cuts stored clips, frame-exact and with sound: whole groups of pictures are copied, the rest is encoded as the clip
// was. Its preview and the sentence of caption.describe are made again, as the job made them.
class ClipTrimmer {
 public:
  struct StageUse {
    std::string id;
    nlohmann::json options;
  };
  // curated: the folder of the curate job, whose options are used.
  ClipTrimmer(Runtime& runtime, const std::filesystem::path& curated);
  // Sets the fields mp4, preview.webp or preview.mp4, and txt where caption.describe wrote it, and in `facts`, of
  // trimmed_facts, the length that it has. Throws kinora::Error.
  void cut(Sample& sample, nlohmann::json& facts, const std::filesystem::path& video);

 private:
  Runtime& runtime_;
  std::vector<StageUse> uses_;   // the encoder is the first
  std::deque<OneStage> stages_;  // once they are needed
};

}  // namespace kinora::core
