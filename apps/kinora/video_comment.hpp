// The settings that a generated video was made with: the comment of the MP4, a JSON object. A stranger may
// have written it, so settings of the sampling are taken from it, each checked; files, weights, plugins and
// devices never are.
#pragma once
#include <set>
#include <string>

#include "core/run/run_file.hpp"

namespace kinora::core {

struct VideoComment {
  std::string file;  // the video, for errors
  std::string job;   // the generate job that made it
  json settings;     // options of a generate job that say what is sampled, not yet checked by their manifest
  json files;        // "image", "video", "prompts_file": path
  // The sampler, or the cache of a video that was drawn code by code.
  struct Component {
    std::string id;  // "": the comment names none
    json options;
  };
  Component sampler, cache;
  json made_with;  // {"weights": {SLOT: digest}, "components": {SLOT: {"id", "version"}}}
};

// Throws Error(KINORA_ERROR_DATA) that names `file`, the member and its type.
VideoComment read_video_comment(const std::string& file, const std::string& comment);

// `job` as the comment says, but for the options and the slots "sampler" and "cache" among `given`, which the
// user sets. A file that the comment names must be the run file's own. Throws Error(KINORA_ERROR_DATA).
void take_settings(const Registry&, const VideoComment&, const std::set<std::string>& given, JobSpec& job);

}  // namespace kinora::core
