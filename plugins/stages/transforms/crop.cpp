#include "crop.hpp"

#include "drawn.hpp"
#include "kinora/curation.hpp"
#include "kinora/plugin.hpp"

namespace kinora::transforms {
namespace {

constexpr const char* kCrop = "video.crop";

struct Rectangle {
  int64_t y, x, height, width;
};

std::vector<uint8_t> cropped(const Pictures& of, const Rectangle& r) {
  std::vector<uint8_t> out;
  out.reserve(static_cast<size_t>(of.count * r.height * r.width * 3));
  for (int64_t t = 0; t < of.count; ++t)
    for (int64_t y = r.y; y < r.y + r.height; ++y) {
      const uint8_t* row = of.frame(t) + (y * of.width + r.x) * 3;
      out.insert(out.end(), row, row + r.width * 3);
    }
  return out;
}

}  // namespace

void VideoCrop::describe(Describe<Options>& d) {
  d.name(kCrop).help("Cuts one rectangle out of all decoded frames of a sample").draws();
  d.option("height", &Options::height)
      .range(0, 16384)
      .unit("pixels")
      .help("height of the rectangle; 0: that of the frames");
  d.option("width", &Options::width)
      .range(0, 16384)
      .unit("pixels")
      .help("width of the rectangle; 0: that of the frames");
  d.option("at", &Options::at)
      .choices({"random", "center"})
      .help("its place: every one equally often, drawn anew for each slot, or the centre");
  d.input("frames", "[T, H, W, 3]", "uint8", "RGB frames, upright");
}

void VideoCrop::process(Sample in, const Emit& emit, const Run& run) {
  const Pictures of = pictures_of(in);
  const int64_t height = options_.height ? options_.height : of.height,
                width = options_.width ? options_.width : of.width;
  if (height > of.height || width > of.width)
    throw Error(KINORA_ERROR_DATA, "sample '" + std::string(in.key()) + "': its frames of " +
                                       std::to_string(of.width) + "x" + std::to_string(of.height) +
                                       " pixels are smaller than the rectangle of video.crop, " +
                                       std::to_string(width) + "x" + std::to_string(height) +
                                       "; decode them larger, or lower its width and height");
  const auto [u, v] = options_.at == "random" ? drawn(in, run, kCrop) : std::array{0.5, 0.5};
  const auto place = [](double share, int64_t room) {
    return static_cast<int64_t>(share * static_cast<double>(room + 1));
  };
  const Rectangle r{place(u, of.height - height), place(v, of.width - width), height, width};
  in.set_tensor("frames", cropped(of, r), {of.count, height, width, 3}, KINORA_DL_UINT, 8);
  emit(std::move(in));
}

}  // namespace kinora::transforms

using kinora::transforms::VideoCrop;
KINORA_COMPONENT(VideoCrop)
