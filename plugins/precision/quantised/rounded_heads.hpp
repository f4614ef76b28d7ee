// Rounds queries, keys and values of attention to E4M3 with a scale for each head, and decodes them again, as
// emulation. The probabilities, between the two products, are not rounded.
#pragma once
#include "kinora/strategy.hpp"

namespace kinora::quantised {

struct RoundedHeads {
  Tensor x;       // as given
  Tensor factor;  // float32 [B, 1, H, 1]: times it, x is numbers of E4M3; undefined in a packed row
};

// x [B, S, H, d] -> the same, rounded with the largest magnitude of a sample's head at 448, the format's
// largest number. Gradients pass as they are. table: of the tokens, or undefined; padding does not count for
// a scale. shared: null, or the ranks that have other tokens of the same heads. samples: in a packed row,
// each of which has scales of its own, if the table says which token is whose; else 1.
RoundedHeads rounded_heads(const Tensor& x, const Tensor& table, const Group<Tensor>& shared,
                           int64_t samples);

}  // namespace kinora::quantised
