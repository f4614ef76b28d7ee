// stage/shots.content: where the shots of a film begin, as PySceneDetect's ContentDetector says it.
#include "decoder.hpp"
#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"
#include "media.hpp"
#include "score_source.hpp"
#include "shot_detector.hpp"

namespace kinora::video {

class ShotsContent final : public Stage {
 public:
  struct Options {
    double threshold = 27.0, hue = 1.0, saturation = 1.0, value = 1.0;
    int64_t min_length = 15, threads = 1;
  };
  static void describe(Describe<Options>& d) {
    d.name("shots.content")
        .help(
            "Finds cuts by the change of hue, saturation and value; equals PySceneDetect's ContentDetector");
    d.option("threshold", &Options::threshold).range(0, 255).help("a score from here on may be a cut");
    d.option("min_length", &Options::min_length)
        .at_least(0)
        .unit("frames")
        .help("shortest shot; cuts that follow sooner are merged");
    d.option("hue", &Options::hue).at_least(0).help("weight in the score");
    d.option("saturation", &Options::saturation).at_least(0).help("weight in the score");
    d.option("value", &Options::value).at_least(0).help("weight in the score");
    d.option("threads", &Options::threads).range(1, 64).help("of the decoder");
  }
  explicit ShotsContent(const Options& o) : options_(o) {}
  kinora_resources resources() const override { return reads_media(); }

  void process(Sample in, const Emit& emit, const Run& run) override {
    const Media media = open_media(in);
    in.set("shots.json", media_call([&] { return detect(media, run); }).dump());
    emit(std::move(in));
  }

 private:
  nlohmann::json detect(const Media& media, const Run& run) const {
    DecoderOptions decoding;
    decoding.threads = static_cast<int>(options_.threads);
    Decoder decoder(*media.source, media.name, decoding);
    const double fps = decoder.probe().video.fps.value();
    ContentDetector detector({options_.threshold, options_.min_length}, fps);
    const VideoInfo& video = decoder.probe().video;
    ScoreSource source({video.width, video.height}, {options_.hue, options_.saturation, options_.value});
    const Rational base = decoder.time_base();
    std::vector<double> scores;
    std::vector<int64_t> cuts;
    int64_t start = 0;
    while (const Frame* frame = decoder.next()) {
      if (scores.empty()) start = frame->pts;
      run.check_cancelled();
      scores.push_back(source.push(*frame->picture));
      if (const auto cut =
              detector.push(scores.back(), presentation_microseconds(frame->pts, start, base.num, base.den)))
        cuts.push_back(*cut);
    }
    if (scores.empty()) throw MediaError(media.name + ": no frame could be decoded; " + decoder.damaged());
    nlohmann::json out{
        {"fps", nominal_frame_rate(fps)}, {"frames", scores.size()}, {"cuts", cuts}, {"scores", scores}};
    if (const auto damage = decoder.damaged(); !damage.empty()) out["damaged"] = damage;
    return out;
  }

  Options options_;
};

}  // namespace kinora::video

using kinora::video::ShotsContent;
KINORA_COMPONENT(ShotsContent)
