#include "shots/shots_pass.hpp"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kinora/sample.hpp"
#include "media/byte_source.hpp"
#include "media/convert.hpp"
#include "media/decoder.hpp"
#include "media/decoding.hpp"
#include "media/ffmpeg.hpp"
#include "media/probe.hpp"
#include "media/scaler.hpp"
#include "media/spilled_tensor.hpp"
#include "shots/frame_times.hpp"
#include "shots/thumbnailer.hpp"

namespace kinora::video {
namespace {

// Samples the first frame at or after every multiple of `every` seconds, upright, RGB.
class FrameSampler {
 public:
  // height: pixels; 0 keeps the size. The width follows from the displayed aspect.
  FrameSampler(const VideoInfo& video, double every, int64_t height);

  void push(const AVFrame& frame, const Moment& now);
  // Sets the tensor `frames`, uint8 [T, H, W, 3]; returns each frame's seconds from the start of the video.
  std::vector<double> give(Sample& to);

 private:
  EvenTimes times_;
  ScalerOptions size_;
  Scaler scaler_;
  std::vector<double> seconds_;
  SpilledTensor pixels_;
};

ScalerOptions size_for(const VideoInfo& video, int64_t height) {
  ScalerOptions out;
  out.rotation = video.rotation;
  const bool turned = video.rotation.swaps_sides();
  const double wide = video.width * video.sample_aspect.value();
  const double h = turned ? wide : video.height, w = turned ? video.height : wide;
  out.height = std::max(1, static_cast<int>(height > 0 ? height : std::lround(h)));
  out.width = std::max(1, static_cast<int>(std::lround(w * out.height / h)));
  return out;
}

FrameSampler::FrameSampler(const VideoInfo& video, double every, int64_t height)
    : times_(every, 0), size_(size_for(video, height)), scaler_(size_) {}

void FrameSampler::push(const AVFrame& frame, const Moment& now) {
  if (!times_.due(now.microseconds)) return;
  seconds_.push_back(static_cast<double>(now.microseconds) / 1e6);
  scaler_.bytes(frame,
                pixels_.append(static_cast<size_t>(size_.height) * static_cast<size_t>(size_.width) * 3));
}

std::vector<double> FrameSampler::give(Sample& to) {
  pixels_.give(to, "frames", {size_.height, size_.width, 3});
  return seconds_;
}

struct TimedFrame {
  ff::Owned<AVFrame> picture;
  Moment when;
};

// Passes decoded frames from the decoding thread to the measuring thread. It holds only a few, so a video
// needs little more memory than its decoder. [any-thread] One thread pushes, one pulls.
class FramePipe {
 public:
  explicit FramePipe(size_t capacity) : capacity_(capacity) {}

  // Waits for room. False if the pipe is closed; the frame is then dropped.
  bool push(const AVFrame& picture, const Moment& when) {
    TimedFrame frame{ff::new_frame(), when};
    if (av_frame_ref(frame.picture.get(), &picture) < 0) throw std::bad_alloc();
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return closed_ || frames_.size() < capacity_; });
    if (closed_) return false;
    frames_.push_back(std::move(frame));
    filled_.notify_one();
    return true;
  }

  // Waits for a frame; empty once the pipe is closed and drained.
  std::optional<TimedFrame> pull() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [&] { return closed_ || !frames_.empty(); });
    if (frames_.empty()) return std::nullopt;
    TimedFrame frame = std::move(frames_.front());
    frames_.pop_front();
    room_.notify_one();
    return frame;
  }

  // Called by either side: no more frames follow, or no more are needed.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    room_.notify_all();
    filled_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable room_, filled_;
  std::deque<TimedFrame> frames_;
  size_t capacity_;
  bool closed_ = false;
};

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
    if (thumbnailer_) thumbnailer_->scale(picture, thumbnails_.append(Thumbnailer::kBytes));
  }

  void give(Sample& video, const std::vector<int64_t>& times) {
    if (thumbnailer_) {
      thumbnails_.give(video, "thumbnails", {Thumbnailer::kHeight, Thumbnailer::kWidth, 3});
      const auto* bytes = reinterpret_cast<const uint8_t*>(times.data());
      video.set_tensor("times_us", {bytes, bytes + times.size() * sizeof(int64_t)},
                       {static_cast<int64_t>(times.size())}, KINORA_DL_INT, 64);
    }
    if (!sampler_) return;
    auto facts = facts_of(video);
    facts["frames_at"] = sampler_->give(video);
    video.set("json", facts.dump());
  }

 private:
  ShotFinder& finder_;
  std::optional<FrameSampler> sampler_;
  std::optional<Thumbnailer> thumbnailer_;
  SpilledTensor thumbnails_;
};

void take_all(Decoder& decoder, VideoClock& clock, Takers& takers, const Run& run) {
  while (const Frame* frame = decoder.next()) {
    run.check_cancelled();
    takers.take(*frame->picture, clock.next(frame->pts, frame->duration));
  }
}

// The same, with the frames consumed in another thread.
void take_all_beside(Decoder& decoder, VideoClock& clock, Takers& takers, const Run& run) {
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

void find_shots(Sample& sample, const Media& media, const ShotsPlan& plan, const Run& run) {
  Decoder decoder(*media.source, media.name, decoding_options(plan.threads, plan.decoder));
  const VideoInfo& video = decoder.probe().video;
  ShotFinder finder(video, plan);
  Takers takers(video, plan, finder);
  VideoClock clock(decoder.time_base());
  (plan.threads > 1 ? take_all_beside : take_all)(decoder, clock, takers, run);
  const auto& times = clock.times();
  if (times.empty()) throw MediaError(no_frame(media.name, decoder.damaged()));
  finder.finish({static_cast<int64_t>(times.size()) - 1, times.back()});
  nlohmann::json shots = finder.shots(clock);
  if (const auto damage = decoder.damaged(); !damage.empty()) shots["damaged"] = damage;
  sample.set("shots.json", shots.dump());
  takers.give(sample, times);
}

}  // namespace kinora::video
