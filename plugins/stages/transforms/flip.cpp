#include "flip.hpp"

#include <algorithm>

#include "drawn.hpp"
#include "kinora/curation.hpp"
#include "kinora/plugin.hpp"

namespace kinora::transforms {
namespace {

constexpr const char* kFlip = "video.flip";

// uint8 [T, H, W, 3] with each row reversed.
std::vector<uint8_t> mirrored(const Pictures& of) {
  const int64_t rows = of.count * of.height;
  std::vector<uint8_t> out(static_cast<size_t>(rows * of.width * 3));
  uint8_t* to = out.data();
  for (int64_t y = 0; y < rows; ++y)
    for (int64_t x = of.width - 1; x >= 0; --x) to = std::copy_n(of.data + (y * of.width + x) * 3, 3, to);
  return out;
}

}  // namespace

void VideoFlip::describe(Describe<Options>& d) {
  d.name(kFlip).help("Mirrors the decoded frames of some samples, left to right").draws();
  d.option("probability", &Options::probability).range(0, 1).help("share of samples that are mirrored");
  d.input("frames", "[T, H, W, 3]", "uint8", "RGB frames, upright");
}

void VideoFlip::process(Sample in, const Emit& emit, const Run& run) {
  const Pictures pictures = pictures_of(in);
  if (drawn(in, run, kFlip)[0] < options_.probability)
    in.set_tensor("frames", mirrored(pictures), {pictures.count, pictures.height, pictures.width, 3},
                  KINORA_DL_UINT, 8);
  emit(std::move(in));
}

}  // namespace kinora::transforms

using kinora::transforms::VideoFlip;
KINORA_COMPONENT(VideoFlip)
