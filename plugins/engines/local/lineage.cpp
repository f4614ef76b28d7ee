#include "lineage.hpp"

namespace kinora::local {

std::shared_ptr<Track> Lineage::child(const Tracks& parents, std::string_view key) {
  auto child = std::make_shared<Track>(std::string(key), parents);
  child->made = parents.size() == 1 && parents.front()->made == 0 ? 1 : 2;
  for (const auto& parent : parents) ++parent->open;
  return child;
}

void Lineage::end_work(const std::shared_ptr<Track>& track) {
  --track->open;
  settle(track);
}

void Lineage::end(const std::shared_ptr<Track>& track, End end, Sample sample, Weight weight) {
  if (end.consumed && track->open > 0) {  // it waits for others: a video's bytes are not kept for its record
    ledger_.samples().remove(weight);
    sample = slim(sample);
    weight = weigh(sample);
    ledger_.samples().add(weight);
  }
  track->end = std::move(end);
  track->sample = std::move(sample);
  track->weight = std::move(weight);
  settle(track);
}

void Lineage::settle(std::shared_ptr<Track> track) {
  if (!track->end || track->open > 0 || track->settled) return;
  track->settled = true;
  ends_.push_back(std::move(track));
  reportable_.notify_one();
}

std::shared_ptr<Track> Lineage::next() {
  if (ends_.empty()) return nullptr;
  std::shared_ptr<Track> out = std::move(ends_.front());
  ends_.pop_front();
  telling_ = true;
  return out;
}

void Lineage::told(const Track& track) {
  telling_ = false;
  ledger_.samples().remove(track.weight);
  for (const auto& parent : track.parents)
    if (--parent->open == 0) settle(parent);
}

}  // namespace kinora::local
