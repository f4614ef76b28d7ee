// cache/kv with NVFP4 and means of chunks against plain loops, and its bytes against kernels/fp4.
#include "kernels/fp4/quantize.hpp"
#include "plugins/caches/kv/kv_testing.hpp"

namespace kinora::kv_test {
namespace {

constexpr int64_t kWide = 32;  // channels of a head: two blocks

// The nearest number of E2M1, an even code for a tie.
float nearest_e2m1(float x) {
  constexpr float numbers[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  const float a = std::abs(x);
  int code = 0;
  while (code < 7) {
    const float middle = (numbers[code] + numbers[code + 1]) / 2;
    if (a < middle || (a == middle && code % 2 == 0)) break;
    ++code;
  }
  return std::copysign(numbers[code], x);
}

float largest(const float* x, int64_t n) {
  float out = 0;
  for (int64_t i = 0; i < n; ++i) out = test::worse(out, std::abs(x[i]));
  return out;
}

// x [B, S, heads, d] in NVFP4, with a global scale for each token and head.
Tensor through_nvfp4(const Tensor& x) {
  Tensor out = x.to(at::kFloat).contiguous().clone();
  const int64_t d = x.size(3);
  for (float* head = out.data_ptr<float>(); head != out.data_ptr<float>() + out.numel(); head += d) {
    const float global = std::min(448 * 6 / largest(head, d), 0x1p100F);
    for (int64_t first = 0; first < d; first += 16) {
      const int64_t n = std::min<int64_t>(16, d - first);
      const float scale = nearest_e4m3(std::min(largest(head + first, n) / 6 * global, 448.0F));
      const float multiply = scale == 0 ? 0 : 1 / (scale * (1 / global));
      for (float* one = head + first; one != head + first + n; ++one)
        *one = nearest_e2m1(*one * multiply) * (scale / global);
    }
  }
  return out.to(at::kDouble);
}

// The mean over the tokens of a chunk [B, S, heads, d] for each head and channel, in bfloat16.
Tensor mean_of(const Tensor& chunk) {
  Tensor out = at::zeros({chunk.size(0), 1, chunk.size(2), chunk.size(3)}, at::kDouble);
  for (int64_t s = 0; s < chunk.size(1); ++s) out += chunk.to(at::kFloat).to(at::kDouble).narrow(1, s, 1);
  return (out / chunk.size(1)).to(at::kFloat).to(at::kBFloat16).to(at::kDouble);
}

using Through = Tensor (*)(const Tensor&);
// The keys of the first `chunks` chunks of two tokens, each minus its mean when it is rounded.
Tensor smoothed(const Tensor& x, int64_t chunks, Through through) {
  std::vector<Tensor> out;
  for (int64_t c = 0; c < chunks; ++c) {
    const Tensor chunk = x.narrow(1, 2 * c, 2), mean = mean_of(chunk);
    out.push_back(through((chunk.to(at::kFloat) - mean.to(at::kFloat)).to(at::kDouble)) + mean);
  }
  return at::cat(out, 1);
}

Tensor wide(uint64_t seed) {
  at::manual_seed(seed);
  return at::randn({kB, kMost, kH, kWide}, at::kDouble);
}

Tensor forward(Kv& cache, int64_t first, int64_t last, const Tensor& q, const Tensor& k, const Tensor& v) {
  core::Frames frames;
  frames.start = first;
  const auto own = [&](const Tensor& x) { return x.narrow(1, first, last - first); };
  return cache.attention(core::token_table(frames, last - first, 1, 1), own(q), own(k), own(v), nullptr);
}

// Chunks of two tokens, a window of three and token 0 pinned: chunk c sees token 0, the second token of the chunk
// before, and its own.
Tensor seen_by_chunk(int64_t c) {
  Tensor out = at::zeros({2, 2 * c + 2}, at::kBool);
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = std::max<int64_t>(2 * c - 1, 0); j <= 2 * c + i; ++j) out[i][j] = true;
  out.select(1, 0).fill_(true);
  return out;
}

TEST(KvNvfp4, StoresTheBitsOfTheKernelsForEachHeadOfAToken) {
  const at::NoGradGuard off;
  constexpr int64_t S = 6, codes = kWide / 2, blocks = kWide / 16, width = codes + blocks + 4;
  Tensor k = wide(5).narrow(1, 0, S).clone(), v = wide(6).narrow(1, 0, S);
  k *= at::exp(4 * wide(7).narrow(1, 0, S));  // blocks of unlike sizes
  k.select(1, 2).zero_();
  Kv cache(core::json{{"store", "nvfp4"}});
  forward(cache, 0, S, v, k, v);
  const auto saved = cache.save();
  for (const auto& [name, x] : {std::pair{"k.0.self", k}, {"v.0.self", v}}) {
    const Tensor from = x.to(at::kFloat).contiguous(), made = saved.at(name).contiguous();
    ASSERT_EQ(made.sizes().vec(), (std::vector<int64_t>{kB, S, kH, width}));
    for (int64_t head = 0; head < kB * S * kH; ++head) {
      const float* numbers = from.data_ptr<float>() + head * kWide;
      uint8_t want[width];
      fp4::Options options;
      options.rule = fp4::ScaleRule::static_6;
      const fp4::Shape shape{1, kWide};
      const float amax = fp4::reference::find_amax(shape, numbers, false).value;
      float global = fp4::reference::quantize(shape, numbers, options, amax, want, want + codes);
      if (amax == 0) global = 0x1p100F;  // where the kernels have 1
      std::memcpy(want + codes + blocks, &global, sizeof global);
      const uint8_t* found = made.data_ptr<uint8_t>() + head * width;
      EXPECT_EQ(std::vector<uint8_t>(found, found + width), std::vector<uint8_t>(want, want + width))
          << name << ", head " << head;
    }
  }
}

struct Rounding {
  const char *store, *smooth;
  Through through;
};

// Eviction takes the first token of each chunk and leaves the second with its chunk's mean.
TEST(KvNvfp4, SeesWhatPlainLoopsRoundAlsoWhenPartsOfChunksAreEvicted) {
  const at::NoGradGuard off;
  for (const auto& [store, smooth, through] :
       {Rounding{"nvfp4", "none", through_nvfp4}, Rounding{"nvfp4", "chunk", through_nvfp4},
        Rounding{"fp8", "chunk", through_e4m3}}) {
    const bool has_means = smooth == std::string("chunk");
    Kv cache(core::json{{"window", 3}, {"store", store}, {"smooth", smooth}}), given(3);
    for (Kv* one : {&cache, &given}) one->pin(0, 1);
    double apart = 0, of_given = 0;
    for (int64_t c = 0; c < 9; ++c) {
      cache.pass.read_only = 1;
      cache.forward(2 * c, 2 * c + 2);
      const Tensor looked = cache.forward(2 * c, 2 * c + 2);
      cache.pass.read_only = 0;
      if (c == 6) cache.restore(cache.save());
      const Tensor made = cache.forward(2 * c, 2 * c + 2);
      EXPECT_FALSE(cache.end.codes);
      EXPECT_LT(worst(looked, made), 1e-12) << store << ", chunk " << c;
      const Tensor all = k().narrow(1, 0, 2 * c + 2);
      const Tensor keys = has_means ? smoothed(k(), c + 1, through) : through(all);
      const Tensor want = test::masked_attention(
          q().narrow(1, 2 * c, 2), keys, through(v().narrow(1, 0, 2 * c + 2)), kScale, seen_by_chunk(c));
      apart = test::worse(apart, worst(made, want));
      of_given = test::worse(of_given, worst(given.forward(2 * c, 2 * c + 2), want));
    }
    EXPECT_EQ(cache.tokens(), 4);
    EXPECT_LT(apart, 1e-5) << store << ", smooth = " << smooth;
    EXPECT_GT(of_given, 1e-3) << "unrounded keys prove nothing";
  }
}

TEST(KvNvfp4, TakesTheBytesOfCodesScalesAndMeans) {
  const at::NoGradGuard off;
  for (const bool has_means : {false, true}) {
    Kv cache(core::json{{"store", "nvfp4"}, {"smooth", has_means ? "chunk" : "none"}}, 12);
    const Tensor x = wide(5);
    for (const int64_t first : {0, 6}) forward(cache, first, first + 6, x, x, x);
    const int64_t n = 12 * kB * kH * kWide * 2;  // numbers of keys and values
    const int64_t means = has_means ? 2 * kB * kH * kWide * 2 : 0;
    EXPECT_EQ(cache.bytes(), n / 2 + n / 16 + n / kWide * 4 + means);
    forward(cache, 0, 6, x, x, x);
    EXPECT_EQ(cache.bytes(), n / 2 + n / 16 + n / kWide * 4 + means / 2) << "one chunk is left, and the room";
  }
}

// The figures of docs/long-video.md: root mean squares of the outputs' errors, relative to those of the outputs, in
// chunks of eight tokens. A plain loop in another language gave them, of other random numbers.
TEST(KvNvfp4, ErrsInAttentionOutputsAsItsPageSays) {
  const at::NoGradGuard off;
  const Tensor q = wide(5) / (kScale * std::sqrt(kWide)), k = wide(6), v = wide(8),
               means = 8 * wide(7).narrow(0, 0, 1).narrow(1, 0, 1);
  struct Case {
    const char *store, *smooth;
    bool has_means;
    double least, most;
  };
  for (const auto& [store, smooth, has_means, least, most] :
       {Case{"nvfp4", "chunk", false, 0.10, 0.125}, Case{"nvfp4", "chunk", true, 0.10, 0.125},
        Case{"nvfp4", "none", true, 0.35, 0.7}, Case{"fp8", "chunk", false, 0.025, 0.033},
        Case{"fp8", "chunk", true, 0.025, 0.033}, Case{"fp8", "none", true, 0.1, 0.2}}) {
    Kv rounded(core::json{{"store", store}, {"smooth", smooth}}), given;
    const Tensor keys = has_means ? k + means : k;
    double error = 0, all = 0;
    for (int64_t first = 0; first < kMost; first += 8) {
      const Tensor want = forward(given, first, first + 8, q, keys, v);
      error += (forward(rounded, first, first + 8, q, keys, v) - want).square().sum().item<double>();
      all += want.square().sum().item<double>();
    }
    const double relative = std::sqrt(error / all);
    EXPECT_GT(relative, least) << store << ", " << smooth << ", " << has_means;
    EXPECT_LT(relative, most) << store << ", " << smooth << ", " << has_means;
  }
}

TEST(KvNvfp4, MayHaveRelativePositions) {
  const at::NoGradGuard off;
  Stream stream(
      core::json{{"window", 6}, {"positions", "relative"}, {"store", "nvfp4"}, {"smooth", "chunk"}});
  stream.cache.pin(0, kArea);
  for (int64_t f = 0; f < 5; ++f) stream(f);
  const auto seen = seen_by(5, 0, {0});
  std::vector<Tensor> keys;
  for (const int64_t f : seen) keys.push_back(smoothed(stream.at_own_place(k(), f), 1, through_nvfp4));
  keys[0] = rotated(keys[0], stream.layout, {2}, false);  // towards frame 3: frames 1 and 2 are gone
  const Tensor want = test::masked_attention(stream.at_own_place(q(), 5), at::cat(keys, 1),
                                             through_nvfp4(of_frames(v(), seen)), kScale, mask_of(seen));
  EXPECT_LT(worst(stream(5, true), want), 1e-5);
  stream.cache.restore(stream.cache.save());
  EXPECT_LT(worst(stream(5), want), 1e-5);
}

// LongLive 2.0: the stored keys keep their means; a forward's own are not rounded and lose that of their channels.
TEST(KvNvfp4, LonglivesForwardSeesItsOwnKeysUnroundedWithoutTheirMeanOverChannels) {
  const at::NoGradGuard off;
  Kv cache(core::json{{"store", "nvfp4"}, {"smooth", "longlive"}});
  for (int64_t c = 0; c < 4; ++c) {
    const auto seen = [&](const Tensor& x, const Tensor& own) {
      return c == 0 ? own : at::cat({through_nvfp4(x.narrow(1, 0, 2 * c)), own}, 1);
    };
    const Tensor own = k().narrow(1, 2 * c, 2);
    const Tensor want = test::masked_attention(q().narrow(1, 2 * c, 2), seen(k(), own - own.mean(3, true)),
                                               seen(v(), v().narrow(1, 2 * c, 2)), kScale,
                                               at::ones({2, 2 * c + 2}, at::kBool).tril(2 * c));
    cache.pass.read_only = 1;
    EXPECT_LT(worst(cache.forward(2 * c, 2 * c + 2), want), 1e-5) << c;
    cache.pass.read_only = 0;
    EXPECT_LT(worst(cache.forward(2 * c, 2 * c + 2), want), 1e-5) << c;
  }
}

TEST(KvNvfp4, TrimLeavesPartsOfChunksTheirMeans) {
  const at::NoGradGuard off;
  const core::json options{{"store", "nvfp4"}, {"smooth", "chunk"}};
  Kv trimmed(options), replaced(options), restored(options);
  for (Kv* one : {&trimmed, &replaced}) {
    one->forward(0, 2);
    one->forward(2, 5);
  }
  trimmed.trim(0, 3);
  restored.restore(trimmed.save());
  const Tensor want = replaced.forward(3, 6);
  EXPECT_EQ(worst(trimmed.forward(3, 6), want), 0);
  EXPECT_EQ(worst(restored.forward(3, 6), want), 0);
  EXPECT_EQ(worst(trimmed.forward(6, 8), replaced.forward(6, 8)), 0);
}

TEST(KvNvfp4, HasIdsOfItsOwn) {
  const at::NoGradGuard off;
  for (const auto& [id, store] : {std::pair{"cache/kv-nvfp4", "nvfp4"}, {"cache/kv-fp8", "fp8"}}) {
    Kv named(core::json{{"window", 5}}, 0, id);
    Kv same(core::json{{"window", 5}, {"store", store}, {"smooth", "chunk"}});
    for (int64_t first = 0; first < 12; first += 3)
      EXPECT_EQ(worst(named.forward(first, first + 3), same.forward(first, first + 3)), 0) << id;
    EXPECT_EQ(named.bytes(), same.bytes()) << id;
  }
}

TEST(KvNvfp4, SaysWhichOptionsAndSessionsDoNotFit) {
  const at::NoGradGuard off;
  EXPECT_THAT(test::refusal([] {
                Kv(core::json{{"smooth", "chunk"}});
              }),
              HasSubstr("smooth = \"chunk\" is for keys that are rounded; set store"));
  Kv means(core::json{{"store", "nvfp4"}, {"smooth", "chunk"}}), none(core::json{{"store", "nvfp4"}}), given;
  for (Kv* one : {&means, &none, &given}) one->forward(0, 3);
  const auto refused = [](Kv& to, Kv& from) { return test::refusal([&] { to.restore(from.save()); }); };
  EXPECT_THAT(refused(none, means), HasSubstr("'chunks.0' is not what"));
  EXPECT_THAT(refused(means, none), HasSubstr("'chunks.0' is not what"));
  EXPECT_THAT(refused(given, none), HasSubstr("'k.0.self' is not what"));
  EXPECT_THAT(refused(none, given), HasSubstr("'k.0.self' is not what"));
}

}  // namespace
}  // namespace kinora::kv_test
