#include "shots/shots_pass.hpp"

#include <exception>
#include <optional>
#include <thread>

#include "media/decoder.hpp"
#include "media/frame_pipe.hpp"
#include "shots/frame_sampler.hpp"

namespace kinora::video {
namespace {

constexpr size_t kFramesAhead = 4;

// Everything that consumes decoded frames.
class Takers {
 public:
  Takers(const VideoInfo& video, const ShotsPlan& plan, ShotFinder& finder) : finder_(finder) {
    if (plan.sample_every > 0) sampler_.emplace(video, plan.sample_every, plan.sample_height);
    if (plan.thumbnails) thumbnailer_.emplace(video.rotation);
  }

  void take(const AVFrame& picture, const Moment& now) {
    finder_.push(picture, now);
    if (sampler_) sampler_->push(picture, now);
    if (thumbnailer_) thumbnailer_->push(picture);
  }

  void give(Sample& film, const std::vector<int64_t>& times) {
    if (thumbnailer_) {
      thumbnailer_->give(film);
      const auto* bytes = reinterpret_cast<const uint8_t*>(times.data());
      film.set_tensor("times_us", {bytes, bytes + times.size() * sizeof(int64_t)}, {static_cast<int64_t>(times.size())},
                      KINORA_DL_INT, 64);
    }
    if (!sampler_) return;
    auto facts = facts_of(film);
    facts["frames_at"] = sampler_->give(film);
    film.set("json", facts.dump());
  }

 private:
  ShotFinder& finder_;
  std::optional<FrameSampler> sampler_;
  std::optional<Thumbnailer> thumbnailer_;
};

void take_all(Decoder& decoder, FilmClock& clock, Takers& takers, const Run& run) {
  while (const Frame* frame = decoder.next()) {
    run.check_cancelled();
    takers.take(*frame->picture, clock.next(frame->pts, frame->duration));
  }
}

// The same, with the frames consumed in another thread.
void take_all_beside(Decoder& decoder, FilmClock& clock, Takers& takers, const Run& run) {
  FramePipe pipe(kFramesAhead);
  std::exception_ptr failed;
  std::thread taking([&] {
    try {
      while (const auto frame = pipe.pull()) takers.take(*frame->picture, frame->when);
    } catch (...) {
      failed = std::current_exception();
      pipe.close();
    }
  });
  std::exception_ptr stopped;
  try {
    while (const Frame* frame = decoder.next()) {
      run.check_cancelled();
      if (!pipe.push(*frame->picture, clock.next(frame->pts, frame->duration))) break;
    }
  } catch (...) {
    stopped = std::current_exception();
  }
  pipe.close();
  taking.join();
  if (failed) std::rethrow_exception(failed);
  if (stopped) std::rethrow_exception(stopped);
}

}  // namespace

void find_shots(Sample& film, const Media& media, const ShotsPlan& plan, const Run& run) {
  DecoderOptions decoding;
  decoding.threads = static_cast<int>(plan.threads);
  Decoder decoder(*media.source, media.name, decoding);
  const VideoInfo& video = decoder.probe().video;
  ShotFinder finder(video, plan);
  Takers takers(video, plan, finder);
  FilmClock clock(decoder.time_base());
  (plan.threads > 1 ? take_all_beside : take_all)(decoder, clock, takers, run);
  const auto& times = clock.times();
  if (times.empty()) throw MediaError(no_frame(media.name, decoder.damaged()));
  finder.finish({static_cast<int64_t>(times.size()) - 1, times.back()});
  nlohmann::json shots = finder.shots(clock);
  if (const auto damage = decoder.damaged(); !damage.empty()) shots["damaged"] = damage;
  film.set("shots.json", shots.dump());
  takers.give(film, times);
}

}  // namespace kinora::video
