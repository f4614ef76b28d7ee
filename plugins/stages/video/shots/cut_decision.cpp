#include "shots/cut_decision.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kinora::video {

CutDecision::CutDecision(const std::vector<std::string>& names, const std::string& decide, int64_t tolerance,
                         Distance between)
    : all_(decide == "all"), tolerance_(tolerance), between_(std::move(between)) {
  const auto one = static_cast<size_t>(std::find(names.begin(), names.end(), decide) - names.begin());
  for (size_t i = 0; i < names.size(); ++i)
    if (one == names.size() || one == i) of_.push_back(i);
  // One detector decides alone: none of its cuts are merged.
  if (one < names.size()) {
    all_ = false;
    tolerance_ = 0;
  }
  taken_.resize(of_.size());
}

void CutDecision::advance(const std::vector<const std::vector<int64_t>*>& found,
                          const std::vector<int64_t>& settled, const std::vector<int64_t>& certain) {
  int64_t until = std::numeric_limits<int64_t>::max();
  // Cuts before `until` are final for every detector that decides; later ones wait.
  for (const size_t by : of_) until = std::min(until, settled[by]);
  std::vector<Cut> next;
  for (size_t i = 0; i < of_.size(); ++i) {
    const auto& cuts = *found[of_[i]];
    for (; taken_[i] < cuts.size() && cuts[taken_[i]] < until; ++taken_[i])
      if (cuts[taken_[i]] > 0) next.push_back({cuts[taken_[i]], i});
  }
  std::sort(next.begin(), next.end());
  for (const Cut& cut : next) take(cut);
  // No cut that can still come is near enough to join the open group.
  if (!together_.empty() && until - together_.back().frame > tolerance_) close();
  settled_ = together_.empty() ? until : together_.front().frame;
  merge(certain);
}

// Appends the cuts before settled_ in their order.
void CutDecision::merge(const std::vector<int64_t>& certain) {
  const auto is_due = [&] { return certain_ < certain.size() && certain[certain_] < settled_; };
  while (merged_ < decided_.size() || is_due()) {
    const bool takes_certain =
        is_due() && (merged_ == decided_.size() || certain[certain_] <= decided_[merged_]);
    const int64_t cut = takes_certain ? certain[certain_++] : decided_[merged_++];
    if (cuts_.empty() || cuts_.back() != cut) cuts_.push_back(cut);
  }
}

void CutDecision::take(const Cut& cut) {
  if (!together_.empty() && between_(together_.back().frame, cut.frame) > tolerance_) close();
  together_.push_back(cut);
}

void CutDecision::close() {
  std::vector<bool> has(of_.size());
  const Cut* first = &together_.front();
  for (const Cut& cut : together_) {
    has[cut.by] = true;
    if (cut.by < first->by) first = &cut;
  }
  if (!all_ || std::find(has.begin(), has.end(), false) == has.end()) decided_.push_back(first->frame);
  together_.clear();
}

SettledFrames::SettledFrames(const DetectorOptions& options, double rate)
    : options_(options),
      filter_(options.filter == "merge" ? FlashFilter::Mode::merge : FlashFilter::Mode::suppress,
              options.min_length, rate) {}

int64_t SettledFrames::after(const ShotDetector& detector, const Moment& now) {
  if (options_.name == "adaptive") return std::max<int64_t>(0, now.frame - options_.window + 1);
  if (options_.name == "transnetv2") return detector.settled();
  if (options_.name == "threshold") return after_fade(detector.scores().back(), now);
  if (options_.name != "content") return now.frame + 1;
  filter_.push(detector.scores().back() >= options_.threshold, now);
  return filter_.settled(now);
}

int64_t SettledFrames::after_fade(double mean, const Moment& now) {
  // PySceneDetect compares with an integer threshold.
  const bool out = (mean < std::trunc(options_.threshold)) == (options_.fade == "floor");
  if (first_ || out != out_) {
    out_ = out;
    faded_ = now.frame;
  }
  first_ = false;
  return out_ ? faded_ : now.frame + 1;
}

}  // namespace kinora::video
