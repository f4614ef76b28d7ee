// Common parts of the tests of tokenizer/wan: an instance, a stream, the numbers of tests/oracle.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/runtime/call.hpp"
#include "kinora/abi/tokenizer.h"
#include "tests/support/oracle.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::test {

struct Wan : OnChain<kinora_tokenizer> {
  explicit Wan(const core::json& options, at::ScalarType dtype = at::kDouble,
               std::vector<const kinora_link*> links = {})
      : OnChain("tokenizer/wan", options, dtype, std::move(links)) {
    fill();
  }
  core::Call call;
  kinora_run run = core::run_of(call);
  at::Tensor encode(const at::Tensor& video, at::Tensor* moments = nullptr) {
    kinora_tensor latent = nullptr, posterior = nullptr;
    check((*this)->encode(self(), &run, context(), handle(video), &latent, &posterior));
    const auto kept = adopt<at::Tensor>(posterior);
    if (moments) *moments = kept;
    return adopt<at::Tensor>(latent);
  }
  at::Tensor decode(const at::Tensor& latent) {
    kinora_tensor video = nullptr;
    check((*this)->decode(self(), &run, context(), handle(latent), &video));
    return adopt<at::Tensor>(video);
  }
  kinora_tokenizer_info info() {
    kinora_tokenizer_info i{.struct_size = sizeof i};
    check((*this)->info(self(), &i));
    return i;
  }
};

class WanStream {
 public:
  WanStream(Wan& of, bool decoding) : of_(of) {
    check(of->open(of.self(), &of.run, of.context(), decoding, &self_));
  }
  WanStream(const WanStream&) = delete;
  WanStream& operator=(const WanStream&) = delete;
  ~WanStream() { of_->close(self_); }
  at::Tensor push(const at::Tensor& piece) {
    kinora_tensor out = nullptr;
    check(of_->push(self_, &of_.run, handle(piece), &out));
    return adopt<at::Tensor>(out);
  }

 private:
  Wan& of_;
  void* self_ = nullptr;
};

inline const std::vector<const char*> kWanCases{"plain", "residual", "attention", "image", "ends"};

// One case of tests/oracle/make_wan_vae_fixtures.py: `options` of the tokenizer, and additional options
// `tiles`.
struct WanCase : Oracle {
  explicit WanCase(const std::string& name) : Oracle("wan_vae.safetensors", name) {
    shape = options["shape"].get<std::vector<int64_t>>();
    options.erase("shape");
    if (options.contains("tiles")) tiles = options["tiles"];
    options.erase("tiles");
    options.erase("float32");  // difference of diffusers' own float32 from its float64
  }
  std::vector<int64_t> shape;  // B T H W
  core::json tiles = core::json::object();
  core::json with(const core::json& more) const {
    core::json all = options;
    all.update(more);
    return all;
  }
  core::json tiled() const { return with(tiles); }
  int64_t channels() const {
    const int64_t p = options.value("patch_size", 1);
    return options.value("in_channels", 3) / (p * p);
  }
  at::Tensor video(const std::string& name = "video", int64_t frames = 0, int64_t wider = 1) const {
    return numbers(name, {shape[0], channels(), frames ? frames : shape[1], shape[2], wider * shape[3]});
  }
  at::Tensor code(int64_t frames = 0) const {
    const int64_t time = options["scale_factor_temporal"], space = options["scale_factor_spatial"];
    return numbers("code", {shape[0], options["z_dim"], frames ? frames : 1 + (shape[1] - 1) / time,
                            shape[2] / space, shape[3] / space});
  }
};

inline at::Tensor every(const at::Tensor& x, int64_t n) {
  return x.slice(3, 0, x.size(3), n).slice(4, 0, x.size(4), n);
}

}  // namespace kinora::test
