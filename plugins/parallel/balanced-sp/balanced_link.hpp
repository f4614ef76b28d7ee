// Balanced sequence parallelism for teacher forcing (LongLive 2.0): a rank owns the clean and the noisy
// latents of the same time span (pairs.hpp), so that every rank has the same number of tokens with loss and
// encodes only its own span. Attention works as in Ulysses: the all-to-all joins the ranks' tokens in rank
// order, clean and noisy alternating, and the tables are in that order too. So the run's rule makes its mask
// there and no activation is ever permuted; positions are those of the tables, for the whole video.
//
// Bytes that a rank sends: those of head_exchange.hpp for each attention, forward and backward, and
// (P - 1) B L C e of the output in the forward, with L tokens per rank and C channels of an output token.
#pragma once
#include <list>
#include <set>
#include <string>

#include "kinora/token_split.hpp"
#include "plugins/parallel/balanced-sp/pairs.hpp"

namespace kinora {

class BalancedLink final : public TokenSplit {
 public:
  // naive: equal runs of the clean sequence followed by the noisy one, for comparison.
  BalancedLink(Group<at::Tensor> group, int64_t multiple, bool naive);

  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override;
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override;

 protected:
  at::Tensor order(const at::Tensor&) const override { return known_.front().owners.order; }
  int64_t padding_of(int64_t) const override { return known_.front().owners.padding; }

 private:
  // The split of one table of the root, which keeps one tensor for each geometry.
  struct Known {
    at::Tensor table;
    Owners owners;
  };
  void know(const at::Tensor& table);
  // Logs the work of the ranks; warns once if there is nothing to balance.
  void tell(const at::Tensor& table);

  bool naive_;
  std::list<Known> known_;  // latest first
  std::set<std::string> told_;
};

}  // namespace kinora
