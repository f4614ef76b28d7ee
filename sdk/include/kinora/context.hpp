// The context of a model in C++, see abi/context.h. T is kinora::Tensor (stable tier) or at::Tensor (pinned).
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kinora/abi/context.h"
#include "kinora/tensor.hpp"
#include "kinora/whole.hpp"

KINORA_SDK_BEGIN

namespace kinora {

enum class Role : uint32_t {
  whole = KINORA_ROLE_WHOLE,
  column = KINORA_ROLE_COLUMN,
  row = KINORA_ROLE_ROW,
  table = KINORA_ROLE_TABLE,
  vocab = KINORA_ROLE_VOCAB
};
enum class Place : uint32_t { stream = KINORA_PLACE_STREAM, inner = KINORA_PLACE_INNER };
enum class Over : uint32_t { all = KINORA_OVER_ALL, space = KINORA_OVER_SPACE, time = KINORA_OVER_TIME };

// Initial values of a parameter.
struct Init {
  uint32_t kind = KINORA_INIT_CONSTANT;
  double a = 0;
  static Init zeros() { return {}; }
  static Init ones() { return {KINORA_INIT_CONSTANT, 1}; }
  static Init constant(double a) { return {KINORA_INIT_CONSTANT, a}; }
  static Init normal(double std) { return {KINORA_INIT_NORMAL, std}; }
  static Init uniform(double a) { return {KINORA_INIT_UNIFORM, a}; }
  static Init identity(double a = 1) { return {KINORA_INIT_IDENTITY, a}; }
};

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
  Init init;
  Role role = Role::whole;
  int64_t block = -1;    // index of the block that reads it; -1: outside blocks
  int64_t quantum = 1;   // head size for attention's projections
  uint32_t n_parts = 1;  // equal fused pieces along the split dimension
  bool frozen = false;
};

template <class T>
struct Attention {
  const char* name = "";
  int64_t block = 0;
  kinora_seq q_seq = 0, kv_seq = 0;
  double scale = 1;
  Over over = Over::all;
  T kv_valid = {};
  T bias = {};
  T k_table = {};  // for shared keys of several samples of a packed row
  const kinora_rope* rope = nullptr;
};

namespace detail {
// Passes a block's results to the caller, which has room for exactly n_out.
template <class T>
void give_all(std::vector<T> made, size_t n_out, int64_t index, kinora_tensor* out) {
  if (made.size() != n_out)
    throw Error(KINORA_ERROR_INVALID, "block " + std::to_string(index) + " returned " +
                                          std::to_string(made.size()) +
                                          " tensors, but was declared with n_out = " + std::to_string(n_out));
  for (size_t i = 0; i < n_out; ++i) out[i] = give(std::move(made[i]));
}

// The function of one block, reference-counted because a link may keep it for the backward.
template <class T>
struct BlockCall {
  using Fn = std::function<std::vector<T>(const std::vector<T>&)>;
  Fn fn;
  size_t n_in, n_out;
  int64_t index;
  std::atomic<int> count{1};
  static BlockCall* of(void* user) { return static_cast<BlockCall*>(user); }
  static int32_t run(void* user, const kinora_tensor* in, kinora_tensor* out) {
    return guard([&] {
      std::vector<T> x;
      for (size_t i = 0; i < of(user)->n_in; ++i) x.push_back(borrow<T>(in[i]));
      give_all(of(user)->fn(x), of(user)->n_out, of(user)->index, out);
    });
  }
  static void retain(void* user) { ++of(user)->count; }
  static void release(void* user) {
    if (--of(user)->count == 0) delete of(user);
  }
};
}  // namespace detail

template <class T>
class Context {
 public:
  using Tensors = std::vector<T>;
  explicit Context(const kinora_context* c = nullptr) : c_(c) {}

  kinora_param parameter(const Parameter& p) const {
    kinora_param_spec s{};
    s.struct_size = sizeof s;
    s.role = static_cast<uint32_t>(p.role);
    s.name = p.name.c_str();
    s.shape = p.shape.data();
    s.ndim = static_cast<uint32_t>(p.shape.size());
    s.n_parts = p.n_parts;
    s.quantum = p.quantum;
    s.block = p.block;
    s.init = p.init.kind;
    s.frozen = p.frozen;
    s.init_scale = p.init.a;
    s.shards = 1;
    return parameter(s);
  }
  kinora_param parameter(const kinora_param_spec& s) const {
    kinora_param out = 0;
    check_or_stop(c_->parameter(c_->self, &s, &out));
    return out;
  }
  T value(kinora_param p) const {
    return made([&](kinora_tensor* o) { return c_->value(c_->self, p, o); });
  }
  T linear(const T& x, kinora_param w, kinora_param b, kinora_seq seq) const {
    return made([&](kinora_tensor* o) { return c_->linear(c_->self, handle(x), w, b, seq, o); });
  }
  T attention(const T& q, const T& k, const T& v, const Attention<T>& a) const {
    kinora_attention how{};
    how.struct_size = sizeof how;
    how.over = static_cast<uint32_t>(a.over);
    how.name = a.name;
    how.block = a.block;
    how.q_seq = a.q_seq;
    how.kv_seq = a.kv_seq;
    how.scale = a.scale;
    how.kv_valid = handle(a.kv_valid);
    how.bias = handle(a.bias);
    how.k_table = handle(a.k_table);
    how.rope = a.rope;
    return attention(q, k, v, how);
  }
  T attention(const T& q, const T& k, const T& v, const kinora_attention& how) const {
    return made(
        [&](kinora_tensor* o) { return c_->attention(c_->self, handle(q), handle(k), handle(v), &how, o); });
  }
  T all_reduce(const T& x) const {
    return made([&](kinora_tensor* o) { return c_->all_reduce(c_->self, handle(x), o); });
  }
  // fn(flow..., shared...) -> the next block's flow. fn must not capture tensors: all of them come through
  // its argument.
  Tensors block(int64_t index, const Tensors& flow, const Tensors& shared, uint32_t n_out,
                typename detail::BlockCall<T>::Fn fn) const {
    using Call = detail::BlockCall<T>;
    auto* call = new Call{std::move(fn), flow.size() + shared.size(), n_out, index};
    const std::unique_ptr<void, void (*)(void*)> mine(call, Call::release);
    kinora_block b{};
    b.struct_size = sizeof b;
    b.n_carry = static_cast<uint32_t>(flow.size());
    b.n_shared = static_cast<uint32_t>(shared.size());
    b.n_out = n_out;
    b.index = index;
    b.user = call;
    b.fn = Call::run;
    b.retain = Call::retain;
    b.release = Call::release;
    Tensors in = flow;
    in.insert(in.end(), shared.begin(), shared.end());
    return block(b, in);
  }
  Tensors block(const kinora_block& b, const Tensors& in) const {
    std::vector<kinora_tensor> handles, out(b.n_out);
    for (const auto& t : in) handles.push_back(handle(t));
    check_or_stop(c_->block(c_->self, &b, handles.data(), out.data()));
    Tensors made;
    for (auto h : out) made.push_back(adopt<T>(h));
    return made;
  }
  // x [B, frames * rows * cols, D] -> the local tokens; seq identifies them from then on.
  T sequence(const T& x, int64_t frames, int64_t rows, int64_t cols, kinora_seq& seq) const {
    return sequence(x, {sizeof(kinora_seq_spec), 0, frames, rows, cols, nullptr, 0, nullptr}, seq);
  }
  // A packed row: videos of these frames, rows and cols one after the other.
  T packed(const T& x, const std::vector<std::array<int64_t, 3>>& sizes, kinora_seq& seq) const {
    int64_t tokens = 0;
    for (const auto& [frames, rows, cols] : sizes) tokens += frames * rows * cols;
    const int64_t* first = sizes.empty() ? nullptr : sizes.front().data();
    return sequence(x, {sizeof(kinora_seq_spec), 0, tokens, 1, 1, nullptr, sizes.size(), first}, seq);
  }
  T sequence(const T& x, const kinora_seq_spec& spec, kinora_seq& seq) const {
    return made([&](kinora_tensor* o) { return c_->sequence(c_->self, handle(x), &spec, &seq, o); });
  }
  T gather(const T& x, kinora_seq seq) const {
    return made([&](kinora_tensor* o) { return c_->gather(c_->self, handle(x), seq, o); });
  }
  T table(kinora_seq seq, Place place) const {
    return made([&](kinora_tensor* o) { return c_->table(c_->self, seq, static_cast<uint32_t>(place), o); });
  }
  T reshard(const T& x, kinora_seq seq, Over over, kinora_seq& to) const {
    return made([&](kinora_tensor* o) {
      return c_->reshard(c_->self, handle(x), seq, static_cast<uint32_t>(over), &to, o);
    });
  }
  T noise(const T& like, kinora_seq seq, const char* key) const {
    return made([&](kinora_tensor* o) { return c_->noise(c_->self, handle(like), seq, key, o); });
  }
  // Rows of a table: ids int64 [B, tokens] of a sequence, or [...] with seq 0 -> [..., D]
  T lookup(const T& ids, kinora_param p, kinora_seq seq) const {
    return made([&](kinora_tensor* o) { return c_->lookup(c_->self, handle(ids), p, seq, o); });
  }
  // The items that this rank computes, int64 [mine] on the CPU, ascending.
  T share(const std::vector<double>& costs) const {
    return made([&](kinora_tensor* o) { return c_->share(c_->self, costs.data(), costs.size(), o); });
  }
  // Rows of this rank's items -> [1, tokens, D]; index and rows of all items.
  T place(const T& rows_made, const std::vector<int64_t>& index, const std::vector<int64_t>& rows,
          kinora_seq seq) const {
    if (index.size() != rows.size())
      throw Error(KINORA_ERROR_INVALID, "place: " + std::to_string(index.size()) +
                                            " items have an index and " + std::to_string(rows.size()) +
                                            " a number of rows");
    return made([&](kinora_tensor* o) {
      return c_->place(c_->self, handle(rows_made), index.data(), rows.data(), rows.size(), seq, o);
    });
  }
  const kinora_context* get() const { return c_; }

 private:
  template <class F>
  static T made(F call) {
    kinora_tensor out = nullptr;
    check_or_stop(call(&out));
    return adopt<T>(out);
  }
  const kinora_context* c_;
};

}  // namespace kinora

KINORA_SDK_END
