// Stages that cut videos into clips: clip.transcode at known shots, video.clips while it finds them.
#include "clips/clip_maker.hpp"
#include "clips/clip_samples.hpp"
#include "clips/cutting.hpp"
#include "clips/video_cutter.hpp"
#include "kinora/curation.hpp"
#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"
#include "shots/detector_set.hpp"
#include "shots/network_file.hpp"
#include "shots/shot_finder.hpp"
#include "shots/shots_pass.hpp"

namespace kinora::video {

// stage/clip.transcode: cuts a video into clips at its shots in one pass.
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
  kinora_resources resources() const override {
    return clip_resources(options_, uses_nvenc(options_.encoder));
  }
  void start(const Run&) override { check_coders(options_); }

  void process(Sample video, const Emit& emit, const Run& run) override {
    if (is_picture(video)) return emit(std::move(video));
    const Media media = open_media(video);
    const nlohmann::json shots = shots_of(video, media, run);
    std::string damage = shots.value("damaged", "");
    const std::string found = Cutting(video, media, shots, options_).cut(emit, run, damage.empty());
    if (damage.empty()) damage = found;
    // Its intact clips have been emitted; the video itself is damaged, so it fails.
    if (!damage.empty()) throw Error(KINORA_ERROR_DATA, damage);
  }

 private:
  // Returns the result of a shots stage; without one, the video as a single shot, whose frames are counted by
  // decoding.
  nlohmann::json shots_of(const Sample& video, const Media& media, const Run& run) const {
    if (const auto text = video.text("shots.json"))
      return checked(video, nlohmann::json::parse(*text, nullptr, false));
    return media_call([&] { return one_shot(media, run); });
  }

  nlohmann::json one_shot(const Media& media, const Run& run) const {
    Decoder decoder(*media.source, media.name, decoding_options(options_.threads, options_.decoder));
    VideoClock clock(decoder.time_base());
    FormChanges changes;
    while (const Frame* frame = decoder.next()) {
      run.check_cancelled();
      changes.push(*frame->picture, frame->index);
      clock.next(frame->pts, frame->duration);
    }
    const std::string damage = decoder.damaged();
    if (clock.times().empty()) throw MediaError(no_frame(media.name, damage));
    const double fps = nominal_frame_rate(decoder.probe().video.fps.value());
    nlohmann::json whole{{"fps", fps}, {"frames", clock.times().size()}, {"cuts", nlohmann::json::array()}};
    write_frame_times(whole, clock, fps);
    write_changes(whole, changes.frames());
    if (!damage.empty()) whole["damaged"] = damage;
    return whole;
  }

  static nlohmann::json checked(const Sample& video, nlohmann::json shots) {
    const bool whole = shots.is_object() && shots.contains("fps") && shots["fps"].is_number() &&
                       shots.contains("frames") && shots["frames"].is_number_integer() &&
                       shots.contains("cuts") && shots["cuts"].is_array();
    if (whole) return shots;
    throw Error(
        KINORA_ERROR_DATA,
        "sample '" + std::string(video.key()) +
            "': its field shots.json lacks fps, frames or cuts; put a stage shots.* before clip.transcode");
  }

  Options options_;
};

// stage/video.clips: stage/shots and stage/clip.transcode in one decode of the video.
//
// The source video is not emitted, as in clip.transcode: no later stage could read its frames, so the options
// that sample them do not exist here. To change the shots before cutting (shots.merge), use the two stages.
class VideoClips final : public Stage {
 public:
  struct Options : DetectorSet, ClipOptions {
    int64_t downscale = 0;
  };

  static void describe(Describe<Options>& d) {
    d.name("video.clips")
        .formerly("film.clips")
        .help(
            "Finds the shots of a video and cuts it into clips in one decode; equals shots followed by "
            "clip.transcode");
    describe_detectors(d, "shot_min_length");
    d.option("downscale", &Options::downscale).range(0, 1024).help("downscale of shots");
    describe_clip_options(d);
  }
  explicit VideoClips(const Options& o) : options_(o), shots_(plan_of(o)) {
    checked(o);
    shots_.downscale = o.downscale;
    shots_.threads = o.threads;
    shots_.decoder = o.decoder;
    check_network(shots_);
  }
  kinora_resources resources() const override {
    return clip_resources(options_, uses_nvenc(options_.encoder));
  }
  void start(const Run&) override {
    check_coders(options_);
    load_network(shots_);
  }

  void process(Sample video, const Emit& emit, const Run& run) override {
    if (is_picture(video)) return emit(std::move(video));
    const Media media = open_media(video);
    const Probe header = media_call([&] { return probe(*media.source, media.name); });
    const std::string damage = could_copy(header, transcode_options(options_)) || !fits(header.video)
                                   ? look_then_cut(video, media, emit, run)
                                   : cut_at_once(video, media, header, emit, run);
    // Its intact clips have been emitted; the video itself is damaged, so it fails.
    if (!damage.empty()) throw Error(KINORA_ERROR_DATA, damage);
  }

 private:
  // Whether the frames that wait for the network's answers leave a quarter of the memory to the encoders' frames.
  bool fits(const VideoInfo& video) const {
    constexpr int64_t kBytesOfTwoPixels = 3;  // 4:2:0, the usual format
    const int64_t frame = int64_t{video.width} * video.height * kBytesOfTwoPixels / 2;
    return !needs_network(shots_) || frame * transnetv2::Sequence::kDelay <= options_.memory / 4 * 3;
  }

  // Packets may be copied only if the video is intact to its end, so find the shots first; copied packets
  // need no decoding.
  std::string look_then_cut(Sample& video, const Media& media, const Emit& emit, const Run& run) const {
    media_call([&] { find_shots(video, media, shots_, run); });
    const auto shots = nlohmann::json::parse(video.need("shots.json"));
    const std::string damage = shots.value("damaged", "");
    const std::string found = Cutting(video, media, shots, options_).cut(emit, run, damage.empty());
    return damage.empty() ? found : damage;
  }

  std::string cut_at_once(Sample& video, const Media& media, const Probe& header, const Emit& emit,
                          const Run& run) const {
    ClipTeller teller(video, media, options_, nominal_frame_rate(header.video.average_fps.value()));
    CutterOptions how;
    how.shots = shots_;
    how.plan = plan_options(options_);
    how.transcode = teller.how(run);
    how.fate = [&](int64_t number, double seconds, bool short_) {
      return teller.fate(number, seconds, short_);
    };
    how.tell = [&](const NumberedClip& which, Clip clip) {
      run.check_cancelled();
      teller.tell(which, std::move(clip), emit);
    };
    VideoCut cut = media_call([&] { return cut_video(*media.source, media.name, how); });
    if (!cut.damaged.empty()) cut.shots["damaged"] = cut.damaged;
    video.set("shots.json", cut.shots.dump());
    return cut.damaged;
  }

  Options options_;
  ShotsPlan shots_;
};

}  // namespace kinora::video

using kinora::video::ClipTranscode;
using kinora::video::VideoClips;
KINORA_COMPONENT(ClipTranscode)
KINORA_COMPONENT(VideoClips)
