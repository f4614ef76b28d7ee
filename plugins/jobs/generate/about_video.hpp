// The facts of a generated video, with all that is needed to make it again: `kinora generate --from` reads them.
#pragma once
#include <nlohmann/json.hpp>

#include "core/run/job.hpp"
#include "plugins/jobs/inference/generate_options.hpp"
#include "plugins/jobs/inference/session.hpp"

namespace kinora::core {

struct MadeVideo : inference::Session::Made {
  int64_t frames = 0, height = 0, width = 0;
};

// For those who get the video: files of this machine by their names alone. The record of what made the video has
// the LoRA's name and weights, so the files of `loras` are left out.
nlohmann::json without_folders(nlohmann::json about);

class AboutVideo {
 public:
  // All must outlive this object. made_with: the weights and plugins, see core::made_with().
  AboutVideo(const JobContext& context, const GenerateOptions& options, inference::Pipeline& pipeline,
             nlohmann::json made_with)
      : context_(context), options_(options), pipeline_(pipeline), made_with_(std::move(made_with)) {}

  // Before it is made.
  nlohmann::json known(const Request& request) const;
  // Afterwards.
  nlohmann::json described(const Request& request, const MadeVideo& made) const;
  // Adds to what described() gave, and logs, the frames of the video for each second of denoising, of decoding, and of
  // all of the video's time.
  void tell_speeds(nlohmann::json& about, const MadeVideo& made, double seconds) const;

 private:
  nlohmann::json settings(const Request& request) const;
  nlohmann::json way() const;
  bool has_cache() const { return pipeline_.makes_codes() || pipeline_.keeps(); }

  const JobContext& context_;
  const GenerateOptions& options_;
  inference::Pipeline& pipeline_;
  const nlohmann::json made_with_;
};

}  // namespace kinora::core
