#include "plugins/jobs/curation/usage.hpp"

#include <cstring>

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace kinora::core {
namespace {

using nlohmann::json;

// The record adds in the order of the inputs, a run in the order in which clips end.
TEST(Usage, SumsAreTheSameInAnyOrder) {
  Usage there, back;
  double forward = 0, backward = 0;
  const auto facts = [](int i) {
    return json{{"usage", {{"ask", {{"requests", 1}, {"prompt_tokens", i}, {"cost", 0.0001 * i}}}}}};
  };
  for (int i = 1; i <= 5; ++i) {
    there.add(facts(i)), forward += 0.0001 * i;
    back.add(facts(6 - i)), backward += 0.0001 * (6 - i);
  }
  ASSERT_NE(forward, backward) << "the test would prove nothing";
  EXPECT_EQ(there.sums(), back.sums());
  EXPECT_EQ(there.sums(), (json{{"ask", {{"requests", 5}, {"prompt_tokens", 15}, {"cost", 0.0015}}}}));
}

constexpr size_t kPiece = size_t{256} << 20;

void hold(size_t bytes, PeakMemory& looks) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, bytes);
  looks.look();
  ::munmap(memory, bytes);
}

TEST(PeakMemory, IsOfOneJobThoughAnEarlierOneHeldMore) {
  PeakMemory first;
  const int64_t at_rest = first.most();
  hold(kPiece, first);
  EXPECT_GT(first.most(), int64_t{kPiece});
  PeakMemory second;
  hold(kPiece / 4, second);
  EXPECT_GT(second.most(), int64_t{kPiece / 4});
  EXPECT_LT(second.most(), at_rest + int64_t{kPiece});
}

}  // namespace
}  // namespace kinora::core
