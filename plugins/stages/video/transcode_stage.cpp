// stage/clip.transcode: cuts a video into clips at its shots in one pass.
#include "clips/clip_samples.hpp"
#include "clips/cutting.hpp"
#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"
#include "shots/shot_finder.hpp"

namespace kinora::video {

class ClipTranscode final : public Stage {
 public:
  using Options = ClipOptions;
  static void describe(Describe<Options>& d) {
    d.name("clip.transcode")
        .help(
            "Cuts a video at its shots into H.264 clips, frame-exact and with sound; without shots the "
            "video is one shot");
    describe_clip_options(d);
  }
  explicit ClipTranscode(const Options& o) : options_(video::checked(o)) {}
  kinora_resources resources() const override { return clip_resources(options_, uses_nvenc(options_.encoder)); }

  void process(Sample film, const Emit& emit, const Run& run) override {
    const Media media = open_media(film);
    const nlohmann::json shots = shots_of(film, media, run);
    std::string damage = shots.value("damaged", "");
    if (damage.empty()) damage = damage_before_remux(film);
    const std::string found = Cutting(film, media, shots, options_).cut(emit, run, damage.empty());
    if (damage.empty()) damage = found;
    // Its intact clips have been emitted; the video itself is damaged, so it fails.
    if (!damage.empty()) throw Error(KINORA_DATA, damage);
  }

 private:
  // Returns the result of a shots stage; without one, the video as a single shot, whose frames are counted by decoding.
  nlohmann::json shots_of(const Sample& film, const Media& media, const Run& run) const {
    if (const auto text = film.text("shots.json"))
      return checked(film, nlohmann::json::parse(*text, nullptr, false));
    return media_call([&] { return one_shot(media, run); });
  }

  nlohmann::json one_shot(const Media& media, const Run& run) const {
    DecoderOptions decoding;
    decoding.threads = static_cast<int>(options_.threads);
    Decoder decoder(*media.source, media.name, decoding);
    FilmClock clock(decoder.time_base());
    while (const Frame* frame = decoder.next()) {
      run.check_cancelled();
      clock.next(frame->pts, frame->duration);
    }
    const std::string damage = decoder.damaged();
    if (clock.times().empty()) throw MediaError(no_frame(media.name, damage));
    const double fps = nominal_frame_rate(decoder.probe().video.fps.value());
    nlohmann::json whole{{"fps", fps}, {"frames", clock.times().size()}, {"cuts", nlohmann::json::array()}};
    write_frame_times(whole, clock, fps);
    if (!damage.empty()) whole["damaged"] = damage;
    return whole;
  }

  static nlohmann::json checked(const Sample& film, nlohmann::json shots) {
    const bool whole = shots.is_object() && shots.contains("fps") && shots["fps"].is_number() &&
                       shots.contains("frames") && shots["frames"].is_number_integer() &&
                       shots.contains("cuts") && shots["cuts"].is_array();
    if (whole) return shots;
    throw Error(KINORA_DATA,
                "sample '" + std::string(film.key()) +
                    "': its field shots.json lacks fps, frames or cuts; put a stage shots.* before clip.transcode");
  }

  Options options_;
};

}  // namespace kinora::video

using kinora::video::ClipTranscode;
KINORA_COMPONENT(ClipTranscode)
