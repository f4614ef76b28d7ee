#include "core/plugin/kinds.hpp"

#include <sstream>
#include <string>

#include "kinora/abi/cache.h"
#include "kinora/abi/engine.h"
#include "kinora/abi/loss.h"
#include "kinora/abi/model.h"
#include "kinora/abi/optimizer.h"
#include "kinora/abi/parallel.h"
#include "kinora/abi/precision.h"
#include "kinora/abi/sampler.h"
#include "kinora/abi/score.h"
#include "kinora/abi/source.h"
#include "kinora/abi/storage.h"
#include "kinora/abi/tokenizer.h"

namespace kinora::core {
namespace {

// table_size is fixed by ABI 1.0: never raise it when slots are appended.
constexpr Kind kKinds[] = {
    {"stage", KINORA_INTERFACE_STAGE, 64, "create destroy resources process finish? process_batch? start?"},
    {"storage", KINORA_INTERFACE_STORAGE, 104,
     "create destroy open read close begin append commit abort list remove interrupt?"},
    {"engine", KINORA_INTERFACE_ENGINE, 32, "create destroy run"},
    {"tokenizer", KINORA_INTERFACE_TOKENIZER, 88,
     "create destroy info encode decode open? push? close? layout? fit?"},
    {"model", KINORA_INTERFACE_MODEL, 48, "create destroy forward blocks layout?", "sees",
     KINORA_SEES_CAUSAL},
    {"loss", KINORA_INTERFACE_LOSS, 64, "create destroy level? noisy? input? estimate? evaluate", "mix",
     KINORA_MIX_RECTIFIED_FLOW},
    {"sampler", KINORA_INTERFACE_SAMPLER, 40, "create destroy levels sample", "mix",
     KINORA_MIX_RECTIFIED_FLOW},
    {"optimizer", KINORA_INTERFACE_OPTIMIZER, 48, "create destroy plan update direction?"},
    {"parallel", KINORA_INTERFACE_PARALLEL, 48, "create destroy axis link step?"},
    {"precision", KINORA_INTERFACE_PRECISION, 48, "create destroy link dtype quantize"},
    {"cache", KINORA_INTERFACE_CACHE, 104,
     "create destroy link tokens bytes reset trim pin unpin copy save restore"},
    {"score", KINORA_INTERFACE_SCORE, 64, "create destroy update state merge compute each?"},
    {"source", KINORA_INTERFACE_SOURCE, 64, "create destroy open next state restore count?"},
    {"collective", KINORA_INTERFACE_COLLECTIVE, 64, "create destroy join group start finish release"},
    {"job", kJobInterface, 16, "type"},
    {"service", kServiceInterface, 16, "object"}};

static_assert(sizeof(kinora_stage) >= 64 && sizeof(kinora_storage) >= 104 && sizeof(kinora_engine) >= 32);
static_assert(sizeof(kinora_tokenizer) >= 88 && sizeof(kinora_model) >= 48 && sizeof(kinora_loss) >= 64);
static_assert(sizeof(kinora_sampler) >= 40 && sizeof(kinora_parallel) >= 48);
static_assert(sizeof(kinora_precision) >= 48 && sizeof(kinora_optimizer) >= 48);
static_assert(sizeof(kinora_cache) >= 104 && sizeof(kinora_collective) >= 64);
static_assert(sizeof(kinora_score) >= 64 && sizeof(kinora_source) >= 72 && sizeof(kinora_job) == 16 &&
              sizeof(kinora_service) == 16);

}  // namespace

bool Kind::accepts(std::string_view id) const {
  if (id == interface) return true;
  std::istringstream all(was);
  for (std::string one; all >> one;)
    if (one == id) return true;
  return false;
}

std::span<const Kind> kinds() { return kKinds; }

const Kind* find_kind(std::string_view name) {
  for (const auto& kind : kKinds)
    if (kind.name == name) return &kind;
  return nullptr;
}

bool is_draft(std::string_view interface) { return interface.find("-draft.") != interface.npos; }

}  // namespace kinora::core
