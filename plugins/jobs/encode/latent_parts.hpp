// The work of an encode job as it is done: parts of some clips each, which any rank makes and which stay
// after an interruption. Their number depends on the clips alone, so that a run goes on with other ranks.
//
//   FOLDER/.parts/000012.h5     the windows of the part's clips (latent_cache.hpp); none: no file
//   FOLDER/.parts/000012.json   written last, a list of what became of each clip, in order:
//                               {"outcome": "encoded", "windows": [0, 4, 8]}
//                               {"outcome": "failed" | "too_short" | "without_signal"}
//                               each with "facts": what the job's `signals` name of the clip's JSON
//   FOLDER/.parts/failed        why a rank stopped, for the one that waits for it
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::core {

class LatentParts {
 public:
  // folder: of the job.
  LatentParts(const std::filesystem::path& folder, int64_t clips);

  int64_t size() const { return (clips_ + each_ - 1) / each_; }
  // The clips [first, last) of a part.
  int64_t first_clip(int64_t part) const { return part * each_; }
  int64_t last_clip(int64_t part) const;
  std::filesystem::path cache(int64_t part) const { return file(part, ".h5"); }
  // What became of a part's clips. Throws Error(KINORA_DATA) if it is not there.
  nlohmann::json outcomes(int64_t part) const;
  void finish(int64_t part, const nlohmann::json& outcomes) const;

  // For one rank, before the others look: which parts are there. Those in which a clip failed are forgotten,
  // since what was wrong may be mended.
  std::vector<bool> begin() const;
  void leave_failure(const std::string& why) const;
  // Waits for these parts, which other ranks make. Throws Error(KINORA_FAILED) with what one of them has
  // left, and Error(KINORA_CANCELLED).
  void wait_for(const std::vector<int64_t>& parts, const std::string& job) const;
  void remove() const;

 private:
  std::filesystem::path file(int64_t part, const char* end) const;
  std::filesystem::path folder_;
  int64_t clips_, each_;
};

}  // namespace kinora::core
