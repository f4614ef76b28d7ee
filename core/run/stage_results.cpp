#include "core/run/stage_results.hpp"

#include <nlohmann/json.hpp>

#include "kinora/error.hpp"

namespace kinora::core {

kinora_emit StageResults::sink() {
  static const auto of = [](void* self) -> StageResults& { return *static_cast<StageResults*>(self); };
  kinora_emit e{};
  e.struct_size = sizeof e;
  e.self = this;
  e.emit = [](void* self, kinora_sample* s) {
    return guard([&] {
      of(self).emitted.push_back(Sample::adopt(s));
      of(self).held.erase(std::string(of(self).emitted.back().key()));
    });
  };
  e.drop = [](void* self, kinora_sample* s, const char* rule, double score) {
    return guard([&] {
      Sample sample = Sample::adopt(s);
      std::string key(sample.key());
      of(self).dropped.push_back({std::move(key), rule ? rule : "", score, std::move(sample)});
      of(self).held.erase(of(self).dropped.back().key);
    });
  };
  e.fail = [](void* self, kinora_sample* s, const char* reason) {
    return guard([&] {
      const Sample sample = Sample::adopt(s);
      of(self).failed.push_back({std::string(sample.key()), reason ? reason : ""});
      of(self).held.erase(of(self).failed.back().key);
    });
  };
  e.hold = [](void* self) {
    return guard([&] {
      if (of(self).input.empty()) throw Error(KINORA_INVALID, "hold() is for the input of process()");
      of(self).held.insert(of(self).input);
    });
  };
  e.stored = [](void* self, kinora_str key) {
    return guard([&] {
      if (of(self).held.erase(std::string(view(key))) == 0)
        throw Error(KINORA_NOT_FOUND, "stored() of '" + std::string(view(key)) + "', which this stage does not hold");
    });
  };
  return e;
}

void StageResults::end_held() {
  for (const auto& key : held) failed.push_back({key, "held, and its outcome was never reported"});
  held.clear();
}

std::string damage_of(const Sample& sample) {
  for (const auto& field : sample.fields()) {
    if (field.name != "json" && !field.name.ends_with(".json")) continue;
    const std::string_view text(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
    if (text.find("\"damaged\"") == std::string_view::npos) continue;  // most samples are undamaged, and scores are long
    const auto object = nlohmann::json::parse(text, nullptr, false);
    if (!object.is_object()) continue;
    if (const auto found = object.find("damaged"); found != object.end() && found->is_string()) return *found;
  }
  return "";
}

}  // namespace kinora::core
