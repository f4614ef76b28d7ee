#include "track.hpp"

#include <algorithm>

namespace kinora::local {

namespace {

// Media are large and available at the sample's source. Fields that stages wrote exist only here, and are kept however long:
// a score for every frame of a video of ten hours is 20 MB of JSON.
bool is_kept(std::string_view name, size_t size) {
  constexpr size_t kSmall = 4 << 20;
  return size <= kSmall || name.ends_with("json") || name.ends_with("txt");
}

}  // namespace

bool is_of(const Track& track, std::string_view input) {
  if (track.made == 0) return track.key == input;
  return std::any_of(track.parents.begin(), track.parents.end(), [&](const auto& parent) { return is_of(*parent, input); });
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
    if (!is_kept(field.name, field.bytes.size())) continue;
    out.set(std::string(field.name).c_str(),
            std::string_view(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()));
  }
  return out;
}

}  // namespace kinora::local
