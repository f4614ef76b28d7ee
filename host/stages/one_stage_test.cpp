// Tests inputs that a stage holds outside a pipeline: every input still gets an outcome.
#include "host/stages/one_stage.hpp"

#include <gtest/gtest.h>

#include "core/plugin/host.hpp"

namespace kinora::core {
namespace {

class StageResultsTest : public testing::Test {
 protected:
  // Acts like a stage's process() that holds its input.
  void keep(const char* key) {
    results_.input = key;
    ASSERT_EQ(sink_.hold(sink_.self), KINORA_OK);
    results_.input.clear();
  }
  StageResults results_;
  const kinora_emit sink_ = results_.sink();
};

TEST_F(StageResultsTest, WhatIsKeptBackAndNeverToldHasFailed) {
  for (const char* key : {"emitted", "dropped", "failed", "stored", "lost"}) keep(key);
  ASSERT_EQ(sink_.emit(sink_.self, Sample("emitted").release()), KINORA_OK);
  ASSERT_EQ(sink_.drop(sink_.self, Sample("dropped").release(), "x", 1), KINORA_OK);
  ASSERT_EQ(sink_.fail(sink_.self, Sample("failed").release(), "broken"), KINORA_OK);
  ASSERT_EQ(sink_.stored(sink_.self, str("stored")), KINORA_OK);
  results_.end_held();
  ASSERT_EQ(results_.failed.size(), 2u);
  EXPECT_EQ(results_.failed[0].key, "failed");
  EXPECT_EQ(results_.failed[1].key, "lost");
  EXPECT_EQ(results_.failed[1].reason, "held, and its outcome was never reported");
}

TEST_F(StageResultsTest, OnlyAnInputCanBeKeptBack) {
  EXPECT_EQ(sink_.hold(sink_.self), KINORA_ERROR_INVALID);
  EXPECT_EQ(sink_.stored(sink_.self, str("nobody")), KINORA_ERROR_NOT_FOUND);
}

}  // namespace
}  // namespace kinora::core
