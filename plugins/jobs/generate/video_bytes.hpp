// The memory that a video needs beside the weights, as far as it is known before the video is made.
#pragma once
#include <atomic>

#include <nlohmann/json.hpp>

#include "plugins/jobs/inference/session.hpp"

namespace kinora::core {

// [any-thread]
class VideoBytes {
 public:
  explicit VideoBytes(const inference::Pipeline& pipeline) : pipeline_(pipeline) {}
  // fields: num_frames, height and width. Counts the latents, the frames that are decoded at once, and the cache of
  // keys and values. Only the model knows what a token takes in the cache, so that a cache counts 0 until learn().
  // Not counted: what the networks need within a call.
  int64_t of(const nlohmann::json& fields) const;
  // made: a video of these fields. The text's keys and values count by their most so far. One call at a time.
  void learn(const nlohmann::json& fields, const inference::Session::Made& made);

 private:
  struct Latent {
    int64_t frames, places;  // places: of a frame
  };
  Latent latent(const nlohmann::json& fields) const;
  // Latent frames of the cache.
  int64_t kept(int64_t frames) const;
  const inference::Pipeline& pipeline_;
  std::atomic<double> of_place_{0};  // bytes of tokens in the cache
  std::atomic<int64_t> text_{0};     // bytes of the text in the cache
};

}  // namespace kinora::core
