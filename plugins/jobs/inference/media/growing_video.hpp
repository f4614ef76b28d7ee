// A video that plays while it is made: its frames are encoded on a thread of their own, a fragment a chunk.
#pragma once
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "core/plugin/service.hpp"
#include "plugins/jobs/fragments/video_fragments.hpp"
#include "plugins/jobs/inference/media/decode_thread.hpp"
#include "plugins/jobs/inference/media/stream_output.hpp"

namespace kinora::core {

// [owner-thread] Errors of the thread are thrown by the next call.
class GrowingVideo {
 public:
  // where: a file, or "-" for standard output. known: what is known of the video before it is made, its comment.
  GrowingVideo(Registry& registry, const std::string& where, double fps, int64_t crf,
               const nlohmann::json& known);
  // uint8 [T, H, W, 3].
  void add(at::Tensor frames) { thread_.push(std::move(frames)); }
  // A file gets its index in front and this comment.
  void finish(const nlohmann::json& about);

 private:
  void encode(const at::Tensor& frames);

  const VideoFragments& writer_;
  const std::string where_;
  VideoFragments::Form form_;
  inference::StreamOutput out_;
  std::unique_ptr<VideoFragments::Stream> stream_;
  inference::DecodeThread<at::Tensor> thread_;  // last, because it uses the others
};

}  // namespace kinora::core
