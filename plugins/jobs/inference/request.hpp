// The request for one video, as a plain value: from a generate job or a program.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "core/torch/media/signals.hpp"
#include "plugins/jobs/inference/loras.hpp"

namespace kinora::core {

struct Guidance {
  double scale = 1;  // none + scale * (with - none); 1: `with` alone, 0: `none` alone
  // Levels sigma (x0 + sigma n) at which guidance applies; elsewhere `with` alone (Kynkaanniemi et al. 2024,
  // arXiv 2404.07724).
  double from = 0, to = std::numeric_limits<double>::infinity();
  bool batched = false;  // both predictions in one model call
  bool is_guided() const { return scale != 1 && scale != 0; }

  // NVIDIA's convention counts from the conditional prediction: with + g * (with - none), so 0 is `with`
  // alone.
  static Guidance nemo(double g) { return {.scale = g + 1}; }
};

// How a code is drawn from the logits of all codes.
struct TokenSampling {
  double temperature = 1;  // divisor of the logits; 0: the likeliest code
  int64_t top_k = 0;       // keep this many of the likeliest codes; 0: all
  double top_p = 1;  // of these the fewest whose probabilities reach it (nucleus sampling, Holtzman et al.
                     // 2019, arXiv 1904.09751)
};

// The options of a generate job with the same names say what the members mean.
struct Request {
  int64_t number = 0;  // key of the noise, together with the seed
  uint64_t seed = 0;
  std::string prompt, negative;
  std::filesystem::path image, last_image, video;
  GivenSignals signals;
  std::filesystem::path noise;  // file with the initial noise; empty: it is drawn
  double strength = 1, condition_sigma = 1e-4;
  int64_t condition_frames = 1;
  bool condition_from_end = true;
  std::array<Guidance, 2> guidance;  // of each expert
  TokenSampling tokens;              // for a model that draws codes
  std::vector<std::string> shots;    // instead of one prompt, see shots_of()
  LoraUse lora;
  // Instead of the pipeline's; 0: the pipeline's. Frames of a list of shots are its own.
  int64_t frames = 0, height = 0, width = 0, steps = 0;
  double fps = 0;
};

}  // namespace kinora::core
