// Streams of tokenizer/wan: bit-identical to the whole clip, with memory that does not grow; and calls that are
// stopped.
#include <c10/core/GradMode.h>

#include "core/torch/media/streaming.hpp"
#include "plugins/tokenizers/wan/wan_fixture.hpp"
#include "tests/support/metered.hpp"

namespace kinora {
namespace {

using at::Tensor;
using test::Metered;
using test::Wan;
using test::WanCase;
using test::WanStream;

class WanStreams : public ::testing::TestWithParam<std::tuple<const char*, at::ScalarType>> {};

// Pieces are given as numbers of latent frames.
TEST_P(WanStreams, EqualTheWholeBitForBit) {
  const auto [name, dtype] = GetParam();
  const WanCase c(name);
  for (const bool graph : {false, true}) {
    const c10::AutoGradMode mode(graph);
    for (const auto& options : {c.options, c.tiled()}) {
      Wan wan(options, dtype);
      const int64_t time = c.options["scale_factor_temporal"];
      const Tensor video = c.video("video", 1 + 4 * time, 2).to(dtype), latent = wan.encode(video),
                   decoded = wan.decode(latent);
      for (const auto& cut : {std::vector<int64_t>{1, 1, 1, 1, 1}, {2, 1, 2}, {1, 4}}) {
        WanStream encoder(wan, false), decoder(wan, true);
        std::vector<Tensor> latents, videos;
        int64_t at = 0, frame = 0;
        for (const int64_t n : cut) {
          const int64_t frames = at ? n * time : 1 + (n - 1) * time;
          latents.push_back(encoder.push(video.narrow(2, frame, frames)));
          videos.push_back(decoder.push(latent.narrow(2, at, n)));
          at += n;
          frame += frames;
        }
        EXPECT_TRUE(at::cat(latents, 2).equal(latent)) << ::testing::PrintToString(cut);
        EXPECT_TRUE(at::cat(videos, 2).equal(decoded)) << ::testing::PrintToString(cut);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, WanStreams,
                         ::testing::Combine(::testing::ValuesIn(test::kWanCases),
                                            ::testing::Values(at::kDouble, at::kFloat)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  c10::toString(std::get<1>(info.param));
                         });

TEST(WanMemory, OfAStreamDoesNotGrow) {
  const c10::NoGradGuard off;
  for (const char* name : {"plain", "residual"}) {
    const WanCase c(name);
    Wan wan(c.options, at::kFloat);
    const Tensor video = c.video("video", 4).to(at::kFloat), latent = c.code(1).to(at::kFloat);
    for (const bool decoding : {false, true}) {
      WanStream stream(wan, decoding);
      Metered::begin();
      stream.push(decoding ? latent : video.narrow(2, 0, 1));
      int64_t held = Metered::now();
      std::vector<int64_t> kept, peaks;
      for (int i = 0; i < 40; ++i) {
        Metered::begin();
        stream.push(decoding ? latent : video);
        peaks.push_back(held + Metered::most());
        kept.push_back(held += Metered::now());
      }
      EXPECT_GT(kept[2], 0);
      for (size_t i = 3; i < kept.size(); ++i) {
        EXPECT_EQ(kept[i], kept[2]) << name << " push " << i;
        EXPECT_EQ(peaks[i], peaks[2]) << name << " push " << i;
      }
    }
  }
}

TEST(WanMemory, OfAWholeDecodeIsItsOutputAndThatOfAFrame) {
  const c10::NoGradGuard off;
  const WanCase c("plain");
  Wan wan(c.with({{"normalise", false}}), at::kFloat);
  const auto extra = [&](int64_t frames) {
    const Tensor latent = c.code(frames).to(at::kFloat);
    Metered::begin();
    const Tensor video = wan.decode(latent);
    return Metered::most() - static_cast<int64_t>(video.nbytes());
  };
  const int64_t few = extra(5), many = extra(60);
  EXPECT_GT(few, 0);
  EXPECT_LE(many, few);
}

TEST(WanHalo, IsHowFarADecodedFrameSeesBack) {
  for (const char* name : {"attention", "ends", "plain"}) {
    const WanCase c(name);
    core::json options = c.options;
    options["num_res_blocks"] = 1;
    Wan wan(options);
    const int64_t span = wan.info().decode_span, last = span + 3, time = wan.info().time;
    Tensor latent = test::numbers("code", {1, options["z_dim"], last + 1, 1, 1}).requires_grad_();
    const Tensor video = wan.decode(latent);
    video.narrow(2, video.size(2) - time, time).sum().backward();
    const Tensor reached = latent.grad().abs().amax({0, 1, 3, 4});
    EXPECT_GT(reached[last - span + 1].item<double>(), 0) << name;
    EXPECT_EQ(reached[last - span].item<double>(), 0) << name;
  }
}

TEST(WanStream, StaysUsableAfterAPieceThatIsRefused) {
  using ::testing::HasSubstr;
  const WanCase c("plain");
  Wan wan(c.options);
  const Tensor video = c.video(), whole = wan.encode(video);
  WanStream stream(wan, false);
  const Tensor first = stream.push(video.narrow(2, 0, 5));
  EXPECT_THAT(test::refusal([&] { stream.push(video.narrow(2, 5, 3)); }),
              HasSubstr("3 frames; n * 4 are needed in a stream's later pieces"));
  EXPECT_THAT(test::refusal([&] { stream.push(video.narrow(2, 5, 4).narrow(4, 0, 8)); }),
              HasSubstr("open a stream for each clip"));
  EXPECT_TRUE(at::cat({first, stream.push(video.narrow(2, 5, 4))}, 2).equal(whole));
  Wan cut(c.with({{"tile_frames", 8}}));
  EXPECT_THAT(test::refusal([&] { WanStream refused(cut, true); }),
              HasSubstr("tile_frames is for whole clips"));
}

// A run that is asked to stop once it has been asked `after` times whether it was.
struct Stop {
  int64_t after, asked = 0;
  void of(kinora_run& run) {
    run.self = this;
    run.cancelled = [](void* self) -> int32_t {
      auto& s = *static_cast<Stop*>(self);
      return ++s.asked > s.after ? KINORA_ERROR_CANCELLED : KINORA_OK;
    };
  }
};

template <class F>
int32_t code_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code();
  }
  return KINORA_OK;
}

TEST(WanStops, BeforeTheNextPieceOfTimeOrOfTheImage) {
  const c10::NoGradGuard off;
  const WanCase c("plain");
  const int64_t time = c.options["scale_factor_temporal"];
  for (const auto& options : {c.options, c.tiled(), c.with({{"tile_frames", 2 * time}})}) {
    Wan wan(options);
    const Tensor video = c.video("video", 1 + 4 * time, 2), latent = wan.encode(video);
    for (const bool decoding : {false, true}) {
      const auto call = [&] { decoding ? wan.decode(latent) : wan.encode(video); };
      Stop never{1 << 20}, soon{1};
      never.of(wan.run);
      call();
      EXPECT_GE(never.asked, 5) << options;
      soon.of(wan.run);
      EXPECT_EQ(code_of(call), KINORA_ERROR_CANCELLED) << options;
      EXPECT_EQ(soon.asked, 2) << options;
    }
  }
}

TEST(WanStream, StaysUsableAfterAPieceThatWasStopped) {
  const c10::NoGradGuard off;
  const WanCase c("plain");
  Wan wan(c.options);
  const Tensor video = c.video(), whole = wan.encode(video);
  WanStream stream(wan, false);
  const Tensor first = stream.push(video.narrow(2, 0, 1));
  Stop soon{1}, never{1 << 20};
  soon.of(wan.run);
  const Tensor rest = video.narrow(2, 1, video.size(2) - 1);
  EXPECT_EQ(code_of([&] { stream.push(rest); }), KINORA_ERROR_CANCELLED);
  never.of(wan.run);
  EXPECT_TRUE(at::cat({first, stream.push(rest)}, 2).equal(whole));
}

// Both ways of the host: piece by piece in a stream, and whole.
TEST(WanStops, WithTheRunOfTheHostsCall) {
  const c10::NoGradGuard off;
  const WanCase c("plain");
  for (const auto& given : {c.options, c.with({{"tile_frames", c.options["scale_factor_temporal"]}})}) {
    const auto component = core::or_throw(test::plugins().open("tokenizer/wan"));
    const auto options = core::or_throw(core::Options::make(*component.spec, given));
    core::Tokenizer net(component, options, {});
    const Tensor video = c.video().narrow(0, 0, 1).to(at::kFloat), latent = net.encode(video);
    ASSERT_GE(latent.size(2), 3);
    Stop soon{2};
    core::Call call;
    kinora_run run = core::run_of(call);
    run.progress = nullptr;
    soon.of(run);
    const auto frames = [&](int64_t first, int64_t n) { return video.narrow(2, first, n); };
    EXPECT_EQ(code_of([&] { core::encode_video(net, video.size(2), frames, &run); }), KINORA_ERROR_CANCELLED);
    EXPECT_EQ(soon.asked, 3);
    soon.asked = 0;
    EXPECT_EQ(code_of([&] { core::decode_frames(net, latent, at::kCPU, &run); }), KINORA_ERROR_CANCELLED);
    EXPECT_EQ(soon.asked, 3);
  }
}

}  // namespace
}  // namespace kinora
