#include "apps/planner/shape.hpp"

#include <algorithm>
#include <cmath>

namespace kinora::core::plan {

std::vector<Sight> Shape::selves() const {
  if (!factorised) return {Sight::all};
  if (full) return {Sight::frame, Sight::all, Sight::time};
  return {Sight::frame, Sight::time};
}

// Teacher forcing with B blocks of n tokens: clean block i sees i + 1 blocks, noisy block i sees i clean ones
// and itself; together B (B + 1) n^2.
double Shape::pairs(Sight sight) const {
  const double N = static_cast<double>(tokens()), p = static_cast<double>(patches);
  switch (sight) {
    case Sight::frame:
      return N * p;
    case Sight::time:
      return N * static_cast<double>(frames);
    case Sight::text:
      return N * static_cast<double>(text_tokens);
    case Sight::all:
      break;
  }
  if (!teacher_forcing) return N * N;
  const double n = p * static_cast<double>(block_frames), B = static_cast<double>(frames * patches) / n;
  return B * (B + 1) * n * n;
}

// Contiguous parts of [clean; noisy]: the last part of each half has the most keys before it.
double Shape::busiest_pairs(Sight sight, int64_t parts) const {
  const double even = pairs(sight) / static_cast<double>(parts);
  if (!teacher_forcing || sight != Sight::all || parts < 2) return even;
  const double N = static_cast<double>(frames * patches), n = static_cast<double>(patches * block_frames);
  const double queries = 2 * N / static_cast<double>(parts);
  return std::max(even, queries * (N - queries / 2 + n / 2));
}

double Shape::layer_parameters() const {
  const double D = static_cast<double>(width()), K = static_cast<double>(kv_width());
  const double norms = 2 * static_cast<double>(head_size);
  const double self = D * (D + 2 * K) + D * D + norms;
  const double across = cross ? 2 * D * D + 2 * K * static_cast<double>(text_size) + norms : 0;
  return static_cast<double>(selves().size()) * self + across + 2 * D * static_cast<double>(mlp) +
         static_cast<double>(modulation);
}

double Shape::forward_flops() const {
  const double D = static_cast<double>(width()), K = static_cast<double>(kv_width());
  const double N = static_cast<double>(tokens()), L = static_cast<double>(layers);
  double matrices = 2 * D * static_cast<double>(mlp), pairs_seen = 0, of_text = 0;
  for (const Sight s : selves()) matrices += D * (D + 2 * K) + D * D, pairs_seen += pairs(s);
  if (cross) {
    matrices += 2 * D * D;
    pairs_seen += pairs(Sight::text);
    of_text = 2 * K * static_cast<double>(text_size * text_tokens);
  }
  return L * (2 * N * matrices + 2 * of_text + 4 * D * pairs_seen) +
         2 * N * D * static_cast<double>(in_patch + out_patch);
}

std::vector<Kept> kept_tensors(const Shape& s) {
  const double D = static_cast<double>(s.width()), K = static_cast<double>(s.kv_width());
  const double selves = static_cast<double>(s.selves().size()), across = s.cross ? 1 : 0;
  return {{"block inputs and residuals", D * (selves + across + 1)},
          {"modulated inputs of linear layers", D * (selves + across + 1)},
          {"queries and keys before their norm", (D + K) * selves + D * across},
          {"queries, keys and values", (D + 2 * K) * selves + D * across},
          {"attention outputs", D * (selves + across)},
          {"MLP hidden, before and after GELU", 2 * static_cast<double>(s.mlp)},
          {"outputs before their gates", D * (selves + across + 1)}};
}

double kept_input(const Shape& s) { return static_cast<double>(s.width()); }

}  // namespace kinora::core::plan
