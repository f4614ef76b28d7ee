#include "plugins/parallel/recompute/recompute_link.hpp"

#include <memory>
#include <string>

#include "kinora/autograd.hpp"

namespace kinora {

namespace {

// Restores the pass of a forward until the end of the scope.
class PassAgain {
 public:
  PassAgain(const Link<Tensor>& link, kinora_pass pass) : link_(link), before_(link.pass()) {
    pass.again = 1;
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

}  // namespace

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
  std::string name;
  Tensor kv_valid, q_table, k_table;
  Tensors in;  // q, k, v, then k_shared, v_shared and bias, undefined if absent
  std::vector<bool> needs;

  AttentionCall(const kinora_pass& p, const kinora_attention& h, const Tensors& given)
      : pass(p),
        how(h),
        name(h.name ? h.name : ""),
        kv_valid(borrow<Tensor>(h.kv_valid)),
        q_table(borrow<Tensor>(h.q_table)),
        k_table(borrow<Tensor>(h.k_table)) {
    for (const Tensor& t : given) {
      in.push_back(t.defined() ? t.detach() : t);
      needs.push_back(t.defined() && t.requires_grad());
    }
  }
  // Replaces the original inputs by these.
  kinora_attention with(const Tensors& inputs) const {
    kinora_attention out = how;
    out.name = name.c_str();
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

}  // namespace kinora
