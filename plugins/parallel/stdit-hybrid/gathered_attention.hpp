// Attention of a rank's own queries over the keys and values of all ranks, which travel a few heads at a
// time: while some are attended to, the next are on their way, in the backward as in the forward.
//
// B batch, L local tokens, H heads of keys, d width of a head, P ranks. A rank hands 2 B L H d numbers to the
// gathers of a forward, and 2 B P L H d to the sums of a backward. The graph keeps the keys of all ranks;
// under recompute, only until the block's backward is over.
#pragma once
#include <functional>

#include <ATen/core/Tensor.h>

#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"

namespace kinora {

using Attend = std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                        const kinora_attention& how)>;

// k_table: of all ranks' keys in rank order.
at::Tensor gathered_attention(const Group<at::Tensor>& group, const at::Tensor& q, const at::Tensor& k,
                              const at::Tensor& v, kinora_attention how, const at::Tensor& k_table,
                              const Attend& attend);

}  // namespace kinora
