#include "plugins/parallel/stdit-hybrid/gathered_attention.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "kinora/autograd.hpp"

namespace kinora {
namespace {

using Tensors = std::vector<at::Tensor>;

// Pieces of one tensor, each gathered along the tokens by the time that it is asked for. Backward: the sum of
// a piece's gradient starts when it is known, and all are finished where the one tensor needs its own.
class Gathers {
 public:
  Gathers(const Group<at::Tensor>& group, const at::Tensor& x, int64_t pieces, int64_t dim)
      : sums_(std::make_shared<std::vector<Started<at::Tensor>>>(static_cast<size_t>(pieces))),
        group_(group) {
    parts_ = autograd_apply<at::Tensor>(
        {x}, static_cast<size_t>(pieces),
        [=](const Tensors& in) {
          Tensors out;
          for (const at::Tensor& t : in[0].tensor_split(pieces, dim)) out.push_back(t.contiguous());
          return out;
        },
        [sums = sums_, dim](const Tensors&) {
          Tensors all;
          for (auto& sum : *sums) all.push_back(sum.finish());
          return Tensors{at::cat(all, dim)};
        });
    for (const at::Tensor& part : parts_) started_.push_back(group.start_gather(part.detach(), 1));
  }
  at::Tensor finish(size_t i) {
    auto arriving = std::make_shared<Started<at::Tensor>>(std::move(started_[i]));
    return autograd_apply<at::Tensor>(
        {parts_[i]}, 1, [arriving](const Tensors&) { return Tensors{arriving->finish()}; },
        [sums = sums_, group = group_, i](const Tensors& grad) {
          (*sums)[i] = group.start_scatter_sum(grad[0].contiguous(), 1);
          auto shape = grad[0].sizes().vec();
          shape[1] /= group.size();
          return Tensors{
              at::zeros({1}, grad[0].options()).expand(shape)};  // what it is, the other node knows
        })[0];
  }

 private:
  std::shared_ptr<std::vector<Started<at::Tensor>>> sums_;
  Group<at::Tensor> group_;
  Tensors parts_;
  std::vector<Started<at::Tensor>> started_;
};

at::Tensor heads_of(const at::Tensor& x, int64_t pieces, int64_t i) {
  return x.defined() ? x.tensor_split(pieces, 2)[static_cast<size_t>(i)] : x;
}

}  // namespace

at::Tensor gathered_attention(const Group<at::Tensor>& group, const at::Tensor& q, const at::Tensor& k,
                              const at::Tensor& v, kinora_attention how, const at::Tensor& k_table,
                              const Attend& attend) {
  constexpr int64_t most = 4;
  const int64_t heads = k.size(2), d = k.size(3), each = q.size(2) / heads, pieces = std::min(heads, most);
  Gathers gathers(group, at::cat({k, v}, 3), pieces, 2);
  const auto k_shared = borrow<at::Tensor>(how.k_shared), v_shared = borrow<at::Tensor>(how.v_shared);
  how.k_table = handle(k_table);
  const std::string name = how.name ? how.name : "";
  Tensors made;
  for (int64_t i = 0, first = 0; i < pieces; ++i) {
    const at::Tensor all = gathers.finish(static_cast<size_t>(i));
    const int64_t count = all.size(2) * each;
    const at::Tensor k_beside = heads_of(k_shared, pieces, i), v_beside = heads_of(v_shared, pieces, i);
    const std::string part = name + "/" + std::to_string(i);  // a cache keeps each part's keys
    how.name = part.c_str();
    how.k_shared = handle(k_beside);
    how.v_shared = handle(v_beside);
    at::Tensor out = attend(q.narrow(2, first, count), all.narrow(3, 0, d), all.narrow(3, d, d), how);
    // A rank of padding only sees no key; the sum in its backward is a transfer that the others wait for.
    if (all.requires_grad() && !out.requires_grad()) out = out + all.narrow(1, 0, 0).sum();
    made.push_back(std::move(out));
    first += count;
  }
  return at::cat(made, 2);
}

}  // namespace kinora
