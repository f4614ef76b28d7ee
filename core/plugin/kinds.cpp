#include "core/plugin/kinds.hpp"

#include <array>

#include "kinora/abi/engine.h"
#include "kinora/abi/loss.h"
#include "kinora/abi/model.h"
#include "kinora/abi/precision.h"
#include "kinora/abi/sampler.h"
#include "kinora/abi/storage.h"
#include "kinora/abi/strategy.h"
#include "kinora/abi/tokenizer.h"

namespace kinora::core {
namespace {

// table_size is what ABI 1.0 fixed: never raise it when slots are appended.
constexpr std::array<Kind, 10> all{{{"stage", KINORA_STAGE, 48},
                                    {"storage", KINORA_STORAGE, 96},
                                    {"engine", KINORA_ENGINE, 32},
                                    {"tokenizer", KINORA_TOKENIZER, 72},
                                    {"model", KINORA_MODEL, 40},
                                    {"loss", KINORA_LOSS, 64},
                                    {"sampler", KINORA_SAMPLER, 40},
                                    {"parallel", KINORA_PARALLEL, 48},
                                    {"precision", KINORA_PRECISION, 48},
                                    {"collective", KINORA_COLLECTIVE, 64}}};

static_assert(sizeof(kinora_stage) >= 48 && sizeof(kinora_storage) >= 96 && sizeof(kinora_engine) >= 32);
static_assert(sizeof(kinora_tokenizer) >= 72 && sizeof(kinora_model) >= 40 && sizeof(kinora_loss) >= 64);
static_assert(sizeof(kinora_sampler) >= 40 && sizeof(kinora_strategy) >= 48 &&
              sizeof(kinora_precision) >= 48);
static_assert(sizeof(kinora_collective) >= 64);

}  // namespace

std::span<const Kind> kinds() { return all; }

const Kind* find_kind(std::string_view name) {
  for (const auto& kind : all)
    if (kind.name == name) return &kind;
  return nullptr;
}

}  // namespace kinora::core
