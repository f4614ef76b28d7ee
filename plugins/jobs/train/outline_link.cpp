#include "plugins/jobs/train/outline_link.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include <ATen/ATen.h>

namespace kinora::core {

kinora_param OutlineLink::parameter(const kinora_param_spec& s) {
  const auto id = next.parameter(s);
  roles_[id] = s.role;
  outline_.parameters[s.block] += std::accumulate(s.shape, s.shape + s.ndim, int64_t{1}, std::multiplies<>());
  return id;
}

at::Tensor OutlineLink::linear(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) {
  auto y = next.linear(x, w, b, seq);
  const int64_t in = x.size(-1);
  outline_.calls.push_back(
      {block_, ModelOutline::Linear{seq != 0, roles_.at(w), in ? x.numel() / in : 0, in, y.size(-1)}, {}});
  return y;
}

at::Tensor OutlineLink::attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const kinora_attention& how) {
  const auto beside = borrow<at::Tensor>(how.k_shared);
  ModelOutline::Attention a{how.q_seq != 0, {}, q.size(1), 0, q.size(2), k.size(2), q.size(3)};
  if (how.kv_seq) a.over = how.over;
  a.shared_keys = (how.kv_seq ? 0 : k.size(1)) + (beside.defined() ? beside.size(1) : 0);
  outline_.calls.push_back({block_, {}, a});
  return next.attention(q, k, v, how);
}

OutlineLink::Tensors OutlineLink::block(const kinora_block& b, const Tensors& in) {
  outline_.blocks = std::max(outline_.blocks, b.index + 1);
  if (b.index == 1 && b.n_carry > 0) outline_.width = in[0].size(-1);
  block_ = b.index;
  auto out = next.block(b, in);
  block_ = -1;
  return out;
}

at::Tensor OutlineLink::sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) {
  if (outline_.frames == 0) outline_.frames = spec.frames, outline_.patches = spec.rows * spec.cols;
  return next.sequence(x, spec, seq);
}

}  // namespace kinora::core
