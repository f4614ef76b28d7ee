// Named conditions of a denoiser in addition to its text (a camera path, the frame rate, an image's tokens),
// for models of the pinned tier.
//
// A signal is either a vector, mapped by two linear layers and added to the embedding of the noise level, or
// tokens, mapped by one layer and appended to the text's keys. Its initial contribution is zero, so a trained
// model can be given one more; an omitted signal contributes nothing.
//
// B batch, R rows (1, frames or tokens), L tokens, D width.
#pragma once
#include <charconv>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kinora/layers.hpp"
#include "kinora/videos.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// Parsed from "NAME:CHANNELS" or "NAME:CHANNELS:tokens".
struct Signal {
  std::string name;
  int64_t channels = 0;
  bool tokens = false;  // [B, L, channels]; else [B, channels] or [B, R, channels]
};

// Help of the option in a model's describe().
inline constexpr const char* kSignalsHelp =
    "more conditions, each an input of its name: \"camera:12\" takes [B, 12], or one per frame [B, F, 12], "
    "or one per token "
    "[B, F * h * w, 12], into the timestep embedding; \"image:768:tokens\" takes [B, L, 768] as keys next to "
    "the text";

// Throws kinora::Error with `id` in front. taken: names of the model's other inputs.
inline std::vector<Signal> signals_of(const std::vector<std::string>& texts,
                                      const std::set<std::string>& taken, const std::string& id) {
  std::vector<Signal> out;
  std::set<std::string> seen;
  for (const auto& text : texts) {
    const auto refuse = [&](const std::string& what) {
      throw Error(KINORA_ERROR_INVALID, id + ": signal '" + text + "' " + what);
    };
    const auto colon = text.find(':'), second = colon == text.npos ? colon : text.find(':', colon + 1);
    Signal s{text.substr(0, colon), 0, second != text.npos};
    const std::string number = colon == text.npos ? "" : text.substr(colon + 1, second - colon - 1);
    const auto* end = number.data() + number.size();
    const auto read = std::from_chars(number.data(), end, s.channels);
    if (s.name.empty() || read.ec != std::errc() || read.ptr != end || s.channels < 1 ||
        (s.tokens && text.substr(second) != ":tokens"))
      refuse("is not NAME:CHANNELS or NAME:CHANNELS:tokens");
    if (taken.count(s.name) || !seen.insert(s.name).second)
      refuse("has the name of another input; give it one of its own");
    out.push_back(std::move(s));
  }
  return out;
}

class Signals {
 public:
  Signals() = default;
  // width: of the embedding that vectors are added to; text_width: of the keys that tokens are appended to.
  Signals(const Ctx& ctx, const std::vector<Signal>& signals, int64_t width, int64_t text_width,
          std::string id)
      : id_(std::move(id)) {
    for (const auto& s : signals) {
      const auto declare = Declare(ctx, "signals.", -1).in(s.name);
      Embedder by{declare.biased("linear_1", s.tokens ? text_width : width, s.channels, fan_in(s.channels)),
                  {}};
      if (!s.tokens) by.second = declare.biased("linear_2", width, width, Init::zeros());
      all_.push_back({s, by});
    }
  }

  // to [B, R, width], plus the given vectors. type: dtype in which they are embedded.
  at::Tensor add(const Ctx& ctx, const Named<at::Tensor>& in, const Videos& videos, at::ScalarType type,
                 at::Tensor to) const {
    for (const auto& e : all_)
      if (!e.signal.tokens && in.has(e.signal.name))
        to = videos.sum(to, vector(ctx, e, in[e.signal.name], videos, type));
    return to;
  }
  // Appends the given tokens to text [count, L, text_width]; mask [count, L] may be undefined.
  void append(const Ctx& ctx, const Named<at::Tensor>& in, at::Tensor& text, at::Tensor& mask) const {
    for (const auto& e : all_) {
      if (!e.signal.tokens || !in.has(e.signal.name)) continue;
      const at::Tensor given = in[e.signal.name].to(text.scalar_type());
      if (given.dim() != 3 || given.size(0) != text.size(0) || given.size(2) != e.signal.channels)
        refuse(c10::str(e.signal.name, " has shape ", given.sizes(), ", needed is [", text.size(0), ", L, ",
                        e.signal.channels, "]"));
      text = at::cat({text, e.by.first(ctx, given)}, 1);
      if (mask.defined()) mask = at::cat({mask, at::ones(given.sizes().slice(0, 2), mask.options())}, 1);
    }
  }

 private:
  struct Embedded {
    Signal signal;
    Embedder by;  // of tokens only the first layer
  };
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(KINORA_ERROR_INVALID, id_ + ": " + what);
  }

  at::Tensor vector(const Ctx& ctx, const Embedded& e, const at::Tensor& given, const Videos& videos,
                    at::ScalarType type) const {
    const auto C = e.signal.channels;
    at::Tensor v = given.to(type);
    if (v.dim() == 1 && C == 1) v = v.unsqueeze(1);
    if (v.dim() == 2) v = v.unsqueeze(1);
    if (v.dim() != 3 || !videos.fit(v.size(0), v.size(1)) || v.size(2) != C)
      refuse(c10::str(e.signal.name, " has shape ", given.sizes(), ", needed is ",
                      videos.needed(", " + std::to_string(C)), "; tokens are declared as \"", e.signal.name,
                      ":", C, ":tokens\""));
    return videos.rows(e.by(ctx, v));
  }

  std::vector<Embedded> all_;
  std::string id_;
};

}  // namespace kinora

KINORA_SDK_END
