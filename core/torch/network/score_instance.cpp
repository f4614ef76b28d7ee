#include "core/torch/network/score_instance.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/torch/chain/run_on.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/exchange.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {

ScoreInstance::ScoreInstance(const Component& c, const Options& o)
    : spec_(*c.spec), api_(c.table<kinora_score>()), self_(instance_of<kinora_score>(c, o)) {}

void ScoreInstance::update(const NamedTensors& in, const kinora_run* run) {
  const at::NoGradGuard off;
  std::vector<kinora_named> named;
  for (const auto& input : spec_.inputs) {
    const auto it = in.find(input.name);
    if (it != in.end() && it->second.defined())
      named.push_back({input.name.c_str(), handle(it->second)});
    else if (!input.is_optional)
      raise(KINORA_ERROR_INVALID, "{}: input '{}' is missing", spec_.id, input.name);
  }
  const kinora_run call =
      run_on(named.empty() ? at::kCPU : borrow<at::Tensor>(named[0].tensor).device(), run);
  called(api_.update(self_.get(), &call, named.data(), named.size()), spec_.id);
}

at::Tensor ScoreInstance::state() const {
  kinora_tensor out = nullptr;
  called(api_.state(self_.get(), &out), spec_.id);
  if (!out) raise(KINORA_ERROR_FAILED, "{}: state returned no tensor", spec_.id);
  const auto state = adopt<at::Tensor>(out);
  if (state.dim() != 1 || state.scalar_type() != at::kDouble || !state.device().is_cpu())
    raise(KINORA_ERROR_FAILED, "{}: state must be a float64 [S] on the CPU, found {}", spec_.id,
          c10::str(state.scalar_type(), " ", state.sizes(), " on ", state.device()));
  return state.contiguous();
}

void ScoreInstance::merge(const at::Tensor& state) {
  called(api_.merge(self_.get(), handle(state)), spec_.id);
}

std::vector<std::pair<std::string, double>> ScoreInstance::compute() const {
  std::vector<double> numbers(spec_.outputs.size());
  called(api_.compute(self_.get(), numbers.data(), numbers.size()), spec_.id);
  std::vector<std::pair<std::string, double>> out;
  for (size_t i = 0; i < numbers.size(); ++i) out.emplace_back(spec_.outputs[i].name, numbers[i]);
  return out;
}

void merge_ranks(const kinora_group& group, const ScoreInstance& mine, ScoreInstance& whole) {
  for (const auto& state : Exchange(group).gather(mine.state())) whole.merge(state);
}

}  // namespace kinora::core
