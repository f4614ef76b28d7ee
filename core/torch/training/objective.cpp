#include "core/torch/training/objective.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

const TensorSpec* named(const std::vector<TensorSpec>& specs, const std::string& name) {
  for (const auto& s : specs)
    if (s.name == name) return &s;
  return nullptr;
}

bool of_one_shape(const std::vector<at::Tensor>& all) {
  return std::all_of(all.begin(), all.end(), [&](const auto& t) { return t.sizes() == all[0].sizes(); });
}

}  // namespace

void require_data(const LossInstance& loss, bool codes) {
  const auto& id = loss.spec().id;
  if (loss.draws_noise() && codes)
    raise(
        KINORA_INVALID,
        "loss: {} adds noise to latents, and the data are codes; choose a loss for codes, such as next-token",
        id);
  if (!loss.draws_noise() && !named(loss.spec().inputs, codes ? "codes" : "latent"))
    raise(KINORA_INVALID, "loss: {} reads no '{}', and the data are {}; choose a loss for them, such as {}",
          id, codes ? "codes" : "latent", codes ? "codes" : "latents", codes ? "next-token" : "edm or flow");
}

bool Objective::takes(const std::string& name) const {
  return named(model_.inputs, name) || signals_.count(name) != 0;
}

NamedTensors Objective::batch(const std::vector<LatentData::Item>& items,
                              const at::Tensor& without_text) const {
  NamedTensors out = cpu_batch(items, without_text);
  for (auto& [name, tensor] : out) tensor = tensor.to(device_);
  return out;
}

NamedTensors Objective::cpu_batch(const std::vector<LatentData::Item>& items,
                                  const at::Tensor& without_text) const {
  NamedTensors out;
  const auto every = [&](auto member) {
    std::vector<at::Tensor> all;
    for (const auto& item : items) all.push_back(member(item));
    return all;
  };
  const auto& first = items.front();
  if (first.latent.defined())
    out["latent"] = at::stack(every([](const auto& i) { return i.latent; })).to(parameters_);
  if (first.text.defined()) {
    auto texts = every([](const auto& i) { return i.text; });
    for (size_t i = 0; i < texts.size(); ++i)
      if (without_text[static_cast<int64_t>(i)].template item<bool>()) texts[i] = at::zeros_like(texts[i]);
    auto text = batch_text(texts);
    out["text"] = text.text;
    out["text_mask"] = text.mask;
  }
  for (const auto& [name, tensor] : first.more) {
    const bool codes = name == "codes";
    if (!codes && !takes(name)) continue;
    const auto all = every([&, key = name](const auto& i) {
      const auto it = i.more.find(key);
      if (it == i.more.end())
        raise(KINORA_DATA, "sample '{}' of the latent cache has no tensor '{}'", i.key, key);
      return it->second;
    });
    if (of_one_shape(all)) {
      out[name] = at::stack(all);
    } else if (takes(name + "_mask") && tensor.dim() == 2) {
      auto padded = batch_text(all);
      out[name] = padded.text;
      out[name + "_mask"] = padded.mask;
    } else {
      raise(KINORA_INVALID,
            "tensor '{}' of the latent cache has another shape in sample '{}' and the model has no input "
            "'{}_mask'; make one shape of them, or use batch = 1",
            name, items.back().key, name);
    }
    if (out[name].is_floating_point()) out[name] = out[name].to(stream_);
  }
  return out;
}

NamedTensors Objective::inputs(const NamedTensors& batch, const at::Tensor& level,
                               const at::Tensor& noise) const {
  NamedTensors in = batch;
  const auto latent = batch.find("latent");
  if (noisy()) {
    require_data(loss_, latent == batch.end());
    const at::Tensor sigma = level.to(device_);
    const auto made = loss_.input(loss_.noisy(latent->second, noise, sigma), sigma);
    in["latent"] = made.latent;
    in["timestep"] = made.timestep;
  }
  if (latent != batch.end()) in["latent"] = in["latent"].to(stream_);
  std::erase_if(in, [&](const auto& named) { return !takes(named.first); });
  return in;
}

// By the manifest's names.
NamedTensors Objective::outputs(const NamedTensors& in) const {
  const auto made = network_.forward(in);
  NamedTensors out;
  for (size_t i = 0; i < made.size(); ++i) out[model_.outputs[i].name] = made[i];
  return out;
}

at::Tensor Objective::losses(const NamedTensors& batch, const at::Tensor& level,
                             const at::Tensor& noise) const {
  const at::Tensor sigma = level.defined() ? level.to(device_) : level;
  const NamedTensors in = inputs(batch, sigma, noise);
  NamedTensors given;
  if (noisy()) given = {{"noise", noise}, {"sigma", sigma}};
  for (const auto& [name, tensor] : batch)
    if (name == "latent" || named(loss_.spec().inputs, name)) given[name] = tensor;
  for (const auto& [name, tensor] : outputs(in)) {
    given[name] = tensor;
    if (name == "output") given["prediction"] = tensor;
  }
  const int64_t samples = batch.begin()->second.size(0);
  return loss_.of_samples(loss_.evaluate(given), samples);
}

at::Tensor Objective::estimate(const NamedTensors& batch, const at::Tensor& level,
                               const at::Tensor& noise) const {
  const at::Tensor sigma = level.to(device_), x = loss_.noisy(batch.at("latent"), noise, sigma);
  return loss_.estimate(x, sigma, outputs(inputs(batch, sigma, noise)).at("output"));
}

}  // namespace kinora::core
