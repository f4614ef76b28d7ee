#include "plugins/models/dit/modulate.hpp"

#include <ATen/ATen.h>

#include "kernels/torch/modulate.hpp"

namespace kinora::dit {

using at::Tensor;

AdaLn::AdaLn(const Declare& declare, int64_t width, int64_t rank, int64_t parts) : parts_(parts) {
  const auto inside = declare.in("adaLN_modulation");
  if (rank > 0) down_ = inside.linear("1", rank, width);
  up_ = inside(rank > 0 ? "2.weight" : "1.weight", {parts * width, rank > 0 ? rank : width}, Init::zeros());
}

std::vector<Tensor> AdaLn::operator()(const Ctx& ctx, const Tensor& active) const {
  return ctx.linear(down_ ? ctx.linear(active, down_, 0, 0) : active, up_, 0, 0).chunk(parts_, 2);
}

Rows rows_of(const Ctx& ctx, kinora_seq seq, const std::vector<Tensor>& parts, size_t first) {
  Rows out{parts[first], parts[first + 1], first + 2 < parts.size() ? parts[first + 2] : Tensor()};
  if (out.shift.size(1) == 1) return out;
  const Tensor frame = ctx.table(seq, Place::stream).select(2, KINORA_TOKEN_FRAME);  // [1 or B, S]
  for (Tensor* t : {&out.shift, &out.scale, &out.gate}) {
    if (!t->defined()) continue;
    *t = frame.size(0) == 1 ? t->index_select(1, frame[0])
                            : t->gather(1, frame.unsqueeze(-1).expand({-1, -1, t->size(2)}));
  }
  return out;
}

Tensor modulate(const Tensor& x, const Rows& rows) {
  return kinora::modulate(x, rows.shift, rows.scale, 1e-6);
}

Tensor gated(const Tensor& x, const Tensor& y, const Rows& rows) { return kinora::gated(x, y, rows.gate); }

}  // namespace kinora::dit
