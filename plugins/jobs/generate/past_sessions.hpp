// Live sessions that have ended, which later ones continue from an earlier chunk on.
#pragma once
#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/generate/live_video.hpp"

namespace kinora::core {

// [one thread] Of each, the latents and the prompts stay; its keys and values, and what decodes it, end with it.
class PastSessions {
 public:
  struct Live {
    std::unique_ptr<inference::Session> session;
    LiveVideo::Past past{};
  };
  // Drops the oldest one if there are many.
  void keep(const std::string& id, inference::Session& session, LiveVideo::Past past) {
    constexpr size_t kMost = 8;  // each may be a long video
    if (session.state().chunk == 0) return;
    if (all_.size() >= kMost) all_.pop_front();
    all_.emplace_back(id, Live{session.branch(), std::move(past)});
  }
  // A session that has the first chunks of that one. Throws Error.
  Live continued(const std::string& id, int64_t chunks) const {
    const auto from = std::ranges::find(all_, id, &One::first);
    if (from == all_.end())
      raise(KINORA_ERROR_NOT_FOUND, "session '{}' has made no chunk, or is no longer kept; start another",
            id);
    const Live& live = from->second;
    Live out{live.session->branch(), live.past};
    if (chunks != live.session->state().chunk) out.session->rewind(chunks);
    return out;
  }
  void forget(const std::string& id) {
    std::erase_if(all_, [&](const One& one) { return one.first == id; });
  }

 private:
  using One = std::pair<std::string, Live>;
  std::deque<One> all_;
};

}  // namespace kinora::core
