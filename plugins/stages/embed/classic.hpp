// A descriptor of clips without weights: three histograms whose cosine measures how much two clips share.
//
// Every frame is averaged down to 64 x 64, whatever its size and shape. Then
//   colour    216 bins: RGB, 6 x 6 x 6, each pixel split among the eight nearest bins
//   gradient  16 cells x (8 orientations without sign, by magnitude, and one bin "flat" that every pixel adds
//             kFlatLevels to, so that noise on a plain wall is not taken for texture)
//   motion    16 cells x 8 bins of log2(1 + |change of brightness| from the previous frame)
// Each histogram is averaged over the frames, sums to 1, and enters as sqrt(share * histogram) (Hellinger's
// map), so the vector has norm 1 and
//   cosine(a, b) = sum over the three of share * BC,   BC = sum_i sqrt(p_i q_i), Bhattacharyya's coefficient:
// 1 for equal distributions, 0 for those that share no bin. It is never negative.
#pragma once
#include <cstdint>
#include <vector>

#include "kinora/stage.hpp"

namespace kinora::embed {

constexpr int kSide = 64, kCells = 4;
constexpr int kColours = 6, kOrientations = 8, kChanges = 8;
constexpr int kColourBins = kColours * kColours * kColours;
constexpr int kGradientBins = kCells * kCells * (kOrientations + 1);
constexpr int kMotionBins = kCells * kCells * kChanges;
constexpr int kClassicSize = kColourBins + kGradientBins + kMotionBins;
constexpr double kFlatLevels = 4;
// Largest cosine distance of copies. It is below that of networks' embeddings because different shots of a
// dark video have nearly the same histograms.
constexpr double kClassicEps = 0.002;

// Weight of each histogram; none is negative and at least one is positive. Only their proportions matter.
struct Shares {
  double colour = 0.4, gradient = 0.4, motion = 0.2;
};

class Classic {
 public:
  explicit Classic(const Shares& shares) : shares_(shares) {}
  // Adds the next frame in time: RGB [height, width, 3].
  void add(const uint8_t* rgb, int64_t height, int64_t width);
  // Returns [kClassicSize], of norm 1; zeros if there was no frame. A single frame has no motion.
  std::vector<float> vector() const;

 private:
  void add_colours(const std::vector<double>& rgb);
  void add_gradients();
  void add_motion();
  Shares shares_;
  std::vector<double> colour_ = std::vector<double>(kColourBins),
                      gradient_ = std::vector<double>(kGradientBins),
                      motion_ = std::vector<double>(kMotionBins);
  std::vector<double> light_, light_before_;  // [kSide, kSide], 0..255
};

// stage/embed.classic: embeds clips with this descriptor.
class EmbedClassic final : public Stage {
 public:
  struct Options {
    std::string name = "classic";
    double colour = 0.4, gradient = 0.4, motion = 0.2;
  };
  static void describe(Describe<Options>& d);
  explicit EmbedClassic(const Options& o);
  // A sample with shots.json gets field shots.NAME.npy [shots, D], where a shot without frames has a row of
  // zeros; any other sample gets NAME.npy [D].
  void process(Sample in, const Emit& emit, const Run& run) override;

 private:
  Options options_;
  Shares shares_;
};

}  // namespace kinora::embed
