// Divides the work of an encode job into parts of some clips each, which any rank makes and which survive an
// interruption, and merges them into the job's results. Their number depends only on the clips, so that a run
// can resume with another number of ranks.
//
//   FOLDER/.parts/000012.h5     the windows of the part's clips (latent_cache.hpp); missing if there are none
//   FOLDER/.parts/000012.json   written last, a list of the clips' outcomes, in order:
//                               {"outcome": "encoded", "windows": [0, 4, 8], "fps": 24}
//                               {"outcome": "failed" | "too_short" | "without_signal"}
//                               each with "facts": the members of the clip's JSON named in `signals`
//   FOLDER/.parts/failed        why a rank stopped, for the rank that waits for it
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "plugins/jobs/media/clips.hpp"
#include "plugins/jobs/windows/encode_options.hpp"

namespace kinora::core {

class LatentParts {
 public:
  // folder: the job's.
  LatentParts(const std::filesystem::path& folder, int64_t clips);

  int64_t size() const { return (clips_ + each_ - 1) / each_; }
  // The clips of a part are [first, last).
  int64_t first_clip(int64_t part) const { return part * each_; }
  int64_t last_clip(int64_t part) const;
  std::filesystem::path cache(int64_t part) const { return file(part, ".h5"); }
  // The outcomes of a part's clips. Throws Error(KINORA_ERROR_DATA) if the part is missing.
  nlohmann::json outcomes(int64_t part) const;
  // Writes the part's outcomes, one per clip in order; its cache must be complete before.
  void finish(int64_t part, const nlohmann::json& outcomes) const;

  // Called on one rank before the others look: which parts exist. Discards parts in which a clip failed,
  // since the cause may have been fixed.
  std::vector<bool> begin() const;
  // Leaves a reason for the rank that waits; does not throw.
  void leave_failure(const std::string& why) const;
  // Waits for these parts, which other ranks make. Throws Error(KINORA_ERROR_FAILED) with the reason that one
  // of them left, and Error(KINORA_ERROR_CANCELLED).
  void wait_for(const std::vector<int64_t>& parts, const std::string& job) const;
  // Removes FOLDER/.parts with all parts.
  void remove() const;

 private:
  std::filesystem::path file(int64_t part, const char* end) const;
  std::filesystem::path folder_;
  int64_t clips_, each_;
};

// Merges an encode job's parts into its results: every window in the order of the clips, whichever rank
// encoded it, with the statistics of all. The files are the same, byte for byte, for any number of ranks.
// Writes latents.h5 and latents.json into the folder and returns the job's summary. Throws
// Error(KINORA_ERROR_DATA) if there are no windows; removes the parts then, and after success.
nlohmann::json merge_latents(const std::filesystem::path& folder, const std::string& job,
                             const LatentParts& parts, Clips& clips, const EncodeOptions& options);

}  // namespace kinora::core
