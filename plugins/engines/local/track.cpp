#include "track.hpp"

namespace kinora::local {

Sample slim(const Sample& sample) {
  constexpr size_t kSmall = 4 << 20;  // a score for every frame of a long film is 2 MB of JSON
  Sample out(sample.key());
  for (const auto& field : sample.fields()) {
    if (field.bytes.size() > kSmall) continue;
    out.set(std::string(field.name).c_str(),
            std::string_view(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()));
  }
  return out;
}

}  // namespace kinora::local
