#include "plugins/jobs/loading/transforms.hpp"

#include <algorithm>

namespace kinora::core {

Transforms::Transforms(Registry& registry, const json& stages, uint64_t seed, bool trusts_media)
    : call_{{.seed = seed}}, run_(run_of(call_)), to_(sink()) {
  run_.progress = nullptr;
  if (!stages.is_array() || !stages.empty())
    chain_.emplace(registry, stages, to_, run_, Isolation{.trusts_media = trusts_media});
}

kinora_emit Transforms::sink() {
  kinora_emit out{};
  out.struct_size = sizeof out;
  out.self = this;
  out.emit = [](void* self, kinora_sample* s) -> int32_t {
    Sample sample = Sample::adopt(s);
    if (!of(self).made_) of(self).made_ = std::move(sample);
    return KINORA_OK;
  };
  out.drop = [](void* self, kinora_sample* s, const char* rule, double) -> int32_t {
    Sample::adopt(s);
    of(self).unused_ = {.kind = Unused::Kind::dropped, .why = rule ? rule : "a transform"};
    return KINORA_OK;
  };
  out.fail = [](void* self, kinora_sample* s, const char* reason) -> int32_t {
    Sample::adopt(s);
    of(self).unused_ = {.why = reason ? reason : "failed"};
    return KINORA_OK;
  };
  return out;
}

std::optional<Sample> Transforms::operator()(Sample sample, uint64_t slot, Unused& unused) {
  if (!chain_) return sample;
  made_.reset();
  unused_ = {.why = "the transforms make nothing of it"};
  call_.asked_to_stop = 0;
  sample.set("slot", std::to_string(slot));
  chain_->process(std::move(sample));
  unused = unused_;
  if (made_) made_->remove("slot");
  return std::exchange(made_, std::nullopt);
}

TransformLists transform_lists(const Registry& registry, const std::vector<const ComponentUse*>& transforms) {
  TransformLists out;
  bool is_decoded = false;
  for (const auto* use : transforms) {
    const auto& inputs = or_throw(registry.find(use->id))->inputs;
    is_decoded = is_decoded || std::any_of(inputs.begin(), inputs.end(), [&](const TensorSpec& tensor) {
                   return tensor.name == "frames" && tensor.is_in_use(use->options.values());
                 });
    json stage = use->options.values();
    stage["use"] = use->id;
    (is_decoded ? out.of_windows : out.of_samples).push_back(std::move(stage));
  }
  return out;
}

}  // namespace kinora::core
