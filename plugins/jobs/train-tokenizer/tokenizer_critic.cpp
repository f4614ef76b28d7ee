#include "plugins/jobs/train-tokenizer/tokenizer_critic.hpp"

#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/train-tokenizer/tokenizer_objective.hpp"

namespace kinora::core {
namespace {

at::Tensor gradient(const at::Tensor& of, const at::Tensor& at) {
  return torch::autograd::grad({of}, {at}, {}, /*retain_graph=*/true)[0];
}

}  // namespace

const Leaf& last_layer(const Chain& chain, const std::string& name) {
  std::string wanted = name;
  for (const auto& p : chain.parameters())
    if (name.empty() && p.shape.size() > 1 && p.name.find("conv_out") != std::string::npos) wanted = p.name;
  if (wanted.empty())
    raise(KINORA_ERROR_INVALID,
          "the critic's weight needs the decoder's last layer, but no parameter's name contains 'conv_out'; "
          "set last_layer");
  for (const auto& leaf : chain.leaves())
    if (leaf.name == wanted) return leaf;
  raise(
      KINORA_ERROR_INVALID,
      "last_layer '{}' is not a parameter that this process holds whole; name another, and with a critic use "
      "data parallelism only",
      wanted);
}

TokenizerCritic::TokenizerCritic(JobContext& context, Tokenizer& tokenizer, Parallelism& parallel,
                                 const TrainTokenizerOptions& o, at::Device device)
    : options_(o),
      parallel_(parallel),
      network_(context.open_slot("critic"), context.spec().component("critic")->options,
               {.seed = static_cast<uint64_t>(context.run().seed) + 1,
                .device = device,
                .dtype = parallel.parameter_dtype()}),
      trained_(context, network_, parallel,
               {.name = "critic",
                .learning_rate = [rate = o.critic_learning_rate](int64_t) { return rate; },
                .decay = usual_decay(o.weight_decay),
                .clip_norm = o.clip_norm,
                .first_step = o.critic_start}),
      last_(last_layer(tokenizer.chain(), o.last_layer).tensor) {}

at::Tensor TokenizerCritic::adversarial(const at::Tensor& video, const at::Tensor& made,
                                        const at::Tensor& reconstruction, double share,
                                        std::map<std::string, double>& figures) {
  real_ = video;
  made_ = made.detach();
  const at::Tensor loss = hinge_generator(logits(made)) * share;
  // Over all ranks' samples, so that the weight is that of one process.
  const auto of_all = [&](const at::Tensor& of) { return parallel_.sum_of_data(gradient(of, last_)); };
  const at::Tensor adaptive = adaptive_weight(of_all(reconstruction), of_all(loss));
  figures["adversarial"] += loss.item<double>();
  figures["adversarial_weight"] += adaptive.item<double>() * share;
  return options_.critic_weight * adaptive * loss;
}

at::Tensor TokenizerCritic::loss(double share) {
  return hinge_critic(logits(std::exchange(real_, {})), logits(std::exchange(made_, {}))) * share;
}

}  // namespace kinora::core
