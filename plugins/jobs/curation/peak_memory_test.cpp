#include "plugins/jobs/curation/peak_memory.hpp"

#include <cstring>

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace kinora::core {
namespace {

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
