// stage/clip.preview: a small moving picture of a clip.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "clips/clip_sampler.hpp"
#include "kinora/curation.hpp"
#include "kinora/plugin.hpp"
#include "kinora/sample.hpp"
#include "kinora/stage.hpp"
#include "media/convert.hpp"
#include "media/decoder.hpp"
#include "media/encoder.hpp"
#include "media/image.hpp"
#include "media/sample_media.hpp"
#include "media/scaler.hpp"

namespace kinora::video {
namespace {

constexpr double kFrameRounding = 1e-6;  // seconds

double number(const nlohmann::json& facts, const char* name) {
  const auto at = facts.find(name);
  return at != facts.end() && at->is_number() ? at->get<double>() : 0;
}

// Selects the indices: each selected frame is shown within one frame of its due time.
std::optional<std::vector<int64_t>> picked(const Sample& sample, int64_t count, double fps) {
  const auto facts = json_field(sample, "json");
  const double rate = number(facts, "fps"), length = number(facts, "duration_s");
  if (!facts.contains("frames_at") || !(rate > 0) || !(length > 0)) return std::nullopt;
  const auto times = detail::numbers_in(sample, facts, "frames_at");
  if (static_cast<int64_t>(times.size()) != count) return std::nullopt;
  const double frame = 1 / rate + kFrameRounding;
  std::vector<int64_t> out;
  double next = 0;  // multiple of 1 / fps
  for (int64_t i = 0; i < count; ++i) {
    const double seconds = times[static_cast<size_t>(i)] + kFrameRounding;
    if (seconds < next / fps) continue;
    if (seconds > next / fps + frame) return std::nullopt;
    out.push_back(i);
    next = std::floor(seconds * fps) + 1;
  }
  if (next / fps + frame < length) return std::nullopt;
  return out;
}

// Returns the frames that ClipSampler would take from a sample's video at `fps` per second, scaled to
// `height` pixels, from the tensor `frames` of an earlier stage. Empty if those frames are too few, too low
// or without times, or if the result would exceed `most` bytes.
std::optional<SampledFrames> earlier_frames(const Sample& sample, double fps, int64_t height, int64_t most) {
  if (sample.tensor("frames") == nullptr) return std::nullopt;
  Pictures given;
  std::optional<std::vector<int64_t>> places;
  try {
    given = pictures_of(sample, Limits{}.max_side);
    places = picked(sample, given.count, fps);
  } catch (const Error&) {  // frames or times of another kind
    return std::nullopt;
  }
  if (!places || given.height < height) return std::nullopt;
  SampledFrames out;
  out.height = height;
  out.width = std::max<int64_t>(
      1, std::lround(static_cast<double>(given.width * height) / static_cast<double>(given.height)));
  const auto bytes = static_cast<size_t>(out.height * out.width * 3);
  if (places->size() * bytes > static_cast<size_t>(most)) return std::nullopt;
  out.pixels.resize(places->size() * bytes);
  Scaler scaler({.width = static_cast<int>(out.width), .height = static_cast<int>(out.height)});
  uint8_t* to = out.pixels.data();
  for (const int64_t i : *places) {
    if (given.height == height) {
      std::copy_n(given.frame(i), bytes, to);
    } else {
      scaler.bytes(
          *picture_of_rgb(given.frame(i), static_cast<int>(given.width), static_cast<int>(given.height)), to);
    }
    to += bytes;
    out.at.push_back(static_cast<double>(out.at.size()) / fps);
  }
  return out;
}

}  // namespace

class ClipPreview final : public Stage {
 public:
  struct Options {
    std::string format = "webp";
    double fps = 1;
    int64_t height = 240, quality = 50, crf = 28, threads = 1, memory = int64_t{256} << 20;
  };
  static void describe(Describe<Options>& d) {
    d.name("clip.preview")
        .help(
            "Adds a small moving picture of the clip, made from its tensor frames if these suffice: "
            "field preview.webp or preview.mp4");
    d.option("format", &Options::format)
        .choices({"webp", "mp4"})
        .help("format of the preview; webp is animated and repeats");
    d.option("fps", &Options::fps).above(0).help("frames per second, as sampled and as shown");
    d.option("height", &Options::height)
        .range(2, 16383)
        .unit("pixels")
        .help("height of the preview; the width follows");
    d.option("quality", &Options::quality).range(1, 100).help("quality of webp");
    d.option("crf", &Options::crf).range(0, 51).help("H.264 quality of mp4, lower is better");
    d.option("threads", &Options::threads).range(1, 64).help("number of decoder threads");
    d.option("memory", &Options::memory)
        .bytes()
        .at_least(1 << 20)
        .help("largest size of the frames; more is an error");
  }
  explicit ClipPreview(const Options& o) : options_(o) {}
  kinora_resources resources() const override { return reads_media(options_.threads); }

  void process(Sample in, const Emit& emit, const Run& run) override {
    media_call([&] {
      auto earlier = earlier_frames(in, options_.fps, options_.height, options_.memory);
      const SampledFrames frames = earlier ? std::move(*earlier) : sample(open_media(in), run);
      in.set(options_.format == "webp" ? "preview.webp" : "preview.mp4",
             options_.format == "webp" ? animation(frames, run) : video(frames, run));
    });
    emit(std::move(in));
  }

 private:
  Rational rate() const { return {static_cast<int>(std::lround(options_.fps * 1000)), 1000}; }

  SampledFrames sample(const Media& media, const Run& run) const {
    DecoderOptions decoding;
    decoding.threads = static_cast<int>(options_.threads);
    Decoder decoder(*media.source, media.name, decoding);
    ClipSampler sampler(decoder.probe().video, {}, options_.fps, options_.height, options_.memory);
    double start = 0;
    while (const Frame* frame = decoder.next()) {
      run.check_cancelled();
      if (frame->index == 0) start = frame->seconds;
      sampler.offer(*frame->picture, frame->seconds - start);
    }
    SampledFrames frames = sampler.take();
    if (frames.count() == 0) throw MediaError(media.name + ": no frame could be decoded for a preview");
    return frames;
  }

  template <class Writer>
  static void write(Writer& writer, const SampledFrames& frames, const Run& run) {
    for (int64_t i = 0; i < frames.count(); ++i) {
      run.check_cancelled();
      writer.write_rgb(frames.pixels.data() + i * frames.height * frames.width * 3);
    }
  }

  std::vector<uint8_t> animation(const SampledFrames& frames, const Run& run) const {
    WebpWriter writer(static_cast<int>(frames.width), static_cast<int>(frames.height), rate(),
                      static_cast<int>(options_.quality));
    write(writer, frames, run);
    return writer.finish();
  }

  std::vector<uint8_t> video(const SampledFrames& frames, const Run& run) const {
    EncoderOptions o;
    o.width = static_cast<int>(frames.width);
    o.height = static_cast<int>(frames.height);
    o.fps = rate();
    o.crf = static_cast<int>(options_.crf);
    o.preset = "veryfast";
    Encoder encoder(o);
    write(encoder, frames, run);
    return encoder.finish();
  }

  Options options_;
};

}  // namespace kinora::video

using kinora::video::ClipPreview;
KINORA_COMPONENT(ClipPreview)
