// Tensors by name among ranks: each reads its own part, and all get the whole.
#include <cstring>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "core/torch/weights/layouts_testing.hpp"
#include "tests/support/metered.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using spread::Layout;
using spread::OnRank;
using spread::Some;
using test::Rank;
using testing::HasSubstr;

TEST(WeightsOfRanks, AssembleGivesEveryRankTheWhole) {
  test::on_ranks(4, [](const Rank& me) {
    const test::World world(me);
    Some all(world, me, 4);
    const auto want = spread::random_bits(spread::parameters(), 5, false);
    for (const auto& layout : spread::layouts()) {
      if (layout.size() != 4) continue;
      const OnRank model(layout, me.rank);
      load_values(model.parameters, model.leaves, want);
      const auto got = assemble(model.parameters, model.leaves, all.exchange());
      ASSERT_EQ(got.size(), want.size());
      for (const auto& [name, t] : want)
        EXPECT_EQ(std::memcmp(got.at(name).data_ptr(), t.contiguous().data_ptr(), t.nbytes()), 0)
            << layout.name << " " << name;
    }
  });
}

// Elements that no rank holds, and a rank with another dtype, are errors on all ranks.
TEST(WeightsOfRanks, RefuseWhatIsNotWhole) {
  test::on_ranks(2, [](const Rank& me) {
    const test::World world(me);
    Some both(world, me, 2);
    OnRank model({.name = "tp2", .tp = 2}, me.rank);
    if (me.rank == 1) model.leaves[0].tensor.reset();
    EXPECT_THAT(test::refusal([&] { assemble(model.parameters, model.leaves, both.exchange()); }),
                HasSubstr("'blocks.0.qkv': the ranks hold 40 of its 80 numbers"));
    OnRank other({.name = "dp2", .dp = 2}, me.rank);
    if (me.rank == 1) other.leaves[4].tensor = other.leaves[4].tensor.to(at::kDouble);
    EXPECT_THAT(test::refusal([&] { assemble(other.parameters, other.leaves, both.exchange()); }),
                HasSubstr("'blocks.1.norm' is of dtype Float on one rank and Double on rank 1"));
  });
}

// A tensor of which this rank may only read its quarter: any other access ends the process.
at::Tensor quarter_of(int64_t bytes, int64_t rank, at::ScalarType dtype, const std::vector<int64_t>& shape) {
  auto* data = static_cast<char*>(
      mmap(nullptr, static_cast<size_t>(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(data + rank * bytes / 4, static_cast<size_t>(bytes / 4), PROT_READ);
  const auto unmap = [bytes](void* at) { munmap(at, static_cast<size_t>(bytes)); };
  return at::from_blob(data, shape, unmap, at::TensorOptions().dtype(dtype));
}

TEST(WeightsOfRanks, ARankReadsItsOwnNumbersOnly) {
  for (int64_t rank = 0; rank < 4; ++rank)
    for (const Layout& layout : {Layout{.name = "fsdp4", .fsdp = 4}, Layout{.name = "tp4", .tp = 4}})
      for (const auto dtype : {at::kFloat, at::kBFloat16}) {
        const OnRank model(layout, rank, spread::large());
        for (const auto& l : model.leaves) l.tensor.fill_(1);
        std::vector<std::string> names;
        for (const auto& p : model.parameters) names.push_back(p.name);
        test::Metered::begin();
        load_values(model.parameters, model.leaves, names, [&](const std::string&) {
          return quarter_of(spread::kLargeEach * static_cast<int64_t>(c10::elementSize(dtype)), rank, dtype,
                            {64, spread::kLargeEach / 64});
        });
        EXPECT_LE(test::Metered::most(), spread::kLargeBytes / 4) << "a piece";
        for (const auto& l : model.leaves) EXPECT_EQ(l.tensor.abs().max().item<float>(), 0);
      }
}

}  // namespace
}  // namespace kinora::core
