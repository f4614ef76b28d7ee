// A tokenizer of a run.
#pragma once
#include "core/torch/network/network.hpp"
#include "kinora/abi/tokenizer.h"

namespace kinora::core {

// video [B, 3, T, H, W] in [-1, 1]; latent [B, C, t, h, w], or codes [B, t, h, w].
class Tokenizer final : public Network {
 public:
  Tokenizer(const Component&, const Options&, const ChainOptions&,
            std::vector<const kinora_link*> links = {});

  kinora_tokenizer_info info() const;
  // posterior: undefined if the tokenizer gives none. A run here is the caller's; null: nobody stops it.
  at::Tensor encode(const at::Tensor& video, at::Tensor* posterior = nullptr, const kinora_run* = nullptr);
  // Does not clamp.
  at::Tensor decode(const at::Tensor& latent, const kinora_run* run = nullptr);
  // Takes consecutive pieces and returns their results, equal to those of the whole.
  class Stream;
  // Null without a stream whose memory is independent of the length. The tokenizer must outlive the stream.
  std::unique_ptr<Stream> open_stream(bool decoding, const kinora_run* run = nullptr);
  // Sets the initial values for this video in closed form; throws Error(KINORA_ERROR_UNSUPPORTED) if there are
  // none.
  void fit(const at::Tensor& video);
  // Throws the same error if there are no such initial values.
  void require_fit() const;

 private:
  const kinora_tokenizer& table_;
};

class Tokenizer::Stream {
 public:
  Stream(const kinora_tokenizer& table, void* stream, std::string id)
      : table_(table), stream_(stream), id_(std::move(id)) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { table_.close(stream_); }
  at::Tensor push(const at::Tensor& piece, const kinora_run* run = nullptr);

 private:
  const kinora_tokenizer& table_;
  void* stream_;
  std::string id_;
};

}  // namespace kinora::core
