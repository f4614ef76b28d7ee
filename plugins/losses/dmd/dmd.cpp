// loss/dmd: distribution matching distillation (Yin et al. 2024, arXiv 2311.18828, equation 7; arXiv 2405.14867), as
// Self-Forcing and LongLive train with it. x is the student's clean sample. `real` and `fake` are the clean samples
// that the teacher and the critic predict for x with noise added.
//
// The gradient is (fake - real) / n, with n the mean of |x - real|. The loss is half the mean of its square, and its
// derivative by x is the gradient divided by the number of elements. `real` and `fake` get no derivative.
//
// B batch, T latent frames, C channels, H W rows and columns, K chunks.
#include <limits>
#include <string>

#include "kinora/loss.hpp"
#include "kinora/plugin.hpp"

namespace kinora {

class Dmd final : public Loss<Tensor> {
 public:
  struct Options {
    std::string normalizer = "sample";
    int64_t chunk = 0;
  };
  static void describe(Describe<Options>& d) {
    d.name("dmd").help(
        "distribution matching distillation: the critic's sample minus the teacher's, normalised");
    d.option("normalizer", &Options::normalizer)
        .choices({"sample", "chunk"})
        .help(
            "part of x over which |x - real| is averaged: the sample (Self-Forcing), or each chunk (LongLive "
            "2.0)");
    d.option("chunk", &Options::chunk)
        .at_least(0)
        .help(
            "chunk: latent frames of a chunk, such as 8; a frame left over is a lone first frame, not "
            "normalised");
    d.input("x", "[B, T, C, H, W]", "float", "the student's clean samples");
    d.input("real", "[B, T, C, H, W]", "float", "the teacher's, with guidance");
    d.input("fake", "[B, T, C, H, W]", "float", "the critic's");
    d.output(
        "loss", "[B]", "float",
        "half the mean of grad^2 over a sample's elements; its derivative by x is grad / N. A prediction "
        "that is NaN makes it NaN");
    d.output("grad", "[B, T, C, H, W]", "float",
             "(fake - real) / n, and 0 where that is NaN; without derivatives");
  }
  explicit Dmd(const Options& o) : o_(o) {
    if (o.normalizer == "chunk" && o.chunk == 0)
      throw Error(KINORA_ERROR_INVALID, "normalizer = \"chunk\" needs `chunk`, the latent frames of a chunk");
    if (o.normalizer == "sample" && o.chunk > 0)
      throw Error(KINORA_ERROR_INVALID,
                  "chunk applies to normalizer = \"chunk\"; set that, or leave out chunk");
  }

  // This loss has no noise.
  Tensor noisy(const Tensor&, const Tensor&, const Tensor&) override { throw no_noise(); }
  Input input(const Tensor&, const Tensor&) override { throw no_noise(); }
  Tensor estimate(const Tensor&, const Tensor&, const Tensor&) override { throw no_noise(); }

  std::vector<Tensor> evaluate(const Named<Tensor>& in) override {
    const Tensor x = wide(in["x"]);
    require_alike(x, in["real"], "real");
    require_alike(x, in["fake"], "fake");
    const Tensor plain = x.detach(), real = as(in["real"], x).detach(), fake = as(in["fake"], x).detach();
    const Tensor n = normalizer(op("aten::abs", "", {plain - real}));
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    const Tensor grad = op("aten::nan_to_num", "", {(fake - real) / n, 0.0, kInfinite, -kInfinite});
    // The second term is 0 and carries the derivative; the third is 0, or NaN where a prediction is.
    return {(square(grad) * 0.5 + grad * (x - plain) + (fake - real) * 0.0).mean(of_sample(x)), grad};
  }

 private:
  static Error no_noise() {
    return Error(KINORA_ERROR_UNSUPPORTED,
                 "loss/dmd draws no noise; it compares three predictions of clean samples");
  }

  static void require_alike(const Tensor& x, const Tensor& other, const char* name) {
    if (x.dim() != 5 || other.sizes() != x.sizes())
      throw Error(KINORA_ERROR_INVALID,
                  std::string("x, real and fake must be [B, T, C, H, W] of the same shape; x has ") +
                      std::to_string(x.dim()) + " dimensions and " + std::to_string(x.numel()) +
                      " elements, " + name + " " + std::to_string(other.dim()) + " and " +
                      std::to_string(other.numel()));
  }

  // The mean distance, [B, 1, 1, 1, 1] or, for each frame, [B, T, 1, 1, 1].
  Tensor normalizer(const Tensor& distance) const {
    if (o_.normalizer == "sample") return distance.mean({1, 2, 3, 4}, true);
    const int64_t B = distance.size(0), T = distance.size(1),
                  of_frame = distance.size(2) * distance.size(3) * distance.size(4);
    const int64_t lone = T % o_.chunk == 1 ? 1 : 0, K = T / o_.chunk;
    if (T % o_.chunk != lone)
      throw Error(KINORA_ERROR_INVALID,
                  std::to_string(T) + " latent frames are not chunks of " + std::to_string(o_.chunk) +
                      ", with or without a lone first frame; set chunk to their length");
    const Tensor n_BK1 =
        distance.narrow(1, lone, K * o_.chunk).reshape({B, K, o_.chunk * of_frame}).mean({2}, true);
    const Tensor n_BT =
        op("aten::expand", "", {n_BK1, std::vector<int64_t>{B, K, o_.chunk}}).reshape({B, K * o_.chunk});
    if (lone == 0) return n_BT.reshape({B, T, 1, 1, 1});
    const Tensor one_B1 = full_like(distance.narrow(1, 0, 1).mean({2, 3, 4}), 1);
    return op("aten::cat", "", {std::vector<Tensor>{one_B1, n_BT}, 1}).reshape({B, T, 1, 1, 1});
  }

  Options o_;
};
KINORA_COMPONENT(Dmd)

KINORA_PLUGIN(Dmd)

}  // namespace kinora
