// Runs each block without a graph in the forward and once more, with one, in the backward: activations inside
// a block are never kept. Chen et al. 2016 (arXiv 1604.06174), with a segment a block.
//
// One autograd node a block. Its inputs are the block's and the leaves of the parameters that the block
// reads: a first block, whose data need no gradient, would otherwise be cut off from the graph, and its
// parameters with it. What was true for the forward (the pass: sample numbers, seed, microbatch) is put back
// for the second run, or its noise would be another's.
//
// Selective (Korthikanti et al. 2022, arXiv 2205.05198, section 5): attention alone runs again, from its
// queries, keys and values. Scores, probabilities and masks grow with the square of the tokens and are cheap
// to make again; all else is kept.
#pragma once
#include "kinora/link.hpp"

namespace kinora {

class RecomputeLink final : public Link<Tensor> {
 public:
  // Which blocks run again: of those from `first` to `last` (-1: the last there is) every `every`-th, first
  // included.
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
