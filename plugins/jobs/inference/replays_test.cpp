// Tests what is recorded and when, with a table that replays by calling the function again on the recorded
// inputs.
#include "plugins/jobs/inference/replays.hpp"

#include <map>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kinora/aten.hpp"
#include "kinora/error.hpp"
#include "tests/support/component.hpp"

namespace kinora::core {
namespace {

struct Recording {
  int32_t (*evaluate)(void*, kinora_tensor*);
  void* user;
  at::Tensor out;
};
struct Device {
  std::map<int64_t, Recording> graphs;
  int64_t recorded = 0, replayed = 0;
  bool broken = false;
};
Device g_device;

int32_t open_graphs(int32_t, kinora_cuda_graphs** out) {
  *out = reinterpret_cast<kinora_cuda_graphs*>(&g_device);
  return KINORA_OK;
}
int32_t record(kinora_cuda_graphs*, int32_t (*evaluate)(void*, kinora_tensor*), void* user, int64_t* graph,
               kinora_tensor* out) {
  if (g_device.broken) return KINORA_ERROR_UNSUPPORTED;
  *graph = ++g_device.recorded;
  kinora_tensor made = nullptr;
  if (const int32_t status = evaluate(user, &made)) return status;
  const at::Tensor kept = adopt<at::Tensor>(made).fill_(-1);  // undefined before the first replay
  g_device.graphs[*graph] = {evaluate, user, kept};
  *out = give(kept);
  return KINORA_OK;
}
int32_t replay(kinora_cuda_graphs*, int64_t graph) {
  ++g_device.replayed;
  const auto& g = g_device.graphs.at(graph);
  kinora_tensor made = nullptr;
  if (const int32_t status = g.evaluate(g.user, &made)) return status;
  g.out.copy_(adopt<at::Tensor>(made));
  return KINORA_OK;
}

class ReplaysTest : public testing::Test {
 protected:
  ReplaysTest() {
    g_device = {};
    table_.struct_size = sizeof table_;
    table_.graphs_open = open_graphs;
    table_.graphs_record = record;
    table_.graphs_replay = replay;
    table_.graphs_forget = [](kinora_cuda_graphs*, int64_t graph) { g_device.graphs.erase(graph); };
    table_.graphs_close = [](kinora_cuda_graphs*) {};
  }
  static at::Tensor value(uint32_t branch, const NamedTensors& in) {
    return in.at("x") * 2 + in.at("text").sum() + static_cast<double>(branch);
  }
  static NamedTensors drawn(int64_t length = 3) {
    return {{"x", at::randn({2, 4})}, {"text", at::randn({length})}};
  }
  static void expect_value(Replays& replays, uint32_t branch, const NamedTensors& in) {
    EXPECT_TRUE(at::equal(replays(branch, in), value(branch, in)));
  }
  kinora_cuda_api table_{};
};

TEST_F(ReplaysTest, RecordsEachFormAndBranchOnceAndReplaysItOnNewInputs) {
  Replays replays(table_, 0, value);
  for (int call = 0; call < 3; ++call)
    for (const uint32_t branch : {0u, 1u}) expect_value(replays, branch, drawn());
  expect_value(replays, 0, drawn(5));
  EXPECT_EQ(g_device.recorded, 3);
  EXPECT_EQ(g_device.replayed, 7);
}

TEST_F(ReplaysTest, LeavesWhatItIsGivenAsItIs) {
  Replays replays(table_, 0, value);
  const NamedTensors first = drawn();
  const at::Tensor before = first.at("x").clone();
  expect_value(replays, 0, first);
  expect_value(replays, 0, drawn());
  EXPECT_TRUE(at::equal(first.at("x"), before));
}

TEST_F(ReplaysTest, KeepsTheGraphsThatWereUsedLast) {
  Replays replays(table_, 0, value);
  for (int64_t length = 1; length <= 6; ++length) expect_value(replays, 0, drawn(length));
  EXPECT_EQ(g_device.graphs.size(), 4U);
  expect_value(replays, 0, drawn(6));
  EXPECT_EQ(g_device.recorded, 6);
  expect_value(replays, 0, drawn(1));
  EXPECT_EQ(g_device.recorded, 7);
}

TEST_F(ReplaysTest, RecordsAnewAFunctionThatHasChanged) {
  Replays replays(table_, 0, value);
  expect_value(replays, 0, drawn());
  replays.forget();
  EXPECT_TRUE(g_device.graphs.empty());
  expect_value(replays, 0, drawn());
  EXPECT_EQ(g_device.recorded, 2);
}

TEST_F(ReplaysTest, ComputesWithoutGraphsWhatCannotBeRecorded) {
  g_device.broken = true;
  Replays replays(table_, 0, value);
  for (int call = 0; call < 3; ++call) expect_value(replays, 1, drawn());
  EXPECT_EQ(g_device.replayed, 0);
}

TEST(Recording, IsOfAModelThatMayBeRecordedOnOneRank) {
  const auto model = [](const std::string& line) {
    return test::component("[[component]]\nid = \"model/m\"\nhelp = \"of a test\"\n" + line);
  };
  EXPECT_TRUE(records(model(""), true, 1));
  EXPECT_FALSE(records(model("needs = [\"eager\"]\n"), true, 1));
  EXPECT_FALSE(records(model(""), false, 1));
  EXPECT_FALSE(records(model(""), true, 2));
}

}  // namespace
}  // namespace kinora::core
