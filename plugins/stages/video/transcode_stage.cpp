// stage/clip.transcode: one clip a shot, from one pass over the film.
#include <algorithm>
#include <thread>

#include "bins.hpp"
#include "clip_samples.hpp"
#include "clip_writer.hpp"
#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"
#include "shot_detector.hpp"
#include "transcode_options.hpp"

namespace kinora::video {

class ClipTranscode final : public Stage {
 public:
  using Options = ClipOptions;
  static void describe(Describe<Options>& d) {
    d.name("clip.transcode")
        .help("Cuts a film at its shots (without any, it is one shot) into H.264 clips, frame-exact, sound kept");
    describe_clip_options(d);
  }
  explicit ClipTranscode(const Options& o) : options_(o) {}

  kinora_resources resources() const override { return clip_resources(options_); }

  void process(Sample film, const Emit& emit, const Run& run) override {
    const Media media = open_media(film);
    const nlohmann::json shots = shots_of(film, media);
    std::string damage = shots.value("damaged", "");
    Cutting cutting(film, media, shots, options_);
    cutting.drop_unwanted(emit);
    if (!cutting.ranges().empty()) {
      const std::string found = media_call([&] { return cutting.cut(emit, run, damage.empty()); });
      if (damage.empty()) damage = found;
    }
    // Its whole clips have gone on; the film itself is not what it says it is.
    if (!damage.empty()) throw Error(KINORA_DATA, damage);
  }

 private:
  // What a shots stage found; without it, the film as one shot, its frames counted by decoding them.
  nlohmann::json shots_of(const Sample& film, const Media& media) const {
    if (const auto text = film.text("shots.json")) return checked(film, nlohmann::json::parse(*text, nullptr, false));
    return media_call([&] {
      DecoderOptions decoding;
      decoding.threads = static_cast<int>(options_.threads);
      const Counted counted = count_frames(*media.source, media.name, decoding);
      if (counted.frames == 0) throw MediaError(media.name + ": no frame could be decoded; " + counted.damaged);
      nlohmann::json whole{{"fps", nominal_frame_rate(probe(*media.source, media.name).video.fps.value())},
                           {"frames", counted.frames},
                           {"cuts", nlohmann::json::array()}};
      if (!counted.damaged.empty()) whole["damaged"] = counted.damaged;
      return whole;
    });
  }

  static nlohmann::json checked(const Sample& film, nlohmann::json shots) {
    const bool whole = shots.is_object() && shots.contains("fps") && shots["fps"].is_number() &&
                       shots.contains("frames") && shots["frames"].is_number_integer() && shots.contains("cuts") &&
                       shots["cuts"].is_array();
    if (whole) return shots;
    throw Error(KINORA_DATA, "sample '" + std::string(film.key()) +
                                 "': its field shots.json lacks fps, frames or cuts; run a stage shots.* before");
  }

  // One film's clips: which there are, which are wanted, and the cutting itself.
  class Cutting {
   public:
    Cutting(const Sample& film, const Media& media, const nlohmann::json& shots, const Options& options)
        : film_(film), media_(media), options_(options), fps_(shots.at("fps")), frames_(shots.at("frames")) {
      for (const auto& cut : shots.at("cuts")) cuts_.push_back(cut);
      if (options.crop) crop_ = crop_of(film);
    }

    const std::vector<Range>& ranges() const { return ranges_; }

    // Clips that are too short or have no bin end here; those that an earlier run has ended are left out.
    void drop_unwanted(const Emit& emit) {
      const auto ended = ended_clips(film_);
      const auto plan = plan_clips(cuts_, frames_, fps_, plan_options(options_));
      for (size_t i = 0; i < plan.size(); ++i) {
        const auto number = static_cast<int64_t>(i);
        Sample sample = clip_sample(film_, number, plan[i].range, fps_);
        const double seconds = static_cast<double>(plan[i].range.end - plan[i].range.first) / fps_;
        if (ended.count(std::string(sample.key()))) continue;
        if (plan[i].too_short) {
          emit.drop(std::move(sample), "clip.too-short", seconds);
        } else if (options_.bins == "drop" && !bin(seconds).complete()) {
          emit.drop(std::move(sample), "clip.no-bin", seconds);
        } else {
          ranges_.push_back(plan[i].range);
          numbers_.push_back(number);
        }
      }
    }

    // sound: nothing was found damaged so far. Returns what is.
    std::string cut(const Emit& emit, const Run& run, bool sound) {
      TranscodeOptions o = transcode_options(options_);
      o.crop = crop_;
      if (options_.parallel == 0)
        o.parallel = static_cast<int>(std::clamp<int64_t>(run.threads() / options_.threads, 1, o.parallel));
      o.check = [&] { run.check_cancelled(); };
      if (sound) o.packets = index_packets(*media_.source, media_.name, frames_);
      return transcode_clips(*media_.source, media_.name, ranges_, o, [&](size_t i, Clip clip) {
        run.check_cancelled();
        Sample made = clip_sample(film_, numbers_[i], ranges_[i], fps_);
        if (!clip.error.empty()) return emit.fail(std::move(made), clip.error);
        fill_clip(made, std::move(clip));
        if (!crop_.empty()) say_cropped(made);
        emit(std::move(made));
      });
    }

   private:
    Bin bin(double seconds) {
      if (!size_) {
        const Probe found = media_call([&] { return probe(*media_.source, media_.name); });
        const Crop stored = media_call([&] { return film_crop(transcoding(), found); });
        size_ = clip_size(stored.empty() ? found.video.width : stored.width,
                          stored.empty() ? found.video.height : stored.height, found.video.rotation,
                          static_cast<int>(options_.max_height));
      }
      return bin_of(size_->width, size_->height, seconds);
    }
    TranscodeOptions transcoding() const {
      TranscodeOptions o;
      o.crop = crop_;
      return o;
    }
    // The crop is of the film, and done.
    static void say_cropped(Sample& clip) {
      auto facts = facts_of(clip);
      facts["cropped"] = facts["crop"];
      facts.erase("crop");
      clip.set("json", facts.dump());
    }

    const Sample& film_;
    const Media& media_;
    const Options& options_;
    double fps_;
    int64_t frames_;
    std::vector<int64_t> cuts_;
    Crop crop_;
    std::optional<Size> size_;  // of a clip's picture
    std::vector<Range> ranges_;
    std::vector<int64_t> numbers_;
  };

  Options options_;
};

}  // namespace kinora::video

using kinora::video::ClipTranscode;
KINORA_COMPONENT(ClipTranscode)
