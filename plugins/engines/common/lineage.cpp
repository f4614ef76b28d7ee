#include "plugins/engines/common/lineage.hpp"

#include <algorithm>

#include "plugins/engines/common/remote.hpp"

namespace kinora::engines {
namespace {

// Media are large and available at the sample's source. Fields that stages wrote exist only here, and are
// kept however long: a score for every frame of a video of ten hours is 20 MB of JSON.
bool is_kept(std::string_view name, size_t size) {
  constexpr size_t kSmall = 4 << 20;
  return size <= kSmall || name.ends_with("json") || name.ends_with("txt");
}

}  // namespace

std::shared_ptr<Track> Lineage::child(const Tracks& parents, std::string_view key, size_t since) {
  auto child = std::make_shared<Track>(std::string(key), parents);
  child->made = parents.size() == 1 && parents.front()->made == 0 ? 1 : 2;
  for (const auto& parent : parents) ++parent->open;
  child->since = since;
  return child;
}

void Lineage::keep(Track& track, const Sample& sample, const Weight& weight, size_t after) {
  track.wholes.push_back({sample.clone(sample.key()), weight, after});
  ledger_.samples().add(weight);
}

void Lineage::end_work(const std::shared_ptr<Track>& track) {
  --track->open;
  settle(track);
}

void Lineage::end(const std::shared_ptr<Track>& track, End end, Sample sample, Weight weight) {
  // It waits for others: a video's bytes are not kept for its record. Nor does the record need what is on a node.
  if ((end.consumed && track->open > 0) || remote_of(sample)) {
    ledger_.samples().remove(weight);
    sample = slim(sample);
    weight = weigh(sample);
    ledger_.samples().add(weight);
  }
  track->end = std::move(end);
  track->sample = std::move(sample);
  track->weight = std::move(weight);
  if (!track->end->stage) left_.insert(track);
  settle(track);
}

Tracks Lineage::lose(const std::function<bool(const Sample&)>& is_lost) {
  Tracks out;
  for (const auto& track : left_)
    if (is_lost(*track->sample)) out.push_back(track);
  for (const auto& track : out) {
    left_.erase(track);
    if (track->settled) std::erase(ends_, track);
    track->settled = false;
    track->end.reset();
  }
  return out;
}

void Lineage::settle(std::shared_ptr<Track> track) {
  if (!track->end || track->open > 0 || track->settled) return;
  track->settled = true;
  ends_.push_back(std::move(track));
  reportable_();
}

std::shared_ptr<Track> Lineage::next() {
  if (ends_.empty()) return nullptr;
  std::shared_ptr<Track> out = std::move(ends_.front());
  ends_.pop_front();
  left_.erase(out);
  telling_ = true;
  return out;
}

void Lineage::told(const Track& track) {
  telling_ = false;
  ledger_.samples().remove(track.weight);
  for (const Whole& whole : track.wholes) ledger_.samples().remove(whole.weight);
  for (const auto& parent : track.parents)
    if (--parent->open == 0) settle(parent);
}

bool is_of(const Track& track, std::string_view input) {
  if (track.made == 0) return track.key == input;
  return std::any_of(track.parents.begin(), track.parents.end(),
                     [&](const auto& parent) { return is_of(*parent, input); });
}

std::set<std::string_view> inputs_of(const Track& track) {
  if (track.made == 0) return {track.key};
  std::set<std::string_view> out;
  for (const auto& parent : track.parents) out.merge(inputs_of(*parent));
  return out;
}

Sample slim(const Sample& sample) {
  Sample out(sample.key());
  for (const auto& field : sample.fields()) {
    if (field.name == kRemote || !is_kept(field.name, field.bytes.size())) continue;
    out.set(std::string(field.name).c_str(),
            std::string_view(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()));
  }
  return out;
}

}  // namespace kinora::engines
