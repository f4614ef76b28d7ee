// cache/kv with codes against an attention over the nearest numbers of E4M3.
#include "plugins/caches/kv/kv_testing.hpp"

namespace kinora::kv_test {
namespace {

TEST(KvCodes, AreTheNearestNumbersOfE4m3OfEachTokenAndHead) {
  const at::NoGradGuard off;
  Kv cache(core::json{{"window", 4}, {"store", "fp8"}}), given(4);
  cache.pin(0, 1);
  given.pin(0, 1);
  double apart = 0, of_given = 0;
  for (int64_t i = 0; i < 9; ++i) {
    cache.pass.read_only = 1;
    const Tensor looked = cache.forward(i, i + 1);
    cache.pass.read_only = 0;
    if (i == 6) cache.restore(cache.save());
    const Tensor made = cache.forward(i, i + 1);
    EXPECT_TRUE(cache.end.codes);
    Tensor seen = at::zeros({1, i + 1}, at::kBool);
    for (int64_t j = 0; j <= i; ++j) seen[0][j] = j == 0 || j > i - 4;
    const auto all = [&](const Tensor& x) { return through_e4m3(x.narrow(1, 0, i + 1)); };
    const Tensor want = test::masked_attention(q().narrow(1, i, 1), all(k()), all(v()), kScale, seen);
    apart = test::worse(apart, worst(made, want));
    EXPECT_LT(worst(looked, made), 1e-12) << i;
    of_given = test::worse(of_given, worst(given.forward(i, i + 1), want));
  }
  EXPECT_LT(apart, 1e-6) << "the scale's product is rounded to float32 here";
  EXPECT_GT(of_given, 1e-3) << "unrounded keys prove nothing";
}

TEST(KvCodes, TakeAByteANumberAndAScaleAHead) {
  const at::NoGradGuard off;
  Kv cache(core::json{{"store", "fp8"}}, 12);
  cache.forward(0, 12);
  EXPECT_EQ(cache.bytes(), 12 * kB * kH * 2 * (kD + 4)) << "tokens, samples, heads, k and v, width and scale";
}

TEST(KvCodes, MayHaveRelativePositions) {
  const at::NoGradGuard off;
  Stream stream(core::json{{"window", 6}, {"positions", "relative"}, {"store", "fp8"}});
  stream.cache.pin(0, kArea);
  for (int64_t f = 0; f < 5; ++f) stream(f);
  const auto seen = seen_by(5, 0, {0});
  std::vector<Tensor> keys;
  for (const int64_t f : seen) keys.push_back(through_e4m3(stream.at_own_place(k(), f)));
  keys[0] = rotated(keys[0], stream.layout, {2}, false);  // towards frame 3: frames 1 and 2 are gone
  const Tensor want = test::masked_attention(stream.at_own_place(q(), 5), at::cat(keys, 1),
                                             through_e4m3(of_frames(v(), seen)), kScale, mask_of(seen));
  EXPECT_LT(worst(stream(5), want), 1e-6);
  EXPECT_FALSE(stream.cache.end.codes) << "keys that are turned are no codes";
}

TEST(KvCodes, AreNotRestoredIntoACacheOfOtherOptions) {
  const at::NoGradGuard off;
  Kv codes(core::json{{"store", "fp8"}}), given;
  codes.forward(0, 3);
  given.forward(0, 3);
  EXPECT_THAT(test::refusal([&] { given.restore(codes.save()); }), HasSubstr("'k.0.self' is not what"));
  EXPECT_THAT(test::refusal([&] { codes.restore(given.save()); }), HasSubstr("'k.0.self' is not what"));
  EXPECT_EQ(codes.tokens() + given.tokens(), 6);
}
}  // namespace
}  // namespace kinora::kv_test
