// Reads the output of an encode job for training and generation: latents scaled to sigma_data by channel, and
// text embeddings.
#pragma once
#include <filesystem>

#include <nlohmann/json.hpp>

#include "plugins/jobs/latents/latent_cache.hpp"
#include "plugins/jobs/latents/shot_runs.hpp"

namespace kinora::core {

// Per-channel statistics of all latents, in float64; stored as latents.json next to the cache.
struct LatentScale {
  std::vector<double> mean, std;
  double sigma_data = 0.5;
  at::Tensor normalise(const at::Tensor& latent) const;    // [.., C, T, H, W] -> mean 0, deviation sigma_data
  at::Tensor denormalise(const at::Tensor& latent) const;  // inverse
};

// A sample as training reads it.
struct LatentItem {
  std::string key;
  at::Tensor latent;  // [C, T, H, W], normalised; undefined for codes
  at::Tensor text;    // [L, D]
  NamedTensors more;  // every other tensor of the sample: codes, conditions
  // Tokens of each shot's text, which are `text` together; empty: the sample is one shot.
  std::vector<int64_t> shots{};
};

struct LatentFacts {
  LatentScale scale;
  std::vector<int64_t> shape;  // [C, T, H, W]; for codes [t, h, w]
  int64_t text_size = 0;
  double fps = 24;  // frames per second of the encoded frames
  // [mask channels + C, T, H, W] from an encode job with first_frame: its latent is normalised, the mask
  // unchanged.
  at::Tensor normalised_condition(const at::Tensor& condition) const;
  // The sample whose tensors an encode job made. Throws Error(KINORA_ERROR_DATA) for a sample that has neither
  // latent nor codes.
  LatentItem item(std::string key, NamedTensors tensors) const;
  nlohmann::json to_json() const;
  static LatentFacts from_json(const nlohmann::json&);
  // Reads latents.json of an encode job's folder.
  static LatentFacts of_folder(const std::filesystem::path& folder);
};

// Digest of all latents in the folder of an encode job, with the cache's keys and statistics; of a job that encodes
// while others train, of its statistics alone. Reads no sample.
std::string latents_digest(const std::filesystem::path& folder);

class LatentData {
 public:
  // folder: the encode job's. With several shots each sample is a run of clips (shot_runs.hpp), and
  // facts().shape is the sample's. Throws Error(KINORA_ERROR_INVALID) if there is no such run.
  explicit LatentData(const std::filesystem::path& folder, const ShotCut& cut = {});
  int64_t size() const { return static_cast<int64_t>(joins() ? runs_.size() : cache_.keys().size()); }
  const LatentFacts& facts() const { return facts_; }
  const std::string& key(int64_t i) const {
    const auto at = static_cast<size_t>(i);
    return joins() ? runs_.at(at).key : cache_.keys().at(at);
  }
  // Number of windows that are in no sample.
  int64_t windows_left_out() const;
  using Item = LatentItem;
  // [any-thread] Throws Error(KINORA_ERROR_DATA) for a sample that has neither latent nor codes.
  Item item(int64_t i) const;

 private:
  bool joins() const { return cut_.shots > 1; }
  LatentFacts facts_;
  LatentCache cache_;
  ShotCut cut_;
  std::vector<ShotRun> runs_;  // of a sample each, if it joins
};

// Embeddings of different lengths as text [B, L, D], padded with zeros, and mask bool [B, L].
struct TextBatch {
  at::Tensor text, mask;
};
TextBatch batch_text(const std::vector<at::Tensor>& texts);

}  // namespace kinora::core
