#include "core/torch/network/tokenizer.hpp"

#include "core/torch/chain/run_on.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {

Tokenizer::Tokenizer(const Component& component, const Options& options, const ChainOptions& chain,
                     std::vector<const kinora_link*> links)
    : Network(component, options, chain, std::move(links),
              [&](auto* head) { return instance_of<kinora_tokenizer>(component, options, head); }),
      table_(component.table<kinora_tokenizer>()) {}

kinora_tokenizer_info Tokenizer::info() const {
  kinora_tokenizer_info out{};
  out.struct_size = sizeof out;
  called(table_.info(self_.get(), &out), id());
  return out;
}

at::Tensor Tokenizer::encode(const at::Tensor& video, at::Tensor* posterior, const kinora_run* run) {
  const kinora_run call = run_on(video.device(), run);
  kinora_tensor latent = nullptr, moments = nullptr;
  called(table_.encode(self_.get(), &call, chain_.head(), handle(video), &latent, &moments), id());
  if (!latent) throw Error(KINORA_ERROR_FAILED, id() + ": encode returned no latent");
  at::Tensor kept = adopt<at::Tensor>(moments);
  if (posterior) *posterior = std::move(kept);
  return adopt<at::Tensor>(latent);
}

at::Tensor Tokenizer::decode(const at::Tensor& latent, const kinora_run* run) {
  const kinora_run call = run_on(latent.device(), run);
  kinora_tensor video = nullptr;
  called(table_.decode(self_.get(), &call, chain_.head(), handle(latent), &video), id());
  if (!video) throw Error(KINORA_ERROR_FAILED, id() + ": decode returned no video");
  return adopt<at::Tensor>(video);
}

std::unique_ptr<Tokenizer::Stream> Tokenizer::open_stream(bool decoding, const kinora_run* run) {
  if (!table_.open || info().decode_span == 0) return nullptr;
  const auto& weights = chain_.leaves();
  const kinora_run call = run_on(weights.empty() ? at::kCPU : weights[0].tensor.device(), run);
  void* stream = nullptr;
  const int32_t code = table_.open(self_.get(), &call, chain_.head(), decoding ? 1 : 0, &stream);
  if (code == KINORA_ERROR_UNSUPPORTED) return nullptr;
  called(code, id());
  return std::make_unique<Stream>(table_, stream, id());
}

at::Tensor Tokenizer::Stream::push(const at::Tensor& piece, const kinora_run* run) {
  const kinora_run call = run_on(piece.device(), run);
  kinora_tensor out = nullptr;
  called(table_.push(stream_, &call, handle(piece), &out), id_);
  if (!out) throw Error(KINORA_ERROR_FAILED, id_ + ": a stream's piece has no result");
  return adopt<at::Tensor>(out);
}

void Tokenizer::require_fit() const {
  if (!table_.fit)
    raise(KINORA_ERROR_UNSUPPORTED, "{} begins at random only: it has no start in closed form", id());
}

void Tokenizer::fit(const at::Tensor& video) {
  require_fit();
  NamedTensors values;
  const auto take = [](void* to, const char* name, kinora_tensor value) {
    (*static_cast<NamedTensors*>(to))[name] = adopt<at::Tensor>(value);
  };
  const kinora_run call = run_on(video.device(), nullptr);
  called(table_.fit(self_.get(), &call, chain_.head(), handle(video), &values, take), id());
  load_values(chain_.parameters(), chain_.leaves(), values, {.allow_missing = true});
}

}  // namespace kinora::core
