#include "plugins/jobs/media/growing_video.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/base/cancel.hpp"
#include "core/base/log.hpp"

namespace kinora::core {

GrowingVideo::GrowingVideo(Registry& registry, const std::string& where, double fps, int64_t crf,
                           const nlohmann::json& known, std::chrono::milliseconds patience,
                           std::function<bool()> is_ended)
    : writer_(service<VideoFragments>(registry)),
      where_(where),
      form_{.fps = fps, .crf = crf, .comment = known.dump()},
      out_(
          where,
          [this, is_ended = std::move(is_ended)] {
            return cancelled() || thread_.is_cancelled() || (is_ended && is_ended());
          },
          patience),
      thread_([this](const at::Tensor& frames) { encode(frames); }) {}

void GrowingVideo::encode(const at::Tensor& frames) {
  const at::NoGradGuard off;
  const at::Tensor all = frames.cpu().contiguous();
  if (!stream_) {
    form_.height = all.size(1);
    form_.width = all.size(2);
    stream_ = writer_.open(
        form_, [this](std::span<const uint8_t> bytes, VideoFragments::Kind) { out_.write(bytes); });
  }
  stream_->add(all.data_ptr<uint8_t>(), all.size(0));
}

void GrowingVideo::finish(const nlohmann::json& about) {
  unless_gone([&] {
    thread_.finish();
    stream_->finish();
    if (out_.is_file() && where_ != "-") writer_.remux(where_, where_, about.dump());
  });
}

void GrowingVideo::unless_gone(const std::function<void()>& work) {
  if (problem_) return;
  try {
    work();
  } catch (const Error& e) {
    problem_.emplace(e);
    if (e.code() == KINORA_ERROR_CANCELLED) return;  // the video ends at its next step
    log_warn("stream: {}; the video is made to its end without it", e.what());
  }
}

}  // namespace kinora::core
