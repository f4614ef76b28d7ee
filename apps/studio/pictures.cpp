#include "apps/studio/pictures.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/log.hpp"
#include "core/run/one_stage.hpp"

namespace kinora::studio {
namespace {

constexpr size_t kAtOnce = 2, kOverhead = 256;  // bytes that an entry costs beside its picture

std::string key_of(const PictureSource& source) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(source.path, error).time_since_epoch().count();
  return fmt::format("{}:{}:{}", source.path.string(), source.first, error ? 0 : time);
}

}  // namespace

std::shared_ptr<const std::string> Pictures::get(const PictureSource& source) {
  if (source.path.empty()) return nullptr;
  const std::string key = key_of(source);
  std::unique_lock lock(mutex_);
  free_.wait(lock,
             [&] { return kept_.contains(key) || (!making_.contains(key) && making_.size() < kAtOnce); });
  if (const auto at = kept_.find(key); at != kept_.end()) {
    order_.splice(order_.begin(), order_, at->second.place);
    return at->second.picture;
  }
  making_.insert(key);
  lock.unlock();
  Picture made = make(source);
  lock.lock();
  making_.erase(key);
  keep(key, made);
  free_.notify_all();
  return made;
}

Pictures::Picture Pictures::make(const PictureSource& source) const {
  try {
    const int64_t first = source.first + std::min<int64_t>(source.frames / 3, 48);
    Sample sample("picture");
    sample.set("url", source.path.string());
    const core::OneStage read(runtime_, "video.read", {{"first", first}, {"frames", 1}, {"height", kHeight}});
    const core::OneStage write(runtime_, "video.write", {{"format", "jpeg"}, {"quality", 80}});
    return std::make_shared<const std::string>(write(read(sample)).need("jpg"));
  } catch (const std::exception& e) {
    core::log_info("studio: no picture: {}", e.what());
    return nullptr;
  }
}

void Pictures::keep(const std::string& key, Picture picture) {
  const auto size = [](const Picture& p) { return kOverhead + (p ? p->size() : 0); };
  order_.push_front(key);
  bytes_ += size(picture);
  kept_[key] = {std::move(picture), order_.begin()};
  while (bytes_ > limit_ && order_.size() > 1) {
    const auto oldest = kept_.find(order_.back());
    bytes_ -= size(oldest->second.picture);
    kept_.erase(oldest);
    order_.pop_back();
  }
}

}  // namespace kinora::studio
