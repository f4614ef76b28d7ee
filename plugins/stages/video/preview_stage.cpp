// stage/clip.preview: a small moving picture of a clip.
#include <cmath>

#include "media/decoder.hpp"
#include "media/encoder.hpp"
#include "clips/earlier_frames.hpp"
#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"
#include "media.hpp"
#include "media/webp.hpp"

namespace kinora::video {

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
