// Reports each planned clip of a stage that cuts videos: made, dropped, or left out because an earlier run finished it.
#pragma once
#include <optional>
#include <set>
#include <string>

#include "kinora/bins.hpp"
#include "clips/clip_samples.hpp"
#include "clips/clip_writer.hpp"
#include "clips/film_cutter.hpp"
#include "kinora/stage.hpp"
#include "media.hpp"
#include "clips/transcode_options.hpp"

namespace kinora::video {


// [owner-thread] film, media and options are borrowed. Error(KINORA_DATA) for an invalid fact crop or field ended.json.
class ClipTeller {
 public:
  // fps: the plan's nominal rate.
  ClipTeller(const Sample& film, const Media& media, const ClipOptions& options, double fps);

  Fate fate(int64_t number, double seconds, bool too_short);
  // Emits, drops or fails the clip. `clip` is ignored unless its fate is `made`.
  void tell(const FilmClip& which, Clip clip, const Emit& emit);
  // Options for making clips, without the video's packets.
  TranscodeOptions how(const Run& run) const;

 private:
  Bin bin(double seconds);

  const Sample& film_;
  const Media& media_;
  const ClipOptions& options_;
  double fps_;
  Crop crop_;
  std::optional<Size> size_;  // size of the clips' picture
  std::set<std::string> ended_;
};

}  // namespace kinora::video
