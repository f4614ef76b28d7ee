#include "plugins/jobs/training/given_draw.hpp"

#include <ATen/ATen.h>

#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

GivenDraw::GivenDraw(const TrainOptions& o, const LossInstance& loss, uint64_t seed)
    : frames_(o.condition_frames),
      sigma_(o.condition_sigma),
      noise_(o.condition_noise),
      mix_(loss.mix()),
      seed_(seed) {
  require(o, loss);
}

void GivenDraw::require(const TrainOptions& o, const LossInstance& loss) {
  const auto& frames = o.condition_frames;
  const auto& noise = o.condition_noise;
  if (!frames.empty() && !loss.draws_noise())
    raise(KINORA_INVALID,
          "condition_frames: {} draws no noise, so every frame is already given to later ones; leave it empty",
          loss.spec().id);
  if (frames.empty() && !noise.empty())
    raise(KINORA_INVALID, "condition_noise applies to given frames; set their number: condition_frames = [0, 1]");
  if (!noise.empty() && (noise.size() != 2 || noise[1] < 0))
    raise(KINORA_INVALID,
          "condition_noise requires a mean and a deviation of ln sigma, for example [-3.0, 2.0]");
}

Given GivenDraw::operator()(int64_t first, int64_t count, const std::string& key) const {
  if (frames_.empty()) return {};
  Given out;
  const at::Tensor which = sample_uniform({count}, seed_, first, key + ".condition-frames");
  for (int64_t i = 0; i < count; ++i)
    out.frames.push_back(
        frames_[static_cast<size_t>(which[i].item<double>() * static_cast<double>(frames_.size()))]);
  out.level = at::full({count}, sigma_, at::kDouble);
  if (!noise_.empty()) {
    out.noisy = true;
    const at::Tensor u = sample_uniform({count}, seed_, first, key + ".condition-noise");
    out.level = (at::special_ndtri(u) * noise_[1] + noise_[0]).exp();
  }
  if (mix_ == KINORA_MIX_BLEND) out.level = out.level / (1 + out.level);
  return out;
}

}  // namespace kinora::core
