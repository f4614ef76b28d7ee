// The cutting of one film into clips, as a stage does it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "clip_writer.hpp"
#include "kinora/stage.hpp"
#include "media.hpp"
#include "transcode_options.hpp"

namespace kinora::video {

struct Bin;

// Which clips there are, which are wanted, and their making. [owner-thread] Film, media and options are
// borrowed.
class Cutting {
 public:
  // shots: fps, frames and cuts.
  Cutting(const Sample& film, const Media& media, const nlohmann::json& shots, const ClipOptions& options);

  // The clips that are wanted, once drop_unwanted() has been called.
  const std::vector<Range>& ranges() const { return ranges_; }

  // Clips that are too short or have no bin end here; those that an earlier run has ended are left out.
  void drop_unwanted(const Emit& emit);

  // Makes and emits the wanted clips. sound: nothing of the film was found damaged so far. Returns what is.
  std::string cut(const Emit& emit, const Run& run, bool sound);

 private:
  TranscodeOptions how(const Run& run, bool sound) const;
  Bin bin(double seconds);

  const Sample& film_;
  const Media& media_;
  const ClipOptions& options_;
  double fps_;
  int64_t frames_;
  std::vector<int64_t> cuts_;
  Crop crop_;
  std::optional<Size> size_;  // of a clip's picture
  std::vector<Range> ranges_;
  std::vector<int64_t> numbers_;  // of those among all clips
};

}  // namespace kinora::video
