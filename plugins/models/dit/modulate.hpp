// The shift, scale and gate that adaptive layer norm gives each channel of a row.
//
// B batch, S local tokens, R rows of conditioning (1, one per frame or one per token), D width.
#pragma once
#include "kinora/layers.hpp"
#include "plugins/models/dit/config.hpp"

namespace kinora::dit {

// The modulation of a block or of the head: parts * D numbers per row.
AdaLn modulation(const Declare& declare, const Config& c, int64_t parts);

// The modulation of one sub-block, as its tokens' rows: each [B, S, D], or [B, 1, D] if R is 1.
struct Rows {
  at::Tensor shift, scale, gate;
};
// parts: of AdaLn, in chunks. first: index of its shift; a scale and, if there is one, a gate follow. row:
// Shared::rows of the tokens' layout.
Rows rows_of(const std::vector<at::Tensor>& parts, size_t first, const at::Tensor& row);

// LayerNorm(x) * (1 + scale) + shift, the norm without parameters, statistics in at least float32.
at::Tensor modulate(const at::Tensor& x, const Rows& rows);
// x + gate * y
at::Tensor gated(const at::Tensor& x, const at::Tensor& y, const Rows& rows);

}  // namespace kinora::dit
