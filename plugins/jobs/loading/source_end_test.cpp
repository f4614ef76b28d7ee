// A source is not destroyed while its at() runs (kinora/abi/source.h).
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "plugins/jobs/loading/samples_ahead.hpp"

namespace kinora::core {
namespace source_end {

// A source of 100 samples, each of which takes a while.
struct Slow {
  std::atomic<int> running{0};
  int at_destroy = -1;
} slow;

const kinora_source kTable = {
    .struct_size = sizeof(kinora_source),
    .create = [](const kinora_host*, const kinora_options*) -> void* { return &slow; },
    .destroy = [](void*) { slow.at_destroy = slow.running; },
    .open = [](void*, kinora_str, uint64_t, uint64_t, const kinora_run*) { return KINORA_OK; },
    .count =
        [](void*, uint64_t* out) {
          *out = 100;
          return KINORA_OK;
        },
    .at =
        [](void*, uint64_t i, const kinora_run*, kinora_sample** out) {
          ++slow.running;
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          Sample sample(std::to_string(i));
          sample.set("txt", "a line");
          *out = sample.release();
          --slow.running;
          return KINORA_OK;
        }};

TEST(SourceEnd, NoAtRunsWhenTheSourceIsDestroyed) {
  ComponentSpec spec;
  spec.kind = "source";
  spec.id = "source/slow";
  const auto open = [&](const std::string& path) {
    return std::make_unique<SourceInstance>(Component{&spec, nullptr, &kTable}, Options(), path);
  };
  DataInput input;
  input.path = "/data";
  input.source = std::make_shared<const DataSource>(DataSource{spec.id, "1", nullptr, open});
  {
    DataOrder order(input, 1);
    SamplesAhead ahead(order, {.memory = 1 << 20, .readers = 4});
    ahead.follow({.first = 0, .count = 1, .of = 1});
    for (uint64_t slot = 0; slot < 4; ++slot)
      EXPECT_EQ(ahead.read(slot, order.at(slot)).key(), std::to_string(slot));
    const auto start = std::chrono::steady_clock::now();
    while (slow.running == 0 && std::chrono::steady_clock::now() - start < std::chrono::seconds(5))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_GT(slow.running, 0) << "nothing is read ahead";
  }
  EXPECT_EQ(slow.at_destroy, 0);
}

}  // namespace source_end
}  // namespace kinora::core
