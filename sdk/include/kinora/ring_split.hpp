// Token order for strategies that send keys around a ring. For the pinned tier.
//
// Under a causal rule the first tokens see few keys and the last ones many, so each position of the ring gets
// a chunk from the front and one from the back (zigzag): of 2 R chunks, position r holds r and 2 R - 1 - r.
// Ranks that share a position split its tokens in order, so every token has one owner with any number of
// ranks.
//
// N tokens with padding, R positions of the ring.
#pragma once
#include <list>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "kinora/abi/attends.h"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "kinora/ring_attention.hpp"
#include "kinora/token_split.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// Ring attention in the form of a link's attention: visibility is the run's rule over token tables. For the
// pinned tier.
//
// N tokens with padding, R positions of the ring.
class TableRing {
 public:
  // name: of the strategy; instead: the alternative that errors recommend where keys are kept for later
  // forwards.
  TableRing(std::string name, std::string instead, Group<at::Tensor> ring, bool overlap = true)
      : name_(std::move(name)), instead_(std::move(instead)), ring_(ring), overlap_(overlap) {}

  int64_t size() const { return ring_.size(); }

  // q, k, v of this rank's position; how: with the tables of all positions' tokens, in their order.
  template <class Kernel>
  at::Tensor attend(const Link<at::Tensor>& link, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v, const kinora_attention& how) {
    if (q.is_meta()) return at::empty_like(q);
    if (how.bias)
      throw Error(KINORA_ERROR_UNSUPPORTED, name_ + ": attention '" + std::string(how.name ? how.name : "") +
                                                "' adds a bias, which does not go round with its keys; use " +
                                                instead_);
    const typename RingAttention<Kernel>::Shared shared{
        borrow<at::Tensor>(how.k_shared), borrow<at::Tensor>(how.v_shared), borrow<at::Tensor>(how.kv_valid)};
    const CachedPlan& by = plan(link, how, q.device());
    const auto in_order = [](const at::Tensor& x, const at::Tensor& order) {
      return order.defined() ? x.index_select(1, order) : x;
    };
    const at::Tensor out =
        RingAttention<Kernel>(ring_, overlap_)(in_order(q, by.q_order), in_order(k, by.k_order),
                                               in_order(v, by.k_order), how.scale, by.tiles, shared);
    return in_order(out, by.q_back);
  }

 private:
  struct CachedPlan {
    at::Tensor q, k;  // kept, so that their addresses identify them
    uint32_t over;
    std::shared_ptr<const RingPlan> tiles;
    // Over time, tokens of this rank in the order of their places, and queries back in their own: int64 [tokens].
    at::Tensor q_order, k_order, q_back;
  };

  const CachedPlan& plan(const Link<at::Tensor>& link, const kinora_attention& how, at::Device device) {
    const auto q_table = borrow<at::Tensor>(how.q_table), k_table = borrow<at::Tensor>(how.k_table);
    for (const auto& p : plans_)
      if (p.q.is_same(q_table) && p.k.is_same(k_table) && p.over == how.over) return p;
    const auto of_rank = [&](const at::Tensor& all, int64_t r, at::Tensor& order) {
      const int64_t n = all.size(1) / ring_.size();
      const at::Tensor table = all.narrow(1, r * n, n);
      if (how.over != KINORA_OVER_TIME) return table;
      order = order_by_place(table);
      return table.index_select(1, order);
    };
    const int64_t me = ring_.rank();
    at::Tensor q_order;
    std::vector<at::Tensor> k_orders(static_cast<size_t>(ring_.size()));
    const at::Tensor q = of_rank(q_table.to(at::kCPU), me, q_order), k = k_table.to(at::kCPU);
    refuse_continuation(k);
    const auto tiles = std::make_shared<RingPlan>();
    for (int64_t r = 0; r < ring_.size(); ++r)
      tiles->push_back(visible_tiles(
          q, of_rank(k, r, k_orders[static_cast<size_t>(r)]), how.over, device,
          [&](const at::Tensor& a, const at::Tensor& b) { return link.visible(a, b, how.over); }));
    CachedPlan made{q_table, k_table, how.over, tiles, {}, {}, {}};
    if (q_order.defined()) {
      made.q_order = q_order.to(device), made.q_back = q_order.argsort().to(device);
      made.k_order = k_orders[static_cast<size_t>(me)].to(device);
    }
    constexpr size_t most = 16;
    plans_.push_front(std::move(made));
    if (plans_.size() > most) plans_.pop_back();
    return plans_.front();
  }

  void refuse_continuation(const at::Tensor& table) const {
    const at::Tensor index =
        table.select(2, KINORA_TOKEN_INDEX).masked_select(table.select(2, KINORA_TOKEN_INDEX) >= 0);
    if (index.numel() > 0 && index.min().item<int64_t>() > 0)
      throw Error(KINORA_ERROR_UNSUPPORTED,
                  name_ +
                      ": a video that is continued needs a KV cache, and keys that go "
                      "round are not cached; use " +
                      instead_);
  }

  std::string name_, instead_;
  Group<at::Tensor> ring_;
  bool overlap_;
  std::list<CachedPlan> plans_;
};

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
            "order of the tokens: contiguous, or zigzag: each rank has some from the front and some from the "
            "back; auto: "
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
  // KINORA_INTERFACE_ATTENDS.
  const void* get_interface(const char* id, uint32_t) override {
    attends_ = {sizeof attends_, 0, name_.c_str()};
    return std::string_view(id) == KINORA_INTERFACE_ATTENDS ? &attends_ : nullptr;
  }

 protected:
  // Shared keys (text) do not take part in a ring.
  bool passes(const kinora_attention& how) const {
    if (how.kv_seq && !how.q_seq)
      throw Error(KINORA_ERROR_UNSUPPORTED,
                  name_ + ": attention '" + std::string(how.name) +
                      "' has shared queries over split keys; give the queries a sequence");
    return !how.kv_seq;
  }

  at::Tensor order(const at::Tensor& table) const override {
    return zigzag_ ? zigzag_order(table.size(1), ring_.size()).to(table.device()) : TokenSplit::order(table);
  }
  int64_t padding_of(int64_t tokens) const override {
    const int64_t each = group_.size() / ring_.size() *
                         multiple_,  // for one position, split in order by its ranks
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
  kinora_attends attends_{};
  Options options_;
  bool zigzag_ = false;  // for the sequence that is being split
};

}  // namespace kinora

KINORA_SDK_END
