#include "apps/planner/shape.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

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

// Derives a Shape from what the model asked of its context.

namespace {

Sight sight_of(const ModelOutline::Attention& a) {
  if (!a.over) return Sight::none;
  return *a.over == KINORA_OVER_SPACE ? Sight::frame : *a.over == KINORA_OVER_TIME ? Sight::time : Sight::all;
}

double flops_of(const ModelOutline::Call& c) {
  if (c.linear)
    return 2 * static_cast<double>(c.linear->rows) * static_cast<double>(c.linear->in * c.linear->out);
  const auto& a = *c.attention;
  return 4 * static_cast<double>(a.queries * a.shared_keys) * static_cast<double>(a.heads * a.head_size);
}

// Sorts the calls of the layers. A COLUMN linear layer leads from the stream into a branch, any other one of
// tokens back to it.
class Branches {
 public:
  explicit Branches(Shape& s) : s_(s) {}

  void add(const ModelOutline::Call& c) {
    const bool tokens = c.linear ? c.linear->tokens : c.attention->tokens;
    const bool column = c.linear && c.linear->role == KINORA_ROLE_COLUMN;
    if (!tokens && !column)
      s_.other_flops += flops_of(c);
    else if (!tokens)
      add_shared(*c.linear);
    else if (c.linear)
      column ? add_column(*c.linear) : add_back(*c.linear);
    else
      b_.attentions.push_back({sight_of(*c.attention), c.attention->heads, c.attention->kv_heads,
                               c.attention->head_size, c.attention->shared_keys});
  }
  // Ends the branch. Equal branches are one, with a larger share.
  void end() {
    if (b_ == Branch()) return;
    for (Branch& other : s_.branches) {
      b_.share = other.share;
      if (other == b_) {
        other.share = static_cast<double>(std::llround(other.share * layers()) + 1) / layers();
        return void(b_ = {});
      }
    }
    b_.share = 1 / layers();
    s_.branches.push_back(std::exchange(b_, {}));
  }

 private:
  double layers() const { return static_cast<double>(s_.layers); }
  void add_shared(const ModelOutline::Linear& l) {
    for (SharedLinear& other : b_.shared)
      if (other.rows == l.rows && other.in == l.in) return void(other.out += l.out);
    b_.shared.push_back({l.rows, l.in, l.out});
  }
  void add_column(const ModelOutline::Linear& l) {
    if (b_.in != 0 && b_.in != l.in) end();
    b_.in = l.in, b_.columns += l.out;
  }
  void add_back(const ModelOutline::Linear& l) {
    b_.inner = l.in, b_.out = l.out;
    end();
  }

  Shape& s_;
  Branch b_;
};

}  // namespace

Result<Shape> shape_of(const ModelOutline& o) {
  Shape s;
  s.model = o.model, s.layers = o.blocks - 2, s.width = o.width, s.frames = o.frames, s.patches = o.patches;
  if (s.layers < 1 || s.width < 1 || s.tokens() < 1)
    return fail(
        KINORA_ERROR_INVALID,
        "plan: {} has no layers to divide; call sequence() of its context, then block() for the embedding "
        "(index 0), each layer (1 to N) and the head (N + 1)",
        o.model);
  Branches branches(s);
  int64_t block = 0;
  for (const auto& c : o.calls) {
    if (std::exchange(block, c.block) != c.block) branches.end();
    if (c.block >= 1 && c.block <= s.layers)
      branches.add(c);
    else if (c.linear && c.linear->tokens)
      s.ends += static_cast<double>(c.linear->in * c.linear->out);
    else
      s.other_flops += flops_of(c);
  }
  branches.end();
  for (const auto& [at, n] : o.parameters)
    (at >= 1 && at <= s.layers ? s.layer_parameters : s.outer) += static_cast<double>(n);
  s.layer_parameters /= static_cast<double>(s.layers);
  return s;
}

}  // namespace kinora::core::plan
