// Latents and text embeddings of samples in one HDF5 file, so that tokenizers and text encoders run once.
// docs/formats/items.md describes its groups, datasets and attributes.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/torch/weights/weights.hpp"

namespace kinora::core {

class LatentCacheWriter {
 public:
  // about: JSON object, stored as text. commit() flushes the file and gives it its name; without commit()
  // nothing remains.
  LatentCacheWriter(const std::filesystem::path& path, const std::string& about);
  ~LatentCacheWriter();
  // [any-thread] Adds one sample. Throws Error(KINORA_ERROR_INVALID) for a key that was added before.
  void add(const std::string& key, const NamedTensors& tensors);
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class LatentCache {
 public:
  // Throws Error(KINORA_ERROR_DATA), naming the dataset, if the file is not such a cache or is damaged.
  explicit LatentCache(const std::filesystem::path& path);
  ~LatentCache();
  const std::vector<std::string>& keys() const;
  const std::string& about() const;
  // SHA-256 of every sample's key and tensors, in order, without reading a sample. Empty if the cache has
  // none.
  const std::string& digest() const;
  bool has(const std::string& key) const;
  // [any-thread] New CPU tensors by name.
  NamedTensors read(const std::string& key) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kinora::core
