// Draws the codes of a video one after the other from a model that predicts the next one (model/ar), through
// a cache of keys and values. The vector before the first code and the given codes are pinned there.
//
// N codes of the video in the order frames, rows, columns; V codes in the tokenizer's vocabulary.
#pragma once
#include <array>
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "core/run/call.hpp"
#include "core/torch/context/cache_instance.hpp"
#include "plugins/jobs/training/generating/guidance.hpp"

namespace kinora::core {

// How a code is drawn from the logits of all codes.
struct TokenSampling {
  double temperature = 1;  // divisor of the logits; 0: the likeliest code
  int64_t top_k = 0;       // keep this many of the likeliest codes; 0: all
  double top_p = 1;  // of these the fewest whose probabilities reach it (nucleus sampling, Holtzman et al.
                     // 2019, arXiv 1904.09751)
};

// logits [V], u in (0, 1): the code at which the cumulative probability, likeliest code first, exceeds u.
// Ties go to the lower code. Throws Error(KINORA_ERROR_FAILED) if the greatest logit is not finite.
int64_t draw_token(const at::Tensor& logits, const TokenSampling& how, double u);

class NextToken {
 public:
  // By its manifest: it has an input `codes` and no `latent`.
  static bool is_for(const ComponentSpec& model);
  // Codes are drawn one after the other: throws Error(KINORA_ERROR_UNSUPPORTED) if several ranks work on a
  // video.
  static void require_alone(const std::string& model, int64_t ranks_of_video);

  // The model's chain must have the cache's link. grid: t, h, w of the codes. vocabulary: V; a
  // larger model's logits of further codes are ignored. guidance.from and .to are noise levels and unused
  // here. All arguments must outlive this object.
  NextToken(Network& model, const ComponentSpec& spec, CacheInstance& cache, std::array<int64_t, 3> grid,
            int64_t vocabulary, const TokenSampling& sampling, const Guidance& guidance,
            uint64_t seed_of_model);

  // int64 [1, t, h, w]. given: the first codes, [1, fewer than t, h, w], or undefined. Code i is drawn with a
  // random number that depends only on (seed, number, i). with, none: as in GuidedModel. Throws
  // Error(KINORA_ERROR_CANCELLED) between two tokens.
  at::Tensor operator()(const Conditions& with, const Conditions& none, const at::Tensor& given,
                        uint64_t seed, int64_t number, Progress& progress);
  int64_t tokens() const { return grid_[0] * grid_[1] * grid_[2]; }
  int64_t calls() const { return calls_; }  // of the model, for the last video

 private:
  // Guided logits, float64 [V], of the code after the first position + count - 1 codes, of which `position`
  // are in the cache.
  at::Tensor logits(const at::Tensor& codes, int64_t position, int64_t count);
  at::Tensor forward(const Conditions& conditions, const at::Tensor& codes, int64_t position, int64_t samples,
                     uint32_t branch);

  Network& model_;
  CacheInstance& cache_;
  std::array<int64_t, 3> grid_;
  int64_t vocabulary_, calls_ = 0;
  TokenSampling sampling_;
  Guidance guidance_;
  uint64_t seed_of_model_;
  Conditions with_, none_, both_;
};

}  // namespace kinora::core
