// Tensor parallelism (Shoeybi et al. 2019, arXiv 1909.08053) with sequence parallelism (Korthikanti et al.
// 2022, arXiv 2205.05198): the outputs of COLUMN weights and the inputs of ROW weights are split, and between a
// ROW and the next COLUMN each rank has its part of the tokens, so norms, modulation, dropout and residuals
// are computed once. Norms over a head's channels need no transfer; for norms over all heads, total() sums their statistic.
//
// A COLUMN linear gathers its tokens; a ROW linear sums its result and keeps this rank's tokens. COLUMN
// linears of one tensor (q, k and v; gate and up) share one gather and its gradient. For the backward a rank
// keeps only its own tokens and gathers all of them once more (regather.hpp), while the product
// of the following ROW linear is differentiated. Text and conditions (seq 0) enter a COLUMN without a
// transfer: every rank has them, and their gradients are partial sums like all others.
//
// Bytes that a rank sends, with T ranks, N tokens with padding, e bytes per element, forward and
// backward each:
//   (T - 1) B (N / T) D e   for each gather: a tensor of width D that COLUMN linears read
//   (T - 1) B (N / T) D e   for each ROW linear with D outputs (e: 4 where a precision keeps wide sums)
//   a sum of B N statistics for each total(), and of the result for a ROW linear of shared tensors
//   (T - 1) B (N / T) D e   for leave(), forward only
// and in the backward once more
//   (T - 1) B (N / T) D e   for each gather whose result a weight's gradient needs: not if the weights are frozen
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "kinora/transfers.hpp"
#include "plugins/parallel/tp/regather.hpp"

namespace kinora {

class TensorLink final : public Link<at::Tensor> {
 public:
  explicit TensorLink(Group<at::Tensor> group);

  kinora_param parameter(const kinora_param_spec& spec) override;
  // Throws Error(KINORA_INVALID) if a parameter cannot be split this way.
  void declared() override;
  at::Tensor linear(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) override;
  at::Tensor total(const at::Tensor& x) override;
  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override;
  at::Tensor leave(const at::Tensor& x, kinora_seq seq) override;
  at::Tensor table(kinora_seq seq, Place place) override;

 private:
  struct Gathered {
    at::Tensor own, all;
    int64_t version;
    bool with_gradient;
    std::shared_ptr<Regather> kept;  // with gradient
  };
  using Kept = std::vector<std::shared_ptr<Regather>>;
  Gathered all_tokens(const at::Tensor& x);
  // The forward has read the gathered tokens: from now on only the backward needs them.
  Kept let_go();
  at::Tensor column(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq);
  at::Tensor row(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq);

  Group<at::Tensor> group_;
  std::set<kinora_param> columns_, rows_;
  std::map<kinora_seq, at::Tensor> tables_;  // of all tokens of the group
  std::vector<Gathered> gathered_;           // since the last ROW linear
  // The greatest number of ranks by which all parameters can be split. If that is smaller than the group, the parameter with
  // the fewest whole units.
  int64_t units_ = 0, fewest_ = 0;
  std::string scarcest_;
};

}  // namespace kinora
