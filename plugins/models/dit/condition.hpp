// What conditions every block: the noise level, the signals and the text.
//
// B batch, F frames of conditioning (1 or all), L text tokens, D width. Of a packed row of n videos B is 1, F
// all their frames and L all their tokens of text.
#pragma once
#include <vector>

#include "kinora/named.hpp"
#include "kinora/rope.hpp"
#include "plugins/models/dit/config.hpp"
#include "plugins/models/dit/declare.hpp"
#include "plugins/models/dit/videos.hpp"

namespace kinora::dit {

// What all blocks share, made outside them. A block gets it through its inputs (a tensor captured by a block
// loses its gradient when the block is run again).
struct Shared {
  at::Tensor active;           // [B, F, D]: silu of the embedded noise level and signals
  at::Tensor text, text_mask;  // [B, L, text_size], [B, L] bool; undefined: none, all
  at::Tensor text_table;     // instead of the mask, of a packed row: whose a token is and whether it is seen
  std::vector<Turns> turns;  // of the tokens between COLUMN and ROW linears, one a layout of the stream

  // Which of them there are.
  struct Form {
    bool text, masked, packed;
    size_t layouts;
  };
  Form form() const { return {text.defined(), text_mask.defined(), text_table.defined(), turns.size()}; }
  std::vector<at::Tensor> pack() const;
  static Shared unpack(const std::vector<at::Tensor>& in, size_t from, const Form& form);
};

// t [...] -> [..., size]: sines, then cosines, of t * 10000^(-2i / size); in at least float32.
at::Tensor sinusoid(const at::Tensor& t, int64_t size);

class Condition {
 public:
  Condition(const Declare& outside, const Config& c, const std::string& id);
  // Fills all of `to` but `turns`. x: tokens, for their dtype and device.
  void operator()(const Ctx& ctx, const Named<at::Tensor>& in, const at::Tensor& x, const Videos& videos,
                  Shared& to) const;

 private:
  struct Layer {
    kinora_param weight, bias;
    at::Tensor operator()(const Ctx& ctx, const at::Tensor& x) const {
      return ctx.linear(x, weight, bias, 0);
    }
  };
  struct Embedded {
    Signal signal;
    Layer first, second;  // second: of one that is no tokens
  };
  static Layer layer(const Declare& declare, const std::string& name, int64_t out, int64_t in, Init init);
  at::Tensor embed(const Ctx& ctx, const Embedded& e, const at::Tensor& given, const at::Tensor& x,
                   const Videos& videos) const;
  // text and text_mask of each video, [count, L, ...].
  void text(const Named<at::Tensor>& in, const at::Tensor& x, int64_t count, Shared& to) const;
  void append(const Ctx& ctx, const Embedded& e, const at::Tensor& given, Shared& to) const;
  [[noreturn]] void refuse(const std::string& what) const;

  Config options_;
  std::string id_;
  Layer time_in_, time_out_;
  std::vector<Embedded> signals_;
};

}  // namespace kinora::dit
