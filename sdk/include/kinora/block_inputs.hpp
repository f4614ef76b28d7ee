// Inputs that a denoiser's forward reads and checks, and the tensors that all its blocks share.
//
// B batch, C channels, L text tokens.
#pragma once
#include <string>
#include <vector>

#include "kinora/videos.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// Tensors that all blocks share, made outside them. A block receives them through its inputs (a tensor
// captured by a block loses its gradient when the block is run again). S, which derives from it, has all():
// pointers to its tensors, in the order of inputs.
template <class S>
class BlockInputs {
 public:
  using Has = std::vector<bool>;
  // Which of them are defined.
  Has has() const {
    Has out;
    auto mine = static_cast<const S&>(*this);
    for (const at::Tensor* t : mine.all()) out.push_back(t->defined());
    return out;
  }
  // The defined ones.
  std::vector<at::Tensor> pack() const {
    std::vector<at::Tensor> out;
    auto mine = static_cast<const S&>(*this);
    for (const at::Tensor* t : mine.all())
      if (t->defined()) out.push_back(*t);
    return out;
  }
  // The inverse: the packed ones begin at in[from].
  static S unpack(const std::vector<at::Tensor>& in, size_t from, const Has& has) {
    S s;
    size_t i = 0;
    for (at::Tensor* t : s.all())
      if (has[i++]) *t = in[from++];
    return s;
  }
};

// The latent with the channels of the input `extra` behind its own, if there is one. Throws kinora::Error,
// with `id` in front, unless they are `channels` together.
inline at::Tensor latent_with(const Named<at::Tensor>& in, const char* extra, int64_t channels,
                              const std::string& id) {
  at::Tensor x = in["latent"];
  if (in.has(extra)) x = at::cat({x, in[extra].to(x.scalar_type())}, 1);
  if (x.dim() > 1 && x.size(1) != channels)
    throw Error(KINORA_ERROR_INVALID, c10::str(id, ": latent and ", extra, " have ", x.size(1),
                                               " channels, in_channels is ", channels));
  return x;
}

struct Text {
  at::Tensor tokens;  // [B, L, size]
  at::Tensor mask;    // bool [B, L]; undefined: all are visible
};

// The inputs `text` and `text_mask`; without a text one token of zeros. like: for the dtype and the device.
// Throws kinora::Error, with `id` in front, for other shapes.
inline Text read_text(const Named<at::Tensor>& in, const at::Tensor& like, int64_t B, int64_t size,
                      const std::string& id) {
  const auto refuse = [&](const std::string& what) { throw Error(KINORA_ERROR_INVALID, id + ": " + what); };
  if (!in.has("text")) return {at::zeros({B, 1, size}, like.options()), {}};
  Text out{in["text"].to(like.scalar_type()), {}};
  const auto shape = out.tokens.sizes();
  if (shape.size() != 3 || shape[0] != B || shape[2] != size)
    refuse(c10::str("text has shape ", shape, ", needed is [", B, ", L, ", size, "]"));
  if (!in.has("text_mask")) return out;
  out.mask = in["text_mask"].to(at::kBool);
  if (out.mask.sizes() != shape.slice(0, 2))
    refuse(c10::str("text_mask has shape ", out.mask.sizes(), ", text ", shape));
  return out;
}

// A text without visible tokens becomes visible zeros, so that it, a text of zeros and no text give the same,
// unconditional result.
inline Text unconditional_if_hidden(Text text) {
  if (!text.mask.defined()) return text;
  const at::Tensor some = text.mask.any(1, true);
  return {text.tokens * some.unsqueeze(-1).to(text.tokens.scalar_type()), text.mask | ~some};
}

}  // namespace kinora

KINORA_SDK_END
