// Results of a source are checked, and errors name the component.
#include "core/run/source_instance.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/cancel.hpp"
#include "core/plugin/host.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using testing::HasSubstr;

// A source that does what a test says.
struct Trial {
  int32_t open = KINORA_OK, next = KINORA_OK, count = KINORA_OK;
  bool sample = true;
  std::string state, restored;
  int alive = 0;
} trial;

int32_t with_message(int32_t status) {
  return status < 0 ? set_error(status, "shard-3.tar is damaged") : status;
}

const kinora_source kTable = {
    sizeof(kinora_source),
    0,
    [](const kinora_host*, const kinora_options*) -> void* {
      ++trial.alive;
      return &trial;
    },
    [](void*) { --trial.alive; },
    [](void*, kinora_str, uint64_t, uint64_t, const kinora_run*) { return with_message(trial.open); },
    [](void*, const kinora_run* run, kinora_sample** out) {
      if (run->cancelled(run->self) != KINORA_OK) return with_message(KINORA_ERROR_CANCELLED);
      if (trial.next == KINORA_OK && trial.sample) *out = Sample("a").release();
      return with_message(trial.next);
    },
    [](void*, const kinora_sink* out) {
      for (size_t i = 0; i < trial.state.size(); i += 1000)
        out->write(out->self, trial.state.data() + i, std::min<size_t>(1000, trial.state.size() - i));
      return KINORA_OK;
    },
    [](void*, kinora_bytes state) {
      trial.restored = {static_cast<const char*>(state.data), state.size};
      return KINORA_OK;
    },
    [](void*, uint64_t* out) {
      if (trial.count == KINORA_OK) *out = 12;
      return with_message(trial.count);
    },
    [](void*, uint64_t i, const kinora_run*, kinora_sample** out) {
      if (trial.next == KINORA_OK && trial.sample) *out = Sample("a" + std::to_string(i)).release();
      return with_message(trial.next);
    }};

class TrialSource : public ::testing::Test {
 protected:
  void SetUp() override {
    trial = {};
    spec.kind = "source";
    spec.id = "source/trial";
  }
  void TearDown() override { EXPECT_EQ(trial.alive, 0); }
  SourceInstance made(const SourcePart& part = {}) {
    return SourceInstance({&spec, nullptr, &table}, Options(), "/data", part);
  }
  ComponentSpec spec;
  kinora_source table = kTable;
};

TEST_F(TrialSource, GivesSamplesUntilTheEnd) {
  auto source = made();
  EXPECT_EQ(source.next()->key(), "a");
  trial.next = KINORA_SIGNAL_END;
  EXPECT_FALSE(source.next());
  trial.next = KINORA_ERROR_DATA;
  EXPECT_EQ(test::refusal([&] { source.next(); }), "source/trial: shard-3.tar is damaged");
}

TEST_F(TrialSource, IsAskedToStop) {
  auto source = made();
  cancel();
  try {
    source.next();
    ADD_FAILURE() << "it goes on";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), KINORA_ERROR_CANCELLED);
  }
  cancel(false);
  EXPECT_TRUE(source.next());
}

TEST_F(TrialSource, WithWrongResultsIsRefusedByName) {
  auto source = made();
  trial.sample = false;
  EXPECT_EQ(test::refusal([&] { source.next(); }), "source/trial: next returned no sample");
  trial.next = 7;
  EXPECT_THAT(test::refusal([&] { source.next(); }), HasSubstr("source/trial"));
  trial.open = KINORA_ERROR_NOT_FOUND;
  EXPECT_EQ(test::refusal([&] { made(); }), "source/trial: shard-3.tar is damaged");
  for (const SourcePart& part : {SourcePart{4, 4}, SourcePart{0, 0}})
    EXPECT_THAT(test::refusal([&] { made(part); }), HasSubstr("source/trial: there is no part"));
}

TEST_F(TrialSource, HasAStateOfAtMost64KiB) {
  auto source = made();
  trial.state = std::string(KINORA_SOURCE_MOST_STATE, 's');
  EXPECT_EQ(source.state(), trial.state);
  source.restore(trial.state);
  EXPECT_EQ(trial.restored, trial.state);
  trial.state += 's';
  EXPECT_THAT(test::refusal([&] { source.state(); }), HasSubstr("source/trial: its state has 65537 bytes"));
}

TEST_F(TrialSource, MayGiveSamplesByNumber) {
  EXPECT_EQ(made().at(7).key(), "a7");
  trial.sample = false;
  EXPECT_EQ(test::refusal([&] { made().at(7); }), "source/trial: at returned no sample");
  trial.next = KINORA_ERROR_DATA;
  EXPECT_EQ(test::refusal([&] { made().at(7); }), "source/trial: shard-3.tar is damaged");
  table.at = nullptr;
  EXPECT_FALSE(made().has_at());
  table = kTable;
  table.struct_size = offsetof(kinora_source, at);  // of a plugin that is built for an older Kinora
  EXPECT_FALSE(made().has_at());
}

TEST_F(TrialSource, MayKnowItsNumberOfSamples) {
  EXPECT_EQ(made().count(), 12U);
  trial.count = KINORA_ERROR_UNSUPPORTED;
  EXPECT_EQ(made().count(), std::nullopt);
  trial.count = KINORA_ERROR_IO;
  EXPECT_EQ(test::refusal([&] { made().count(); }), "source/trial: shard-3.tar is damaged");
  table.count = nullptr;
  EXPECT_EQ(made().count(), std::nullopt);
}

}  // namespace
}  // namespace kinora::core
