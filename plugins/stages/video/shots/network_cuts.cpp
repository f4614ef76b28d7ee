#include "shots/network_cuts.hpp"

#include <algorithm>

namespace kinora::video {
namespace {

constexpr float kQuiet = 0.2F;
constexpr int64_t kLong = 12, kGradual = 4;

}  // namespace

void NetworkCuts::push(float change, float part) {
  const int64_t frame = frames_++;
  if (std::max(change, part) <= kQuiet) {
    if (open_) close();
    return;
  }
  if (!open_) now_ = {.first = frame, .peak = frame};
  open_ = true;
  if (change > now_.highest) {
    now_.highest = change;
    now_.peak = frame;
  }
  if (static_cast<double>(part) <= threshold_) return;
  if (now_.gradual.first < 0) now_.gradual.first = frame;
  now_.gradual.end = frame + 1;
  ++now_.frames;
}

// A change that lasts to the end of the video is never closed: no shot follows it.
void NetworkCuts::close() {
  open_ = false;
  int64_t cut = now_.peak + 1;
  if (const auto flash = flashes_.at(now_.peak)) {
    const bool is_known = !cuts_.empty() && cuts_.back() >= flash->first;
    if (flash->is_in_one_shot || is_known) return;
    cut = std::max(now_.first + 1, flash->shows_before ? flash->end : flash->first);
  } else if (static_cast<double>(now_.highest) <= threshold_ && now_.frames < kLong) {
    return;
  }
  cuts_.push_back(cut);
  if (now_.frames >= kGradual)
    transitions_.push_back({std::min(now_.gradual.first, cut), std::max(now_.gradual.end, cut)});
}

}  // namespace kinora::video
