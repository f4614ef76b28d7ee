// Checks whether a model under some strategies computes the same as one process: output, loss, the gradient
// of every parameter and input, and the parameters after steps of an optimizer with clipping. Used by tests of
// strategies and by `kinora plugins check-parallel`.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/runtime/runtime.hpp"
#include "core/torch/attention/visibility.hpp"
#include "core/torch/ranks/parallelism.hpp"
#include "core/torch/weights/lora.hpp"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"

namespace kinora::core {

struct Trial {
  std::string parallel;  // as in a job: "['ddp']", "[{ use = 'tp', size = 2 }]"
  std::string model =
      "{ use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 2, heads = 4, "
      "head_size = 12, adaln_lora = 4 }";
  Frames rule;  // the attention rule; 2 streams: the latent's frames are clean ones, then as many noisy ones
  int64_t each = 1;                        // samples per microbatch of a rank that holds its own samples
  int64_t micro = 1;                       // microbatches per step
  int64_t frames = 4, rows = 4, cols = 6;  // of the latent, which has 2 channels
  int64_t text = 5;                        // tokens; 0: the model reads none
  std::string precision = "fp64";  // or as in a job, with options: "{ use = 'nvfp4', stream = 'float64' }"
  std::string collective = "'gloo'";
  bool is_exact() const { return precision.find("64") != precision.npos; }  // a float64 stream
  int64_t steps = 3;
  std::string optimizer;  // as in a job; empty: AdamW
  // Additional links of both networks, made for each; null: none.
  std::function<std::unique_ptr<kinora::Link<at::Tensor>>()> more = nullptr;
  // Use a packed row of latents with these frames, rows and cols for each sample instead.
  std::vector<std::array<int64_t, 3>> packed;
  std::optional<LoraOptions> lora;
};

// One thing that both have computed.
struct Compared {
  enum class Kind { held, output, input, loss, gradient, norm, parameter };
  Kind kind = Kind::output;
  std::string name;  // of the parameter or input; else empty
  int64_t step = 0;
  double off =
      0;  // the largest difference relative to the largest number of its kind; infinite: the shapes differ
  double times =
      0;  // factor between all numbers and those of one process, up to rounding; 0: they are not proportional

  // "gradient of blocks.0.x.weight"
  std::string what() const;
};

class Equality {
 public:
  // The ranks are those of the launch (core/runtime/place.hpp). Throws kinora::Error, as does run().
  Equality(Runtime&, const Trial&);
  Equality(const Equality&) = delete;
  Equality& operator=(const Equality&) = delete;
  ~Equality();
  // Calls `seen` for everything that this rank holds, in the order of computation.
  void run(const std::function<void(const Compared&)>& seen);
  const Parallelism& parallel() const;

 private:
  class Comparison;
  std::unique_ptr<Comparison> comparison_;
};

}  // namespace kinora::core
