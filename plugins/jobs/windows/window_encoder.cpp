#include "plugins/jobs/windows/window_encoder.hpp"

#include <ATen/ATen.h>

#include "kinora/aten.hpp"
#include "plugins/jobs/inference/frames.hpp"
#include "plugins/jobs/inference/parts.hpp"
#include "plugins/jobs/inference/rules.hpp"

namespace kinora::core {

bool is_finite(const NamedTensors& tensors) {
  const auto latent = tensors.find("latent");
  return latent == tensors.end() || at::isfinite(latent->second).all().item<bool>();
}

WindowEncoder::WindowEncoder(const JobView& encode, const EncodeOptions& options, at::Device device,
                             const kinora_group* group)
    : frames_(options.frames),
      id_(part_of(encode, "tokenizer", "tokenizer_weights", "train-tokenizer").use->id),
      first_frame_(options.first_frame),
      last_frame_(options.last_frame),
      device_(device),
      group_(group),
      tokenizer_(open_part(encode, part_of(encode, "tokenizer", "tokenizer_weights", "train-tokenizer"),
                           {.device = device})) {
  if (writes() && encode.spec().component("image_encoder"))
    image_.emplace(encode, encode.spec(), ChainOptions{.device = device});
}

Stretch WindowEncoder::own_frames() const {
  const auto info = tokenizer_->info();
  const int64_t pieces = 1 + (frames_ - 1) / info.time;
  return frames_behind(info, frames_,
                       group_ ? stretch_of(pieces, group_->rank, group_->size) : stretch_of(pieces, 0, 1));
}

std::vector<int64_t> WindowEncoder::shape(const WindowSize& size) const {
  const auto info = tokenizer_->info();
  std::vector<int64_t> out{latent_frames(info, id_, size.frames), latent_rows(info, id_, size.height),
                           latent_columns(info, id_, size.width)};
  if (!info.discrete) out.insert(out.begin(), info.channels);
  return out;
}

NamedTensors WindowEncoder::operator()(const at::Tensor& frames, const kinora_run* run) {
  const auto info = tokenizer_->info();
  const int64_t before = own_frames().first;
  const auto encoded = [&](const FramesOf& video) {
    const at::Tensor latent = group_ ? encode_together(*tokenizer_, frames_, video, device_, *group_, run)
                                     : encode_video(*tokenizer_, frames.size(0), video, run);
    return writes() ? latent[0].contiguous() : latent;
  };
  const auto video = [&](int64_t at, int64_t count) {
    return video_of(frames, at - before, count).to(device_);
  };
  NamedTensors out;
  out[info.discrete ? "codes" : "latent"] = encoded(video);
  if (first_frame_) {
    // A later stretch uses only the size of its first picture, and an earlier one only that of its last.
    FramesOf picture = followed_by_grey(video_of(frames, 0, 1).to(device_));
    if (last_frame_)
      picture = ended_by(picture, group_ ? frames_ : frames.size(0),
                         video_of(frames, frames.size(0) - 1, 1).to(device_));
    const at::Tensor latent = encoded(picture);
    if (writes())
      out["condition"] = masked_picture(latent.unsqueeze(0), info.time, last_frame_)[0].contiguous();
  }
  if (image_) {
    out["image"] = (*image_)(frames[0]);
    if (last_frame_) out["image"] = at::cat({out["image"], (*image_)(frames[-1])});
  }
  return out;
}

}  // namespace kinora::core
