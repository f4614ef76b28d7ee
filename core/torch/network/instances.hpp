// Losses and samplers as objects: a component instance with its calls on at::Tensor; and the conversion
// between the two ways in which they mix signal and noise (kinora/abi/noise.h). Errors are kinora::Error.
#pragma once
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/plugin/opening.hpp"
#include "core/torch/weights/weights.hpp"
#include "kinora/abi/loss.h"
#include "kinora/abi/noise.h"
#include "kinora/abi/sampler.h"

namespace kinora::core {

// [owner-thread], as the table's calls are. It refers to the component's spec and table. latent, noise, x and
// output are [B, ...] of one shape; sigma is [B], or [B, T] with one value per latent frame, in the unit of
// mix().
class LossInstance {
 public:
  // Throws the component's error about its options.
  LossInstance(const Component&, const Options&);

  const ComponentSpec& spec() const { return spec_; }
  // false: the loss has none of level, noisy, input and estimate, which then throw
  // Error(KINORA_ERROR_UNSUPPORTED).
  bool draws_noise() const { return api_.level != nullptr; }
  uint32_t mix() const { return api_.mix; }
  // Noise levels for uniform numbers in (0, 1), float64 [B] or [B, T].
  at::Tensor level(const at::Tensor& uniform) const;
  at::Tensor noisy(const at::Tensor& latent, const at::Tensor& noise, const at::Tensor& sigma) const;
  // The model's inputs for x at sigma.
  struct Input {
    at::Tensor latent;    // of x's shape
    at::Tensor timestep;  // of sigma's shape
  };
  Input input(const at::Tensor& x, const at::Tensor& sigma) const;
  // The clean latent that a model's output represents.
  at::Tensor estimate(const at::Tensor& x, const at::Tensor& sigma, const at::Tensor& output) const;
  // Keyed by the manifest's output names.
  NamedTensors evaluate(const NamedTensors& in) const;
  // Output "loss", one value per sample; throws an error that states what was expected otherwise.
  at::Tensor of_samples(const NamedTensors& evaluated, int64_t samples) const;

 private:
  void need(bool has, const char* what) const;
  const ComponentSpec& spec_;
  const kinora_loss& api_;
  Instance self_;
};

// [owner-thread]. It keeps its history in the instance: one generation at a time.
class SamplerInstance {
 public:
  SamplerInstance(const Component&, const Options&);

  uint32_t mix() const { return api_.mix; }
  // Noise levels that sample() visits, descending.
  std::vector<double> levels() const;
  // noise [B, ...] float64 -> a sample of its shape.
  at::Tensor sample(const kinora_denoiser& denoiser, const at::Tensor& noise, const kinora_run& run) const;

 private:
  const ComponentSpec& spec_;
  const kinora_sampler& api_;
  Instance self_;
};

// A denoiser that wraps a function x [B, ...], sigma [B] -> x0, all float64.
class FunctionDenoiser {
 public:
  using Fn = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& sigma)>;
  explicit FunctionDenoiser(Fn fn) : fn_(std::move(fn)) {}
  kinora_denoiser abi();
  int64_t calls() const { return calls_; }

 private:
  Fn fn_;
  int64_t calls_ = 0;
};

// A noisy latent with its noise level.
struct Mixed {
  at::Tensor x;      // [B, ...], float64
  at::Tensor sigma;  // [B], or [B, T] with one value per latent frame
};

// Converts from one way of mixing to another (KINORA_MIX_*). Pure noise, s = 1, has no counterpart in
// KINORA_MIX_VARIANCE_EXPLODING; it becomes sigma = 1e6.
Mixed remixed(const Mixed& given, uint32_t from, uint32_t to);

// sigma [B] or [B, T], reshaped to scale x [B, C, T, ...]. Throws Error(KINORA_ERROR_INVALID) if they do not
// fit.
at::Tensor scale_for(const at::Tensor& sigma, const at::Tensor& x);

}  // namespace kinora::core
