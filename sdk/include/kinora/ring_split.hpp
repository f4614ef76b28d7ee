// Token order for strategies that send keys around a ring. For the pinned tier.
//
// Under a causal rule the first tokens see few keys and the last ones many, so each position of the ring gets a
// chunk from the front and one from the back (zigzag): of 2 R chunks, position r holds r and 2 R - 1 - r. Ranks
// that share a position split its tokens in order, so every token has one owner with any number of ranks.
//
// N tokens with padding, R positions of the ring.
#pragma once
#include <numeric>
#include <string>

#include "kinora/table_ring.hpp"
#include "kinora/token_split.hpp"

namespace kinora {

// The token at each position of the order, int64 [N].
inline at::Tensor zigzag_order(int64_t tokens, int64_t places) {
  const at::Tensor chunks = at::arange(tokens, at::kLong).view({2 * places, -1});
  return at::stack({chunks.narrow(0, 0, places), chunks.narrow(0, places, places).flip(0)}, 1).flatten();
}

class RingSplit : public TokenSplit {
 public:
  struct Options {
    std::string order = "auto";
    bool overlap = true;
  };
  template <class D>
  static void describe(D& d) {
    d.option("order", &Options::order)
        .choices({"auto", "contiguous", "zigzag"})
        .help(
            "order of the tokens: contiguous, or zigzag: each rank has some from the front and some from the back; auto: "
            "zigzag if the run's rule lets late tokens see early ones and not the other way round");
    d.option("overlap", &Options::overlap).help("transfer of keys during the attention to other keys");
  }

  // all: the ranks that share a sequence; ring: those of them that exchange keys, one for each position.
  RingSplit(std::string name, Group<at::Tensor> all, Group<at::Tensor> ring, int64_t multiple,
            Options options)
      : TokenSplit(all, multiple),
        ring_(name, "cp-ulysses", ring, options.overlap),
        name_(std::move(name)),
        options_(std::move(options)) {}

  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override {
    const at::Tensor table = borrow<at::Tensor>(spec.table).to(at::kCPU);
    zigzag_ = options_.order == "zigzag" || (options_.order == "auto" && looks_back(table));
    return TokenSplit::sequence(x, spec, seq);
  }

 protected:
  // Shared keys (text) do not take part in a ring.
  bool passes(const kinora_attention& how) const {
    if (how.kv_seq && !how.q_seq)
      throw Error(KINORA_UNSUPPORTED,
                  name_ + ": attention '" + std::string(how.name) +
                      "' has shared queries over split keys; give the queries a sequence");
    return !how.kv_seq;
  }

  at::Tensor order(const at::Tensor& table) const override {
    return zigzag_ ? zigzag_order(table.size(1), ring_.size()).to(table.device()) : TokenSplit::order(table);
  }
  int64_t padding_of(int64_t tokens) const override {
    const int64_t each = group_.size() / ring_.size() * multiple_,  // for one position, split in order by its ranks
        unit = ring_.size() * (zigzag_ ? std::lcm(int64_t{2}, each) : each);
    return (unit - tokens % unit) % unit;
  }

  TableRing ring_;

 private:
  // Whether the last token of the first sample sees its first one, while the first does not see the last.
  bool looks_back(const at::Tensor& table) const {
    const at::Tensor sample = table[0].select(1, KINORA_TOKEN_SAMPLE),
                     own = (sample == sample[0]).nonzero().flatten();
    const at::Tensor ends = table.narrow(0, 0, 1).index_select(1, at::stack({own[0], own[-1]}));
    const at::Tensor seen = visible(ends, ends, KINORA_OVER_ALL)[0];
    return seen[1][0].item<bool>() && !seen[0][1].item<bool>();
  }

  std::string name_;
  Options options_;
  bool zigzag_ = false;  // for the sequence that is being split
};

}  // namespace kinora
