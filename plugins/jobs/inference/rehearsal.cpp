#include "plugins/jobs/inference/rehearsal.hpp"

#include <ATen/ATen.h>

#include "core/runtime/call.hpp"
#include "core/torch/chain/rounded_layers.hpp"
#include "core/torch/network/network.hpp"
#include "kinora/abi/parallel.h"
#include "kinora/abi/precision.h"

namespace kinora::core {
namespace {

// The collective of the imaginary ranks. Groups have names and members as usual.
const kinora_collective kAbsent{
    sizeof(kinora_collective),
    0,
    [](const kinora_host*, const kinora_options*) -> void* { return nullptr; },
    [](void*) {},
    [](void*, const kinora_world*) -> int32_t { return KINORA_OK; },
    [](void* self, const char*, const int64_t*, uint64_t, void** group) -> int32_t {
      *group = self;
      return KINORA_OK;
    },
    [](void*, const kinora_transfer*, void**) -> int32_t {
      return set_error(KINORA_ERROR_UNSUPPORTED, "a check runs without other ranks and transfers nothing");
    },
    [](void*, kinora_tensor*) -> int32_t { return KINORA_ERROR_UNSUPPORTED; },
    [](void*) {}};

// It is enough that the schedule exists: its first forward ends the step.
int32_t enough(void*, const kinora_pass*) {
  return set_error(KINORA_ERROR_CANCELLED, "a check computes nothing");
}

}  // namespace

Rehearsal::Rehearsal(const JobView& job, const MeshOwner::Sizes& sizes)
    : job_(job), mesh_(kAbsent, this, 0, sizes) {
  for (const auto* use : job.spec().list("parallel")) {
    const Component component = job.open(*use);
    made_.push_back({component, instance_of<kinora_parallel>(component, use->options, mesh_.abi())});
  }
}

void Rehearsal::step(int64_t microbatches) const {
  Call call;
  const kinora_run run = run_of(call);
  const kinora_step step{sizeof step, 0, microbatches, nullptr, enough, enough};
  for (const auto& [component, instance] : made_) {
    const auto& api = component.table<kinora_parallel>();
    if (!api.step) continue;
    const Status said = from_abi(api.step(instance.get(), &step, &run), component.spec->id);
    if (!said && said.failure().code != KINORA_ERROR_CANCELLED)
      throw Error(said.failure().code, said.failure().message);
  }
}

bool Rehearsal::declare(const ComponentUse& use, std::optional<LoraOptions> lora) const {
  std::vector<const kinora_link*> links;
  for (const auto& [component, instance] : made_) {
    const kinora_link* link = nullptr;
    called(component.table<kinora_parallel>().link(instance.get(), &link), component.spec->id);
    if (link) links.push_back(link);
  }
  return declare(use, std::move(lora), std::move(links), mesh_.abi());
}

bool Rehearsal::declare_alone(const ComponentUse& use, std::optional<LoraOptions> lora) const {
  return declare(use, std::move(lora), {}, nullptr);
}

bool Rehearsal::declare(const ComponentUse& use, std::optional<LoraOptions> lora,
                        std::vector<const kinora_link*> links, const kinora_mesh* mesh) const {
  std::optional<Made> precision;
  if (const auto* its = job_.spec().component("precision")) {
    const Component component = job_.open(*its);
    precision = Made{component, instance_of<kinora_precision>(component, its->options)};
    const kinora_link* link = nullptr;
    called(component.table<kinora_precision>().link(precision->instance.get(), &link), component.spec->id);
    if (link) links.push_back(link);
  }
  const auto network =
      open_network(job_.open(use), use.options,
                   ChainOptions{.device = at::kMeta, .lora = std::move(lora), .mesh = mesh}, links);
  const auto low = rounded_layers(network->chain());
  return low && low->empty();
}

}  // namespace kinora::core
