// Cuts one video with known shots into clips, for a stage.
#pragma once
#include <string>
#include <vector>

#include "clips/clip_teller.hpp"
#include "kinora/stage.hpp"
#include "media.hpp"
#include "clips/transcode_options.hpp"

namespace kinora::video {

// Plans the clips, selects those to make, and makes them. [owner-thread] film, media and options are borrowed.
class Cutting {
 public:
  // shots: must have fps, frames and cuts.
  Cutting(const Sample& film, const Media& media, const nlohmann::json& shots, const ClipOptions& options);

  // Makes the selected clips and reports every clip, dropped ones first. sound: no damage has been found in the video so
  // far. Returns the damage found.
  std::string cut(const Emit& emit, const Run& run, bool sound);

 private:
  const Media& media_;
  const int64_t frames_;
  ClipTeller teller_;
  std::vector<FilmClip> clips_;
};

}  // namespace kinora::video
