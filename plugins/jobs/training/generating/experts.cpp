#include "plugins/jobs/training/generating/experts.hpp"

#include "core/base/log.hpp"
#include "core/run/weights.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

std::optional<TwoExperts> two_experts(const JobView& context, Part& model) {
  const auto& options = context.spec().options;
  TwoExperts out{weights_in(options, "weights_2"), options.at("boundary").get<double>()};
  const auto folder = published_experts(model.weights.at(0), *context.open(*model.use).spec);
  if (folder) {
    model.weights[0] = folder->high;
    if (out.low.empty()) out.low = {folder->low};
    if (out.boundary == 0) out.boundary = folder->boundary;
  }
  if (out.low.empty()) {
    if (out.boundary > 0 || options.at("guidance_2").get<double>() >= 0)
      raise(KINORA_INVALID,
            "boundary and guidance_2 need a second expert; set its weights_2");
    return std::nullopt;
  }
  if (out.boundary == 0)
    raise(KINORA_INVALID,
          "the boundary of the second expert is not in any model_index.json; set boundary, Wan 2.2 has 0.875 "
          "(text to video) and 0.9 (image to video)");
  return out;
}

Network& Experts::use(size_t expert) {
  if (!weights_[expert].empty() && loaded_ != expert) {
    log_info("loading the expert for {} noise", expert == 0 ? "high" : "low");
    networks_[expert]->load(weights_[expert]);
    loaded_ = expert;
  }
  return *networks_[expert];
}

}  // namespace kinora::core
