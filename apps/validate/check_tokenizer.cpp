// Checks of tokenizers, on a small video of noise in float64.
#include <cmath>

#include "apps/validate/trial_chain.hpp"
#include "core/runtime/call.hpp"
#include "kinora/abi/tokenizer.h"

namespace kinora {
namespace tokenizer_checks_of {
namespace {

constexpr int64_t kBatch = 2, kGroups = 4;  // groups of frames after the first frame

class Tokenizer {
 public:
  explicit Tokenizer(const PluginTrial& t) : options_(t.options()), network_(t, options_) {
    info_.struct_size = sizeof info_;
    require_ok([&] { return network_.api.info(network_.self(), &info_); }, "info()");
    for (const int64_t factor : {info_.channels, info_.time, info_.height, info_.width})
      if (factor < 1)
        throw Error(KINORA_ERROR_FAILED,
                    fmt::format("info() says {} channels and factors {}, {}, {}; all are 1 or more",
                                info_.channels, info_.time, info_.height, info_.width));
    video_ = op(
        "aten::tanh", "",
        {normal(t.subject.seed, {kBatch, 3, 1 + kGroups * info_.time, 2 * info_.height, 2 * info_.width})});
  }

  const kinora_tokenizer_info& info() const { return info_; }
  const Tensor& video() const { return video_; }
  int32_t encode(const Tensor& video, Tensor& latent) {
    network_.chain.begin(true);
    kinora_tensor out = nullptr, posterior = nullptr;
    const int32_t status =
        network_.api.encode(network_.self(), &run_, network_.chain.context(), video.get(), &out, &posterior);
    latent = Tensor::adopt(out);
    const Tensor unused = Tensor::adopt(posterior);
    return status;
  }
  int32_t decode(const Tensor& latent, Tensor& video) {
    network_.chain.begin(true);
    kinora_tensor out = nullptr;
    const int32_t status =
        network_.api.decode(network_.self(), &run_, network_.chain.context(), latent.get(), &out);
    video = Tensor::adopt(out);
    return status;
  }
  void need_unknown() { run_.needs = kUnknownNeed; }
  // Throw Error; or Skipped, if the video is too small for this tokenizer.
  Tensor encoded() {
    Tensor out;
    watch().now("encode()");
    require_taken(encode(video_, out), "encode() of a video " + shape_text(video_.sizes()));
    return require(out, "encode()");
  }
  Tensor decoded(const Tensor& latent) {
    Tensor out;
    require_ok([&] { return decode(latent, out); }, "decode()");
    return require(out, "decode()");
  }
  // The joined results of the pieces of x along its dimension of frames. Throws Skipped if it has no streams.
  Tensor streamed(bool decoding, const Tensor& x, const std::vector<int64_t>& pieces) {
    const auto& api = network_.api;
    const int64_t frames = decoding && info_.discrete ? 1 : 2;  // codes are [B, t, h, w]
    void* stream = nullptr;
    network_.chain.begin(true);
    watch().now("open() of a stream");
    const int32_t status =
        api.open ? api.open(network_.self(), &run_, network_.chain.context(), decoding ? 1 : 0, &stream)
                 : KINORA_ERROR_UNSUPPORTED;
    if (status == KINORA_ERROR_UNSUPPORTED) throw Skipped{"it has no streams"};
    require_ok(status, "open()");
    const std::unique_ptr<void, void (*)(void*)> close(stream, api.close);
    std::vector<Tensor> made;
    int64_t from = 0;
    for (const int64_t n : pieces) {
      kinora_tensor out = nullptr;
      require_ok([&] { return api.push(stream, &run_, x.narrow(frames, from, n).get(), &out); }, "push()");
      made.push_back(require(Tensor::adopt(out), "push()"));
      from += n;
    }
    return op("aten::cat", "", {made, decoding ? 2 : info_.discrete ? 1 : 2});
  }

 private:
  static Tensor require(const Tensor& made, const char* call) {
    if (!made.defined())
      throw Error(KINORA_ERROR_FAILED, std::string(call) + " returned KINORA_OK without a tensor");
    return made;
  }
  core::Options options_;
  core::Call call_;
  kinora_run run_ = core::run_of(call_);
  TrialNetwork<kinora_tokenizer> network_;
  kinora_tokenizer_info info_{};
  Tensor video_;
};

std::string check_round_trip(PluginTrial& t) {
  const GradMode off(false);
  Tokenizer tokenizer(t);
  const Tensor latent = tokenizer.encoded();
  const auto& info = tokenizer.info();
  std::vector<int64_t> expected{kBatch, 1 + kGroups, 2, 2};
  if (!info.discrete) expected.insert(expected.begin() + 1, info.channels);
  if (latent.sizes() != expected)
    throw Error(KINORA_ERROR_FAILED, fmt::format("the latent of a video {} is {}, and {} by info()",
                                                 shape_text(tokenizer.video().sizes()),
                                                 shape_text(latent.sizes()), shape_text(expected)));
  if (info.discrete)
    for (const double code : numbers(latent))
      if (!(code >= 0 && code < static_cast<double>(info.codes)))
        throw Error(KINORA_ERROR_FAILED,
                    fmt::format("code {} is not one of the {} codes of info()", code, info.codes));
  if (const Tensor video = tokenizer.decoded(latent); video.sizes() != tokenizer.video().sizes())
    throw Error(KINORA_ERROR_FAILED,
                fmt::format("decode(encode()) of a video {} is {}", shape_text(tokenizer.video().sizes()),
                            shape_text(video.sizes())));
  return "";
}

std::string check_streams(PluginTrial& t) {
  const GradMode off(false);
  Tokenizer tokenizer(t);
  const Tensor latent = tokenizer.encoded(), video = tokenizer.decoded(latent);
  const int64_t time = tokenizer.info().time;
  const auto compare = [&](const char* what, const Tensor& found, const Tensor& whole) {
    if (found.sizes() != whole.sizes() || !(relative_error(numbers(found), numbers(whole)) <= 1e-9))
      throw Error(KINORA_ERROR_FAILED,
                  fmt::format("{} in pieces gives {} that differs by {:.2g} from that of the whole, {}; keep "
                              "in the stream what later pieces depend on",
                              what, shape_text(found.sizes()), relative_error(numbers(found), numbers(whole)),
                              shape_text(whole.sizes())));
  };
  compare("encoding", tokenizer.streamed(false, tokenizer.video(), {1, time, 2 * time, time}), latent);
  compare("decoding", tokenizer.streamed(true, latent, {1, 2, 1, 1}), video);
  return "";
}

std::string check_same_latent(PluginTrial& t) {
  const GradMode off(false);
  Tokenizer one(t), other(t);
  const Tensor latent = one.encoded();
  const auto codes = numbers(latent), video = numbers(one.decoded(latent));
  for (Tokenizer* again : {&one, &other})
    if (numbers(again->encoded()) != codes || numbers(again->decoded(latent)) != video)
      throw Error(KINORA_ERROR_FAILED,
                  fmt::format("encode() and decode() give other bits {}; keep no state outside of streams",
                              again == &one ? "the second time" : "by another instance"));
  return "";
}

std::string check_unknown_needs(PluginTrial& t) {
  const GradMode off(false);
  Tokenizer tokenizer(t);
  const Tensor latent = tokenizer.encoded();
  Tensor made;
  tokenizer.need_unknown();
  require_refused([&] { return tokenizer.encode(tokenizer.video(), made); },
                  "encode() of a run with an unknown bit of `needs`");
  require_refused([&] { return tokenizer.decode(latent, made); },
                  "decode() of a run with an unknown bit of `needs`");
  return "";
}

std::string check_handles(PluginTrial& t) {
  require_no_handles(t.subject.plugin->tier, [&] {
    const GradMode off(false);
    Tokenizer tokenizer(t);
    const Tensor latent = tokenizer.encoded(), video = tokenizer.decoded(latent);
    try {
      tokenizer.streamed(false, tokenizer.video(), {1, tokenizer.info().time});
      tokenizer.streamed(true, latent, {1, 1});
    } catch (const Skipped&) {
    }
    Tensor made;
    const Tensor wrong = normal(t.subject.seed, {7});
    answer("encode() of a video [7]", [&] { return tokenizer.encode(wrong, made); });
    answer("decode() of a latent [7]", [&] { return tokenizer.decode(wrong, made); });
  });
  return "";
}

std::string check_tensors(PluginTrial& t) {
  const GradMode off(false);
  Tokenizer tokenizer(t);
  const Tensor latent = tokenizer.encoded();
  Tensor made;
  for (const auto& [what, video] : hostile_tensors(tokenizer.video())) {
    answer("encode() of a video " + what, [&] { return tokenizer.encode(video, made); });
  }
  for (const auto& [what, wrong] : hostile_tensors(latent)) {
    answer("decode() of a latent " + what, [&] { return tokenizer.decode(wrong, made); });
  }
  return "";
}

constexpr Check kChecks[] = {
    {"round-trip", "tokenizer", "latents have the shape of info(), and decode(encode()) the video's", false,
     nullptr, check_round_trip},
    {"streams", "tokenizer", "a stream's pieces, joined, equal encode() and decode() of the whole in float64",
     false, nullptr, check_streams},
    {"same-latent", "tokenizer", "the same video gives the same bits, again and by another instance", false,
     nullptr, check_same_latent},
    {"tokenizer-needs", "tokenizer", "it refuses a run that needs what it does not know", false, nullptr,
     check_unknown_needs},
    {"tokenizer-leaks", "tokenizer", "every handle to a tensor is released, also after an error", false,
     nullptr, check_handles},
    {"video-tensors", "tokenizer",
     "videos and latents that are empty, strided, zero-dimensional, NaN, bf16 or of another shape get an "
     "answer",
     false, nullptr, check_tensors}};

}  // namespace
}  // namespace tokenizer_checks_of

std::span<const Check> tokenizer_checks() { return tokenizer_checks_of::kChecks; }

}  // namespace kinora
