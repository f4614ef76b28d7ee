// How a video ends in the store, who waits for it, and how the server comes to its own end.
#include <algorithm>
#include <chrono>

#include "apps/serve/api_error.hpp"
#include "apps/serve/videos.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"

namespace kinora::serve {

void Videos::drain() {
  const std::scoped_lock lock(mutex_);
  is_draining_ = true;
}

bool Videos::is_idle() const {
  const std::scoped_lock lock(mutex_);
  return making_.empty() &&
         std::ranges::none_of(lives_, [](const auto& one) { return one.second.has_begun; });
}

bool Videos::wait(const std::string& id, const std::function<bool()>& is_given_up) {
  std::unique_lock lock(mutex_);
  for (StoredVideo video = stored(id); video.status != Status::completed; video = stored(id)) {
    if (video.status == Status::failed) {
      const std::string code = core::text_in(video.error, "code");
      ApiError why(code == "disk_full" ? 507 : 500, core::text_in(video.error, "message"), code);
      why.headers = {{"x-should-retry", "false"}};
      throw why;
    }
    if (is_stopping_) throw ApiError(503, "the server ends", "server_ends");
    if (is_given_up()) return false;
    changed_.wait_for(lock, std::chrono::milliseconds(200));
  }
  return true;
}

void Videos::save(const std::string& id, std::function<void()> change) {
  try {
    change();
    making_.erase(id);
  } catch (const std::exception& e) {
    core::log_error("video {}: its end cannot be stored yet: {}", id, e.what());
    unsaved_[id] = std::move(change);
  }
}

void Videos::save_again() {
  for (auto at = unsaved_.begin(); at != unsaved_.end(); at = unsaved_.erase(at)) {
    at->second();
    if (making_[at->first].is_removed) std::filesystem::remove_all(folder_of(at->first));
    making_.erase(at->first);
  }
}

}  // namespace kinora::serve
