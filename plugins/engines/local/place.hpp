// A sample's place in the order of the source, and what an ordered stage has to wait for.
#pragma once
#include <cstdint>
#include <set>
#include <vector>

namespace kinora::local {

// The number of the input, then the number of each emission that led here. Compared element by element, this
// is the order in which one thread that takes every input through the whole pipeline would see the samples.
using Place = std::vector<uint64_t>;

inline Place below(const Place& place, uint64_t emission) {
  Place out;
  out.reserve(place.size() + 1);
  out = place;
  out.push_back(emission);
  return out;
}

// For one ordered stage: the place of the next sample that may come out of each sample still ahead of it.
class Frontier {
 public:
  void add(Place next) { next_.insert(std::move(next)); }
  void remove(const Place& next) {
    const auto at = next_.find(next);
    if (at != next_.end()) next_.erase(at);
  }
  // Whether nothing can come any more that belongs before `place`.
  bool passed(const Place& place) const { return next_.empty() || place < *next_.begin(); }

 private:
  std::multiset<Place> next_;
};

}  // namespace kinora::local
