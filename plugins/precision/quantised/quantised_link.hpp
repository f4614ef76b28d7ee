// Linear layers of few bits behind any strategy. Each strategy leaves a rank with parts of x [B, S, K], w [N, K]
// and the gradient g [B, S, N] of the result:
//
//   ddp, fsdp   samples of their own; head.value() gives whole weights
//   tp          COLUMN: all tokens of the group, some rows of w, some channels of g. ROW: some channels of x
//               and columns of w. WHOLE: some tokens. x and g of tokens are whole sums
//   cp          some tokens, in an order of the strategy, with padding
//   pp          some layers; a microbatch at a time
//   recompute   the forward twice, under the same pass
//
// All numbers are those of one process:
//   scales    A sample has a scale of its own, also in a packed row, from its largest magnitude over the ranks
//             of cp and tp; so it does not matter how samples are divided among ranks and microbatches, nor
//             what a row holds besides. A weight's is over tp.
//   blocks    Along channels: declared() refuses a cut through one, also of the few weights that only text
//             passes through, which it does not know yet. Along tokens, for the weight's gradient:
//             tiles of a sample's one-process order; the host pads sequences so that contiguous parts are
//             whole tiles, and other parts that cut one, such as those of a packed row, are refused.
//   noise     A function of the run's seed, the step, the weight's name, the sample (by its global number),
//             its token and the channel: see LowLinear.
//   seq 0     What all ranks share (text, conditions) stays high: on each rank the gradient of its result is
//             a partial sum, and the sum of rounded parts is not the rounded sum.
//
// High layers have bfloat16 operands; with a float64 stream, which compares layouts digit by digit, float64.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "kinora/abi/sample_keys.h"
#include "kinora/bf16_link.hpp"
#include "plugins/precision/quantised/high.hpp"
#include "plugins/precision/quantised/low_linear.hpp"

namespace kinora::quantised {

class QuantisedLink final : public Bf16Link {
 public:
  struct Options {
    std::vector<std::string> high;
    int64_t until = 0;   // the step from which on all layers are high; 0: none
    bool exact = false;  // a float64 stream
    bool fp8_attention = false;
    std::string of_quantize;  // an option that was given and is not the link's; empty: none
  };
  QuantisedLink(std::shared_ptr<const Format> format, Options options);

  kinora_param parameter(const kinora_param_spec& spec) override;
  void declared() override;
  Tensor sequence(const Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override;
  Tensor linear(const Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) override;
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const kinora_attention& how) override;
  void begin(const kinora_pass&) override;
  void reduce() override;
  Tensor gather(const Tensor& x, kinora_seq seq) override;
  // KINORA_INTERFACE_ROUNDING.
  const void* get_interface(const char* id, uint32_t minor) override;

 private:
  struct Weight {
    Layer layer;
    uint32_t role;
    std::vector<int64_t> shape, parts;
    int64_t shard, shards;
    int64_t cut_size() const { return shape[role == KINORA_ROLE_ROW ? 1 : 0]; }
  };
  static kinora_param_spec spec_of(const Weight&);
  void require_attention() const;
  // Logs which layers are low, once, after a forward: it shows which of them tokens pass through.
  void tell();
  std::vector<Channels> outputs_of(const Weight&) const;
  LowLayer low_layer(kinora_param, const Weight&) const;
  bool is_over() const { return options_.until > 0 && pass().step >= options_.until; }
  Tensor high(const Tensor& x, kinora_param w, kinora_param b, kinora_seq seq);
  // The tokens of one call of a layer: those of all rows of a batch, or of one sample of a packed row.
  struct Part {
    std::shared_ptr<const Tokens> tokens;
    std::vector<int64_t> rows;  // of a packed row's tokens on this rank; empty also if all rows are
    int64_t length = 0;         // tokens of the sequence or sample; below 0: unknown
  };
  struct Parts {
    std::vector<Part> of;
    int64_t rows = 0, padding = 0;  // tokens on this rank, and those among them that are padding
    // The place of each row in the parts, one after the other, with the padding last; empty: they are in order.
    std::vector<int64_t> back;
    bool is_packed() const { return of.size() > 1; }
  };
  std::shared_ptr<const Parts> parts(kinora_seq, Place);
  std::shared_ptr<const Parts> parts_for(const Weight&, kinora_seq, bool trained);
  // INDEX of the first token of each sample of this pass' packed row, then of all; empty: it is none.
  std::vector<int64_t> packed_row();
  int64_t sample_number(const kinora_pass&, int64_t i);
  const kinora_sample_keys* sample_keys();

  std::shared_ptr<const Format> format_;
  Options options_;
  std::map<kinora_param, Weight> weights_;
  int64_t last_block_ = -1;
  std::map<kinora_param, LowLayer> low_;     // where tokens pass through
  std::map<kinora_param, Figures> figures_;  // of each low layer
  std::set<int64_t> low_blocks_;
  std::set<kinora_param> of_tokens_;  // that tokens passed through before tell()
  bool told_ = false, told_end_ = false;
  int64_t sequence_ranks_ = 1, tensor_ranks_ = 1;
  Group<Tensor> context_ranks_;             // null: one
  bool is_used_ = false, attends_ = false;  // in this forward: a low layer, attention over split keys
  bool measures_ = false;
  kinora_rounding rounding_{};
  struct Geometry {
    int64_t length, frame;  // tokens, below 0: unknown; of a frame, 0: frames differ
  };
  std::map<kinora_seq, Geometry> geometries_;
  std::map<std::tuple<kinora_seq, Place, std::vector<int64_t>>, std::shared_ptr<const Parts>> parts_;
  std::optional<const kinora_sample_keys*> keys_;  // null: the host offers none
};

}  // namespace kinora::quantised
