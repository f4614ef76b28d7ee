#include "plugins/jobs/training/objective.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/training/row.hpp"

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

// Frames [first, first + count) of a video, or of levels [B, T]; a tensor without frames is unchanged.
at::Tensor some_frames(const std::string& name, const at::Tensor& t, int64_t first, int64_t count) {
  const bool levels = t.dim() == 2 && (name == "logvar" || name == "sigma");
  return t.dim() == 5 ? t.narrow(2, first, count) : levels ? t.narrow(1, first, count) : t;
}

// Every frame, or the level of every frame, a second time; see some_frames.
at::Tensor with_frames_twice(const std::string& name, const at::Tensor& t) {
  const bool levels = t.dim() == 2 && (name == "logvar" || name == "sigma");
  return t.dim() == 5 ? at::cat({t, t}, 2) : levels ? at::cat({t, t}, 1) : t;
}

// The text of each shot, [l, D].
std::vector<at::Tensor> texts_of(const LatentItem& item) {
  return item.shots.empty() ? std::vector{item.text} : item.text.split_with_sizes(item.shots);
}

at::Tensor twice(const at::Tensor& video) { return at::cat({video, video}, 2); }

// [B], or [B, T] unchanged.
at::Tensor by_frame(const at::Tensor& sigma) { return sigma.dim() == 1 ? sigma.unsqueeze(1) : sigma; }

}  // namespace

void require_data(const LossInstance& loss, bool codes) {
  const auto& id = loss.spec().id;
  if (loss.draws_noise() && codes)
    raise(
        KINORA_ERROR_INVALID,
        "loss: {} adds noise to latents, but the data are codes; choose a loss for codes, such as next-token",
        id);
  if (!loss.draws_noise() && !named(loss.spec().inputs, codes ? "codes" : "latent"))
    raise(KINORA_ERROR_INVALID,
          "loss: {} reads no '{}', but the data are {}; choose a loss for them, such as {}", id,
          codes ? "codes" : "latent", codes ? "codes" : "latents", codes ? "next-token" : "edm or flow");
}

bool Objective::takes(const std::string& name) const {
  return named(model_.inputs, name) || signals_.count(name) != 0;
}

NamedTensors Objective::batch(const std::vector<LatentData::Item>& items, const at::Tensor& without_text,
                              bool as_row) const {
  NamedTensors out = cpu_batch(items, without_text, as_row);
  for (auto& [name, tensor] : out) tensor = tensor.to(device_);
  return out;
}

NamedTensors Objective::cpu_batch(const std::vector<LatentData::Item>& items, const at::Tensor& without_text,
                                  bool as_row) const {
  NamedTensors out;
  const auto every = [&](auto member) {
    std::vector<at::Tensor> all;
    for (const auto& item : items) all.push_back(member(item));
    return all;
  };
  const auto& first = items.front();
  if (as_row) {
    const auto latents = every([](const auto& i) { return i.latent.unsqueeze(0); });
    out["latent"] = row_of(latents).to(parameters_);
    out["sizes"] = sizes_of(latents);
  } else if (first.latent.defined()) {
    out["latent"] = at::stack(every([](const auto& i) { return i.latent; })).to(parameters_);
  }
  if (first.text.defined()) {
    std::vector<at::Tensor> texts;  // of every shot
    for (size_t i = 0; i < items.size(); ++i)
      for (const auto& text : texts_of(items[i]))
        texts.push_back(!without_text[static_cast<int64_t>(i)].template item<bool>() ? text
                        : no_text_.defined() ? no_text_.to(text.options())
                                             : at::zeros_like(text));
    const auto text = batch_text(texts);
    const auto B = static_cast<int64_t>(items.size());
    out["text"] = text.text.reshape({B, -1, text.text.size(2)});
    out["text_mask"] = text.mask.reshape({B, -1});
  }
  for (const auto& [name, tensor] : first.more) {
    const bool codes = name == "codes";
    if (!codes && !takes(name)) continue;
    const auto all = every([&, key = name](const auto& i) {
      const auto it = i.more.find(key);
      if (it == i.more.end())
        raise(KINORA_ERROR_DATA, "sample '{}' of the latent cache has no tensor '{}'", i.key, key);
      return it->second;
    });
    if (of_one_shape(all)) {
      out[name] = at::stack(all);
    } else if (takes(name + "_mask") && tensor.dim() == 2) {
      auto padded = batch_text(all);
      out[name] = padded.text;
      out[name + "_mask"] = padded.mask;
    } else {
      raise(KINORA_ERROR_INVALID,
            "tensor '{}' of the latent cache has another shape in sample '{}', and the model has no input "
            "'{}_mask'; give all samples one shape, or use batch = 1",
            name, items.back().key, name);
    }
    if (out[name].is_floating_point()) out[name] = out[name].to(stream_);
  }
  return out;
}

void require_given(int64_t most, int64_t all, ConditionInput input, const std::string& model) {
  if (most >= all)
    raise(KINORA_ERROR_INVALID,
          "condition_frames: {} of {} latent frames are given, so none is left to learn; give fewer", most,
          all);
  if (input == ConditionInput::channels && most > 0)
    raise(KINORA_ERROR_INVALID,
          "condition_frames: {} reads its picture in `condition`, and its latent has no given frames; "
          "leave condition_frames empty, and set first_frame = true in the encode job",
          model);
}

ConditionInput Objective::condition_input(const at::Tensor& latent) const {
  return condition_input_of(model_, in_channels_ > 0 ? in_channels_ : latent.size(1), latent.size(1));
}

Objective::Noised Objective::noised(const at::Tensor& latent, const at::Tensor& sigma,
                                    const at::Tensor& noise, const Given& given) const {
  if (clean_) return two_streams(latent, sigma, noise);
  if (given.frames.empty()) return {loss_.noisy(latent, noise, sigma), sigma, {}, {}};
  const int64_t all = latent.size(2), most = *std::max_element(given.frames.begin(), given.frames.end());
  require_given(most, all, condition_input(latent), model_.id);
  const at::Tensor mask = given_frames(given.frames, all).to(device_);
  const at::Tensor levels = at::where(mask, given.level.to(device_).unsqueeze(1), by_frame(sigma));
  const at::Tensor at_frames = mask.view({-1, 1, all, 1, 1}), x = loss_.noisy(latent, noise, levels);
  return {given.noisy ? x : at::where(at_frames, latent, x), levels, at_frames,
          given.shares_timestep ? sigma : at::Tensor()};
}

Objective::Noised Objective::two_streams(const at::Tensor& latent, const at::Tensor& sigma,
                                         const at::Tensor& noise) const {
  if (latent.dim() != 5)
    raise(KINORA_ERROR_INVALID,
          "teacher_forcing: latents are {}; a packed row has no noisy copy; give videos [B, C, T, H, W]",
          c10::str(latent.sizes()));
  const at::Tensor levels = by_frame(sigma).expand({latent.size(0), latent.size(2)});
  return joined_streams(latent, loss_.noisy(latent, noise, levels), levels);
}

Objective::Noised Objective::joined_streams(const at::Tensor& latent, const at::Tensor& noisy,
                                            const at::Tensor& levels) const {
  const int64_t B = latent.size(0), T = latent.size(2);
  const at::Tensor clean = given_frames(std::vector<int64_t>(static_cast<size_t>(B), T), 2 * T).to(device_);
  return {at::cat({latent, noisy}, 2),
          at::cat({at::full_like(levels, *clean_), levels}, 1),
          clean.view({B, 1, 2 * T, 1, 1}),
          {}};
}

NamedTensors Objective::inputs(const NamedTensors& batch, const at::Tensor& level, const at::Tensor& noise,
                               const Given& given) const {
  if (!noisy()) return inputs(batch, {});
  const auto latent = batch.find("latent");
  require_data(loss_, latent == batch.end());
  if (const auto sizes = batch.find("sizes"); sizes != batch.end())
    return inputs(batch, noised_row(latent->second, sizes->second, level.to(device_), noise));
  return inputs(batch, noised(latent->second, level.to(device_), noise, given));
}

NamedTensors Objective::noisy_inputs(const NamedTensors& batch, const at::Tensor& noisy,
                                     const at::Tensor& levels) const {
  return inputs(batch,
                clean_ ? joined_streams(batch.at("latent"), noisy, levels) : Noised{noisy, levels, {}, {}});
}

NamedTensors Objective::disturbed_inputs(NamedTensors batch, const at::Tensor& sigma, const at::Tensor& noise,
                                         const Disturbed& disturbed) const {
  const at::Tensor levels = by_frame(sigma).expand({sigma.size(0), noise.size(2)});
  batch["latent"] = disturbed.context;
  return noisy_inputs(batch, loss_.noisy(disturbed.latent, noise, levels), levels);
}

NamedTensors Objective::inputs(const NamedTensors& batch, const Noised& noised) const {
  NamedTensors in = batch;
  if (noised.x.defined()) {
    if (clean_)
      for (auto& [name, tensor] : in)
        if (tensor.dim() == 5) tensor = twice(tensor);
    const auto sizes = batch.find("sizes");
    const auto made = model_input(noised, sizes == batch.end() ? at::Tensor() : sizes->second);
    in["latent"] = made.latent;
    in["timestep"] = made.timestep;
    if (condition_input(noised.x) == ConditionInput::mask) {
      auto shape = noised.x.sizes().vec();
      shape[1] = 1;
      in["condition_mask"] = noised.given.defined()
                                 ? noised.given.to(stream_).expand(shape)
                                 : at::zeros(shape, at::TensorOptions(device_).dtype(stream_));
    }
  }
  if (batch.count("latent")) in["latent"] = in["latent"].to(stream_);
  std::erase_if(in, [&](const auto& named) { return !takes(named.first); });
  return in;
}

// Returns the outputs by the manifest's names; a model may leave one out, such as Cosmos its logvar.
NamedTensors Objective::outputs(const NamedTensors& in) const {
  const auto made = network_.forward(in);
  NamedTensors out;
  for (size_t i = 0; i < made.size(); ++i)
    if (made[i].defined()) out[model_.outputs[i].name] = made[i];
  return out;
}

at::Tensor Objective::losses(const NamedTensors& batch, const at::Tensor& level, const at::Tensor& noise,
                             const Given& given, Disturbed* disturbed) const {
  const at::Tensor sigma = level.defined() ? level.to(device_) : level;
  const NamedTensors in =
      disturbed ? disturbed_inputs(batch, sigma, noise, *disturbed) : inputs(batch, sigma, noise, given);
  NamedTensors to_loss;
  if (noisy()) to_loss = {{"noise", noise}, {"sigma", sigma}};
  for (const auto& [name, tensor] : batch)
    if (name == "latent" || named(loss_.spec().inputs, name)) to_loss[name] = tensor;
  for (const auto& [name, made] : outputs(in)) {
    const int64_t T = clean_ ? batch.at("latent").size(2) : 0;
    to_loss[name] = clean_ ? some_frames(name, made, T, T) : made;
    if (name == "output") to_loss["prediction"] = to_loss[name];
  }
  if (disturbed) disturbed->prediction = to_loss.at("prediction").detach();
  if (const auto sizes = batch.find("sizes"); sizes != batch.end())
    return losses_of_row(to_loss, sizes->second);
  if (!given.frames.empty()) return losses_of_rest(to_loss, given);
  return loss_.of_samples(loss_.evaluate(to_loss), batch.begin()->second.size(0));
}

Objective::Noised Objective::noised_row(const at::Tensor& latent, const at::Tensor& sizes,
                                        const at::Tensor& sigma, const at::Tensor& noise) const {
  const auto latents = videos_of(latent, sizes), noises = videos_of(noise, sizes);
  std::vector<at::Tensor> x;
  for (size_t i = 0; i < latents.size(); ++i)
    x.push_back(loss_.noisy(latents[i], noises[i], sigma.narrow(0, static_cast<int64_t>(i), 1)));
  return {row_of(x), sigma, {}, {}};
}

LossInstance::Input Objective::model_input(const Noised& noised, const at::Tensor& sizes) const {
  if (!sizes.defined()) {
    auto in = loss_.input(noised.x, noised.sigma);
    if (noised.timestep_level.defined()) in.timestep = loss_.input(noised.x, noised.timestep_level).timestep;
    return in;
  }
  std::vector<at::Tensor> latents, timesteps;
  for (const auto& x : videos_of(noised.x, sizes)) {
    const auto one = loss_.input(x, noised.sigma.narrow(0, static_cast<int64_t>(latents.size()), 1));
    latents.push_back(one.latent);
    timesteps.push_back(one.timestep);
  }
  return {row_of(latents), at::cat(timesteps)};
}

// Each video's own, as if it were alone in its batch.
at::Tensor Objective::losses_of_row(const NamedTensors& in, const at::Tensor& sizes) const {
  const int64_t numbers = in.at("latent").size(2);
  std::vector<NamedTensors> each(static_cast<size_t>(sizes.size(0)));
  for (const auto& [name, tensor] : in) {
    const bool is_row = tensor.dim() == 3 && tensor.size(0) == 1 && tensor.size(2) == numbers;
    const auto videos = is_row ? videos_of(tensor, sizes) : tensor.split(1);
    for (size_t i = 0; i < each.size(); ++i) each[i][name] = videos[i];
  }
  std::vector<at::Tensor> losses;
  for (const auto& one : each) losses.push_back(loss_.of_samples(loss_.evaluate(one), 1));
  return at::cat(losses);
}

// Whether the loss adds a sample's elements up, as edm with loss_reduce = "sum", and takes no mean of them:
// then every frame twice doubles it.
bool Objective::adds_up(const NamedTensors& in) const {
  if (adds_up_) return *adds_up_;
  const at::NoGradGuard off;
  NamedTensors two;
  for (const auto& [name, tensor] : in) two[name] = with_frames_twice(name, tensor);
  const auto total = [&](const NamedTensors& of) {
    return loss_.of_samples(loss_.evaluate(of), in.at("latent").size(0)).sum().item<double>();
  };
  const double once = total(in), both = total(two);
  if (once == 0 || !std::isfinite(once) || !std::isfinite(both)) return false;  // any share of it is the same
  adds_up_ = std::abs(both - once) > 0.5 * std::abs(once);
  return *adds_up_;
}

// The loss sees only the learned frames: groups samples with equally many given frames. A mean over them counts
// for its share of all frames.
at::Tensor Objective::losses_of_rest(const NamedTensors& in, const Given& given) const {
  const int64_t all = in.at("latent").size(2);
  const at::Tensor counts = at::tensor(given.frames, at::kLong).to(device_);
  std::vector<at::Tensor> losses, places;
  for (const int64_t count : std::set<int64_t>(given.frames.begin(), given.frames.end())) {
    const at::Tensor rows = (counts == count).nonzero().view({-1});
    NamedTensors rest;
    for (const auto& [name, tensor] : in)
      rest[name] = some_frames(name, tensor.index_select(0, rows), count, all - count);
    const double share = adds_up(rest) ? 1 : static_cast<double>(all - count) / static_cast<double>(all);
    losses.push_back(loss_.of_samples(loss_.evaluate(rest), rows.numel()) * share);
    places.push_back(rows);
  }
  return at::cat(losses).index_select(0, at::cat(places).argsort());
}

}  // namespace kinora::core
