#include "apps/studio/pictures.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/log.hpp"
#include "core/base/cancel.hpp"
#include "core/run/one_stage.hpp"

namespace kinora::studio {
namespace {

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
  free_.wait(lock,
             [&] { return kept_.contains(key) || (!making_.contains(key) && making_.size() < kAtOnce); });
  if (const auto known = kept_.find(key)) return *known;
  making_.insert(key);
  std::unique_ptr<FilmDecoder> decoder = taken();
  lock.unlock();
  Picture made;
  try {
    if (!decoder) decoder = std::make_unique<FilmDecoder>(runtime_);
    made = make(*decoder, source);
  } catch (const std::exception& e) {
    if (!core::cancelled()) core::log_info("studio: no picture of {}: {}", source.path.string(), e.what());
  }
  lock.lock();
  if (decoder) idle_.push_back(std::move(decoder));
  making_.erase(key);
  kept_.keep(key, made);
  free_.notify_all();
  return made;
}

std::unique_ptr<FilmDecoder> Pictures::taken() {
  if (idle_.empty()) return nullptr;
  auto out = std::move(idle_.back());
  idle_.pop_back();
  return out;
}

// The decoder process returns only pixels, so compressing them in this process is safe.
Picture Pictures::make(FilmDecoder& decoder, const PictureSource& source) const {
  const int64_t first = source.first + std::min<int64_t>(source.frames / 3, 48);
  const core::OneStage write(runtime_, "video.write", {{"format", "jpeg"}, {"quality", 80}});
  return std::make_shared<const std::string>(write(decoder.frame(source.path, first)).need("jpg"));
}

}  // namespace kinora::studio
