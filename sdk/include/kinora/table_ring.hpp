// Ring attention in the form of a link's attention: visibility is the run's rule over token tables. For the pinned tier.
//
// N tokens with padding, R positions of the ring.
#pragma once
#include <list>
#include <memory>
#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "kinora/ring_attention.hpp"

namespace kinora {

class TableRing {
 public:
  // name: of the strategy; instead: the alternative that errors recommend where keys are kept for later forwards.
  TableRing(std::string name, std::string instead, Group<at::Tensor> ring, bool overlap = true)
      : name_(std::move(name)), instead_(std::move(instead)), ring_(ring), overlap_(overlap) {}

  int64_t size() const { return ring_.size(); }

  // q, k, v of this rank's position; how: with the tables of all positions' tokens, in their order.
  template <class Kernel>
  at::Tensor attend(const Link<at::Tensor>& link, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v, const kinora_attention& how) {
    if (q.is_meta()) return at::empty_like(q);
    if (how.bias)
      throw Error(KINORA_UNSUPPORTED, name_ + ": attention '" + std::string(how.name ? how.name : "") +
                                          "' adds a bias, which does not go round with its keys; use " +
                                          instead_);
    const typename RingAttention<Kernel>::Shared shared{
        borrow<at::Tensor>(how.k_shared), borrow<at::Tensor>(how.v_shared), borrow<at::Tensor>(how.kv_valid)};
    return RingAttention<Kernel>(ring_, overlap_)(q, k, v, how.scale, plan(link, how, q.device()), shared);
  }

 private:
  std::shared_ptr<const RingPlan> plan(const Link<at::Tensor>& link, const kinora_attention& how,
                                       at::Device device) {
    const auto q_table = borrow<at::Tensor>(how.q_table), k_table = borrow<at::Tensor>(how.k_table);
    for (const auto& p : plans_)
      if (p.q.is_same(q_table) && p.k.is_same(k_table) && p.over == how.over) return p.plan;
    const auto place = [&](const at::Tensor& table, int64_t r) {
      const int64_t n = table.size(1) / ring_.size();
      return table.narrow(1, r * n, n);
    };
    const at::Tensor q = place(q_table, ring_.rank()).to(at::kCPU), k = k_table.to(at::kCPU);
    refuse_continuation(k);
    const auto made = std::make_shared<RingPlan>();
    for (int64_t r = 0; r < ring_.size(); ++r)
      made->push_back(visible_tiles(q, place(k, r), device, [&](const at::Tensor& a, const at::Tensor& b) {
        return link.visible(a, b, how.over);
      }));
    constexpr size_t most = 16;
    plans_.push_front({q_table, k_table, how.over, made});
    if (plans_.size() > most) plans_.pop_back();
    return made;
  }

  void refuse_continuation(const at::Tensor& table) const {
    const at::Tensor index =
        table.select(2, KINORA_TOKEN_INDEX).masked_select(table.select(2, KINORA_TOKEN_INDEX) >= 0);
    if (index.numel() > 0 && index.min().item<int64_t>() > 0)
      throw Error(KINORA_UNSUPPORTED, name_ +
                                          ": a video that is continued needs a KV cache, and keys that go "
                                          "round are not cached; use " +
                                          instead_);
  }

  struct Known {
    at::Tensor q, k;  // kept, so that their addresses identify them
    uint32_t over;
    std::shared_ptr<const RingPlan> plan;
  };
  std::string name_, instead_;
  Group<at::Tensor> ring_;
  bool overlap_;
  std::list<Known> plans_;
};

}  // namespace kinora
