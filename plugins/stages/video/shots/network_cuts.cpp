#include "shots/network_cuts.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "shots/transnetv2.hpp"

namespace kinora::video {
namespace {

constexpr float kQuiet = 0.2F;
constexpr int64_t kLong = 12, kGradual = 4, kFlash = 4, kKept = 2 * transnetv2::Sequence::kDelay;
constexpr double kAlike = 18, kBrighter = 16;  // means of the pictures' values, of 255

double mean_of(const std::vector<uint8_t>& picture) {
  return std::accumulate(picture.begin(), picture.end(), 0.0) / static_cast<double>(picture.size());
}

double difference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  int64_t sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return static_cast<double>(sum) / static_cast<double>(a.size());
}

}  // namespace

void NetworkCuts::see(const uint8_t* picture) {
  pictures_.emplace_back(picture, picture + transnetv2::kFrameBytes);
  for (; static_cast<int64_t>(pictures_.size()) > kKept; ++first_picture_) pictures_.pop_front();
}

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
  const int64_t cut = now_.peak + 1;
  const bool found = static_cast<double>(now_.highest) > threshold_ || now_.frames >= kLong;
  if (!found || is_flash(now_.peak)) return;
  cuts_.push_back(cut);
  if (now_.frames >= kGradual)
    transitions_.push_back({std::min(now_.gradual.first, cut), std::max(now_.gradual.end, cut)});
}

bool NetworkCuts::is_flash(int64_t peak) const {
  for (int64_t before = peak - kFlash; before <= peak; ++before)
    for (int64_t after = std::max(peak + 1, before + 2); after <= before + kFlash + 1; ++after)
      if (is_flash_between(before, after)) return true;
  return false;
}

bool NetworkCuts::is_flash_between(int64_t before, int64_t after) const {
  const auto *a = picture(before), *b = picture(after);
  if (!a || !b || difference(*a, *b) > kAlike) return false;
  const double dark = std::max(mean_of(*a), mean_of(*b));
  for (int64_t frame = before + 1; frame < after; ++frame)
    if (mean_of(*picture(frame)) <= dark + kBrighter) return false;
  return true;
}

const std::vector<uint8_t>* NetworkCuts::picture(int64_t frame) const {
  const int64_t place = frame - first_picture_;
  return place < 0 || place >= static_cast<int64_t>(pictures_.size())
             ? nullptr
             : &pictures_[static_cast<size_t>(place)];
}

}  // namespace kinora::video
