#include "apps/studio/pictures.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "core/base/cancel.hpp"
#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/plugin/options.hpp"
#include "host/stages/one_stage.hpp"

namespace kinora::studio {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kAtOnce = 2;

std::string key_of(const PictureSource& source) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(source.path, error).time_since_epoch().count();
  return fmt::format("{}:{}:{}:{}", source.path.string(), source.first, source.frames, error ? 0 : time);
}

}  // namespace

std::string entity_tag(const PictureSource& source) {
  return fmt::format("\"{:016x}\"", std::hash<std::string>()(key_of(source)));
}

Picture Pictures::get(const PictureSource& source) {
  if (source.path.empty()) return nullptr;
  const std::string key = key_of(source);
  std::unique_lock lock(mutex_);
  free_.wait(lock, [&] {
    return kept_.contains(key, Clock::now()) || (!making_.contains(key) && making_.size() < kAtOnce);
  });
  if (const auto known = kept_.find(key, Clock::now())) return *known;
  making_.insert(key);
  std::unique_ptr<VideoDecoder> decoder = taken();
  lock.unlock();
  Picture made;
  try {
    if (!decoder) decoder = std::make_unique<VideoDecoder>(runtime_);
    made = make(*decoder, source);
  } catch (const std::exception& e) {
    if (!core::cancelled()) core::log_info("studio: no picture of {}: {}", source.path.string(), e.what());
  }
  lock.lock();
  if (decoder) idle_.push_back(std::move(decoder));
  making_.erase(key);
  kept_.keep(key, made, Clock::now());
  free_.notify_all();
  return made;
}

std::unique_ptr<VideoDecoder> Pictures::taken() {
  if (idle_.empty()) return nullptr;
  auto out = std::move(idle_.back());
  idle_.pop_back();
  return out;
}

// The decoder process returns only pixels, so compressing them in this process is safe.
Picture Pictures::make(VideoDecoder& decoder, const PictureSource& source) const {
  const int64_t first = source.first + source.frames / 2;
  const core::OneStage write(runtime_, "video.write", {{"format", "jpeg"}, {"quality", 80}});
  return std::make_shared<const std::string>(write(decoder.frame(source.path, first)).need("jpg"));
}

namespace {

constexpr uint64_t kMemory = uint64_t{1} << 30;  // memory limit of the process, bytes
constexpr int64_t kFrameMemory = 16 << 20;       // limit of one frame: extremely wide frames are refused

const kinora_workers_api& workers_of_host() {
  const auto* table =
      static_cast<const kinora_workers_api*>(host()->get_interface(host(), KINORA_INTERFACE_WORKERS, 0));
  if (!table) throw Error(KINORA_ERROR_UNSUPPORTED, "this program cannot start worker processes");
  return *table;
}

Error last_error() { return {KINORA_ERROR_FAILED, std::string(view(host()->last_error(host())))}; }

// Limits one call to kSeconds, whether or not the process reports progress.
kinora_run run_until(Clock::time_point& start) {
  kinora_run run{};
  run.struct_size = sizeof run;
  run.device_type = KINORA_DL_CPU;
  run.n_threads = 1;
  run.self = &start;
  run.cancelled = [](void* self) {
    const bool is_late = core::seconds_since(*static_cast<Clock::time_point*>(self)) > VideoDecoder::kSeconds;
    return is_late || core::cancelled() ? KINORA_ERROR_CANCELLED : KINORA_OK;
  };
  return run;
}

}  // namespace

VideoDecoder::VideoDecoder(core::Runtime& runtime)
    : workers_(workers_of_host()),
      options_(
          core::or_throw(core::Options::make(*core::or_throw(runtime.registry().find("stage", "video.read")),
                                             {{"frames", 1}, {"height", kHeight}, {"memory", kFrameMemory}}))
              .canonical()) {}

void VideoDecoder::end() {
  if (worker_) workers_.stop(worker_);
  worker_ = nullptr;
}

Sample VideoDecoder::frame(const std::filesystem::path& video, int64_t first) {
  const bool was_there = worker_ != nullptr;
  const auto start = Clock::now();
  try {
    return decoded(video, first);
  } catch (const Error&) {
    if (!worker_ || workers_.ended(worker_) == 0) throw;  // the video is at fault; the process is alive
    end();
    if (!was_there || core::seconds_since(start) > kSeconds / 2) throw;
  }
  try {
    return decoded(video, first);
  } catch (const Error&) {
    if (worker_ && workers_.ended(worker_) != 0) end();
    throw;
  }
}

Sample VideoDecoder::decoded(const std::filesystem::path& video, int64_t first) {
  if (!worker_) {
    const kinora_worker_spec spec{sizeof(kinora_worker_spec), 0,        "picture", "stage/video.read",
                                  options_.c_str(),           kSeconds, kMemory};
    if (workers_.start(&spec, &worker_) != KINORA_OK) throw last_error();
  }
  Sample in("picture");
  in.set("url", video.string());
  in.set("first", std::to_string(first));
  core::StageResults results;
  const kinora_emit sink = results.sink();
  auto start = Clock::now();
  const kinora_run run = run_until(start);
  if (workers_.process(worker_, in.get(), &sink, &run) != KINORA_OK) throw last_error();
  if (results.emitted.size() != 1)
    throw Error(KINORA_ERROR_DATA,
                video.string() + ": " +
                    (results.failed.empty() ? "the video has no frame" : results.failed.front().reason));
  return std::move(results.emitted.front());
}

}  // namespace kinora::studio
