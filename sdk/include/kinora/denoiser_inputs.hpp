// Tensors that denoisers of videos share, for a model's describe().
//
// B batch, C channels, T frames, H rows, W columns, L tokens of text.
#pragma once
#include "kinora/options.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// The video, the noise level and the text. Option text_size: channels of the text.
template <class Options>
void describe_denoised(Describe<Options>& d) {
  d.input("latent", "[B, in_channels, T, H, W]", "float",
          "noised latent, or a packed row [1, in_channels, N] with `sizes`");
  d.input("sizes", "[n, 3]", "int64",
          "T, H and W of each of n consecutive videos in a packed row, N numbers per channel; all other "
          "inputs then have n for B, and all frames or all tokens for [B, F, ...]");
  d.input(
      "timestep", "[B] or [B, F] or [B, F * h * w]", "float",
      "noise level in the network's unit: one per sample, frame or token (F, h, w: T, H, W divided by the "
      "patch)");
  d.input("text", "[B, L, text_size]", "float",
          "text embeddings; zeros, or left out, for the "
          "unconditional prediction");
  d.input("text_mask", "[B, L]", "bool", "true for tokens that may be seen; left out: all");
  d.input("condition_mask", "[B, 1, T, H, W]", "float",
          "mask of the given frames, one additional channel "
          "that in_channels counts");
}

// Signals (kinora/signals.hpp), and the prediction in the form of the latent.
template <class Options>
void describe_prediction(Describe<Options>& d) {
  d.input("camera", "[B, channels] or [B, F, channels] or [B, F * h * w, channels]", "float",
          "a signal, like any other name of `signals`; left out: nothing is added");
  d.input("image", "[B, L, channels] or [B, channels]", "float", "a signal");
  d.output("output", "[B, out_channels, T, H, W]", "float",
           "prediction, in the form of the latent: [1, "
           "out_channels, N] for a packed row");
}

}  // namespace kinora

KINORA_SDK_END
