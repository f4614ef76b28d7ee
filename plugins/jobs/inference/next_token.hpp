// Draws the codes of a video one after the other from a model that predicts the next one (model/ar), through
// a cache of keys and values. The vector before the first code and the given codes are pinned there.
//
// N codes of the video in the order frames, rows, columns; V codes in the tokenizer's vocabulary.
#pragma once
#include <array>
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "core/torch/network/cache_instance.hpp"
#include "plugins/jobs/inference/guidance.hpp"
#include "plugins/jobs/inference/request.hpp"

namespace kinora::core {

// logits [V], u in (0, 1): the code at which the cumulative probability, likeliest code first, exceeds u.
// Ties go to the lower code. Throws Error(KINORA_ERROR_FAILED) if the greatest logit is not finite.
int64_t draw_token(const at::Tensor& logits, const TokenSampling& how, double u);

// One video at a time.
class NextToken {
 public:
  // Decided by its manifest: it has an input `codes` and no `latent`.
  static bool is_for(const ComponentSpec& model);
  // Throws Error(KINORA_ERROR_UNSUPPORTED) for a model without the inputs that decoding with a cache needs.
  static void require_inputs(const ComponentSpec& model);
  // Codes are drawn one after the other: throws Error(KINORA_ERROR_UNSUPPORTED) if several ranks work on a
  // video.
  static void require_alone(const std::string& model, int64_t ranks_of_video);

  // The model's chain must have the cache's link. session: of the cache, used by no one else. grid: t, h, w of
  // the codes. vocabulary: V; a larger model's logits of further codes are ignored. guidance.from and .to are
  // noise levels and unused here. All arguments must outlive this object.
  NextToken(Model& model, const ComponentSpec& spec, CacheInstance& cache, uint64_t session,
            std::array<int64_t, 3> grid, int64_t vocabulary, const TokenSampling& sampling,
            const Guidance& guidance, uint64_t seed_of_model);

  // Begins a video. given: the first codes, [1, fewer than t, h, w], or undefined. Code i is drawn with a
  // random number that depends only on (seed, number, i). with, none: as in GuidedModel.
  void begin(const Conditions& with, const Conditions& none, const at::Tensor& given, uint64_t seed,
             int64_t number);
  // Draws the next code, or reads a piece of the given ones; returns how many codes exist. Throws
  // Error(KINORA_ERROR_CANCELLED) once the run was asked to stop.
  int64_t step();
  bool done() const { return position_ == tokens(); }
  at::Tensor codes() const { return codes_.view({1, grid_[0], grid_[1], grid_[2]}); }  // int64
  int64_t tokens() const { return grid_[0] * grid_[1] * grid_[2]; }
  int64_t calls() const { return calls_; }  // of the model, for this video

 private:
  // Guided logits, float64 [V], of the code after the first position + count - 1 codes, of which `position`
  // are in the cache.
  at::Tensor logits(const at::Tensor& codes, int64_t position, int64_t count);
  at::Tensor forward(const Conditions& conditions, const at::Tensor& codes, int64_t position, int64_t samples,
                     uint32_t branch);

  Model& model_;
  CacheInstance& cache_;
  const uint64_t session_;
  std::array<int64_t, 3> grid_;
  int64_t vocabulary_, calls_ = 0, position_ = 0, given_ = 0;  // given_: number of given codes
  TokenSampling sampling_;
  Guidance guidance_;
  uint64_t seed_of_model_;
  Conditions with_, none_, both_;
  at::Tensor codes_, uniform_;  // [1, N]
};

}  // namespace kinora::core
