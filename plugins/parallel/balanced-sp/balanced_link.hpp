// Balanced sequence parallelism of teacher forcing (LongLive 2.0): a rank owns the clean and the noisy
// latents of the same stretch of time (pairs.hpp), so that every rank has as many tokens that carry loss and
// encodes its own stretch only. Attention is Ulysses': the all-to-all puts the ranks' tokens one after the
// other, clean and noisy by turns, and the tables are in that order too, so the run's rule makes its mask
// there and no activation is ever permuted; positions are those of the tables, of the whole video.
//
// Bytes that a rank sends are those of head_exchange.hpp for each attention, forward and backward, and
// (P - 1) B L C e of the output in the forward, with L tokens of a rank and C channels of an output's token.
#pragma once
#include <list>
#include <set>
#include <string>

#include "kinora/token_split.hpp"
#include "plugins/parallel/balanced-sp/pairs.hpp"

namespace kinora {

class BalancedLink final : public TokenSplit {
 public:
  // naive: equal runs of the clean sequence and the noisy one behind it, to compare with.
  BalancedLink(Group<at::Tensor> group, int64_t multiple, bool naive);

  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override;
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override;

 protected:
  at::Tensor order(const at::Tensor&) const override { return known_.front().owners.order; }
  int64_t padding_of(int64_t) const override { return known_.front().owners.padding; }

 private:
  // Of one table of the root, which keeps one tensor a geometry.
  struct Known {
    at::Tensor table;
    Owners owners;
  };
  void know(const at::Tensor& table);
  // What every rank has, in the log; once, that there is nothing to balance.
  void tell(const at::Tensor& table);

  bool naive_;
  std::list<Known> known_;  // latest first
  std::set<std::string> told_;
};

}  // namespace kinora
