// stage/video.read: decodes frames into the tensor "frames".
#include <algorithm>
#include <charconv>
#include <cmath>

#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"
#include "media/decoder.hpp"
#include "media/decoding.hpp"
#include "media/jpeg.hpp"
#include "media/orientation.hpp"
#include "media/sample_media.hpp"
#include "media/scaler.hpp"

namespace kinora::video {

class VideoRead final : public Stage {
 public:
  struct Options {
    int64_t first = 0, frames = 0, stride = 1, height = 0, width = 0, threads = 1, memory = int64_t{1} << 30;
    std::string fit = "crop", decoder = "cpu";
  };
  static void describe(Describe<Options>& d) {
    d.name("video.read").help("Decodes a video to the tensor frames: uint8 [T, H, W, 3], RGB, upright");
    d.option("first", &Options::first)
        .at_least(0)
        .help("index of the first frame; a sample's field `first` takes precedence");
    d.option("frames", &Options::frames)
        .at_least(0)
        .help("number of frames; 0: to the end. A shorter video gives as many as it has");
    d.option("stride", &Options::stride).range(1, 1e6).help("step between the frames that are taken");
    d.option("height", &Options::height)
        .range(0, 16384)
        .unit("pixels")
        .help("height of the frames; 0: from the width, or unchanged");
    d.option("width", &Options::width)
        .range(0, 16384)
        .unit("pixels")
        .help("width of the frames; 0: from the height, or unchanged");
    d.option("fit", &Options::fit)
        .choices({"crop", "stretch"})
        .help("treatment of a different aspect ratio when both height and width are given");
    d.option("threads", &Options::threads).range(1, 64).help("number of decoder threads");
    describe_decoder(d, &Options::decoder);
    d.option("memory", &Options::memory)
        .bytes()
        .at_least(1 << 20)
        .help("largest size of the result; a larger one is an error that says so");
    d.output(
        "frames", "[T, H, W, 3]", "uint8",
        "decoded RGB frames, upright, also as Exif says of a picture; fact frames_at has their seconds, fact "
        "cropped the share of the picture that fit = crop cut off");
  }
  explicit VideoRead(const Options& o) : options_(o) {}
  kinora_resources resources() const override { return reads_media(options_.threads, options_.decoder); }
  void start(const Run&) override { check_decoder(options_.decoder); }

  void process(Sample in, const Emit& emit, const Run& run) override {
    const Media media = open_media(in);
    const int64_t first = first_of(in);
    media_call([&] {
      const auto stored = first > 0 ? Orientation() : Orientation::of(*media.source);
      if (first > 0 || !read_jpeg(in, media, stored)) read(in, media, first, stored, run);
    });
    emit(std::move(in));
  }

 private:
  using Pixels = std::vector<uint8_t>;

  int64_t first_of(const Sample& in) const {
    const auto text = in.text("first");
    if (!text) return options_.first;
    int64_t out = -1;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), out);
    if (error != std::errc() || end != text->data() + text->size() || out < 0)
      throw Error(KINORA_ERROR_DATA, std::string(in.key()) +
                                         ": its field `first` is not a frame index; give a whole "
                                         "number from 0 on, or omit the field");
    return out;
  }

  void read(Sample& in, const Media& media, int64_t first, Orientation stored, const Run& run) const {
    Decoder decoder(*media.source, media.name, decoding_options(options_.threads, options_.decoder));
    const ScalerOptions size = size_for(decoder.probe().video, stored);
    Scaler scaler(size);
    Pixels pixels;
    std::vector<double> times;  // seconds from the start, for stages that measure change over time
    int64_t count = 0;
    double start = 0;
    if (first > 0) {
      if (const Frame* frame = decoder.next()) start = frame->seconds;
      decoder.skip_to(first);
    }
    while (const Frame* frame = decoder.next()) {
      run.check_cancelled();
      if ((frame->index - first) % options_.stride != 0) continue;
      scaler.bytes(*frame->picture, room_for_frame(pixels, media, size));
      if (frame->index == 0) start = frame->seconds;
      times.push_back(frame->seconds - start);
      if (++count == options_.frames) break;
    }
    if (count == 0)
      throw MediaError(media.name + ": no frame from number " + std::to_string(first) + " on" +
                       (decoder.damaged().empty() ? "" : "; " + decoder.damaged()));
    give(in, std::move(pixels), times, size, stored, decoder.damaged(),
         cropped_of(decoder.probe().video, size));
  }

  // False for anything but a JPEG that libjpeg-turbo decodes.
  bool read_jpeg(Sample& in, const Media& media, Orientation stored) const {
    auto picture = JpegPicture::open(*media.source, media.name);
    if (!picture) return false;
    VideoInfo still;
    still.width = picture->width();
    still.height = picture->height();
    const ScalerOptions size = size_for(still, stored);
    Pixels pixels;
    uint8_t* frame = room_for_frame(pixels, media, size);
    if (!picture->decode(frame, size)) return false;
    give(in, std::move(pixels), {0.0}, size, stored, picture->damaged(), cropped_of(still, size));
    return true;
  }

  // Returns where the next frame is to be written, at the end of `pixels`.
  uint8_t* room_for_frame(Pixels& pixels, const Media& media, const ScalerOptions& size) const {
    const size_t frame_bytes = static_cast<size_t>(size.height) * static_cast<size_t>(size.width) * 3;
    if (pixels.size() + frame_bytes > static_cast<size_t>(options_.memory))
      throw Error(KINORA_ERROR_NO_MEMORY,
                  media.name + ": more than " + std::to_string(options_.memory >> 20) +
                      " MiB of frames; set frames, height or width, or raise memory of stage/video.read");
    pixels.resize(pixels.size() + frame_bytes);
    return pixels.data() + pixels.size() - frame_bytes;
  }

  // Sets the frames and what is known of them.
  static void give(Sample& in, Pixels pixels, const std::vector<double>& times, const ScalerOptions& size,
                   Orientation stored, const std::string& damage, double cropped) {
    auto facts = facts_of(in);
    facts["frames_at"] = times;
    if (cropped > 0) facts["cropped"] = cropped;
    if (!damage.empty()) facts["damaged"] = damage;
    in.set("json", facts.dump());
    const auto count = static_cast<int64_t>(times.size());  // 1 if the picture is not stored upright
    pixels = upright(std::move(pixels), size.height, size.width, stored);
    in.set_tensor("frames", std::move(pixels),
                  {count, stored.swaps_sides() ? size.width : size.height,
                   stored.swaps_sides() ? size.height : size.width, 3},
                  KINORA_DL_UINT, 8);
  }

  // Share of the picture that lies outside of the largest part with the frame's shape; 0 below a thousandth.
  double cropped_of(const VideoInfo& video, const ScalerOptions& size) const {
    if (size.fit != Fit::crop || video.width <= 0 || video.height <= 0) return 0;
    double shape = video.width * video.sample_aspect.value() / video.height;
    if (size.rotation.swaps_sides()) shape = 1 / shape;
    const double frame = static_cast<double>(size.width) / size.height,
                 out = 1 - std::min(shape, frame) / std::max(shape, frame);
    return options_.height > 0 && options_.width > 0 && out > 1e-3 ? out : 0;
  }

  // The size of frames as they are decoded; a picture that is not `stored` upright is turned afterwards.
  ScalerOptions size_for(const VideoInfo& video, Orientation stored) const {
    const auto wanted_height = stored.swaps_sides() ? options_.width : options_.height,
               wanted_width = stored.swaps_sides() ? options_.height : options_.width;
    ScalerOptions out;
    out.rotation = video.rotation;
    out.fit = options_.fit == "crop" ? Fit::crop : Fit::stretch;
    const bool turned = video.rotation.swaps_sides();
    const double h = turned ? video.width * video.sample_aspect.value() : video.height;
    const double w = turned ? video.height : video.width * video.sample_aspect.value();
    out.height = static_cast<int>(wanted_height  ? wanted_height
                                  : wanted_width ? std::lround(h * static_cast<double>(wanted_width) / w)
                                                 : std::lround(h));
    out.width = static_cast<int>(wanted_width    ? wanted_width
                                 : wanted_height ? std::lround(w * static_cast<double>(wanted_height) / h)
                                                 : std::lround(w));
    out.height = std::max(1, out.height);
    out.width = std::max(1, out.width);
    return out;
  }

  Options options_;
};

}  // namespace kinora::video

using kinora::video::VideoRead;
KINORA_COMPONENT(VideoRead)
