// What a stage that cuts films says of each clip that is planned: made, dropped, or left to an earlier run.
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


// [owner-thread] Film, media and options are borrowed. Error(KINORA_DATA) for a fact crop or a field ended.json that is not
// what it should be.
class ClipTeller {
 public:
  // fps: nominal, of the plan.
  ClipTeller(const Sample& film, const Media& media, const ClipOptions& options, double fps);

  Fate fate(int64_t number, double seconds, bool too_short);
  // Emits or drops the clip, or says that it failed. Its `clip` is not looked at unless its fate is to be made.
  void tell(const FilmClip& which, Clip clip, const Emit& emit);
  // How clips are made, but for the film's packets.
  TranscodeOptions how(const Run& run) const;

 private:
  Bin bin(double seconds);

  const Sample& film_;
  const Media& media_;
  const ClipOptions& options_;
  double fps_;
  Crop crop_;
  std::optional<Size> size_;  // of a clip's picture
  std::set<std::string> ended_;
};

}  // namespace kinora::video
