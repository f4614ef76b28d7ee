// stage/clip.transcode: one clip a shot, from one pass over the film.
#include <algorithm>

#include <fmt/format.h>

#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"
#include "media.hpp"
#include "shot_detector.hpp"
#include "transcode.hpp"

namespace kinora::video {

class ClipTranscode final : public Stage {
 public:
  struct Options {
    double min_length = 0.5, max_length = 60;
    int64_t crf = 20, max_height = 0, threads = 1;
    std::string preset = "veryfast";
    bool audio = true;
  };
  static void describe(Describe<Options>& d) {
    d.name("clip.transcode")
        .help(
            "Cuts a film at its shots (without any, it is one shot) into H.264 clips, frame-exact, sound "
            "kept");
    d.option("min_length", &Options::min_length)
        .at_least(0)
        .unit("s")
        .help("shorter shots are filtered: rule clip.too-short");
    d.option("max_length", &Options::max_length)
        .above(0)
        .unit("s")
        .help("longer shots are cut into equal parts");
    d.option("crf", &Options::crf).range(0, 51).help("H.264 quality, lower is better");
    d.option("preset", &Options::preset).help("x264's");
    d.option("max_height", &Options::max_height)
        .range(0, 16384)
        .unit("pixels")
        .help("taller films are scaled down; 0: as they are");
    d.option("audio", &Options::audio).help("keep the sound");
    d.option("threads", &Options::threads)
        .range(1, 64)
        .help("of decoder and encoder; the clips' bytes depend on it");
  }
  explicit ClipTranscode(const Options& o) : options_(o) {}
  kinora_resources resources() const override { return reads_media(); }

  void process(Sample film, const Emit& emit, const Run& run) override {
    const Media media = open_media(film);
    const nlohmann::json shots = shots_of(film, media);
    const double fps = shots.at("fps");
    std::string damage = shots.value("damaged", "");
    std::vector<Range> kept;
    std::vector<int64_t> numbers;
    int64_t number = 0;
    for (const Range& range : ranges(shots, fps)) {
      const double seconds = static_cast<double>(range.end - range.first) / fps;
      if (seconds >= options_.min_length) {
        kept.push_back(range);
        numbers.push_back(number);
      } else {
        emit.drop(clip_sample(film, number, range, fps), "clip.too-short", seconds);
      }
      ++number;
    }
    if (!kept.empty()) {
      const std::string found = media_call([&] {
        return transcode_clips(*media.source, media.name, kept, transcode_options(),
                               [&](size_t i, Clip clip) {
                                 run.check_cancelled();
                                 Sample made = clip_sample(film, numbers[i], kept[i], fps);
                                 if (!clip.error.empty()) return emit.fail(std::move(made), clip.error);
                                 describe_clip(made, clip.bytes);
                                 made.set("mp4", std::move(clip.bytes));
                                 emit(std::move(made));
                               });
      });
      if (damage.empty()) damage = found;
    }
    // Its whole clips have gone on; the film itself is not what it says it is.
    if (!damage.empty()) throw Error(KINORA_DATA, damage);
  }

 private:
  // What stage/shots.content found; without it, the film as one shot, its frames counted by decoding them.
  nlohmann::json shots_of(const Sample& film, const Media& media) const {
    if (const auto text = film.text("shots.json")) return nlohmann::json::parse(*text);
    return media_call([&] {
      DecoderOptions decoding;
      decoding.threads = static_cast<int>(options_.threads);
      const Counted counted = count_frames(*media.source, media.name, decoding);
      if (counted.frames == 0)
        throw MediaError(media.name + ": no frame could be decoded; " + counted.damaged);
      nlohmann::json whole{{"fps", nominal_frame_rate(probe(*media.source, media.name).video.fps.value())},
                           {"frames", counted.frames},
                           {"cuts", nlohmann::json::array()}};
      if (!counted.damaged.empty()) whole["damaged"] = counted.damaged;
      return whole;
    });
  }

  // The shots, long ones in equal parts.
  std::vector<Range> ranges(const nlohmann::json& shots, double fps) const {
    std::vector<int64_t> bounds{0};
    for (const auto& cut : shots.at("cuts")) bounds.push_back(cut);
    bounds.push_back(shots.at("frames"));
    std::vector<Range> out;
    const int64_t longest = std::max<int64_t>(1, static_cast<int64_t>(options_.max_length * fps));
    for (size_t i = 0; i + 1 < bounds.size(); ++i) {
      const int64_t length = bounds[i + 1] - bounds[i], parts = (length + longest - 1) / longest;
      for (int64_t p = 0; p < parts; ++p)
        out.push_back({bounds[i] + length * p / parts, bounds[i] + length * (p + 1) / parts});
    }
    return out;
  }

  static Sample clip_sample(const Sample& film, int64_t number, const Range& range, double fps) {
    Sample clip(fmt::format("{}-{:04}", film.key(), number));
    auto facts = facts_of(film);
    facts.erase("damaged");  // the film is, not the clip
    facts.update({{"film", film.key()},
                  {"first_frame", range.first},
                  {"end_frame", range.end},
                  {"frames", range.end - range.first},
                  {"frames_estimated", false},
                  {"start_s", static_cast<double>(range.first) / fps},
                  {"end_s", static_cast<double>(range.end) / fps},
                  {"duration_s", static_cast<double>(range.end - range.first) / fps},
                  {"container", "mp4"},
                  {"codec", "h264"}});
    clip.set("json", facts.dump());
    return clip;
  }

  // The clip is not the film: it is upright, of even size, in 4:2:0, and as long as its own timestamps say.
  static void describe_clip(Sample& clip, const std::vector<uint8_t>& bytes) {
    MemorySource source{std::span(bytes)};
    auto own = facts_of(probe(source, std::string(clip.key())));
    own.erase("frames");  // counted, not from headers
    own.erase("frames_estimated");
    auto facts = facts_of(clip);
    if (!own.contains("audio")) facts.erase("audio");
    facts.update(own);
    clip.set("json", facts.dump());
  }

  TranscodeOptions transcode_options() const {
    TranscodeOptions o;
    o.crf = static_cast<int>(options_.crf);
    o.preset = options_.preset;
    o.max_height = static_cast<int>(options_.max_height);
    o.threads = static_cast<int>(options_.threads);
    o.audio = options_.audio;
    return o;
  }

  Options options_;
};

}  // namespace kinora::video

using kinora::video::ClipTranscode;
KINORA_COMPONENT(ClipTranscode)
