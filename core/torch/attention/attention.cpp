// B batch, S queries, L keys, E shared keys, G groups, H heads (keys may have fewer), d width of a head.
#include "core/torch/attention/attention.hpp"

#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/Tensor.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "kernels/cpu/attention.hpp"
#include "kernels/torch/attention_heads.hpp"
#include "kernels/torch/node.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// kernels/cpu/attention.hpp as a node of the autograd graph: stores nothing of size tokens x tokens. Every query sees
// every key. Differentiable once, as libtorch's own fused kernels are.
struct FusedAttention : torch::autograd::Function<FusedAttention> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q_in, const Tensor& k_in, const Tensor& v_in,
                        double scale) {
    const Tensor q = with_dense_heads(q_in), k = with_dense_heads(k_in), v = with_dense_heads(v_in);
    const Tensor out = at::empty(q.sizes(), q.options().memory_format(at::MemoryFormat::Contiguous)),
                 sums = at::empty({q.size(0), q.size(2), q.size(1)}, out.options());
    attention_of_heads(q, k, v, scale, out, sums);
    ctx->save_for_backward({q, k, v, out, sums});
    ctx->saved_data["scale"] = scale;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &sums = saved[4];
    const auto like = [&](const Tensor& x) { return at::empty(x.sizes(), out.options()); };
    const Tensor gq = like(q), gk = like(k), gv = like(v);
    attention_of_heads_backward(q, k, v, ctx->saved_data["scale"].toDouble(), out, sums,
                                with_dense_heads(grads[0]), gq, gk, gv);
    return node::once({gq, gk, gv, {}}, "attention");
  }
};

// True for float32 on a processor that the kernels support.
bool can_fuse(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto fits = [](const Tensor& x) {
    return x.is_cpu() && x.scalar_type() == at::kFloat && x.numel() > 0;
  };
  return fits(q) && fits(k) && fits(v) && v.size(3) == q.size(3) && has_attention();
}

// [B, L, H / n, d] -> [B, L, H, d]: repeats each key head for n consecutive query heads (GQA, Ainslie et al.
// 2023, arXiv 2305.13245).
at::Tensor for_each_query_head(const at::Tensor& x, int64_t H) {
  return x.size(2) == H ? x : x.repeat_interleave(H / x.size(2), 2);
}

// Attention in FP8, if `by` is not null.
struct Low {
  gpu::Fp8Attention* by = nullptr;
  gpu::HeadFactors factors;

  Low of_sample(int64_t b) const {
    const auto one = [b](const at::Tensor& t) { return t.size(0) == 1 ? t : t.narrow(0, b, 1); };
    return by ? Low{by, {one(factors.q), one(factors.k), one(factors.v)}} : *this;
  }
};
Low low_of(gpu::Fp8Attention* fp8, const kinora_attention& how) {
  if (!fp8 || !how.q_factor || !how.k_factor || !how.v_factor) return {};
  const auto of = borrow<at::Tensor>;
  return {fp8, {of(how.q_factor), of(how.k_factor), of(how.v_factor)}};
}

// valid_BL: bool, or undefined. before: the queries are the last of the L own keys, see VisibleGroups; the E
// shared keys that follow are visible to all. bias: [1 or B, 1 or H, S, L], or undefined.
at::Tensor attend(const at::Tensor& q_BSHd, const at::Tensor& k_BLHd, const at::Tensor& v_BLHd, double scale,
                  const at::Tensor& valid_BL, bool before = false, int64_t E = 0, const at::Tensor& bias = {},
                  const Low& low = {}) {
  const int64_t S = q_BSHd.size(1), H = q_BSHd.size(2), L = k_BLHd.size(1) - E;
  if (low.by && (valid_BL.defined() || before || E > 0 || bias.defined())) {
    low.by->tell("it has a mask, a bias or shared keys");
  } else if (low.by) {
    const auto of_query_heads = [&](const at::Tensor& x) { return for_each_query_head(x, H); };
    const auto& by = low.factors;
    const auto out = low.by->attend(q_BSHd, of_query_heads(k_BLHd), of_query_heads(v_BLHd),
                                    {by.q, of_query_heads(by.k), of_query_heads(by.v)}, scale);
    if (out.defined()) return out;
  }
  std::optional<at::Tensor> mask;
  if (valid_BL.defined()) mask = valid_BL.unsqueeze(1).unsqueeze(1).expand({-1, H, S, -1});
  if (!mask && !before && !bias.defined() && can_fuse(q_BSHd, k_BLHd, v_BLHd))
    return FusedAttention::apply(q_BSHd, for_each_query_head(k_BLHd, H), for_each_query_head(v_BLHd, H),
                                 scale);
  const bool whole = before && S == L && E == 0 && !mask;
  if (before && !whole) {
    const auto seen =
        at::constant_pad_nd(at::ones({S, L}, q_BSHd.options().dtype(at::kBool)).tril(L - S), {0, E}, 1);
    mask = mask ? *mask & seen : seen;
  }
  if (bias.defined()) {
    const auto added = bias.to(q_BSHd.scalar_type());
    mask = mask ? added.masked_fill(~*mask, -INFINITY) : added;
  }
  return at::scaled_dot_product_attention(
             q_BSHd.transpose(1, 2), for_each_query_head(k_BLHd, H).transpose(1, 2),
             for_each_query_head(v_BLHd, H).transpose(1, 2), mask, 0.0, whole, scale)
      .transpose(1, 2);
}

at::Tensor take(const at::Tensor& x, const Rows& rows) {
  if (rows.first < 0) return x.index_select(1, rows.index);
  return rows.count == x.size(1) ? x : x.narrow(1, rows.first, rows.count);
}

// Keys that every group of a batch sees in addition to its own.
struct Shared {
  at::Tensor k_BEHd, v_BEHd, valid_BE;
};

at::Tensor attend_groups(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                         const VisibleGroups& g, const Shared& shared, const Low& low) {
  const int64_t B = q.size(0), H = q.size(2), d = q.size(3);
  const auto apart = [&](const at::Tensor& x, const Rows& rows, int64_t each) {
    return take(x, rows).reshape({B * g.groups, each, x.size(2), d});
  };
  const auto repeated = [&](const at::Tensor& x) {
    return g.groups == 1 ? x : x.repeat_interleave(g.groups, 0);
  };
  auto keys = apart(k, g.k, g.keys), values = apart(v, g.k, g.keys);
  at::Tensor valid;
  if (shared.k_BEHd.defined()) {
    keys = at::cat({keys, repeated(shared.k_BEHd)}, 1);
    values = at::cat({values, repeated(shared.v_BEHd)}, 1);
    if (shared.valid_BE.defined())
      valid = at::cat(
          {at::ones({B * g.groups, g.keys}, shared.valid_BE.options()), repeated(shared.valid_BE)}, 1);
  }
  return attend(apart(q, g.q, g.queries), keys, values, scale, valid, g.before, keys.size(1) - g.keys, {},
                low)
      .reshape({B, g.groups * g.queries, H, d});
}

at::Tensor attend_plan(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                       const VisiblePlan& plan, const Shared& shared, const Low& low) {
  std::vector<at::Tensor> made;
  for (const auto& g : plan.batches) made.push_back(attend_groups(q, k, v, scale, g, shared, low));
  if (plan.blind > 0) made.push_back(at::zeros({q.size(0), plan.blind, q.size(2), q.size(3)}, q.options()));
  auto out = made.size() == 1 ? made[0] : at::cat(made, 1);
  return plan.order.defined() ? out.index_select(1, plan.order) : out;
}

void check_shapes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const kinora_attention& how) {
  const char* name = how.name ? how.name : "";
  if (q.dim() != 4 || k.dim() != 4 || v.dim() != 4 || k.size(1) != v.size(1) || k.size(2) != v.size(2) ||
      k.size(2) < 1 || q.size(2) % k.size(2) != 0)
    raise(
        KINORA_ERROR_INVALID,
        "attention '{}': expected q [B, S, heads, d] and k, v [B, L, heads or a divisor, d], got {}, {}, {}",
        name, c10::str(q.sizes()), c10::str(k.sizes()), c10::str(v.sizes()));
  const auto fits = [&](const at::Tensor& table, const at::Tensor& x) {
    return table.size(1) == x.size(1) && (table.size(0) == 1 || table.size(0) == x.size(0));
  };
  const auto qt = borrow<at::Tensor>(how.q_table), kt = borrow<at::Tensor>(how.k_table);
  if ((qt.defined() && !fits(qt, q)) || (kt.defined() && !fits(kt, k)))
    raise(KINORA_ERROR_INVALID,
          "attention '{}': q {} and k {} do not have the tokens of their tables {} and {}; give the sequence "
          "that they belong to",
          name, c10::str(q.sizes()), c10::str(k.sizes()), qt.defined() ? c10::str(qt.sizes()) : "none",
          kt.defined() ? c10::str(kt.sizes()) : "none");
}

void check_bias(const at::Tensor& q, const at::Tensor& k, const kinora_attention& how) {
  const auto bias = borrow<at::Tensor>(how.bias);
  if (!bias.defined()) return;
  const char* name = how.name ? how.name : "";
  if (how.q_table || how.k_table || how.k_shared)
    raise(KINORA_ERROR_UNSUPPORTED,
          "attention '{}': a bias is for shared queries and keys only, and these belong to a sequence", name);
  const auto fits = [&](int64_t dim, int64_t size) { return bias.size(dim) == 1 || bias.size(dim) == size; };
  if (bias.dim() != 4 || !fits(0, q.size(0)) || !fits(1, q.size(2)) || bias.size(2) != q.size(1) ||
      bias.size(3) != k.size(1))
    raise(KINORA_ERROR_INVALID, "attention '{}': the bias {} is not [1 or {}, 1 or {}, {}, {}]", name,
          c10::str(bias.sizes()), q.size(0), q.size(2), q.size(1), k.size(1));
}

}  // namespace

const VisiblePlan& VisiblePlans::of(const Frames& rule, const at::Tensor& q_table, const at::Tensor& k_table,
                                    uint32_t over) {
  const auto same = [](const at::Tensor& a, const at::Tensor& b) {
    return a.data_ptr() == b.data_ptr() && a.sizes() == b.sizes() && a.strides() == b.strides();
  };
  for (auto it = known_.begin(); it != known_.end(); ++it)
    if (it->over == over && same(it->q_table, q_table) && same(it->k_table, k_table)) {
      known_.splice(known_.begin(), known_, it);
      return it->plan;
    }
  constexpr size_t most = 64;
  if (known_.size() == most) known_.pop_back();
  known_.push_front(
      {q_table, k_table, over, plan_visible(rule, q_table[0], k_table[0], over, q_table.device())});
  return known_.front().plan;
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const kinora_attention& how, const Frames& rule, VisiblePlans& plans,
                     gpu::Fp8Attention* fp8) {
  check_shapes(q, k, v, how);
  check_bias(q, k, how);
  const auto q_table = borrow<at::Tensor>(how.q_table), k_table = borrow<at::Tensor>(how.k_table),
             valid = borrow<at::Tensor>(how.kv_valid);
  const Shared shared{borrow<at::Tensor>(how.k_shared), borrow<at::Tensor>(how.v_shared), valid};
  const Low low = low_of(fp8, how);
  if (!q_table.defined() || !k_table.defined()) {
    if (!shared.k_BEHd.defined())
      return attend(q, k, v, how.scale, valid, false, 0, borrow<at::Tensor>(how.bias), low);
    const VisibleGroups all{1, q.size(1), k.size(1), {0, q.size(1), {}}, {0, k.size(1), {}}};
    return attend_groups(q, k, v, how.scale, all, shared, low);
  }
  if (k_table.is_meta()) return at::empty_like(q);  // a model's own table: visibility is not known there
  // Shared keys of a packed row belong to samples, not to frames: only the SAMPLE part of the rule applies.
  const bool theirs = how.q_seq && !how.kv_seq;
  const Frames mine = theirs ? Frames() : rule;
  const uint32_t over = theirs ? KINORA_OVER_ALL : how.over;
  const int64_t rows = std::max(q_table.size(0), k_table.size(0));
  if (rows == 1) return attend_plan(q, k, v, how.scale, plans.of(mine, q_table, k_table, over), shared, low);
  std::vector<at::Tensor> made;  // one table per sample
  for (int64_t b = 0; b < rows; ++b) {
    const auto one = [b](const at::Tensor& t) {
      return !t.defined() || t.size(0) == 1 ? t : t.narrow(0, b, 1);
    };
    const Shared its{one(shared.k_BEHd), one(shared.v_BEHd), one(shared.valid_BE)};
    made.push_back(attend_plan(one(q), one(k), one(v), how.scale,
                               plans.of(mine, one(q_table), one(k_table), over), its, low.of_sample(b)));
  }
  return at::cat(made, 0);
}

}  // namespace kinora::core
