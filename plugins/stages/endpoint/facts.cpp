#include "facts.hpp"

#include <cmath>

namespace kinora::endpoint {

bool captioned_by_user(const Sample& sample, const Json& facts) {
  if (!sample.text("txt")) return false;
  const auto caption = facts.find("caption");
  if (caption == facts.end() || !caption->is_object() || !caption->contains("by")) return true;
  return caption->at("by") == "user";
}

Timeline timeline_of(const Json& facts, int64_t count) {
  Timeline out;
  const auto at = facts.find("frames_at");
  if (at == facts.end()) {
    for (int64_t i = 0; i < count; ++i) out.at.push_back(static_cast<double>(i));
    return out;
  }
  double before = -1e300;
  for (const auto& t : at->is_array() ? *at : Json::array()) {
    if (!t.is_number() || !std::isfinite(t.get<double>()) || t.get<double>() < before ||
        std::abs(t.get<double>()) > 1e9)
      break;
    before = t.get<double>();
    out.at.push_back(before);
  }
  if (static_cast<int64_t>(out.at.size()) != count)
    throw Error(KINORA_DATA, "the fact frames_at must hold one rising number of seconds for each of the " +
                                 std::to_string(count) + " frames");
  const auto number = [&](const char* name) {
    const auto found = facts.find(name);
    const double value = found != facts.end() && found->is_number() ? found->get<double>() : 0;
    return value > 0 && value < 1e9 ? value : 0;
  };
  out.fps = number("fps");
  out.frames = out.fps > 0 ? static_cast<int64_t>(number("frames")) : 0;
  return out;
}

}  // namespace kinora::endpoint
