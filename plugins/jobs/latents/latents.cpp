#include "plugins/jobs/latents/latents.hpp"

#include <set>

#include <ATen/ATen.h>

#include "core/base/digest.hpp"
#include "core/base/facts.hpp"
#include "core/base/regular_file.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

// [C] -> [C, 1, 1, 1], over [.., C, T, H, W]; computed in the latent's dtype.
at::Tensor by_channel(const std::vector<double>& v, const at::Tensor& like) {
  return at::tensor(v, at::kDouble).to(like.options()).view({-1, 1, 1, 1});
}

nlohmann::json read_facts(const std::filesystem::path& file) {
  auto facts = object_in_file(file);
  if (facts.empty())
    throw Error(KINORA_ERROR_DATA,
                file.string() + ": is missing or damaged; delete its folder and run again");
  return facts;
}

}  // namespace

// x' = (x - mean) / std * sigma_data: a deviation of sigma_data in every channel, which EDM's preconditioning assumes
// (arXiv 2206.00364, table 1).
at::Tensor LatentScale::normalise(const at::Tensor& x) const {
  return (x - by_channel(mean, x)) / by_channel(std, x) * sigma_data;
}
at::Tensor LatentScale::denormalise(const at::Tensor& x) const {
  return x / sigma_data * by_channel(std, x) + by_channel(mean, x);
}

nlohmann::json LatentFacts::to_json() const {
  return {{"mean", scale.mean},    {"std", scale.std},       {"sigma_data", scale.sigma_data},
          {"latent_shape", shape}, {"text_size", text_size}, {"fps", fps}};
}

LatentFacts LatentFacts::from_json(const nlohmann::json& j) {
  try {
    LatentFacts out;
    out.scale = {j.at("mean"), j.at("std"), j.at("sigma_data")};
    out.shape = j.at("latent_shape").get<std::vector<int64_t>>();
    out.text_size = j.at("text_size");
    out.fps = j.at("fps");
    return out;
  } catch (const nlohmann::json::exception& e) {
    throw Error(KINORA_ERROR_DATA, std::string("latents.json is damaged: ") + e.what() +
                                       "; delete the encode job's folder and run again");
  }
}

at::Tensor LatentFacts::normalised_condition(const at::Tensor& condition) const {
  const int64_t masks = condition.size(0) - shape.at(0);
  return at::cat({condition.narrow(0, 0, masks), scale.normalise(condition.narrow(0, masks, shape.at(0)))});
}

LatentFacts LatentFacts::of_folder(const std::filesystem::path& folder) {
  return from_json(read_facts(folder / "latents.json"));
}

LatentItem LatentFacts::item(std::string key, NamedTensors tensors) const {
  LatentItem out{std::move(key), {}, {}, {}};
  for (auto& [name, tensor] : tensors) {
    if (name == "latent")
      out.latent = scale.normalise(tensor.to(at::kFloat));
    else if (name == "text")
      out.text = tensor;
    else if (name == "condition")
      out.more[name] = normalised_condition(tensor);
    else
      out.more[name] = tensor;
  }
  if (!out.latent.defined() && !out.more.count("codes"))
    throw Error(KINORA_ERROR_DATA, "sample '" + out.key +
                                       "' of the latent cache has neither 'latent' nor 'codes'; delete the "
                                       "encode job's folder and run again");
  return out;
}

LatentData::LatentData(const std::filesystem::path& folder, const ShotCut& cut)
    : facts_(LatentFacts::of_folder(folder)), cache_(folder / "latents.h5"), cut_(cut) {
  if (!joins()) return;
  facts_.shape = joined_shape(facts_.shape, cut_);
  runs_ = shot_runs(cache_.keys(), cut_.shots);
}

int64_t LatentData::windows_left_out() const {
  if (!joins()) return 0;
  std::set<std::string> used;
  for (const auto& run : runs_) used.insert(run.windows.begin(), run.windows.end());
  return static_cast<int64_t>(cache_.keys().size() - used.size());
}

LatentItem LatentData::item(int64_t i) const {
  if (!joins()) return facts_.item(key(i), cache_.read(key(i)));
  std::vector<LatentItem> shots;
  for (const auto& window : runs_.at(static_cast<size_t>(i)).windows)
    shots.push_back(facts_.item(window, cache_.read(window)));
  return joined_shots(key(i), shots, cut_.chunk);
}

// At least one position, so that a batch of empty texts has the dimension L; its mask is false.
TextBatch batch_text(const std::vector<at::Tensor>& texts) {
  int64_t longest = 1;
  for (const auto& t : texts) longest = std::max(longest, t.size(0));
  TextBatch out;
  const auto n = static_cast<int64_t>(texts.size());
  out.text = at::zeros({n, longest, texts.front().size(1)}, texts.front().options());
  out.mask = at::zeros({n, longest}, at::kBool);
  for (int64_t i = 0; i < n; ++i) {
    const auto& t = texts[static_cast<size_t>(i)];
    out.text[i].narrow(0, 0, t.size(0)).copy_(t);
    out.mask[i].narrow(0, 0, t.size(0)).fill_(true);
  }
  return out;
}

std::string latents_digest(const std::filesystem::path& folder) {
  std::error_code error;
  const auto facts = read_regular_file(folder / "latents.json");
  std::string text = facts ? *facts : "";
  if (std::filesystem::exists(folder / "latents.h5", error)) {
    const LatentCache cache(folder / "latents.h5");
    text += cache.about() + cache.digest();
    for (const auto& key : cache.keys()) text += "\n" + key;
  }
  return text.empty() ? "" : "sha256:" + sha256(text);
}

}  // namespace kinora::core
