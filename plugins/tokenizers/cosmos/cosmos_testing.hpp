// tokenizer/cosmos on a chain, for its tests.
#pragma once
#include <functional>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/runtime/call.hpp"
#include "kinora/abi/tokenizer.h"
#include "tests/support/oracle.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::cosmos {

using at::Tensor;

struct Cosmos : test::OnChain<kinora_tokenizer> {
  explicit Cosmos(const core::json& options = core::json::object(), at::ScalarType dtype = at::kDouble,
                  std::vector<const kinora_link*> links = {})
      : OnChain("tokenizer/cosmos", options, dtype, std::move(links)) {}
  core::Call call;
  kinora_run run = core::run_of(call);
  Tensor encode(const Tensor& video, Tensor* vectors = nullptr) {
    kinora_tensor latent = nullptr, posterior = nullptr;
    check((*this)->encode(self(), &run, context(), handle(video), &latent, &posterior));
    EXPECT_EQ(posterior != nullptr, vectors != nullptr);
    const Tensor given = adopt<Tensor>(posterior);
    if (vectors) *vectors = given;
    return adopt<Tensor>(latent);
  }
  Tensor decode(const Tensor& latent) {
    kinora_tensor video = nullptr;
    check((*this)->decode(self(), &run, context(), handle(latent), &video));
    return adopt<Tensor>(video);
  }
  kinora_tokenizer_info info() {
    kinora_tokenizer_info out{.struct_size = sizeof out};
    check((*this)->info(self(), &out));
    return out;
  }
  // Gradients of the parameters by name.
  std::map<std::string, Tensor> gradients() {
    std::map<std::string, Tensor> out;
    const auto& leaves = chain().leaves();
    for (size_t i = 0; i < leaves.size(); ++i) out[chain().parameters()[i].name] = leaves[i].tensor.grad();
    return out;
  }
};

class Stream {
 public:
  Stream(Cosmos& of, bool decoding) : of_(of) {
    check(of->open(of.self(), &of.run, of.context(), decoding, &self_));
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { of_->close(self_); }
  Tensor push(const Tensor& piece) {
    kinora_tensor out = nullptr;
    check(of_->push(self_, &of_.run, handle(piece), &out));
    return adopt<Tensor>(out);
  }

 private:
  Cosmos& of_;
  void* self_ = nullptr;
};

inline Tensor noise(std::vector<int64_t> shape, at::ScalarType dtype = at::kDouble) {
  at::manual_seed(7);
  return at::randn(shape, at::TensorOptions().dtype(dtype));
}

}  // namespace kinora::cosmos
