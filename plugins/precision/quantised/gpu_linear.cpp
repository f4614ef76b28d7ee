#include "plugins/precision/quantised/gpu_linear.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/cuda/low.hpp"
#include "kinora/aten.hpp"
#include "kinora/autograd.hpp"
#include "plugins/precision/quantised/gpu_operands.hpp"

namespace kinora::quantised {

struct GpuWeight {
  GpuPacked rows, transposed;  // transposed: if the gradient of x needs it
};

namespace {

// The numbers in a dtype that the kernels take: bfloat16 as it is, others in float32.
at::Tensor readable(const at::Tensor& t) {
  return t.detach().to(t.scalar_type() == at::kBFloat16 ? at::kBFloat16 : at::kFloat).contiguous();
}
std::vector<Channels> all_channels(const at::Tensor& x) { return {{0, x.size(-1), 0}}; }

class GpuLinear {
 public:
  GpuLinear(const kinora_cuda_api& cuda, const LowLayer& layer, std::shared_ptr<const Tokens> tokens,
            const NoiseSource& noise, Figures* figures, bool like_x)
      : layer_(layer),
        tokens_(std::move(tokens)),
        noise_(noise),
        figures_(figures),
        like_x_(like_x),
        on_(cuda, *layer_.format) {}

  void prepare(const at::Tensor& x, const at::Tensor& w) {
    const bool graph = at::GradMode::is_enabled();
    needs_x_ = graph && x.requires_grad();
    needs_w_ = graph && w.requires_grad();
    exact_ = x.scalar_type() == at::kDouble;
    x_dtype_ = x.scalar_type(), w_dtype_ = w.scalar_type();
  }

  at::Tensor forward(const at::Tensor& given, const at::Tensor& w, std::shared_ptr<GpuWeight>& rounded) {
    const at::Tensor x = readable(given);
    const int64_t samples = x.size(0);
    const bool now = needs_w_ && !layer_.gathers;  // encodes the operand of the weight's gradient
    at::Tensor amax = on_.amax_of_rows(kRows[kActivation], x, *tokens_);
    std::vector<at::Tensor> columns;
    if (now) {
      columns = on_.columns_of(x, *tokens_);
      amax = at::cat({amax, amax_of_columns(kActivation, columns, x, amax)});
    }
    amax = over(layer_.of_tokens, amax);
    if (now)
      x_columns_ = on_.packed_columns(kColumns[kActivation], columns, *tokens_, all_channels(x),
                                      amax.narrow(0, samples, samples), noise_);
    if (needs_w_ && !now) x_ = given.detach();
    if (!rounded) rounded = round(w);
    const GpuPacked rows =
        on_.packed_rows(kRows[kActivation], x, *tokens_, all_channels(x), amax.narrow(0, 0, samples), noise_);
    weight_ = rounded->transposed;
    measure(Operand::activation, rows, x, tokens_.get());
    return on_.rows_product(rows, rounded->rows, exact_,
                            like_x_  ? x_dtype_
                            : exact_ ? at::kDouble
                                     : at::kFloat);
  }

  std::vector<at::Tensor> backward(const at::Tensor& given) {
    const at::Tensor g = readable(given);
    const int64_t samples = g.size(0);
    std::vector<at::Tensor> amax, columns,
        x_columns;  // amax: of what is used, in this order: rows, columns, columns of x
    if (needs_x_) amax.push_back(on_.amax_of_rows(kRows[kGradient], g, *tokens_));
    if (needs_w_) {
      columns = on_.columns_of(g, *tokens_);
      amax.push_back(amax_of_columns(kGradient, columns, g, needs_x_ ? amax[0] : at::Tensor()));
    }
    if (x_.defined()) {
      x_columns = on_.columns_of(readable(x_), *tokens_);
      amax.push_back(amax_of_columns(kActivation, x_columns, g, {}));
    }
    if (amax.empty()) return std::vector<at::Tensor>(2);
    const at::Tensor all = over(layer_.of_tokens, at::cat(amax));
    int64_t used = 0;
    const auto next = [&] { return all.narrow(0, used++ * samples, samples); };
    std::vector<at::Tensor> out(2);
    if (needs_x_) {
      const GpuPacked rows = on_.packed_rows(kRows[kGradient], g, *tokens_, layer_.outputs, next(), noise_);
      measure(Operand::gradient, rows, g, tokens_.get());
      out[0] = on_.rows_product(rows, weight_, exact_, x_dtype_);
    }
    if (!needs_w_) return out;
    const auto of_g =
        on_.packed_columns(kColumns[kGradient], columns, *tokens_, layer_.outputs, next(), noise_);
    if (x_.defined())
      x_columns_ =
          on_.packed_columns(kColumns[kActivation], x_columns, *tokens_, all_channels(x_), next(), noise_);
    for (size_t i = 0; i < of_g.size(); ++i)
      out[1] = on_.summed_product(of_g[i], x_columns_[i], out[1], exact_);
    if (out[1].defined()) out[1] = out[1].to(w_dtype_);
    return out;
  }

 private:
  std::shared_ptr<GpuWeight> round(const at::Tensor& w) const {
    const at::Tensor weight = readable(w), amax = over(layer_.of_weight, on_.amax_of(kRows[kWeight], weight));
    auto out = std::make_shared<GpuWeight>();
    out->rows = on_.packed(kRows[kWeight], weight, amax, false);
    if (needs_x_) out->transposed = on_.packed(kRows[kWeight], weight, amax, true);
    measure(Operand::weight, out->rows, weight.unsqueeze(0), nullptr);
    return out;
  }
  // of: what the columns are of, or has as many samples. of_rows: of the same values by rows, or undefined.
  at::Tensor amax_of_columns(size_t operand, const std::vector<at::Tensor>& columns, const at::Tensor& of,
                             const at::Tensor& of_rows) const {
    const bool transformed = cuda::low_is(layer_.format->on_gpu(kColumns[operand]), KINORA_LOW_HADAMARD);
    if (of_rows.defined() && !transformed) return of_rows;
    return on_.amax_of_columns(kColumns[operand], columns, of.size(0), of);
  }
  static at::Tensor over(const Group<Tensor>& ranks, const at::Tensor& amax) {
    const Group<at::Tensor> group(ranks.get());
    if (!group.get() || group.size() == 1) return amax;
    return group.transfer({sizeof(kinora_transfer), KINORA_OP_ALL_REDUCE_MAX, 0, 0, 0, 0, handle(amax)});
  }
  void measure(Operand o, const GpuPacked& p, const at::Tensor& x, const Tokens* tokens) const {
    if (figures_ && p.shape.rows > 0) add(figures_->of[static_cast<size_t>(o)], on_.sums(p, x, tokens));
  }

  const LowLayer layer_;
  std::shared_ptr<const Tokens> tokens_;
  NoiseSource noise_;
  Figures* figures_;
  bool like_x_;
  GpuOperands on_;
  bool needs_x_ = false, needs_w_ = false, exact_ = false;
  at::ScalarType x_dtype_ = at::kFloat, w_dtype_ = at::kFloat;
  at::Tensor x_;                      // as it is, if the backward rounds it
  std::vector<GpuPacked> x_columns_;  // else
  GpuPacked weight_;                  // transposed
};

}  // namespace

Tensor linear_on_gpu(const kinora_cuda_api& cuda, const LowLayer& layer, std::shared_ptr<const Tokens> tokens,
                     const NoiseSource& noise, Figures* figures, const Tensor& given, const Tensor& weight,
                     bool like_x, std::shared_ptr<GpuWeight>& rounded) {
  const auto x = borrow<at::Tensor>(given.get()), w = borrow<at::Tensor>(weight.get());
  const auto self = std::make_shared<GpuLinear>(cuda, layer, std::move(tokens), noise, figures, like_x);
  self->prepare(x, w);
  auto out = autograd_apply<at::Tensor>(
      {x, w}, 1,
      [self, &rounded](const std::vector<at::Tensor>& in) {
        return std::vector{self->forward(in[0], in[1], rounded)};
      },
      [self](const std::vector<at::Tensor>& g) { return self->backward(g[0]); });
  return Tensor::adopt(give(std::move(out[0])));
}

}  // namespace kinora::quantised
