#include "core/torch/optimizer.hpp"

#include <cmath>
#include <map>
#include <numbers>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/torch/torch_guard.hpp"

namespace kinora::core {
namespace {

at::Tensor range_of(const at::Tensor& leaf, int64_t offset, int64_t count) {
  return offset == 0 && count == leaf.numel() ? leaf.detach()
                                              : leaf.detach().view({-1}).narrow(0, offset, count);
}

at::ScalarType state_dtype(const at::Tensor& t) {
  return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

struct Lists {
  std::vector<at::Tensor> values, grads, first, second, steps;
};

}  // namespace

AdamW::AdamW(const Parameters& parameters, std::vector<Leaf>& leaves, AdamWOptions options)
    : leaves_(leaves), options_(std::move(options)) {
  if (!options_.decay)
    options_.decay = [decay = options_.weight_decay](const Parameter& p) {
      return p.shape.size() > 1 ? decay : 0;
    };
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

// libtorch's fused kernel: one pass over the memory of each tensor, in the order of the leaves.
void AdamW::step(double learning_rate) {
  const at::NoGradGuard guard;
  ++steps_;
  const auto step = at::full({}, static_cast<double>(steps_), at::kFloat);
  std::map<std::pair<double, at::ScalarType>, Lists> together;  // leaves of a run share one device
  for (size_t i = 0; i < leaves_.size(); ++i) {
    auto& leaf = leaves_[i];
    if (leaf.frozen || !leaf.tensor.grad().defined()) continue;
    const auto grad = leaf.tensor.grad().contiguous();
    for (const auto& r : ranges_[i]) {
      auto& to = together[{r.decay, leaf.tensor.scalar_type()}];
      to.values.push_back(range_of(leaf.tensor, r.offset, r.count));
      to.grads.push_back(range_of(grad, r.offset, r.count));
      to.first.push_back(range_of(m_[i], r.offset, r.count));
      to.second.push_back(range_of(v_[i], r.offset, r.count));
      to.steps.push_back(step.to(leaf.tensor.device()));
    }
  }
  for (auto& [key, t] : together) {
    at::_fused_adamw_(t.values, t.grads, t.first, t.second, {}, t.steps, learning_rate, options_.beta1,
                      options_.beta2, key.first, options_.eps, /*amsgrad=*/false, /*maximize=*/false);
  }
}

void AdamW::zero_grad() {
  for (auto& leaf : leaves_) leaf.tensor.mutable_grad().reset();
}

double square_sum(const Leaf& leaf, const std::function<double(const Piece&)>& share) {
  const at::NoGradGuard guard;
  const auto grad = leaf.tensor.grad();
  double sum = 0;
  if (leaf.frozen || !grad.defined()) return sum;
  const auto whole = grad.contiguous();
  for (const auto& p : leaf.pieces) {
    const double norm =
        at::linalg_vector_norm(range_of(whole, p.offset, p.count), 2, std::nullopt, false, at::kDouble)
            .item<double>();
    sum += (share ? share(p) : 1) * norm * norm;
  }
  return sum;
}

double gradient_norm(const std::vector<Leaf>& leaves,
                     const std::function<double(const Leaf&, const Piece&)>& share,
                     const std::function<double(double)>& sum) {
  double squares = 0;
  for (const auto& leaf : leaves)
    squares += square_sum(
        leaf, share ? [&](const Piece& p) { return share(leaf, p); } : std::function<double(const Piece&)>());
  return std::sqrt(sum ? sum(squares) : squares);
}

double clip_gradients(const std::vector<Leaf>& leaves, double norm, double max_norm) {
  const at::NoGradGuard guard;
  const double factor = std::min(1.0, max_norm / (norm + 1e-6));
  if (factor < 1)
    for (const auto& leaf : leaves)
      if (auto grad = leaf.tensor.grad(); grad.defined()) grad.mul_(factor);
  return factor;
}

double rate(const Schedule& s, int64_t step) {
  if (step < s.warmup) return s.learning_rate * static_cast<double>(step + 1) / static_cast<double>(s.warmup);
  if (s.kind == "constant") return s.learning_rate;
  if (s.kind != "cosine")
    raise(KINORA_INVALID, "learning rate schedule '{}' is unknown; use constant or cosine", s.kind);
  if (s.total <= s.warmup)
    raise(KINORA_INVALID, "a cosine schedule needs more steps ({}) than its warmup ({})", s.total, s.warmup);
  const double t =
      std::min(1.0, static_cast<double>(step - s.warmup) / static_cast<double>(s.total - s.warmup));
  return s.final_rate + (s.learning_rate - s.final_rate) * 0.5 * (1 + std::cos(std::numbers::pi * t));
}

Ema::Ema(const std::vector<Leaf>& leaves, double decay, bool rise) : decay_(decay), rise_(rise) {
  for (const auto& leaf : leaves)
    values_.push_back(
        leaf.tensor.detach().to(state_dtype(leaf.tensor), /*non_blocking=*/false, /*copy=*/true));
}

void Ema::update(const std::vector<Leaf>& leaves) {
  const at::NoGradGuard guard;
  const double n = static_cast<double>(updates_++),
               decay = rise_ ? std::min(decay_, (1 + n) / (10 + n)) : decay_;
  for (size_t i = 0; i < values_.size(); ++i)
    values_[i].lerp_(leaves[i].tensor.detach().to(values_[i].scalar_type()), 1 - decay);
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
