#include "plugins/jobs/training/batch_ahead.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

struct Copies {
  int sent = 0, waited = 0;
};
Copies g_copies;

// Simulates copies whose data is valid only after waiting for them.
kinora_cuda_api table() {
  kinora_cuda_api out{};
  out.struct_size = sizeof out;
  out.copier_open = [](int32_t, kinora_cuda_copier** made) {
    *made = reinterpret_cast<kinora_cuda_copier*>(&g_copies);
    return int32_t{KINORA_OK};
  };
  out.copier_send = [](kinora_cuda_copier*, const kinora_tensor* in, uint64_t n, kinora_tensor* to) {
    ++g_copies.sent;
    for (uint64_t i = 0; i < n; ++i) to[i] = give(-borrow<at::Tensor>(in[i]));
    return int32_t{KINORA_OK};
  };
  out.copier_wait = [](kinora_cuda_copier*, const kinora_tensor* sent, uint64_t n) {
    ++g_copies.waited;
    for (uint64_t i = 0; i < n; ++i) borrow<at::Tensor>(sent[i]).neg_();
    return int32_t{KINORA_OK};
  };
  out.copier_close = [](kinora_cuda_copier*) {};
  return out;
}

class BatchAheadTest : public testing::TestWithParam<bool> {
 protected:
  BatchAheadTest()
      : table_((g_copies = {}, table())),
        batches_([this](int64_t first, int64_t count) { return made(first, count); }, at::kCPU,
                 GetParam() ? &table_ : nullptr) {}
  NamedTensors made(int64_t first, int64_t count) {
    ++made_;
    return {{"latent", at::arange(first, first + count, at::kDouble)}, {"noise", at::full({count}, 7.0)}};
  }
  void expect_samples(int64_t first, int64_t count) {
    const NamedTensors got = batches_.take(first, count);
    ASSERT_EQ(got.size(), 2U);
    EXPECT_TRUE(at::equal(got.at("latent"), at::arange(first, first + count, at::kDouble)));
    EXPECT_TRUE(at::equal(got.at("noise"), at::full({count}, 7.0)));
  }
  kinora_cuda_api table_;
  int made_ = 0;
  BatchAhead batches_;
};

TEST_P(BatchAheadTest, GivesWhatWasPreparedAndMakesItOnce) {
  expect_samples(0, 2);
  for (int64_t first = 2; first < 8; first += 2) {
    batches_.prepare(first, 2);
    expect_samples(first, 2);
  }
  EXPECT_EQ(made_, 4);
  EXPECT_EQ(g_copies.sent, GetParam() ? 4 : 0);
  EXPECT_EQ(g_copies.waited, g_copies.sent);
}

TEST_P(BatchAheadTest, MakesAnewWhatIsNotWhatWasPrepared) {
  batches_.prepare(4, 2);
  expect_samples(8, 2);
  batches_.prepare(10, 2);
  expect_samples(10, 3);
  expect_samples(10, 3);
  EXPECT_EQ(made_, 5);
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutCopies, BatchAheadTest, testing::Bool());

}  // namespace
}  // namespace kinora::core
