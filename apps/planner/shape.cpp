#include "apps/planner/shape.hpp"

#include <algorithm>

namespace kinora::core::plan {
namespace {

double real(int64_t n) { return static_cast<double>(n); }

// Calls f for every attention that reads keys of tokens.
template <class F>
void each_self(const Shape& s, F&& f) {
  for (const Branch& b : s.branches)
    for (const Attention& a : b.attentions)
      if (a.sight != Sight::none) f(a);
}

}  // namespace

int64_t Branch::normed() const {
  int64_t out = 0;
  for (const Attention& a : attentions)
    out += (&a == attentions.data() ? a.channels() : 0) + (a.sight != Sight::none ? a.kv_channels() : 0);
  return out;
}

int64_t Shape::kv_width() const {
  int64_t out = 0;
  each_self(*this, [&](const Attention& a) { out = std::max(out, a.kv_channels()); });
  return out;
}

int64_t Shape::shared_values() const {
  int64_t out = 0;
  for (const Branch& b : branches)
    for (const SharedLinear& l : b.shared) out = std::max(out, l.rows * l.in);
  return out;
}

bool Shape::factorised() const {
  bool out = false;
  each_self(*this, [&](const Attention& a) { out = out || a.sight != Sight::all; });
  return out;
}

int64_t Shape::heads() const {
  int64_t out = 0;
  each_self(*this, [&](const Attention& a) { out = out ? out : a.heads; });
  return std::max<int64_t>(out, 1);
}

// Teacher forcing with B blocks of n tokens: clean block i sees i + 1 blocks, noisy block i sees i clean ones
// and itself; together B (B + 1) n^2.
double Shape::pairs(Sight sight) const {
  const double N = real(tokens()), p = real(patches);
  if (sight == Sight::none) return 0;
  if (sight == Sight::frame) return N * p;
  if (sight == Sight::time) return N * real(frames);
  if (!teacher_forcing) return N * N;
  const double n = p * real(block_frames), B = real(frames * patches) / n;
  return B * (B + 1) * n * n;
}

// Contiguous parts of [clean; noisy]: the last part of each half has the most keys before it.
double Shape::busiest_pairs(Sight sight, int64_t parts) const {
  const double even = pairs(sight) / real(parts);
  if (!teacher_forcing || sight != Sight::all || parts < 2) return even;
  const double N = real(frames * patches), n = real(patches * block_frames);
  const double queries = 2 * N / real(parts);
  return std::max(even, queries * (N - queries / 2 + n / 2));
}

double Shape::forward_flops() const {
  const double N = real(tokens());
  double layer = 0;
  for (const Branch& b : branches) {
    double flops = 2 * N * real(b.columns * b.in + b.inner * b.out);
    for (const SharedLinear& l : b.shared) flops += 2 * real(l.rows) * real(l.in * l.out);
    for (const Attention& a : b.attentions)
      flops += 4 * real(a.channels()) * (pairs(a.sight) + N * real(a.shared_keys));
    layer += b.share * flops;
  }
  return real(layers) * layer + 2 * N * ends + other_flops;
}

// Input of the branch, its modulated copy and its result before the gate; queries and keys before their norm;
// inner channels before and after attention or activation.
double kept_channels(const Shape& s) {
  double out = 0;
  for (const Branch& b : s.branches) out += b.share * real(3 * s.width + b.normed() + b.columns + b.inner);
  return out;
}

}  // namespace kinora::core::plan
