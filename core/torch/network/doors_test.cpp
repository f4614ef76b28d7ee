// Every function that takes a component accepts components of its own kind only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plugin/kinds.hpp"
#include "core/run/source_instance.hpp"
#include "core/torch/network/cache_instance.hpp"
#include "core/torch/network/instances.hpp"
#include "core/torch/network/model.hpp"
#include "core/torch/network/score_instance.hpp"
#include "core/torch/network/tokenizer.hpp"
#include "host/stages/one_stage.hpp"
#include "kinora/abi/collective.h"
#include "kinora/abi/engine.h"
#include "kinora/abi/optimizer.h"
#include "kinora/abi/parallel.h"
#include "kinora/abi/precision.h"
#include "kinora/abi/source.h"
#include "kinora/abi/stage.h"
#include "kinora/abi/storage.h"
#include "tests/support/plugins.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using kinora::test::plugins;
using kinora::test::refusal;
using testing::HasSubstr;

using Door = std::pair<std::string, std::function<void(const Component&)>>;

template <class Table>
void table_of(const Component& c) {
  if (c.table<Table>().struct_size == 0) throw Error(KINORA_ERROR_DATA, "an empty table");
}

// Functions that take a component of one kind; the first takes only its table.
std::vector<Door> doors() {
  return {{"stage", table_of<kinora_stage>},
          {"storage", table_of<kinora_storage>},
          {"engine", table_of<kinora_engine>},
          {"tokenizer", table_of<kinora_tokenizer>},
          {"model", table_of<kinora_model>},
          {"loss", table_of<kinora_loss>},
          {"sampler", table_of<kinora_sampler>},
          {"score", table_of<kinora_score>},
          {"parallel", table_of<kinora_parallel>},
          {"precision", table_of<kinora_precision>},
          {"cache", table_of<kinora_cache>},
          {"source", table_of<kinora_source>},
          {"optimizer", table_of<kinora_optimizer>},
          {"collective", table_of<kinora_collective>},
          {"job", table_of<kinora_job>},
          {"service", table_of<kinora_service>},
          {"stage", [](const Component& c) { OneStage(plugins(), c.spec->id, Options()); }},
          {"model", [](const Component& c) { Model(c, Options(), {.device = at::kMeta}); }},
          {"tokenizer", [](const Component& c) { Tokenizer(c, Options(), {.device = at::kMeta}); }},
          {"loss", [](const Component& c) { LossInstance(c, Options()); }},
          {"sampler", [](const Component& c) { SamplerInstance(c, Options()).levels(); }},
          {"cache", [](const Component& c) { CacheInstance(c, Options()).bytes(0); }},
          {"source", [](const Component& c) { SourceInstance(c, Options(), "/nowhere"); }},
          {"score", [](const Component& c) { ScoreInstance(c, Options()); }}};
}

TEST(Doors, OfOtherKindsRefuseEveryComponent) {
  const auto all = doors();
  size_t opened = 0;
  for (const auto& id : plugins().ids()) {
    const auto component = plugins().open(id);
    if (!component) continue;  // CUDA only
    ++opened;
    const std::string& own = component->spec->kind;
    for (size_t i = 0; i < all.size(); ++i) {
      const auto& [kind, door] = all[i];
      if (kind == own && i >= kinds().size()) continue;
      EXPECT_THAT(refusal([&] { door(*component); }),
                  HasSubstr(kind == own ? "nothing was refused" : "is required"))
          << id << " as " << kind;
    }
    for (const auto& kind : kinds())
      EXPECT_EQ(static_cast<bool>(plugins().open(kind.name, id)), own == kind.name)
          << id << " as " << kind.name;
  }
  EXPECT_GT(opened, 70U);
}

}  // namespace
}  // namespace kinora::core
