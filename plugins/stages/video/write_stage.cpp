// stage/video.write: encodes the tensor "frames" as a video or a picture.
#include <cmath>

#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"
#include "media/encoder.hpp"
#include "media/image.hpp"
#include "media/sample_media.hpp"

namespace kinora::video {

class VideoWrite final : public Stage {
 public:
  struct Options {
    std::string format = "mp4", preset = "medium";
    double fps = 24;
    int64_t crf = 18, quality = 90;
  };
  static void describe(Describe<Options>& d) {
    d.name("video.write")
        .help("Encodes the tensor frames: a video, or one picture with the frames side by side");
    d.option("format", &Options::format)
        .choices({"mp4", "webp", "png", "jpeg"})
        .help("format of the result, in field mp4, webp, png or jpg");
    d.option("fps", &Options::fps).above(0).help("frames per second of a video");
    d.option("crf", &Options::crf).range(0, 51).help("H.264 quality, lower is better");
    d.option("preset", &Options::preset).choices(preset_names()).help("x264's speed preset");
    d.option("quality", &Options::quality).range(1, 100).help("quality of jpeg and webp");
    d.input("frames", "[T, H, W, 3]", "uint8",
            "RGB frames, upright; field comment becomes metadata of "
            "mp4, webp and png");
  }
  explicit VideoWrite(const Options& o) : options_(o) {}

  void process(Sample in, const Emit& emit, const Run& run) override {
    const kinora_dl_tensor* frames = in.tensor("frames");
    if (!frames || frames->ndim != 4 || frames->shape[3] != 3 || frames->code != KINORA_DL_UINT ||
        frames->bits != 8 || !is_row_major(*frames))
      throw Error(KINORA_ERROR_INVALID,
                  "sample '" + std::string(in.key()) +
                      "' needs a row-major uint8 tensor frames [T, H, W, 3]; stage/video.read writes one");
    media_call([&] {
      if (options_.format == "mp4") {
        in.set("mp4", video(in, *frames, run));
      } else if (options_.format == "webp") {
        in.set("webp", animation(in, *frames, run));
      } else {
        in.set(options_.format == "jpeg" ? "jpg" : "png", picture(in, *frames));
      }
    });
    in.remove("frames");
    emit(std::move(in));
  }

 private:
  Rational rate() const { return {static_cast<int>(std::lround(options_.fps * 1000)), 1000}; }
  static const uint8_t* pixels(const kinora_dl_tensor& t) {
    return static_cast<const uint8_t*>(t.data) + t.byte_offset;
  }

  std::vector<uint8_t> video(const Sample& in, const kinora_dl_tensor& t, const Run& run) const {
    EncoderOptions o;
    o.height = static_cast<int>(t.shape[1]);
    o.width = static_cast<int>(t.shape[2]);
    o.fps = rate();
    o.crf = static_cast<int>(options_.crf);
    o.preset = options_.preset;
    if (const auto comment = in.text("comment")) o.metadata.emplace_back("comment", std::string(*comment));
    Encoder encoder(std::move(o));
    for (int64_t i = 0; i < t.shape[0]; ++i) {
      run.check_cancelled();
      encoder.write_rgb(pixels(t) + i * t.shape[1] * t.shape[2] * 3);
    }
    return encoder.finish();
  }

  std::vector<uint8_t> animation(const Sample& in, const kinora_dl_tensor& t, const Run& run) const {
    WebpWriter writer(static_cast<int>(t.shape[2]), static_cast<int>(t.shape[1]), rate(),
                      static_cast<int>(options_.quality));
    for (int64_t i = 0; i < t.shape[0]; ++i) {
      run.check_cancelled();
      writer.write_rgb(pixels(t) + i * t.shape[1] * t.shape[2] * 3);
    }
    const auto comment = in.text("comment");
    const auto width = static_cast<int>(t.shape[2]), height = static_cast<int>(t.shape[1]);
    return comment ? webp_with_comment(writer.finish(), *comment, width, height) : writer.finish();
  }

  // Places the frames from left to right in one row.
  std::vector<uint8_t> picture(const Sample& in, const kinora_dl_tensor& t) const {
    const int64_t n = t.shape[0], h = t.shape[1], row = t.shape[2] * 3;
    std::vector<uint8_t> sheet(static_cast<size_t>(n * h * row));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t y = 0; y < h; ++y)
        std::copy_n(pixels(t) + (i * h + y) * row, row, sheet.data() + (y * n + i) * row);
    auto made = encode_image(sheet.data(), static_cast<int>(h), static_cast<int>(t.shape[2] * n),
                             options_.format, static_cast<int>(options_.quality));
    const auto comment = in.text("comment");
    return comment && options_.format == "png" ? png_with_comment(std::move(made), *comment) : made;
  }

  Options options_;
};

}  // namespace kinora::video

using kinora::video::VideoWrite;
KINORA_COMPONENT(VideoWrite)
