// Seconds of a device's kernels, from their shapes.
#pragma once
#include "apps/planner/layout.hpp"

namespace kinora::core::plan {

class Kernels {
 public:
  explicit Kernels(const Problem& p) : p_(p) {}
  // [m, k] x [k, n]. Tiles of 128 x 256 run in waves over the multiprocessors. Starting the first wave and
  // the gaps of the last cost about one wave, so small products are slower.
  double product(double m, double n, double k) const;
  // Fused attention: `pairs` of queries and keys with `width` channels, in sequences of `queries` and `keys`
  // tokens; their tiles of 128 x 64 may not be full.
  double attention(double pairs, double width, double queries, double keys) const;
  // Reads and writes this many bytes.
  double memory(double bytes) const;

 private:
  const Problem& p_;
};

}  // namespace kinora::core::plan
