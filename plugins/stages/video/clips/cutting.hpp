// The cutting of one film whose shots are known into clips, as a stage does it.
#pragma once
#include <string>
#include <vector>

#include "clips/clip_teller.hpp"
#include "kinora/stage.hpp"
#include "media.hpp"
#include "clips/transcode_options.hpp"

namespace kinora::video {

// Which clips there are, which are wanted, and their making. [owner-thread] Film, media and options are
// borrowed.
class Cutting {
 public:
  // shots: fps, frames and cuts.
  Cutting(const Sample& film, const Media& media, const nlohmann::json& shots, const ClipOptions& options);

  // Makes what is wanted and tells of every clip: first those that are dropped. sound: nothing of the film was found
  // damaged so far. Returns what is.
  std::string cut(const Emit& emit, const Run& run, bool sound);

 private:
  const Media& media_;
  const int64_t frames_;
  ClipTeller teller_;
  std::vector<FilmClip> clips_;
};

}  // namespace kinora::video
