// Compares two clips by what changes in their frames, whatever their start and speed: the second look of
// dedup.semantic at clips whose embeddings are alike.
//
// A signature is the clip's small grey frames (stage clip.signature). Each frame loses its mean, so that
// brightness does not count. Then it loses the multiple of the clip's mean frame that fits it best, so that a
// picture that stands still or fades does not count: a logo, a black bar, a title card, or the scene that two
// shots have in common. The rest is the motion. Two clips are copies if the motion of one is a multiple of that
// of the other:
//   correlation = sum of a(t) b(speed t + offset) / sqrt(sum of a(t)^2  sum of b(speed t + offset)^2)
// at the best speed and offset, over at least 0.6 of the shorter clip. Values of b between frames are
// interpolated.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kinora::dedup {

constexpr size_t kCells = 64;             // of a frame: 8 x 8
constexpr double kSignatureRate = 4;      // frames a second
constexpr size_t kSignatureFrames = 120;  // later ones are not compared
constexpr size_t kFewestFrames = 4;       // that two clips must have in common to be compared
constexpr double kMotionless = 0.5;       // of 255 levels: rounding and encoding change as much
constexpr double kOnlyLight = 0.1;        // share of the motion: less is beyond the fade of one layer
constexpr double kFastest = 1.1;          // of two speeds; the slowest is its inverse
constexpr double kSpeedStep = 0.01;

struct Signature {
  std::vector<float> motion;  // [frames, kCells]
  std::vector<float> square;  // [frames + 1]: motion(t) . motion(t); 0 at the end
  std::vector<float> next;    // [frames]: motion(t) . motion(t + 1); 0 for the last
  double change = 0;          // root mean square of the motion, of 255 levels
  double beyond_light = 0;    // share of it that is not one layout of changing strength
  size_t frames() const { return next.size(); }
  bool can_be_compared() const { return frames() >= kFewestFrames; }
  bool is_motionless() const { return change < kMotionless || beyond_light < kOnlyLight; }
};

// bytes: the field `signature`, uint8 [T, 8, 8]. Error(KINORA_ERROR_DATA), which names `origin`, if they are
// not whole frames.
Signature signature_of(std::string_view bytes, const std::string& origin);

struct Aligned {
  double correlation = -1;  // -1: the clips have no kFewestFrames in common
  double speed = 1;         // seconds of b in one second of a
  double offset_s = 0;      // time of b at the start of a
};

Aligned align(const Signature& a, const Signature& b);

}  // namespace kinora::dedup
