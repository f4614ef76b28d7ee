// cache/kv with relative positions against an attention whose keys are rotated to consecutive ones.
#include "plugins/caches/kv/kv_testing.hpp"

namespace kinora::kv_test {
namespace {

struct Far {
  int64_t start, frames;
  double bound;  // of float64's angles at these positions
};

// Frame 0 is pinned throughout, frame 4 until frame 9.
TEST(KvPositions, RelativeOnesFollowEachOtherHoweverLongTheVideoIs) {
  const at::NoGradGuard off;
  for (const uint32_t layout : {KINORA_ROPE_HALVES, KINORA_ROPE_PAIRS})
    for (const auto& [start, frames, bound] : {Far{0, 120, 1e-11}, Far{10'000'000, 14, 1e-7}}) {
      Stream near(core::json{{"window", 6}, {"positions", "relative"}}, layout, start),
          far(core::json{{"window", 6}}, layout, start);
      for (Stream* stream : {&near, &far})
        for (const int64_t f : {0, 4}) stream->cache.pin((start + f) * kArea, kArea);
      double apart = 0, of_absolute = 0;
      for (int64_t f = start; f < start + frames; ++f) {
        if (f == start + 9)
          for (Stream* stream : {&near, &far}) stream->cache.unpin((start + 4) * kArea, kArea);
        if (f == start + 8) near.cache.restore(near.cache.save());
        const Tensor looked = near(f, true), made = near(f);
        const auto seen =
            seen_by(f, start, f < start + 9 ? std::vector{start, start + 4} : std::vector{start});
        const auto at = consecutive(seen, start);
        const Tensor want = test::masked_attention(rotated(of_frames(q(), {f}), layout, {at.back()}),
                                                   rotated(of_frames(k(), seen), layout, at),
                                                   of_frames(v(), seen), kScale, mask_of(seen));
        apart = test::worse(apart, worst(made, want));
        ASSERT_LT(apart, bound) << "frame " << f << ", layout " << layout;
        ASSERT_LT(worst(looked, made), 1e-12) << "read-only, frame " << f;
        of_absolute = test::worse(of_absolute, worst(far(f), want));
      }
      EXPECT_GT(of_absolute, 1e-2) << "equal positions prove nothing";
    }
}

// Of what is stored only the pinned frame precedes the second pass.
TEST(KvPositions, AreTheSameInASecondPassOverAFrame) {
  const at::NoGradGuard off;
  Stream stream(core::json{{"window", kArea}, {"positions", "relative"}});
  stream.cache.pin(0, kArea);
  for (int64_t f = 0; f < 6; ++f) {
    const Tensor first = stream(f);
    EXPECT_LT(worst(stream(f), first), 1e-12) << f;
  }
}

TEST(KvPositions, OfAStreamWithoutGapsAreThoseThatItHas) {
  const at::NoGradGuard off;
  Stream relative(core::json{{"window", 6}, {"positions", "relative"}}), absolute(core::json{{"window", 6}});
  for (int64_t f = 0; f < 12; ++f) EXPECT_TRUE(at::equal(relative(f), absolute(f))) << f;
}

TEST(KvPositions, RelativeOnesNeedAModelThatDescribesItsRotation) {
  const at::NoGradGuard off;
  Kv cache(core::json{{"positions", "relative"}});
  EXPECT_THAT(test::refusal([&] { cache.forward(0, 2); }),
              HasSubstr("attention 'self': the model does not describe its rotary positions"));
  Stream stream(core::json{{"positions", "relative"}});
  stream(0);
  stream.layout = 7;
  EXPECT_THAT(test::refusal([&] { stream(1); }), HasSubstr("a rotation of halves or pairs"));
  stream.layout = KINORA_ROPE_HALVES;
  for (const int64_t column : {KINORA_TOKEN_ROW, KINORA_TOKEN_COL, KINORA_TOKEN_FRAME}) {
    stream.column = column;
    EXPECT_THAT(test::refusal([&] { stream(1); }), HasSubstr("first axis is time, of column TIME or INDEX"));
  }
  Stream tokens(core::json{{"positions", "relative"}});
  tokens.column = KINORA_TOKEN_INDEX;
  EXPECT_EQ(tokens(0).size(1), kArea) << "a position each";
}
}  // namespace
}  // namespace kinora::kv_test
