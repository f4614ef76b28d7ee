// Cuts one video into clips for a stage, and reports each of them.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "clips/clip_samples.hpp"
#include "clips/clip_writer.hpp"
#include "clips/transcode_options.hpp"
#include "clips/video_cutter.hpp"
#include "kinora/bins.hpp"
#include "kinora/stage.hpp"
#include "media/sample_media.hpp"

namespace kinora::video {

// Reports each planned clip: made, dropped, or left out because an earlier run finished it.
// [owner-thread] video, media and options are borrowed. Error(KINORA_ERROR_DATA) for an invalid fact crop or
// field ended.json.
class ClipTeller {
 public:
  // fps: the plan's nominal rate.
  ClipTeller(const Sample& video, const Media& media, const ClipOptions& options, double fps);

  Fate fate(int64_t number, double seconds, bool too_short);
  // Emits, drops or fails the clip. `clip` is ignored unless its fate is `made`.
  void tell(const NumberedClip& which, Clip clip, const Emit& emit);
  // Options for making clips, without the video's packets.
  TranscodeOptions how(const Run& run) const;

 private:
  Bin bin(double seconds);
  void drop_without_bin(Sample clip, double seconds, const Emit& emit);

  const Sample& video_;
  const Media& media_;
  const ClipOptions& options_;
  double fps_;
  Crop crop_;
  std::optional<std::pair<double, double>> shape_;  // width and height of the clips' pictures as shown
  std::set<std::string> ended_;
};

// Cuts at known shots: plans the clips, selects those to make, and makes them. [owner-thread] video, media and
// options are borrowed.
class Cutting {
 public:
  // shots: must have fps, frames and cuts.
  Cutting(const Sample& video, const Media& media, const nlohmann::json& shots, const ClipOptions& options);

  // Makes the selected clips and reports every clip, dropped ones first. sound: no damage has been found in
  // the video so far. Returns the damage found.
  std::string cut(const Emit& emit, const Run& run, bool sound);

 private:
  const Media& media_;
  const int64_t frames_;
  ClipTeller teller_;
  std::vector<NumberedClip> clips_;
};

}  // namespace kinora::video
