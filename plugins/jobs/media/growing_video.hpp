// A video that plays while it is made: its frames are encoded on a thread of their own, a fragment a chunk.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "core/plugin/service.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/fragments/video_fragments.hpp"
#include "plugins/jobs/media/decode_thread.hpp"
#include "plugins/jobs/media/stream_output.hpp"

namespace kinora::core {

// [owner-thread] A stream that fails, as when its viewer is closed, costs a warning and not the video.
class GrowingVideo {
 public:
  // where: a file, or "-" for standard output. known: what is known of the video before it is made, its comment.
  // patience: with a viewer that takes nothing, as in StreamOutput. is_ended: asked then, on any thread, whether the
  // video is given up; null: never. The destructor gives it up too.
  GrowingVideo(Registry& registry, const std::string& where, double fps, int64_t crf,
               const nlohmann::json& known, std::chrono::milliseconds patience,
               std::function<bool()> is_ended = nullptr);
  // uint8 [T, H, W, 3].
  void add(const at::Tensor& frames) {
    unless_gone([&] { thread_.push(frames); });
  }
  // Whether all of it was written so far, and if not, why; the code for a full disk is KINORA_ERROR_NO_MEMORY.
  bool is_whole() const { return !problem_; }
  const std::optional<Error>& problem() const { return problem_; }
  // A file gets its index in front and this comment.
  void finish(const nlohmann::json& about);

 private:
  void encode(const at::Tensor& frames);
  void unless_gone(const std::function<void()>& work);

  const VideoFragments& writer_;
  const std::string where_;
  std::optional<Error> problem_;
  VideoFragments::Form form_;
  inference::StreamOutput out_;
  std::unique_ptr<VideoFragments::Stream> stream_;
  inference::DecodeThread<at::Tensor> thread_;  // last, because it uses the others
};

}  // namespace kinora::core
