#include "core/torch/network/instances.hpp"

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

// Returns a call's result, or throws an error that names the component: a status, or no tensor.
template <class F>
at::Tensor result(const ComponentSpec& spec, const char* what, F call) {
  kinora_tensor out = nullptr;
  called(call(&out), spec.id);
  if (!out) throw Error(KINORA_ERROR_FAILED, spec.id + ": " + what + " returned no tensor");
  return adopt<at::Tensor>(out);
}

}  // namespace

void LossInstance::need(bool has, const char* what) const {
  if (!has)
    throw Error(KINORA_ERROR_UNSUPPORTED, spec_.id + " works without noise: it has no " + what +
                                              "(); this job needs a loss that has one");
}

LossInstance::LossInstance(const Component& c, const Options& o)
    : spec_(*c.spec), api_(c.table<kinora_loss>()), self_(instance_of<kinora_loss>(c, o)) {}

at::Tensor LossInstance::level(const at::Tensor& uniform) const {
  need(api_.level, "level");
  return result(spec_, "level",
                [&](kinora_tensor* o) { return api_.level(self_.get(), handle(uniform), o); });
}
at::Tensor LossInstance::noisy(const at::Tensor& latent, const at::Tensor& noise,
                               const at::Tensor& sigma) const {
  need(api_.noisy, "noisy");
  return result(spec_, "noisy", [&](kinora_tensor* o) {
    return api_.noisy(self_.get(), handle(latent), handle(noise), handle(sigma), o);
  });
}
LossInstance::Input LossInstance::input(const at::Tensor& x, const at::Tensor& sigma) const {
  need(api_.input, "input");
  kinora_tensor latent = nullptr, timestep = nullptr;
  called(api_.input(self_.get(), handle(x), handle(sigma), &latent, &timestep), spec_.id);
  if (!latent || !timestep) throw Error(KINORA_ERROR_FAILED, spec_.id + ": input returned no tensor");
  return {adopt<at::Tensor>(latent), adopt<at::Tensor>(timestep)};
}
at::Tensor LossInstance::estimate(const at::Tensor& x, const at::Tensor& sigma,
                                  const at::Tensor& output) const {
  need(api_.estimate, "estimate");
  return result(spec_, "estimate", [&](kinora_tensor* o) {
    return api_.estimate(self_.get(), handle(x), handle(sigma), handle(output), o);
  });
}
NamedTensors LossInstance::evaluate(const NamedTensors& in) const {
  std::vector<kinora_named> named;
  for (const auto& [name, tensor] : in) named.push_back({name.c_str(), handle(tensor)});
  std::vector<kinora_tensor> out(spec_.outputs.size(), nullptr);
  called(api_.evaluate(self_.get(), named.data(), named.size(), out.data(), out.size()), spec_.id);
  NamedTensors results;
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i]) results[spec_.outputs[i].name] = adopt<at::Tensor>(out[i]);
  return results;
}

at::Tensor LossInstance::of_samples(const NamedTensors& evaluated, int64_t samples) const {
  const auto it = evaluated.find("loss");
  if (it == evaluated.end()) throw Error(KINORA_ERROR_FAILED, spec_.id + ": evaluate returned no 'loss'");
  if (it->second.dim() != 1 || it->second.size(0) != samples || !it->second.is_floating_point())
    throw Error(KINORA_ERROR_FAILED, spec_.id + ": output 'loss': expected a float [" +
                                         std::to_string(samples) + "], found " +
                                         c10::str(it->second.scalar_type(), " ", it->second.sizes()));
  return it->second;
}

SamplerInstance::SamplerInstance(const Component& c, const Options& o)
    : spec_(*c.spec), api_(c.table<kinora_sampler>()), self_(instance_of<kinora_sampler>(c, o)) {}

std::vector<double> SamplerInstance::levels() const {
  const at::Tensor t = result(spec_, "levels", [&](kinora_tensor* o) { return api_.levels(self_.get(), o); })
                           .to(at::kDouble)
                           .contiguous();
  return {t.data_ptr<double>(), t.data_ptr<double>() + t.numel()};
}
at::Tensor SamplerInstance::sample(const kinora_denoiser& denoiser, const at::Tensor& noise,
                                   const kinora_run& run) const {
  const at::Tensor made = result(spec_, "sample", [&](kinora_tensor* o) {
    return api_.sample(self_.get(), &denoiser, handle(noise), &run, o);
  });
  if (made.sizes() != noise.sizes() || !made.is_floating_point())
    throw Error(KINORA_ERROR_FAILED, spec_.id + ": its sample is " +
                                         c10::str(made.scalar_type(), " ", made.sizes()) + ", the noise " +
                                         c10::str(noise.sizes()));
  return made;
}

kinora_denoiser FunctionDenoiser::abi() {
  return {sizeof(kinora_denoiser), 0, this,
          [](void* self, kinora_tensor x, kinora_tensor sigma, kinora_tensor* out) {
            return guard([&] {
              auto& d = *static_cast<FunctionDenoiser*>(self);
              ++d.calls_;
              *out = give(d.fn_(borrow<at::Tensor>(x), borrow<at::Tensor>(sigma)));
            });
          }};
}

at::Tensor scale_for(const at::Tensor& sigma, const at::Tensor& x) {
  const bool per_frame = sigma.dim() == 2;
  if (sigma.dim() < 1 || sigma.dim() > 2 || x.dim() < (per_frame ? 3 : 1) || sigma.size(0) != x.size(0) ||
      (per_frame && sigma.size(1) != x.size(2)))
    raise(KINORA_ERROR_INVALID, "a noise level of shape {} does not fit a latent of shape {}",
          c10::str(sigma.sizes()), c10::str(x.sizes()));
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[0] = sigma.size(0);
  if (per_frame) shape[2] = sigma.size(1);
  return sigma.reshape(shape);
}

Mixed remixed(const Mixed& given, uint32_t from, uint32_t to) {
  if (from == to) return given;
  const at::Tensor s = given.sigma.to(at::kDouble);
  if (to == KINORA_MIX_RECTIFIED_FLOW) return {given.x / (1 + scale_for(s, given.x)), s / (1 + s)};
  constexpr double kLargest = 1e6;  // sigma of pure noise
  const at::Tensor rest = (1 - s).clamp_min(1 / (1 + kLargest));
  return {given.x / scale_for(rest, given.x), (1 - rest) / rest};
}

}  // namespace kinora::core
