// Runs each block without a graph in the forward and again with one in the backward, so activations inside
// a block are never kept. Chen et al. 2016 (arXiv 1604.06174), with one segment per block.
//
// One autograd node per block. Its inputs are the block's inputs and the leaves of the parameters that the
// block reads: otherwise a first block, whose data needs no gradient, would be cut off from the graph,
// together with its parameters. The pass of the forward (sample numbers, seed, microbatch) is restored for
// the second run, since its noise depends on it.
//
// Selective (Korthikanti et al. 2022, arXiv 2205.05198, section 5): only attention runs again, from its
// queries, keys and values. Scores, probabilities and masks grow with the square of the tokens and are cheap
// to recompute; everything else is kept.
#include <memory>
#include <string>

#include "kinora/autograd.hpp"
#include "kinora/link.hpp"
#include "kinora/plugin.hpp"
#include "kinora/strategy.hpp"

namespace kinora {
namespace {

// Restores the pass of a forward until the end of the scope.
class PassAgain {
 public:
  PassAgain(const Link<Tensor>& link, kinora_pass pass) : link_(link), before_(link.pass()) {
    pass.recompute = 1;
    link_.set_pass(pass);
  }
  PassAgain(const PassAgain&) = delete;
  PassAgain& operator=(const PassAgain&) = delete;
  ~PassAgain() {
    guard([&] { link_.set_pass(before_); });
  }

 private:
  const Link<Tensor>& link_;
  kinora_pass before_;
};

class RecomputeLink final : public Link<Tensor> {
 public:
  // The blocks that run again: from `first` to `last` (-1: the last block) every `every`-th, including
  // `first`.
  struct Which {
    int64_t every = 1, first = 0, last = -1;
    bool has(int64_t block) const {
      return block >= first && (last < 0 || block <= last) && (block - first) % every == 0;
    }
  };
  RecomputeLink(Which which, bool selective)
      : Link(KINORA_LEVEL_RECOMPUTE), which_(which), selective_(selective) {
    skip_inherited<RecomputeLink>();
  }

  Tensors block(const kinora_block& b, const Tensors& in) override;
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const kinora_attention& how) override;

 private:
  struct Call;
  struct AttentionCall;
  Tensors rerun(const Call& call, const Tensors& grad_out);
  Tensors rerun(const AttentionCall& call, const Tensors& grad_out);
  Which which_;
  bool selective_;
};

// State of the node between the forward and the backward. The block is retained for that time.
struct RecomputeLink::Call {
  kinora_block block;
  kinora_pass pass;
  Tensors in;  // detached: the node must not hold the graph of its inputs
  std::vector<bool> needs;
  Tensors leaves;  // of the parameters

  Call(const kinora_block& b, const kinora_pass& p, const Tensors& given, Tensors l)
      : block(b), pass(p), leaves(std::move(l)) {
    for (const Tensor& t : given) {
      in.push_back(t.detach());
      needs.push_back(t.requires_grad());
    }
    block.retain(block.user);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() { block.release(block.user); }
};

RecomputeLink::Tensors RecomputeLink::block(const kinora_block& b, const Tensors& in) {
  const kinora_pass now = pass();
  if (selective_ || now.no_grad || !GradMode::enabled() || !which_.has(b.index)) return next.block(b, in);
  Tensors own = leaves(b.index), all = in;
  all.insert(all.end(), own.begin(), own.end());
  const auto call = std::make_shared<Call>(b, now, in, std::move(own));
  return autograd_apply<Tensor>(
      all, b.n_out,
      [this, call](const Tensors& given) {
        return next.block(call->block,
                          {given.begin(), given.begin() + static_cast<int64_t>(call->in.size())});
      },
      [this, call](const Tensors& grad_out) { return rerun(*call, grad_out); });
}

// The arguments of an attention, alive until its second run. Nothing here holds the graph of its inputs.
struct RecomputeLink::AttentionCall {
  kinora_pass pass;
  kinora_attention how;
  kinora_rope rope{};
  std::string name;
  Tensor kv_valid, q_table, k_table, rate;
  Tensors in;  // q, k, v, then k_shared, v_shared and bias, undefined if absent
  std::vector<bool> needs;

  AttentionCall(const kinora_pass& p, const kinora_attention& h, const Tensors& given)
      : pass(p),
        how(h),
        name(h.name ? h.name : ""),
        kv_valid(borrow<Tensor>(h.kv_valid)),
        q_table(borrow<Tensor>(h.q_table)),
        k_table(borrow<Tensor>(h.k_table)) {
    if (h.rope) {
      rope = detail::known(h.rope, "a rotation");
      rate = borrow<Tensor>(rope.rate);
      rope.rate = handle(rate);
    }
    for (const Tensor& t : given) {
      in.push_back(t.defined() ? t.detach() : t);
      needs.push_back(t.defined() && t.requires_grad());
    }
  }
  // Replaces the original inputs by these.
  kinora_attention with(const Tensors& inputs) const {
    kinora_attention out = how;
    out.name = name.c_str();
    out.rope = how.rope ? &rope : nullptr;
    out.kv_valid = handle(kv_valid);
    out.q_table = handle(q_table);
    out.k_table = handle(k_table);
    out.k_shared = handle(inputs[3]);
    out.v_shared = handle(inputs[4]);
    out.bias = handle(inputs[5]);
    return out;
  }
};

Tensor RecomputeLink::attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                const kinora_attention& how) {
  const kinora_pass now = pass();
  if (!selective_ || now.no_grad || !GradMode::enabled() || !which_.has(how.block))
    return next.attention(q, k, v, how);
  Tensors all{q, k, v, borrow<Tensor>(how.k_shared), borrow<Tensor>(how.v_shared), borrow<Tensor>(how.bias)},
      there;
  const auto call = std::make_shared<AttentionCall>(now, how, all);
  for (const Tensor& t : all)
    if (t.defined()) there.push_back(t);
  return autograd_apply<Tensor>(
      there, 1,
      [this, call](const Tensors&) {
        return Tensors{next.attention(call->in[0], call->in[1], call->in[2], call->with(call->in))};
      },
      [this, call](const Tensors& grad_out) { return rerun(*call, grad_out); })[0];
}

// One gradient for each defined tensor of call.in.
RecomputeLink::Tensors RecomputeLink::rerun(const AttentionCall& call, const Tensors& grad_out) {
  const GradMode on(true);
  const PassAgain again(*this, call.pass);
  Tensors in, wanted, result;
  std::vector<size_t> place;
  for (size_t i = 0; i < call.in.size(); ++i) {
    in.push_back(call.in[i].defined() ? call.in[i].detach() : call.in[i]);
    if (call.needs[i]) {
      check(tensors_api().set_requires_grad(in.back().get(), 1));
      wanted.push_back(in.back());
      place.push_back(result.size());
    }
    if (call.in[i].defined()) result.emplace_back();
  }
  Tensors made = grad({next.attention(in[0], in[1], in[2], call.with(in))}, grad_out, wanted);
  for (size_t i = 0; i < made.size(); ++i) result[place[i]] = std::move(made[i]);
  return result;
}

// One gradient for each of call.in and call.leaves, undefined if absent.
RecomputeLink::Tensors RecomputeLink::rerun(const Call& call, const Tensors& grad_out) {
  const GradMode on(true);
  const PassAgain again(*this, call.pass);
  Tensors in, wanted;
  std::vector<size_t> place;  // position of each requested tensor among the node's inputs
  for (size_t i = 0; i < call.in.size(); ++i) {
    in.push_back(call.in[i].detach());
    if (!call.needs[i]) continue;
    check(tensors_api().set_requires_grad(in.back().get(), 1));
    wanted.push_back(in.back());
    place.push_back(i);
  }
  for (size_t i = 0; i < call.leaves.size(); ++i) {
    if (!call.leaves[i].requires_grad()) continue;
    wanted.push_back(call.leaves[i]);
    place.push_back(call.in.size() + i);
  }
  const Tensors out = next.block(call.block, in);
  Tensors outputs, weights;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!out[i].requires_grad()) continue;
    outputs.push_back(out[i]);
    weights.push_back(grad_out[i]);
  }
  Tensors result(call.in.size() + call.leaves.size());
  if (outputs.empty() || wanted.empty()) return result;
  Tensors made = grad(outputs, weights, wanted);
  for (size_t i = 0; i < made.size(); ++i) result[place[i]] = std::move(made[i]);
  return result;
}

}  // namespace

class Recompute final : public Strategy<Tensor> {
 public:
  struct Options {
    std::string mode = "block";
    int64_t every = 1, first = 0, last = -1;
  };
  static void describe(Describe<Options>& d) {
    d.name("recompute")
        .help("activation checkpointing: blocks, or attention alone, run again in the backward");
    d.option("mode", &Options::mode)
        .choices({"block", "selective"})
        .help(
            "block: keep only each block's inputs; selective: keep everything except the intermediate "
            "results "
            "of attention");
    d.option("every", &Options::every)
        .range(1, 1e6)
        .unit("blocks")
        .help(
            "distance between blocks that run again; 1: all blocks; 2: every other block, for half of the "
            "savings at half of the cost");
    d.option("first", &Options::first).at_least(0).help("first block that runs again; 0: the embedding");
    d.option("last", &Options::last).at_least(-1).help("last block that runs again; -1: the head");
  }
  Recompute(const Options& o, const Mesh<Tensor>&)
      : link_({o.every, o.first, o.last}, o.mode == "selective") {}
  const kinora_link* link() override { return link_.get(); }

 private:
  RecomputeLink link_;
};
KINORA_COMPONENT(Recompute)
KINORA_PLUGIN(Recompute)

}  // namespace kinora
