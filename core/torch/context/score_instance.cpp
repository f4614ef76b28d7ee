#include "core/torch/context/score_instance.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/plugin/host.hpp"
#include "core/torch/context/meeting.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {

ScoreInstance::ScoreInstance(const Component& c, const Options& o)
    : spec_(*c.spec),
      api_(c.table<kinora_score>()),
      self_(made([&] { return api_.create(host(), o.abi()); }, c.spec->id)) {}

void ScoreInstance::update(const NamedTensors& in) {
  const at::NoGradGuard off;
  std::vector<kinora_named> named;
  for (const auto& input : spec_.inputs) {
    const auto it = in.find(input.name);
    if (it != in.end() && it->second.defined())
      named.push_back({input.name.c_str(), handle(it->second)});
    else if (!input.is_optional)
      raise(KINORA_ERROR_INVALID, "{}: input '{}' is missing", spec_.id, input.name);
  }
  called(api_.update(self_, named.data(), named.size()), spec_.id);
}

at::Tensor ScoreInstance::state() const {
  kinora_tensor out = nullptr;
  called(api_.state(self_, &out), spec_.id);
  if (!out) raise(KINORA_ERROR_FAILED, "{}: state returned no tensor", spec_.id);
  const auto state = adopt<at::Tensor>(out);
  if (state.dim() != 1 || state.scalar_type() != at::kDouble || !state.device().is_cpu())
    raise(KINORA_ERROR_FAILED, "{}: state must be a float64 [S] on the CPU, found {}", spec_.id,
          c10::str(state.scalar_type(), " ", state.sizes(), " on ", state.device()));
  return state.contiguous();
}

void ScoreInstance::merge(const at::Tensor& state) { called(api_.merge(self_, handle(state)), spec_.id); }

std::vector<std::pair<std::string, double>> ScoreInstance::compute() const {
  std::vector<double> numbers(spec_.outputs.size());
  called(api_.compute(self_, numbers.data(), numbers.size()), spec_.id);
  std::vector<std::pair<std::string, double>> out;
  for (size_t i = 0; i < numbers.size(); ++i) out.emplace_back(spec_.outputs[i].name, numbers[i]);
  return out;
}

void merge_ranks(const kinora_group& group, const ScoreInstance& mine, ScoreInstance& whole) {
  const at::Tensor state = mine.state();
  const at::Tensor lengths = gather_rows(group, {static_cast<double>(state.numel())});
  // Ranks may have seen different numbers of samples: the rows are filled up to one length.
  const auto longest = std::max<int64_t>(1, lengths.max().item<int64_t>());
  const at::Tensor row = at::zeros({1, longest}, at::kDouble);
  row[0].narrow(0, 0, state.numel()).copy_(state);
  const at::Tensor all = transferred(group, KINORA_OP_ALL_GATHER, row).contiguous();
  for (int64_t r = 0; r < all.size(0); ++r) whole.merge(all[r].narrow(0, 0, lengths[r].item<int64_t>()));
}

}  // namespace kinora::core
