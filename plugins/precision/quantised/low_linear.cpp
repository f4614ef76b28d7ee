#include "plugins/precision/quantised/low_linear.hpp"

#include "kinora/autograd.hpp"

namespace kinora::quantised {
namespace {

Tensor plain(const Tensor& t) { return t.detach().to(KINORA_DTYPE_FLOAT32).contiguous(); }
Tensor transposed(const Tensor& t) { return op("aten::transpose", "int", {t, -2, -1}); }
Tensor rows(const Tensor& t) { return t.reshape({-1, t.size(-1)}); }
std::vector<Channels> all_of(const Tensor& x) { return {{0, x.size(-1), 0}}; }

void append(std::vector<float>& to, const std::vector<float>& more) {
  to.insert(to.end(), more.begin(), more.end());
}
std::vector<float> part(const std::vector<float>& of, size_t i, size_t count) {
  const auto from = of.begin() + static_cast<std::ptrdiff_t>(i * count);
  return {from, from + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

std::vector<float> LowLinear::over(const Group<Tensor>& group, const std::vector<float>& amax) const {
  if (!group.get() || group.size() == 1) return amax;
  const Tensor all = tensor(std::vector<double>(amax.begin(), amax.end()));
  const Tensor most =
      group.transfer({sizeof(kinora_transfer), KINORA_OP_ALL_REDUCE_MAX, 0, 0, 0, 0, all.get()}).contiguous();
  const double* const from = most.data<double>();
  return {from, from + amax.size()};
}

Tensor LowLinear::apply(std::shared_ptr<LowLinear> self, const Tensor& x, const Tensor& w,
                        RoundedWeight& rounded) {
  const bool graph = GradMode::enabled();
  self->needs_x_ = graph && x.requires_grad();
  self->needs_w_ = graph && w.requires_grad();
  self->exact_ = x.dtype() == KINORA_DTYPE_FLOAT64;
  self->x_dtype_ = x.dtype(), self->w_dtype_ = w.dtype();
  return autograd_apply<Tensor>(
      {x, w}, 1,
      [self, &rounded](const std::vector<Tensor>& in) {
        return std::vector{self->forward(in[0], in[1], rounded)};
      },
      [self](const std::vector<Tensor>& g) { return self->backward(g[0]); })[0];
}

void LowLinear::round(const Tensor& w, RoundedWeight& to) const {
  const Format& format = *layer_.format;
  const Tensor weight = plain(w);
  to.amax = over(layer_.of_weight, amax_of(format, kRows[kWeight], weight));
  to.packed = packed(format, kRows[kWeight], weight, to.amax);
  to.values = decoded(format, to.packed)[0];
  if (Sums* sum = sums(Operand::weight))
    add(*sum, format.sums(kRows[kWeight], to.packed.shape, weight.data<float>(),
                          to.packed.codes.data<uint8_t>(), to.values.data<float>()));
}

Tensor LowLinear::forward(const Tensor& given, const Tensor& w, RoundedWeight& rounded) {
  const Format& format = *layer_.format;
  const Tensor x = plain(given);
  const auto samples = static_cast<size_t>(x.size(0));
  const bool now = needs_w_ && !layer_.gathers;  // encodes the operand of the weight's gradient
  auto amax = amax_of_rows(format, kRows[kActivation], x, *tokens_);
  std::vector<Tensor> columns;
  if (now) {
    columns = columns_of(x, *tokens_, format.group());
    append(amax, amax_of_columns(format, kColumns[kActivation], columns, x.size(0)));
  }
  amax = over(layer_.of_tokens, amax);
  if (now)
    x_columns_ = packed_columns(format, kColumns[kActivation], columns, *tokens_, all_of(x),
                                part(amax, 1, samples), noise_);
  if (needs_w_ && !now) x_ = given.detach();
  if (!rounded.values.defined()) round(w, rounded);
  weight_amax_ = rounded.amax;
  if (needs_x_ && format.square()) weight_ = rounded.packed;
  if (needs_x_ && !format.square()) w_ = w.detach();
  const Tensor x_rounded = rounded_rows(format, kRows[kActivation], x, *tokens_, all_of(x),
                                        part(amax, 0, samples), noise_, sums(Operand::activation));
  auto shape = given.sizes();
  shape.back() = w.size(0);
  return op("aten::mm", "", {wide(rows(x_rounded)), transposed(wide(rounded.values))}).reshape(shape);
}

std::vector<Tensor> LowLinear::backward(const Tensor& given) {
  const Format& format = *layer_.format;
  const Tensor g = plain(given);
  const auto samples = static_cast<size_t>(g.size(0));
  std::vector<float> amax;  // of what is used, in this order: rows, columns, columns of x
  std::vector<Tensor> columns, x_columns;
  if (needs_x_) amax = amax_of_rows(format, kRows[kGradient], g, *tokens_);
  if (needs_w_) {
    columns = columns_of(g, *tokens_, format.group());
    append(amax, amax_of_columns(format, kColumns[kGradient], columns, g.size(0)));
  }
  if (x_.defined()) {
    x_columns = columns_of(plain(x_), *tokens_, format.group());
    append(amax, amax_of_columns(format, kColumns[kActivation], x_columns, g.size(0)));
  }
  amax = over(layer_.of_tokens, amax);
  if (x_.defined())
    x_columns_ = packed_columns(format, kColumns[kActivation], x_columns, *tokens_, all_of(x_),
                                part(amax, needs_x_ ? 2 : 1, samples), noise_);
  std::vector<Tensor> out(2);
  if (needs_x_) out[0] = input_gradient(g, part(amax, 0, samples)).to(x_dtype_);
  if (!needs_w_) return out;
  const Tensor of_weight =
      weight_gradient(packed_columns(format, kColumns[kGradient], columns, *tokens_, layer_.outputs,
                                     part(amax, needs_x_ ? 1 : 0, samples), noise_));
  if (of_weight.defined()) out[1] = of_weight.to(w_dtype_);
  return out;
}

Tensor LowLinear::input_gradient(const Tensor& g, const std::vector<float>& amax) const {
  const Format& format = *layer_.format;
  const Tensor g_rounded = rounded_rows(format, kRows[kGradient], g, *tokens_, layer_.outputs, amax, noise_,
                                        sums(Operand::gradient));
  Tensor weight;  // [N, K]
  if (format.square())
    weight = decoded(format, weight_)[0];
  else
    weight = transposed(
        decoded(format, packed(format, kRows[kWeight], transposed(plain(w_)).contiguous(), weight_amax_))[0]);
  auto shape = g.sizes();
  shape.back() = weight.size(1);
  return op("aten::mm", "", {wide(rows(g_rounded)), wide(weight)}).reshape(shape);
}

// Sums over the samples and the stretches of tokens; undefined if all tokens here are padding.
Tensor LowLinear::weight_gradient(const std::vector<Packed>& g) const {
  Tensor out;
  for (size_t i = 0; i < g.size(); ++i) {
    const Tensor g_BNT = wide(decoded(*layer_.format, g[i])),
                 x_BKT = wide(decoded(*layer_.format, x_columns_[i]));
    if (!out.defined())
      out = op("aten::zeros_like", "", {op("aten::matmul", "", {g_BNT[0], transposed(x_BKT[0])})});
    out = op("aten::addbmm", "", {out, g_BNT, transposed(x_BKT)});
  }
  return out;
}

}  // namespace kinora::quantised
