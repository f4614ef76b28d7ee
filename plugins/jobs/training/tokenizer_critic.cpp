#include "plugins/jobs/training/tokenizer_critic.hpp"

#include <cmath>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/base/log.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/checkpoint.hpp"
#include "plugins/jobs/training/norms.hpp"
#include "plugins/jobs/training/tokenizer_objective.hpp"

namespace kinora::core {
namespace {

const std::string kWeight = "critic.weight.", kState = "critic.", kSteps = "critic.steps";

// During its lifetime, a forward records nothing for the critic's own gradients.
class Frozen {
 public:
  explicit Frozen(std::vector<Leaf>& leaves) : leaves_(leaves) { set(false); }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;
  ~Frozen() { set(true); }

 private:
  void set(bool on) {
    for (auto& leaf : leaves_)
      if (!leaf.frozen) leaf.tensor.set_requires_grad(on);
  }
  std::vector<Leaf>& leaves_;
};

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

TokenizerCritic::TokenizerCritic(JobContext& context, Network& tokenizer, Parallelism& parallel,
                                 const TrainTokenizerOptions& o, at::Device device)
    : options_(o),
      parallel_(parallel),
      network_(context.open_slot("critic"), context.spec().component("critic")->options,
               {.seed = static_cast<uint64_t>(context.run().seed) + 1,
                .device = device,
                .dtype = parallel.parameter_dtype()}),
      optimizer_(context.open_slot("optimizer"), context.spec().component("optimizer")->options,
                 network_.chain().parameters(), network_.chain().leaves(), usual_decay(o.weight_decay)),
      last_(last_layer(tokenizer.chain(), o.last_layer).tensor) {}

at::Tensor TokenizerCritic::adversarial(const at::Tensor& video, const at::Tensor& made,
                                        const at::Tensor& reconstruction, double share,
                                        std::map<std::string, double>& figures) {
  const at::Tensor own = hinge_critic(logits(video), logits(made.detach())) * share;
  own.backward();
  at::Tensor loss;
  {
    const Frozen frozen(network_.chain().leaves());
    loss = hinge_generator(logits(made)) * share;
  }
  // Over all ranks' samples, so that the weight is that of one process.
  const auto of_all = [&](const at::Tensor& of) { return parallel_.sum_of_data(gradient(of, last_)); };
  const at::Tensor adaptive = adaptive_weight(of_all(reconstruction), of_all(loss));
  figures["critic"] += own.item<double>();
  figures["adversarial"] += loss.item<double>();
  figures["adversarial_weight"] += adaptive.item<double>() * share;
  return options_.critic_weight * adaptive * loss;
}

void TokenizerCritic::update(nlohmann::json& line) {
  auto& chain = network_.chain();
  parallel_.sum_gradients(chain.parameters(), chain.leaves());
  const double norm = gradient_norm(chain.leaves());
  line["critic_gradient_norm"] = norm;
  if (std::isfinite(norm))
    optimizer_.step(options_.critic_learning_rate,
                    options_.clip_norm > 0 ? clip_factor(norm, options_.clip_norm) : 1);
  else
    log_warn("the critic's gradient is not finite; its step is skipped");
  optimizer_.zero_grad();
}

NamedTensors TokenizerCritic::state() {
  const auto& chain = network_.chain();
  NamedTensors out{{kSteps, at::full({1}, optimizer_.steps(), at::kLong)}};
  for (const auto& [name, t] : assemble(chain.parameters(), chain.leaves())) out[kWeight + name] = t;
  for (size_t i = 0; i < optimizer_.names().size(); ++i)
    for (const auto& [name, t] : assemble(chain.parameters(), chain.leaves(), optimizer_.state(i)))
      out[kState + optimizer_.names()[i] + "." + name] = t;
  return out;
}

void TokenizerCritic::restore(NamedTensors state) {
  const auto steps = state.extract(kSteps);
  if (steps.empty())
    throw Error(KINORA_ERROR_INVALID,
                "the checkpoint has no critic; remove the critic, or choose another output folder");
  auto& chain = network_.chain();
  load_values(chain.parameters(), chain.leaves(), taken(state, kWeight));
  optimizer_.restore(taken(state, kState));
  optimizer_.set_steps(steps.mapped().item<int64_t>());
}

}  // namespace kinora::core
