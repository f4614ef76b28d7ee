#include "plugins/jobs/training/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "kernels/torch/parallel.hpp"
#include "plugins/jobs/training/adamw_pass.hpp"

namespace kinora::core {
namespace {

// The remaining height after share t of the decay: 1 at 0, 0 at 1.
double left_of(const Schedule& s, double t) {
  if (s.kind == "cosine") return 0.5 * (1 + std::cos(std::numbers::pi * t));
  return s.kind == "wsd" && s.decay_shape == "1-sqrt" ? 1 - std::sqrt(t) : 1 - t;
}

}  // namespace

double rate(const Schedule& s, int64_t step) {
  if (s.kind != "constant" && s.kind != "cosine" && s.kind != "linear" && s.kind != "wsd")
    raise(KINORA_ERROR_INVALID, "learning rate schedule '{}' is unknown; use constant, cosine, linear or wsd",
          s.kind);
  if (step < s.warmup) return s.learning_rate * static_cast<double>(step + 1) / static_cast<double>(s.warmup);
  if (s.kind == "constant") return s.learning_rate;
  if (s.total <= s.warmup)
    raise(KINORA_ERROR_INVALID, "a {} schedule requires more steps ({}) than its warmup ({})", s.kind,
          s.total, s.warmup);
  const auto total = static_cast<double>(s.total), warmup = static_cast<double>(s.warmup);
  const double begin = s.kind == "wsd" ? std::max(warmup, total * (1 - s.decay_share)) : warmup;
  const auto at = static_cast<double>(step);
  if (at < begin || total <= begin) return s.learning_rate;
  const double t = std::min(1.0, (at - begin) / (total - begin));
  return s.final_rate + (s.learning_rate - s.final_rate) * left_of(s, t);
}

namespace {

at::Tensor range_of(const at::Tensor& leaf, int64_t offset, int64_t count) {
  return offset == 0 && count == leaf.numel() ? leaf.detach()
                                              : leaf.detach().view({-1}).narrow(0, offset, count);
}

at::ScalarType state_dtype(const at::Tensor& t) {
  return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

constexpr int64_t kGrain = 1 << 14;  // minimum of numbers per thread

// Sums of blocks at fixed positions, added in their order: independent of the number of threads.
template <class T>
double sum_blocks(const T* x, int64_t count) {
  const int64_t blocks = (count + kGrain - 1) / kGrain;
  std::vector<double> sums(static_cast<size_t>(blocks));
  in_parallel(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      sums[static_cast<size_t>(b)] = sum_of_squares(x + b * kGrain, std::min(kGrain, count - b * kGrain));
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

double squares_of(const at::Tensor& x) {
  if (x.is_cpu() && x.scalar_type() == at::kFloat) return sum_blocks(x.data_ptr<float>(), x.numel());
  if (x.is_cpu() && x.scalar_type() == at::kDouble) return sum_blocks(x.data_ptr<double>(), x.numel());
  const double norm = at::linalg_vector_norm(x, 2, std::nullopt, false, at::kDouble).item<double>();
  return norm * norm;
}

using Share = std::function<double(const Leaf&, const Piece&)>;

double square_sum(const at::Tensor& of_leaf, const Leaf& leaf, const Share& share) {
  const at::NoGradGuard guard;
  const auto whole = of_leaf.contiguous();
  double sum = 0;
  for (const auto& p : leaf.pieces)
    sum += (share ? share(leaf, p) : 1) * squares_of(range_of(whole, p.offset, p.count));
  return sum;
}

}  // namespace

bool decays(const Parameter& p) {
  const auto long_ones = std::count_if(p.shape.begin(), p.shape.end(), [](int64_t n) { return n > 1; });
  return long_ones > 1 && p.role != KINORA_ROLE_TABLE;
}

AdamW::AdamW(const Parameters& parameters, std::vector<Leaf>& leaves, AdamWOptions options)
    : leaves_(leaves), options_(std::move(options)) {
  if (!options_.decay)
    options_.decay = [decay = options_.weight_decay](const Parameter& p) { return decays(p) ? decay : 0; };
  for (const auto& leaf : leaves) {
    const auto like = leaf.tensor.options().dtype(state_dtype(leaf.tensor)).requires_grad(false);
    m_.push_back(leaf.frozen ? at::Tensor() : at::zeros(leaf.tensor.sizes(), like));
    v_.push_back(leaf.frozen ? at::Tensor() : at::zeros(leaf.tensor.sizes(), like));
    auto& ranges = ranges_.emplace_back();
    for (const auto& p : leaf.pieces) {
      const double decay = options_.decay(parameters.at(static_cast<size_t>(p.param - 1)));
      const bool goes_on = !ranges.empty() && ranges.back().decay == decay &&
                           ranges.back().offset + ranges.back().count == p.offset;
      if (goes_on) {
        ranges.back().count += p.count;
      } else {
        ranges.push_back({p.offset, p.count, decay});
      }
    }
  }
}

struct AdamW::Numbers {
  double rate, gradient_factor, step, root2;
  std::vector<double> shares;  // weights of the new values in the averages
};

void AdamW::step(double learning_rate, double gradient_factor, const std::vector<Ema*>& averages) {
  const at::NoGradGuard guard;
  const auto t = static_cast<double>(++steps_);
  Numbers n{learning_rate,
            gradient_factor,
            learning_rate / (1 - std::pow(options_.beta1, t)),
            1 / std::sqrt(1 - std::pow(options_.beta2, t)),
            {}};
  std::vector<double> decays;
  for (Ema* e : averages) {
    decays.push_back(e->next_decay());
    n.shares.push_back(1 - decays.back());
  }
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const auto& leaf = leaves_[i];
    if (leaf.frozen || !leaf.tensor.grad().defined()) {
      for (size_t k = 0; k < averages.size(); ++k) averages[k]->update_leaf(leaves_, i, decays[k]);
    } else if (const auto type = leaf.tensor.scalar_type(); leaf.tensor.is_cpu() &&
                                                            leaf.tensor.is_contiguous() &&
                                                            (type == at::kFloat || type == at::kDouble)) {
      type == at::kFloat ? step_leaf<float>(i, n, averages) : step_leaf<double>(i, n, averages);
    } else {
      step_elsewhere(i, n, averages);
    }
  }
}

template <class T>
void AdamW::step_leaf(size_t i, const Numbers& n, const std::vector<Ema*>& averages) {
  const auto grad = leaves_[i].tensor.grad().contiguous();
  T *w = leaves_[i].tensor.data_ptr<T>(), *m = m_[i].data_ptr<T>(), *v = v_[i].data_ptr<T>();
  const T* g = grad.data_ptr<T>();
  for (const auto& r : ranges_[i]) {
    const AdamWNumbers<T> numbers{static_cast<T>(n.gradient_factor),
                                  static_cast<T>(1 - n.rate * r.decay),
                                  static_cast<T>(options_.beta1),
                                  static_cast<T>(options_.beta2),
                                  static_cast<T>(n.root2),
                                  static_cast<T>(options_.eps),
                                  static_cast<T>(n.step)};
    in_parallel(r.count, kGrain, [&](int64_t begin, int64_t end) {
      const int64_t at = r.offset + begin;
      std::vector<AverageRange<T>> to;
      for (size_t k = 0; k < averages.size(); ++k)
        to.push_back({averages[k]->values()[i].data_ptr<T>() + at, static_cast<T>(n.shares[k])});
      adamw_pass<T>({w + at, g + at, m + at, v + at, end - begin}, numbers, to);
    });
  }
}

void AdamW::step_elsewhere(size_t i, const Numbers& n, const std::vector<Ema*>& averages) {
  const auto& leaf = leaves_[i].tensor;
  at::Tensor grad = leaf.grad().contiguous();
  if (n.gradient_factor != 1) grad = grad * n.gradient_factor;
  const auto t = at::full({}, static_cast<double>(steps_), at::kFloat).to(leaf.device());
  for (const auto& r : ranges_[i]) {
    const auto range = [&](const at::Tensor& of) { return range_of(of, r.offset, r.count); };
    at::_fused_adamw_({range(leaf)}, {range(grad)}, {range(m_[i])}, {range(v_[i])}, {}, {t}, n.rate,
                      options_.beta1, options_.beta2, r.decay, options_.eps, /*amsgrad=*/false,
                      /*maximize=*/false);
  }
  for (size_t k = 0; k < averages.size(); ++k) averages[k]->update_leaf(leaves_, i, 1 - n.shares[k]);
}

void AdamW::zero_grad() {
  for (auto& leaf : leaves_) leaf.tensor.mutable_grad().reset();
}

double gradient_norm(const std::vector<Leaf>& leaves, const Share& share,
                     const std::function<double(double)>& sum) {
  double squares = 0;
  for (const auto& leaf : leaves)
    if (const auto& grad = leaf.tensor.grad(); !leaf.frozen && grad.defined())
      squares += square_sum(grad, leaf, share);
  return std::sqrt(sum ? sum(squares) : squares);
}

double weight_norm(const std::vector<Leaf>& leaves, const Share& share,
                   const std::function<double(double)>& sum) {
  double squares = 0;
  for (const auto& leaf : leaves) squares += square_sum(leaf.tensor, leaf, share);
  return std::sqrt(sum ? sum(squares) : squares);
}

double clip_factor(double norm, double max_norm) { return std::min(1.0, max_norm / (norm + 1e-6)); }

Ema::Ema(const std::vector<Leaf>& leaves, double decay, bool rise) : decay_(decay), rise_(rise) {
  for (const auto& leaf : leaves)
    values_.push_back(
        leaf.tensor.detach().to(state_dtype(leaf.tensor), /*non_blocking=*/false, /*copy=*/true));
}

double Ema::next_decay() {
  const double n = static_cast<double>(updates_++);
  return rise_ ? std::min(decay_, (1 + n) / (10 + n)) : decay_;
}

void Ema::update_leaf(const std::vector<Leaf>& leaves, size_t i, double decay) {
  const at::NoGradGuard guard;
  values_[i].lerp_(leaves[i].tensor.detach().to(values_[i].scalar_type()), 1 - decay);
}

void Ema::update(const std::vector<Leaf>& leaves) {
  const double decay = next_decay();
  for (size_t i = 0; i < values_.size(); ++i) update_leaf(leaves, i, decay);
}

void Ema::swap(std::vector<Leaf>& leaves) {
  const at::NoGradGuard guard;
  for (size_t i = 0; i < values_.size(); ++i) {
    const auto kept = values_[i].clone();
    auto weights = leaves[i].tensor.detach();
    values_[i].copy_(weights);
    weights.copy_(kept);
  }
}

}  // namespace kinora::core
