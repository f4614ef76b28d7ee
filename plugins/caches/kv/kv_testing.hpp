// What the tests of cache/kv share: a chain of the cache's link over an attention with an explicit mask.
#pragma once
#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/attention/visibility.hpp"
#include "kinora/abi/cache.h"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "tests/support/metered.hpp"
#include "tests/support/plugins.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/windowed.hpp"
#include "tests/support/worst.hpp"

namespace kinora::kv_test {

using at::Tensor;
using testing::HasSubstr;
constexpr int64_t kB = 2, kH = 3, kD = 4, kMost = 40;
constexpr int64_t kRow = kB * kH * kD * 8 * 2;           // bytes of a token's keys and values
constexpr int64_t kTableRow = KINORA_TOKEN_COLUMNS * 8;  // bytes of a token in a table
constexpr double kScale = 0.5;

// The end of a chain: a query sees the keys of its own INDEX and lower ones.
struct End : Link<Tensor> {
  End() : Link(KINORA_LEVEL_BASE, KINORA_ATTENTION_CODES) {}
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const kinora_attention& how) override {
    keys = k.size(1);
    k_table = how.k_table ? borrow<Tensor>(how.k_table) : Tensor();
    if (!how.kv_seq) return at::zeros_like(q);
    codes = how.needs & KINORA_ATTENTION_CODES;
    if (codes) {
      const auto decoded = [](const Tensor& x, kinora_tensor scales) {
        return x.to(at::kDouble) * borrow<Tensor>(scales).to(at::kDouble);
      };
      auto plain = how;
      plain.needs = 0;
      const Tensor out = attention(q, decoded(k, how.k_scales), decoded(v, how.v_scales), plain);
      codes = true;
      return out;
    }
    const auto index = [](kinora_tensor t) { return borrow<Tensor>(t)[0].select(1, KINORA_TOKEN_INDEX); };
    const Tensor seen = index(how.k_table).unsqueeze(0) <= index(how.q_table).unsqueeze(1);
    return test::masked_attention(q, k, v, how.scale, seen);
  }
  Tensor k_table;  // of the last call
  kinora_param parameter(const kinora_param_spec&) override { return ++parameters; }
  Tensor linear(const Tensor& x, kinora_param w, kinora_param, kinora_seq) override {
    ++linears;
    return x * static_cast<double>(w);
  }
  int64_t keys = 0, linears = 0;
  kinora_param parameters = 0;
  bool codes = false;
};

inline Tensor drawn(uint64_t seed) {
  at::manual_seed(seed);
  return at::randn({kB, kMost, kH, kD}, at::kDouble);
}
inline const Tensor& q() {
  static const Tensor x = drawn(1);
  return x;
}
inline const Tensor& k() {
  static const Tensor x = drawn(2);
  return x;
}
inline const Tensor& v() {
  static const Tensor x = drawn(3);
  return x;
}

using Saved = std::map<std::string, Tensor>;

// A chain of two: the cache's link over End.
struct Kv : test::Instance<kinora_cache> {
  End end;
  kinora_chain chain{};
  kinora_pass pass{};
  const kinora_link* link = nullptr;
  explicit Kv(int64_t window = 0, int64_t tokens = 0) : Kv(core::json{{"window", window}}, tokens) {}
  explicit Kv(const core::json& options, int64_t tokens = 0, const char* id = "cache/kv")
      : Instance(id, options, tokens) {
    check((*this)->link(self(), &link));
    pass.struct_size = sizeof pass;
    chain.struct_size = sizeof chain;
    chain.self = &pass;
    chain.next = chain.head = end.get()->context;
    chain.get_pass = [](void* self, kinora_pass* out) -> int32_t {
      KINORA_FILL(out, static_cast<kinora_pass*>(self));
      return KINORA_OK;
    };
    check(link->bind(link->context->self, &chain));
  }
  // A forward of tokens [first, end) of q, k, v.
  Tensor forward(int64_t first, int64_t last, const char* name = "self") {
    core::Frames frames;
    frames.start = first;
    return attention(core::token_table(frames, last - first, 1, 1), first, last, name);
  }
  Tensor attention(const Tensor& table, int64_t first, int64_t last, const char* name = "self") {
    const auto mine = [&](const Tensor& x) { return x.narrow(1, first, last - first); };
    return attention(table, mine(q()), mine(k()), mine(v()), nullptr, name);
  }
  Tensor attention(const Tensor& table, const Tensor& q, const Tensor& k, const Tensor& v,
                   const kinora_rope* rope, const char* name = "self") {
    tables.push_back(table);
    kinora_attention how{};
    how.struct_size = sizeof how;
    how.name = name;
    how.q_seq = how.kv_seq = 1;
    how.scale = kScale;
    how.q_table = how.k_table = handle(tables.back());
    how.rope = rope;
    return Context<Tensor>(link->context).attention(q, k, v, how);
  }
  // One token of this INDEX whose q, k and v are those of token `row`.
  Tensor token(int64_t index, int64_t row, const char* name = "self") {
    core::Frames frames;
    frames.start = index;
    return attention(core::token_table(frames, 1, 1, 1), row, row + 1, name);
  }
  // The calls below are about the session of `pass`.
  int64_t tokens(uint32_t branch = 0) {
    int64_t n = -1;
    check((*this)->tokens(self(), pass.session, branch, &n));
    return n;
  }
  int64_t bytes() {
    int64_t n = -1;
    check((*this)->bytes(self(), pass.session, &n));
    return n;
  }
  void reset(uint32_t branch) { check((*this)->reset(self(), pass.session, branch)); }
  void trim(uint32_t branch, int64_t n) { check((*this)->trim(self(), pass.session, branch, n)); }
  void pin(int64_t first, int64_t count) { check((*this)->pin(self(), pass.session, first, count)); }
  void unpin(int64_t first, int64_t count) { check((*this)->unpin(self(), pass.session, first, count)); }
  void copy(uint64_t from, uint64_t to) { check((*this)->copy(self(), from, to)); }
  Saved save() {
    Saved out;
    const auto take = [](void* to, const kinora_named* one) -> int32_t {
      (*static_cast<Saved*>(to))[one->name] = borrow<Tensor>(one->tensor).clone();
      return KINORA_OK;
    };
    check((*this)->save(self(), pass.session, &out, take));
    return out;
  }
  void restore(const Saved& saved) {
    std::vector<kinora_named> in;
    for (const auto& [name, tensor] : saved) in.push_back({name.c_str(), handle(tensor)});
    check((*this)->restore(self(), pass.session, in.data(), in.size()));
  }
  std::deque<Tensor> tables;  // alive, so that none has the address of an earlier one
};

inline double worst(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

// The nearest number of E4M3: three bits of mantissa, the least exponent is -6; an even mantissa for a tie.
inline float nearest_e4m3(float x) {
  if (x == 0) return 0;
  const int exponent = std::max(std::ilogb(x), -6);
  return std::ldexp(std::nearbyint(std::ldexp(x, 3 - exponent)), exponent - 3);
}

// x [B, S, heads, d] in E4M3, with a scale for each token and head: its largest magnitude / 448.
inline Tensor through_e4m3(const Tensor& x) {
  Tensor out = x.to(at::kFloat).contiguous().clone();
  const int64_t d = x.size(3);
  for (float* head = out.data_ptr<float>(); head != out.data_ptr<float>() + out.numel(); head += d) {
    float largest = 0;
    for (int64_t i = 0; i < d; ++i) largest = test::worse(largest, std::abs(head[i]));
    const float scale = std::max(largest * static_cast<float>(1 / 448.0), 1e-30F);
    for (int64_t i = 0; i < d; ++i) head[i] = nearest_e4m3(head[i] / scale);
    for (int64_t i = 0; i < d; ++i) head[i] *= scale;
  }
  return out.to(at::kDouble);
}

// Frames of two tokens. Frame f is that of rows 2 (f % 20) and the next of q, k and v; from frame 6 on a second shot,
// eight positions later. Pairs of channels: one of time, one of columns.
constexpr int64_t kArea = 2, kShot = 6;
constexpr double kFrequency[] = {0.9, 0.7}, kRates[] = {1, 0.5};
inline int64_t time_of(int64_t frame, int64_t start) { return frame + (frame - start >= kShot ? 8 : 0); }

inline Tensor of_frames(const Tensor& x, const std::vector<int64_t>& frames) {
  std::vector<Tensor> out;
  for (const int64_t f : frames) out.push_back(x.narrow(1, f % (kMost / kArea) * kArea, kArea));
  return at::cat(out, 1);
}

// x [B, frames * 2, heads, 4] rotated to these positions of its frames, number by number.
inline Tensor rotated(const Tensor& x, uint32_t layout, const std::vector<double>& times,
                      bool columns = true) {
  Tensor out = x.clone();
  for (int64_t b = 0; b < x.size(0); ++b)
    for (int64_t s = 0; s < x.size(1); ++s)
      for (int64_t i = 0; i < 2; ++i) {
        const double position = i == 0    ? times[static_cast<size_t>(s / kArea)] * kRates[b]
                                : columns ? s % kArea
                                          : 0;
        const double c = std::cos(position * kFrequency[i]), n = std::sin(position * kFrequency[i]);
        const bool halves = layout == KINORA_ROPE_HALVES;
        const int64_t first = halves ? i : 2 * i, second = halves ? i + 2 : 2 * i + 1;
        const Tensor p = x[b][s].select(1, first), q = x[b][s].select(1, second);
        out[b][s].select(1, first).copy_(p * c - q * n);
        out[b][s].select(1, second).copy_(q * c + p * n);
      }
  return out;
}

// A stream of frames with their rotation, given to a cache one by one.
struct Stream {
  Kv cache;
  uint32_t layout;
  int64_t start, column = KINORA_TOKEN_TIME;
  Tensor rates = at::tensor({kRates[0], kRates[1]}, at::kDouble);
  explicit Stream(const core::json& options, uint32_t of = KINORA_ROPE_HALVES, int64_t from = 0)
      : cache(options), layout(of), start(from) {}
  kinora_rope rope() const {
    kinora_rope out{};
    out.struct_size = sizeof out;
    out.layout = layout;
    out.n_axes = 2;
    out.frequency = kFrequency;
    for (int axis : {0, 1}) out.pairs[axis] = out.divisor[axis] = 1;
    out.column[0] = column, out.column[1] = KINORA_TOKEN_COL;
    out.rate = handle(rates);
    return out;
  }
  Tensor at_own_place(const Tensor& x, int64_t f) const {
    return rotated(of_frames(x, {f}), layout, {static_cast<double>(time_of(f, start))});
  }
  Tensor operator()(int64_t f, bool read_only = false) {
    core::Frames frames;
    frames.start = f;
    frames.times = {time_of(f, start)};
    const kinora_rope how = rope();
    cache.pass.read_only = read_only;
    return cache.attention(core::token_table(frames, 1, 1, kArea), at_own_place(q(), f), at_own_place(k(), f),
                           of_frames(v(), {f}), &how);
  }
};

// The frames that frame f sees: the pinned ones and the latest three others; itself last.
inline std::vector<int64_t> seen_by(int64_t f, int64_t start, const std::vector<int64_t>& pinned) {
  std::vector<int64_t> out;
  int64_t left = 3;
  for (int64_t i = f; i >= start; --i)
    if (std::count(pinned.begin(), pinned.end(), i) || left-- > 0) out.insert(out.begin(), i);
  return out;
}
// Consecutive positions of these frames; the second shot begins eight later.
inline std::vector<double> consecutive(const std::vector<int64_t>& frames, int64_t start) {
  std::vector<double> out;
  for (size_t i = 0; i < frames.size(); ++i)
    out.push_back(static_cast<double>(i) + (frames[i] - start >= kShot ? 8 : 0));
  return out;
}
// Queries of the last frame see all keys up to their own.
inline Tensor mask_of(const std::vector<int64_t>& frames) {
  const auto n = static_cast<int64_t>(frames.size()) * kArea;
  return at::ones({kArea, n}, at::kBool).tril(n - kArea);
}

}  // namespace kinora::kv_test
