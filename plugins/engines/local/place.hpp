// A sample's position in the order of the source, and what an ordered stage waits for.
#pragma once
#include <cstdint>
#include <set>
#include <vector>

namespace kinora::local {

// The number of the input, then the number of each emission that led to this sample. Compared element by element, this
// is the order in which a single thread would see the samples if it took each input through the whole pipeline.
using Place = std::vector<uint64_t>;

inline Place below(const Place& place, uint64_t emission) {
  Place out;
  out.reserve(place.size() + 1);
  out = place;
  out.push_back(emission);
  return out;
}

// For one ordered stage: for each sample that is still upstream, the position of the next sample that may come from it.
class Frontier {
 public:
  void add(Place next) { next_.insert(std::move(next)); }
  void remove(const Place& next) {
    const auto at = next_.find(next);
    if (at != next_.end()) next_.erase(at);
  }
  // Whether no sample can still arrive that belongs before `place`.
  bool passed(const Place& place) const { return next_.empty() || place < *next_.begin(); }

 private:
  std::multiset<Place> next_;
};

}  // namespace kinora::local
