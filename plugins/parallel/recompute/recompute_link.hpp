// Runs each block without a graph in the forward and again with one in the backward, so activations inside
// a block are never kept. Chen et al. 2016 (arXiv 1604.06174), with one segment per block.
//
// One autograd node per block. Its inputs are the block's inputs and the leaves of the parameters that the block
// reads: otherwise a first block, whose data needs no gradient, would be cut off from the graph, together with its
// parameters. The pass of the forward (sample numbers, seed, microbatch) is restored
// for the second run, since its noise depends on it.
//
// Selective (Korthikanti et al. 2022, arXiv 2205.05198, section 5): only attention runs again, from its
// queries, keys and values. Scores, probabilities and masks grow with the square of the tokens and are cheap
// to recompute; everything else is kept.
#pragma once
#include "kinora/link.hpp"

namespace kinora {

class RecomputeLink final : public Link<Tensor> {
 public:
  // The blocks that run again: from `first` to `last` (-1: the last block) every `every`-th, including
  // `first`.
  struct Which {
    int64_t every = 1, first = 0, last = -1;
    bool has(int64_t block) const {
      return block >= first && (last < 0 || block <= last) && (block - first) % every == 0;
    }
  };
  RecomputeLink(Which which, bool selective)
      : Link(KINORA_LEVEL_RECOMPUTE), which_(which), selective_(selective) {
    skip_inherited<RecomputeLink>();
  }

  Tensors block(const kinora_block& b, const Tensors& in) override;
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const kinora_attention& how) override;

 private:
  struct Call;
  struct AttentionCall;
  Tensors rerun(const Call& call, const Tensors& grad_out);
  Tensors rerun(const AttentionCall& call, const Tensors& grad_out);
  Which which_;
  bool selective_;
};

}  // namespace kinora
