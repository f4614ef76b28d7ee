#include "core/run/unknown_option.hpp"

#include <algorithm>

#include "core/base/suggest.hpp"

namespace kinora::core {
namespace {

// "; it is an option of dedup: dedup = { use = "dedup.semantic", eps = ... }" where a component of the job
// has it.
std::string owner_of(const Registry& registry, const JobSpec& job, const std::string& option) {
  for (const auto& use : job.components) {
    const auto spec = registry.find(use.id);
    if (!spec || !(*spec)->option(option)) continue;
    const std::string table = "{ use = \"" + (*spec)->name + "\", " + option + " = ... }";
    const auto slot = std::find_if(job.kind->slots.begin(), job.kind->slots.end(),
                                   [&](const Slot& s) { return s.name == use.slot; });
    const bool is_list = slot != job.kind->slots.end() && slot->list;
    return "; it is an option of " + use.id + ": write " + use.slot + " = " +
           (is_list ? "[" + table + "]" : table);
  }
  return "";
}

// "; the weights of tokenizer are the option tokenizer_weights", for each component of the job that has some.
std::string weights_of(const JobSpec& job) {
  std::string out;
  for (const auto& slot : job.kind->slots)
    if (!slot.weights.empty())
      out += (out.empty() ? "; the weights of " : ", of ") + slot.name + " are the option " + slot.weights;
  return out;
}

std::vector<std::string> slots_of(const ComponentSpec& kind) {
  std::vector<std::string> out;
  for (const auto& slot : kind.slots) out.push_back(slot.name);
  return out;
}

std::vector<std::string> keys_of(const ComponentSpec& kind) {
  std::vector<std::string> out = slots_of(kind);
  for (const auto& option : kind.options) out.push_back(option.name);
  out.insert(out.end(), {"name", "kind", "input"});
  return out;
}

}  // namespace

std::string hint_for_unknown(const Registry& registry, const JobSpec& job, const std::string& key,
                             const nlohmann::json& value) {
  if (const std::string weights = key == "weights" ? weights_of(job) : ""; !weights.empty()) return weights;
  if (const std::string owner = owner_of(registry, job, key); !owner.empty()) return owner;
  // A table with `use` is intended as a component.
  return value.is_object() && value.contains("use")
             ? did_you_mean_or_list(key, slots_of(*job.kind), "components are named by")
             : did_you_mean(key, keys_of(*job.kind));
}

}  // namespace kinora::core
