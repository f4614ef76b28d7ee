// What an encode job leaves, as training and generation read it: latents scaled to sigma_data by channel,
// text embeddings.
#pragma once
#include <filesystem>

#include <nlohmann/json.hpp>

#include "core/torch/weights/latent_cache.hpp"

namespace kinora::core {

// Per-channel statistics of all latents, in float64; the file latents.json beside the cache.
struct LatentScale {
  std::vector<double> mean, std;
  double sigma_data = 0.5;
  at::Tensor normalise(const at::Tensor& latent) const;    // [.., C, T, H, W] -> mean 0, deviation sigma_data
  at::Tensor denormalise(const at::Tensor& latent) const;  // the way back
};

struct LatentFacts {
  LatentScale scale;
  std::vector<int64_t> shape;  // [C, T, H, W]; of codes [t, h, w]
  int64_t text_size = 0;
  double fps = 24;  // of the frames that were encoded
  // [mask channels + C, T, H, W] of an encode job's first_frame: its latent normalised, the mask as it is.
  at::Tensor normalised_condition(const at::Tensor& condition) const;
  nlohmann::json to_json() const;
  static LatentFacts from_json(const nlohmann::json&);
};

class LatentData {
 public:
  // folder: of the encode job.
  explicit LatentData(const std::filesystem::path& folder);
  int64_t size() const { return static_cast<int64_t>(cache_.keys().size()); }
  const LatentFacts& facts() const { return facts_; }
  const std::string& key(int64_t i) const { return cache_.keys().at(static_cast<size_t>(i)); }
  struct Item {
    std::string key;
    at::Tensor latent;  // [C, T, H, W], normalised; undefined in a cache of codes
    at::Tensor text;    // [L, D]
    NamedTensors more;  // every other tensor of the sample: codes, conditions
  };
  Item item(int64_t i) const;

 private:
  LatentFacts facts_;
  LatentCache cache_;
};

// Embeddings of several lengths as text [B, L, D], padded with zeros, and mask bool [B, L].
struct TextBatch {
  at::Tensor text, mask;
};
TextBatch batch_text(const std::vector<at::Tensor>& texts);

}  // namespace kinora::core
